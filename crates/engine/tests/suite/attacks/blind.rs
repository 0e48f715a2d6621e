// SPDX-License-Identifier: BSD-3-Clause
//! Who sees nothing of a connection and guesses its numbers (RFC 5961).

use super::{MILLISECOND, SECOND, Tried, config, sized};
use engine::{Anomaly, Cursor, EndReason, FlowState, Query, Side, Verdict};
use fastrand::Rng;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};
use wire::{BytesPacket, FrameBuilder, proto};

const CONNECTIONS: u16 = 100;
const WINDOW: u16 = 60_000;

/// What both ends of a connection have sent and acknowledged, all of it.
#[derive(Clone, Copy)]
struct Talk {
    next: [u32; 2],
}

fn frame(n: u16, from: usize, flags: u8, numbers: (u32, u32)) -> Vec<u8> {
    let ends = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1000 + n, 443);
    let ends = if from == 0 { ends } else { ends.reversed() };
    ends.flags(flags).seq(numbers.0).ack(numbers.1).window(WINDOW).build()
}

/// Something that a guess may be: flags and numbers.
fn guess(rng: &mut Rng, talk: Talk, from: usize) -> (u8, (u32, u32)) {
    let any = (rng.u32(..), rng.u32(..));
    let in_window = (talk.next[from].wrapping_add(rng.u32(1..60_000)), any.1);
    match rng.u32(0..8) {
        0 | 1 => (RST, in_window),
        2 => (RST | ACK, in_window),
        3 => (SYN, in_window),
        4 => (SYN | ACK, in_window),
        // Right in one number of two: data is not believed by the half.
        5 => (PSH | ACK, in_window),
        6 => (FIN | ACK, (any.0, talk.next[1 - from])),
        _ => (rng.u8(..), any),
    }
}

fn are_open(tried: &mut Tried) -> usize {
    let (mut open, mut cursor) = (0, Cursor::default());
    let mut count =
        |flow: engine::ConnView| open += usize::from(flow.record.state == FlowState::Open);
    while tried.engine.list(&Query::default(), &mut cursor, 64, &mut count) {}
    open
}

#[test]
fn a_million_guesses_end_nothing_and_the_right_number_does() {
    let mut tried = Tried::new(&config(1024));
    let mut rng = Rng::with_seed(5961);
    let talks: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let [a, b] = [rng.u32(..), rng.u32(..)];
            let (next_a, next_b) = (a.wrapping_add(1), b.wrapping_add(1));
            let steps = [
                frame(n, 0, SYN, (a, 0)),
                frame(n, 1, SYN | ACK, (b, next_a)),
                frame(n, 0, ACK, (next_a, next_b)),
            ];
            tried.give(0, &steps, |_| true);
            Talk { next: [next_a, next_b] }
        })
        .collect();
    let mut frames = vec![];
    for i in 0..sized(200_000, 1_000_000) {
        let n = rng.u16(0..CONNECTIONS);
        let from = rng.usize(0..2);
        let talk = talks[usize::from(n)];
        let (flags, numbers) = guess(&mut rng, talk, from);
        // That is no guess any more, or the next thing that the end says itself.
        let is_right = numbers.0 == talk.next[from] || numbers.0 == talk.next[from].wrapping_sub(1);
        if !is_right {
            frames.push(frame(n, from, flags, numbers));
        }
        if i % 1000 == 0 {
            tried.give(MILLISECOND, &frames, |_| true);
            frames.clear();
        }
    }
    assert_eq!(are_open(&mut tried), CONNECTIONS.into());
    assert!(tried.records.is_empty());

    // They go on: the next that both ends say is what was expected.
    let before = tried.engine.stats().anomalies;
    for (n, talk) in (0..).zip(&talks) {
        let [a, b] = talk.next;
        tried.give(MILLISECOND, &[frame(n, 0, ACK, (a, b)), frame(n, 1, ACK, (b, a))], |_| true);
    }
    assert_eq!(tried.engine.stats().anomalies, before);
    assert!(before[Anomaly::TcpRstInWindow as usize] > 50_000);

    for (n, talk) in (0..).zip(&talks) {
        let from = usize::from(n % 2);
        tried.give(MILLISECOND, &[frame(n, from, RST, (talk.next[from], 0))], |_| true);
        assert_eq!(are_open(&mut tried), usize::from(CONNECTIONS - 1 - n));
    }
    tried.close(|_| true);
    assert_eq!(tried.records.len(), usize::from(CONNECTIONS));
    assert!(tried.records.iter().all(|record| record.proto == proto::TCP));
}

/// Whether a SYN of the one end and its answer of the other, heard at these sides of the bump, end
/// their connection, which the other may know of.
fn are_believed(sides: [Side; 2], is_known: bool) -> bool {
    let (mut tried, mut now) = (Tried::new(&config(64)), 0);
    let mut give = |side: Side, from: usize, flags: u8, numbers: (u32, u32)| {
        let frame = frame(0, from, flags, numbers);
        now += MILLISECOND;
        let packets = [BytesPacket::new(&frame)];
        tried.engine.process_from(side, now, &packets, &mut [Verdict::Drop]);
    };
    give(Side::A, 0, SYN, (1, 0));
    give(Side::B, 1, SYN | ACK, (1, 2));
    give(Side::A, 0, ACK, (2, 2));
    give(sides[0], 0, SYN, (3_000_000_000, 0));
    if is_known {
        give(Side::B, 1, ACK, (2, 2));
    }
    give(sides[1], 1, SYN | ACK, (2_000_000_000, 3_000_000_001));
    tried.engine.next_record().is_some_and(|record| record.end_reason == EndReason::Reuse)
}

#[test]
fn who_is_at_one_side_cannot_say_that_both_ends_have_forgotten() {
    assert!(are_believed([Side::A, Side::B], false));
    assert!(!are_believed([Side::A, Side::B], true));
    for side in [Side::A, Side::B] {
        assert!(!are_believed([side; 2], false));
    }
}

/// Gives the engine a packet that came by this side; whether it fitted.
fn fits(tried: &mut Tried, side: Side, now: u64, frame: &[u8]) -> bool {
    let irregular = |tried: &Tried| tried.engine.stats().anomalies.iter().sum::<u64>();
    let before = irregular(tried);
    let packets = [BytesPacket::new(frame)];
    tried.engine.process_from(side, now, &packets, &mut [Verdict::Drop]);
    tried.engine.expire(now, engine::BURST_MAX);
    irregular(tried) == before
}

#[test]
fn who_is_at_one_side_cannot_speak_for_both_ends() {
    let (mut tried, mut rng) = (Tried::new(&config(64)), Rng::with_seed(61));
    let [a, b] = [rng.u32(..), rng.u32(..)];
    let next = [a.wrapping_add(1), b.wrapping_add(1)];
    assert!(fits(&mut tried, Side::A, 0, &frame(0, 0, SYN, (a, 0))));
    assert!(fits(&mut tried, Side::B, 0, &frame(0, 1, SYN | ACK, (b, next[0]))));
    assert!(fits(&mut tried, Side::A, 0, &frame(0, 0, ACK, (next[0], next[1]))));
    let mut now = 0;
    for i in 0..sized(20_000, 1_000_000) {
        // A dialogue of two ends that fit each other, and the end of it, all by one port.
        let numbers = (rng.u32(..), rng.u32(..));
        let steps = [
            (0, FIN | ACK, numbers),
            (1, FIN | ACK, (numbers.1, numbers.0.wrapping_add(1))),
            (1, RST, numbers),
            (0, RST, numbers),
        ];
        let side = if i % 2 == 0 { Side::A } else { Side::B };
        for (from, flags, numbers) in steps {
            now += 1000;
            let is_right = numbers.0 == next[from] || numbers.0 == next[from].wrapping_sub(1);
            if !is_right {
                // What no end says itself, its peer never answers at the other port.
                fits(&mut tried, side, now, &frame(0, from, flags, numbers));
            }
        }
        // In between something comes by that fits, as the ends answer (RFC 9293 section 3.10.7.4).
        now += 1000;
        let from = usize::from(side == Side::A);
        let answer = frame(0, from, ACK, (next[from], next[1 - from]));
        assert!(fits(&mut tried, [Side::A, Side::B][from], now, &answer));
    }
    now += 301 * SECOND;
    assert!(fits(&mut tried, Side::A, now, &frame(0, 0, ACK, (next[0], next[1]))));
    assert_eq!(are_open(&mut tried), 1);
    assert!(tried.engine.next_record().is_none());
}

#[test]
fn who_guesses_brings_no_connection_back_that_has_lost_a_packet() {
    let (mut tried, mut rng) = (Tried::new(&config(64)), Rng::with_seed(62));
    let [a, b] = [rng.u32(..), rng.u32(..)];
    let next = [a.wrapping_add(1), b.wrapping_add(1)];
    fits(&mut tried, Side::A, 0, &frame(0, 0, SYN, (a, 0)));
    fits(&mut tried, Side::B, 0, &frame(0, 1, SYN | ACK, (b, next[0])));
    fits(&mut tried, Side::A, 0, &frame(0, 0, ACK, (next[0], next[1])));
    // Of a request of 100 bytes nothing was seen but that the server has it.
    let asked = next[0].wrapping_add(100);
    let answer = frame(0, 1, FIN | ACK, (next[1], asked));
    for i in 0..sized(50_000, 1_000_000) {
        let now = u64::from(i) * 1000;
        if i % 16 == 0 {
            assert!(!fits(&mut tried, Side::B, now, &answer));
        }
        // He knows one number of two at most, as nobody has told him the other.
        let guessed = [(asked, rng.u32(..)), (rng.u32(..), next[1].wrapping_add(1))];
        let guess = guessed[rng.usize(0..2)];
        // In the window of the client, and acknowledging what came before, it is what it seems.
        let guess = (guess.0, if guess.1 == next[1] { 0 } else { guess.1 });
        let (flags, is_near) = ([ACK, PSH | ACK][rng.usize(0..2)], guess.0 == asked);
        let is_old = is_near && guess.1.wrapping_sub(next[1]) > 1 << 31;
        if !is_old {
            assert!(!fits(&mut tried, Side::A, now, &frame(0, 0, flags, guess)));
        }
    }
    let now = 2 * SECOND;
    assert!(!fits(&mut tried, Side::B, now, &answer));
    assert!(fits(&mut tried, Side::A, now, &frame(0, 0, ACK, (asked, next[1].wrapping_add(1)))));
    assert_eq!(are_open(&mut tried), 1);
}
