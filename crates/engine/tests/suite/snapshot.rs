// SPDX-License-Identifier: BSD-3-Clause
//! Connections that are saved by one engine and go on in another.

use engine::{
    Anomaly, BURST_MAX, Config, ConnSnapshot, Cursor, DirectionCounters, EndReason, Engine,
    FlowRecord, RestoreOutcome, SnapshotState, TcpPickup, TcpWindowCheck, Timeouts, Verdict,
    VlanTags, ZonePolicy,
};
use std::net::IpAddr;
use wire::{BytesPacket, FrameBuilder};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn process(engine: &mut Engine, now: u64, frames: &[FrameBuilder]) {
    let frames: Vec<_> = frames.iter().map(|frame| frame.build()).collect();
    let packets: Vec<_> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
    for burst in packets.chunks(BURST_MAX) {
        engine.process(now, burst, &mut [Verdict::Forward; BURST_MAX]);
    }
}

fn saved_by(engine: &Engine, budget: u32) -> Vec<ConnSnapshot> {
    let (mut cursor, mut flows) = (Cursor::default(), vec![]);
    loop {
        let before = flows.len();
        let more = engine.save(&mut cursor, budget, &mut |flow| flows.push(flow));
        assert!(flows.len() - before <= budget as usize);
        if !more {
            return flows;
        }
    }
}

fn restored(config: &Config, flows: &[ConnSnapshot], now: u64) -> Engine {
    let mut engine = Engine::new(config);
    for flow in flows {
        assert_eq!(engine.restore(flow, now), RestoreOutcome::Known, "{flow:?}");
    }
    engine
}

fn left(engine: &mut Engine) -> Vec<FlowRecord> {
    while engine.flush(1000) {}
    std::iter::from_fn(|| engine.next_record()).collect()
}

fn small() -> Config {
    Config { capacity_ipv4: 1000, capacity_ipv6: 1000, secret: [3, 4], ..Config::default() }
}

/// From host `i`, and what comes back.
fn tcp(i: u8) -> [FrameBuilder; 2] {
    let there = FrameBuilder::ipv4([10, 0, 0, i], [10, 0, 1, 200 - i]).tcp(4000, 80).window(1000);
    let back = there.clone().reversed().window(1000);
    [there, back]
}

/// A handshake with shifts of 7 and 2.
fn handshake([there, back]: &[FrameBuilder; 2]) -> Vec<FrameBuilder> {
    let (there, back) = (there.clone(), back.clone());
    vec![
        there.clone().flags(SYN).seq(99).tcp_options(&[3, 3, 7, 0]),
        back.flags(SYN | ACK).seq(499).ack(100).tcp_options(&[3, 3, 2, 0]),
        there.flags(ACK).seq(100).ack(500),
    ]
}

/// As many packets, as long as these, of a connection that goes on.
fn going_on([there, back]: &[FrameBuilder; 2]) -> Vec<FrameBuilder> {
    let there = there.clone().flags(ACK).seq(100).ack(500);
    let back = back.clone().flags(ACK).seq(500).ack(100).tcp_options(&[1; 4]);
    vec![there.clone(), back, there]
}

/// Some of everything, each of both directions.
fn mixture() -> Vec<FrameBuilder> {
    mixture_with(handshake)
}

/// Connections of every protocol, each with packets of both directions; `of_tcp` makes those of
/// TCP.
fn mixture_with(of_tcp: fn(&[FrameBuilder; 2]) -> Vec<FrameBuilder>) -> Vec<FrameBuilder> {
    let mut frames = vec![];
    for i in 1..100 {
        frames.extend(of_tcp(&tcp(i)));
        let udp = FrameBuilder::ipv6([i; 16], [100 - i; 16]).vlan(i.into()).udp(i.into(), 53);
        frames.extend([udp.clone(), udp.reversed().payload([0; 300])]);
        let ping = FrameBuilder::ipv4([10, 0, 0, i], [10, 0, 1, 200 - i]).icmp_echo(7, 1);
        frames.extend([ping.clone(), ping.reversed().icmp_echo_reply(7, 1)]);
        let gre = FrameBuilder::ipv6([i; 16], [107; 16]).gre(0x0800, Some(7 << 16 | 9));
        frames.extend([gre.clone(), gre.clone().reversed(), gre]);
    }
    frames
}

fn sorted(mut records: Vec<FlowRecord>) -> Vec<FlowRecord> {
    records.sort_by_key(|record| format!("{record:?}"));
    records
}

#[test]
fn what_is_restored_leaves_the_same_records() {
    let mut before = Engine::new(&small());
    process(&mut before, START, &mixture());
    process(&mut before, START + SECOND, &mixture());
    let flows = saved_by(&before, 64);
    assert_eq!(flows.len(), 2 * 99 + 99 + 99);
    for budget in [1, 7, u32::MAX] {
        assert_eq!(saved_by(&before, budget), flows);
    }
    let secret = Config { secret: [1, 2], ..small() };
    let mut after = restored(&secret, &flows, START + 2 * SECOND);
    assert_eq!((after.stats().restored, after.stats().created), (flows.len() as u64, 0));
    assert_eq!(after.stats().active(), flows.len() as u64);
    let mut again = saved_by(&after, 16);
    again.sort_by_key(|flow| format!("{flow:?}"));
    let mut flows = flows;
    flows.sort_by_key(|flow| format!("{flow:?}"));
    assert_eq!(again, flows);
    assert_eq!(sorted(left(&mut after)), sorted(left(&mut before)));
    assert_eq!(after.stats().active(), 0);
}

#[test]
fn packets_of_before_and_after_are_one_connection() {
    let mut before = Engine::new(&small());
    process(&mut before, START, &mixture());
    let mut after = restored(&small(), &saved_by(&before, 64), START + SECOND);
    process(&mut after, START + 2 * SECOND, &mixture_with(going_on));
    assert_eq!(after.stats().created, 0);
    let (records, first) = (sorted(left(&mut after)), sorted(left(&mut before)));
    for record in &records {
        let is_it = |one: &&FlowRecord| {
            (one.src, one.sport, one.proto, one.zone, one.dst)
                == (record.src, record.sport, record.proto, record.zone, record.dst)
        };
        let one = first.iter().find(is_it).unwrap();
        assert_eq!((record.start, record.end), (START, START + 2 * SECOND));
        assert_eq!(record.orig.packets, 2 * one.orig.packets);
        assert_eq!(record.reply.bytes, 2 * one.reply.bytes);
    }
    assert_eq!(records.len(), first.len());
}

#[test]
fn embryonic_flows_are_not_saved() {
    let mut engine = Engine::new(&small());
    let [there, back] = tcp(1);
    let udp = FrameBuilder::ipv4([1; 4], [2; 4]).udp(1, 2);
    let asked = [there.flags(SYN), udp.clone(), udp];
    process(&mut engine, START, &asked);
    assert_eq!(saved_by(&engine, 64), []);
    process(&mut engine, START, &[back.flags(SYN | ACK).ack(1)]);
    assert_eq!(saved_by(&engine, 64), []);
}

/// An established connection that goes on.
fn resumed() -> Engine {
    let mut before = Engine::new(&small());
    process(&mut before, START, &handshake(&tcp(1)));
    let flows = saved_by(&before, 64);
    assert_eq!(flows[0].scales, Some([7, 2]));
    restored(&small(), &flows, START + SECOND)
}

fn irregular(engine: &Engine) -> Vec<Anomaly> {
    let counts = engine.stats().anomalies;
    Anomaly::ALL.into_iter().filter(|kind| counts[*kind as usize] > 0).collect()
}

const NOW: u64 = START + 2 * SECOND;

#[test]
fn numbers_are_learnt_anew_from_a_packet_of_each_side() {
    let [there, back] = tcp(1);
    for order in [[0, 1], [1, 0]] {
        let mut engine = resumed();
        // Megabytes have passed in between.
        let news = [
            there.clone().flags(ACK).seq(50_000_000).ack(90_000_000).payload([0; 100]),
            back.clone().flags(ACK).seq(90_000_000).ack(50_000_100).payload([0; 100]),
        ];
        process(&mut engine, NOW, &order.map(|side| news[side].clone()));
        assert_eq!(irregular(&engine), []);
        // From now on it is judged, by the shifts of its handshake.
        let edge = 50_000_000 + (65_535 << 2);
        let inside = there.clone().flags(ACK).seq(50_000_100 + (1000 << 2)).ack(90_000_100);
        process(&mut engine, NOW, &[inside]);
        assert_eq!(irregular(&engine), []);
        let beyond = there.clone().flags(ACK).seq(edge + 1).ack(90_000_100);
        process(&mut engine, NOW, &[beyond]);
        assert_eq!(irregular(&engine), [Anomaly::TcpBeyondWindow]);
    }
}

#[test]
fn a_reset_ends_nothing_before_numbers_are_known() {
    let [there, back] = tcp(1);
    let mut engine = resumed();
    for frame in [&there, &back] {
        process(&mut engine, NOW, &[frame.clone().flags(RST).seq(100)]);
    }
    let heard = there.clone().flags(ACK).seq(700).ack(800);
    process(&mut engine, NOW, &[heard, there.clone().flags(RST).seq(700)]);
    process(&mut engine, NOW, &[back.clone().flags(RST).seq(801)]);
    assert_eq!(irregular(&engine), [Anomaly::TcpRstInWindow]);
    assert_eq!(saved_by(&engine, 64)[0].state, SnapshotState::TcpEstablished);
    // The answer of a host that knows of no connection (RFC 9293 section 3.10.7.1).
    process(&mut engine, NOW, &[back.clone().flags(RST).seq(800)]);
    assert_eq!(saved_by(&engine, 64)[0].state, SnapshotState::TcpClose);
}

#[test]
fn a_packet_that_was_made_up_keeps_nobody_out() {
    let [there, back] = tcp(1);
    for forged in [&there, &back] {
        let mut engine = resumed();
        process(&mut engine, NOW, &[forged.clone().flags(ACK).seq(1 << 31).ack(3 << 30)]);
        let heard = there.clone().flags(ACK).seq(700).ack(800).payload([0; 10]);
        process(&mut engine, NOW, &[heard, back.clone().flags(ACK).seq(800).ack(710)]);
        assert_eq!(irregular(&engine), []);
        process(&mut engine, NOW, &[there.clone().flags(ACK).seq(1 << 31).ack(3 << 30)]);
        assert_eq!(irregular(&engine).len(), 1);
    }
}

#[test]
fn a_syn_changes_nothing_and_a_fin_is_known_when_numbers_are() {
    let [there, back] = tcp(1);
    let mut engine = resumed();
    // An answer to this SYN would say that both have forgotten the connection.
    let syns = [there.clone().flags(SYN).seq(5), back.clone().flags(SYN | ACK).seq(7).ack(600)];
    process(&mut engine, NOW, &syns);
    assert_eq!(irregular(&engine), [Anomaly::TcpSyn]);
    process(&mut engine, NOW, &[back.clone().flags(SYN).seq(7)]);
    assert_eq!(irregular(&engine), [Anomaly::TcpSynOfOther, Anomaly::TcpSyn]);
    let state = |engine: &Engine| saved_by(engine, 64)[0].state;
    process(&mut engine, NOW, &[there.clone().flags(FIN | ACK).seq(700).ack(800)]);
    assert_eq!(state(&engine), SnapshotState::TcpEstablished);
    process(&mut engine, NOW, &[back.clone().flags(ACK).seq(800).ack(701)]);
    assert_eq!(state(&engine), SnapshotState::TcpFinWait);
    process(&mut engine, NOW, &[back.clone().flags(FIN | ACK).seq(800).ack(701)]);
    assert_eq!(state(&engine), SnapshotState::TcpLastAck);
    process(&mut engine, NOW, &[there.clone().flags(ACK).seq(701).ack(801)]);
    assert_eq!(state(&engine), SnapshotState::TcpTimeWait);

    for (fins, last) in [
        ([ACK, FIN | ACK], SnapshotState::TcpCloseWait),
        ([FIN | ACK, FIN | ACK], SnapshotState::TcpLastAck),
    ] {
        let mut engine = resumed();
        let ends = [
            there.clone().flags(fins[0]).seq(700).ack(800),
            back.clone().flags(fins[1]).seq(800).ack(700 + u32::from(fins[0] & FIN)),
        ];
        process(&mut engine, NOW, &ends);
        assert_eq!(state(&engine), last);
    }
}

#[test]
fn a_connection_that_closes_is_not_judged_any_more() {
    let [there, back] = tcp(1);
    let mut before = Engine::new(&small());
    process(&mut before, START, &handshake(&tcp(1)));
    let fin = there.clone().flags(FIN | ACK).seq(100).ack(500);
    process(&mut before, START, &[fin]);
    let flows = saved_by(&before, 64);
    assert_eq!(flows[0].state, SnapshotState::TcpFinWait);
    let mut after = restored(&small(), &flows, NOW);
    process(&mut after, NOW, &[back.flags(FIN | ACK).seq(77_000_000).ack(88_000_000)]);
    assert_eq!(irregular(&after), []);
    assert_eq!(saved_by(&after, 64)[0].state, SnapshotState::TcpTimeWait);
}

/// An association that goes on, and a packet of each side with these tags.
fn resumed_association(
    tcp: TcpWindowCheck,
) -> (Engine, ConnSnapshot, impl Fn(u32, u32) -> FrameBuilder) {
    let there = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).sctp(1000, 2905);
    let of = move |side: u32, tag: u32| {
        let there = there.clone().verification_tag(tag).chunk(0, 0, &[]);
        if side == 0 { there } else { there.reversed() }
    };
    let mut before = Engine::new(&small());
    process(&mut before, START, &[of(0, 7), of(1, 8)]);
    let flow = saved_by(&before, 64).remove(0);
    assert_eq!((flow.state, flow.tags), (SnapshotState::SctpEstablished, [7, 8]));
    let after = restored(&Config { tcp, ..small() }, std::slice::from_ref(&flow), START + SECOND);
    (after, flow, of)
}

#[test]
fn tags_of_an_association_outlive_the_engine() {
    let (mut engine, flow, of) = resumed_association(TcpWindowCheck::Strict);
    assert_eq!(saved_by(&engine, 64), std::slice::from_ref(&flow));
    process(&mut engine, NOW, &[of(0, 9), of(1, 9)]);
    assert_eq!(irregular(&engine), [Anomaly::SctpTag]);
    let wrong = engine.stats().anomalies;
    process(&mut engine, NOW, &[of(0, 7), of(1, 8)]);
    assert_eq!(engine.stats().anomalies, wrong);
    // One that was not known is learnt.
    let half = ConnSnapshot { tags: [7, 0], ..flow };
    let mut engine = restored(&small(), &[half], START + SECOND);
    process(&mut engine, NOW, &[of(0, 7), of(1, 9), of(1, 9)]);
    assert_eq!(irregular(&engine), []);
    process(&mut engine, NOW, &[of(1, 8)]);
    assert_eq!(irregular(&engine), [Anomaly::SctpTag]);
}

#[test]
fn tags_are_for_those_who_judge_them() {
    let (mut engine, _, of) = resumed_association(TcpWindowCheck::Liberal);
    process(&mut engine, NOW, &[of(0, 9), of(1, 9)]);
    assert_eq!((irregular(&engine), saved_by(&engine, 64)[0].tags), (vec![], [0; 2]));
}

#[test]
fn timeouts_go_on_where_they_were() {
    let timeouts = Timeouts { tcp_established: 10 * SECOND, ..Timeouts::default() };
    let config = Config { timeouts, ..small() };
    let mut before = Engine::new(&config);
    process(&mut before, START, &handshake(&tcp(1)));
    let flows = saved_by(&before, 64);
    let mut late = Engine::new(&config);
    assert_eq!(late.restore(&flows[0], START + 10 * SECOND), RestoreOutcome::Expired);
    assert_eq!(late.stats().active(), 0);
    let mut after = restored(&config, &flows, START + 9 * SECOND);
    after.expire(START + 9 * SECOND + SECOND / 2, 100);
    assert_eq!(after.stats().active(), 1);
    after.expire(START + 10 * SECOND + SECOND / 50, 100);
    assert_eq!(after.next_record().unwrap().end_reason, EndReason::Idle);
    // A clock that was put back lets nobody live longer than their timeout.
    let mut after = restored(&config, &flows, START - 5 * SECOND);
    after.expire(START + 4 * SECOND, 100);
    assert_eq!(after.stats().active(), 1);
    after.expire(START + 5 * SECOND + SECOND / 50, 100);
    assert_eq!(after.stats().active(), 0);
}

#[test]
fn limits_count_what_was_restored_but_not_as_new() {
    let mut before = Engine::new(&small());
    (1..6).for_each(|i| process(&mut before, START, &handshake(&tcp(i))));
    let flows = saved_by(&before, 64);
    let another = |engine: &mut Engine| {
        process(engine, NOW, &handshake(&tcp(9))[..1]);
        engine.stats().created
    };
    let policy = ZonePolicy { connections_max: Some(5), ..small().policy() };
    let of_zone = Config { zones: vec![(vec![0], policy)], ..small() };
    for full in [of_zone, Config { source_max: Some(5), ..small() }] {
        assert_eq!(another(&mut restored(&full, &flows, NOW)), 0);
        assert_eq!(another(&mut restored(&full, &flows[1..], NOW)), 1);
        // Who ends makes room.
        let mut engine = restored(&full, &flows, NOW);
        left(&mut engine);
        assert_eq!(another(&mut engine), 1);
    }
    let valve = Config { new_per_second: Some(1), ..small() };
    assert_eq!(another(&mut restored(&valve, &flows, NOW)), 1);
}

#[test]
fn of_two_with_one_key_the_one_seen_last_is_known() {
    let mut engine = Engine::new(&small());
    process(&mut engine, START, &handshake(&tcp(1)));
    let first = saved_by(&engine, 64).remove(0);
    let older = ConnSnapshot { last_seen: first.last_seen - SECOND, ..first.clone() };
    // It was begun by the other end, which is another source.
    let (src, dst) = (first.dst, first.src);
    let (sport, dport) = (first.dport, first.sport);
    let last_seen = first.last_seen + SECOND;
    let later = ConnSnapshot { src, dst, sport, dport, last_seen, ..first.clone() };
    let config = Config { source_max: Some(1), ..small() };
    let mut engine = restored(&config, std::slice::from_ref(&first), NOW);
    assert_eq!(engine.restore(&older, NOW), RestoreOutcome::Refused);
    assert_eq!(engine.restore(&first, NOW), RestoreOutcome::Refused);
    assert_eq!(engine.restore(&later, NOW), RestoreOutcome::Known);
    assert_eq!(saved_by(&engine, 64), [later]);
    assert_eq!((engine.stats().active(), engine.stats().restored), (1, 1));
    process(&mut engine, NOW, &handshake(&tcp(2)));
    assert_eq!(engine.stats().created, 1, "the source of the first one is free again");
}

#[test]
fn what_cannot_be_is_refused() {
    let mut engine = Engine::new(&small());
    process(&mut engine, START, &handshake(&tcp(1)));
    let good = saved_by(&engine, 64).remove(0);
    let tally =
        |packets, bytes, ip_bytes| DirectionCounters { packets, bytes, ip_bytes, tcp_flags: 0 };
    let v6: IpAddr = "::1".parse().unwrap();
    for bad in [
        ConnSnapshot { src: v6, ..good.clone() },
        ConnSnapshot { proto: 17, ..good.clone() },
        ConnSnapshot { state: SnapshotState::Udp, ..good.clone() },
        ConnSnapshot { state: SnapshotState::Icmp, ..good.clone() },
        ConnSnapshot { state: SnapshotState::Other, ..good.clone() },
        ConnSnapshot { orig: tally(1, 10, 11), ..good.clone() },
        ConnSnapshot { reply: tally(u64::MAX, 10, 10), ..good.clone() },
        ConnSnapshot { reply: tally(1, u64::MAX, u64::MAX), ..good.clone() },
        ConnSnapshot { reply: tally(1, 1 << 60, 0), ..good.clone() },
    ] {
        let mut engine = Engine::new(&small());
        assert_eq!(engine.restore(&bad, NOW), RestoreOutcome::Refused, "{bad:?}");
        assert_eq!(engine.stats().active(), 0);
    }
    // Times that cannot be do no harm.
    for (start, last_seen) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX, u64::MAX)] {
        let odd = ConnSnapshot { start, last_seen, ..good.clone() };
        let mut engine = Engine::new(&small());
        if engine.restore(&odd, NOW) == RestoreOutcome::Known {
            let record = left(&mut engine).remove(0);
            assert!(record.start <= record.end && record.end <= NOW, "{record:?}");
        }
    }
    // A table that is full stays as it is.
    let config = Config { capacity_ipv4: 1, ..small() };
    let mut engine = restored(&config, std::slice::from_ref(&good), NOW);
    let other = ConnSnapshot { sport: 9, ..good };
    assert_eq!(engine.restore(&other, NOW), RestoreOutcome::Refused);
    assert_eq!(engine.stats().active(), 1);
}

/// The first segments after a restart may be a repeated acknowledgment and the retransmission for
/// it. What was sent before, up to the window, is acknowledged next.
#[test]
fn what_was_sent_before_the_restart_is_acknowledged_after_it() {
    let mut before = Engine::new(&small());
    process(&mut before, START, &handshake(&tcp(1)));
    let mut after = restored(&small(), &saved_by(&before, 64), NOW);
    let [there, back] = tcp(1).map(|side| side.flags(ACK));
    let (there, back) = (there.ack(500), back.seq(500));
    let retransmission = there.clone().seq(100).payload([0; 100]);
    process(&mut after, NOW, &[back.clone().ack(100), retransmission, back.clone().ack(3100)]);
    assert_eq!(after.stats().anomalies.iter().sum::<u64>(), 0);
    // The window of the responder is 1000 units of 4 bytes.
    process(&mut after, NOW, &[back.clone().ack(3100 + 4000 + 1)]);
    assert_eq!(after.stats().anomalies[Anomaly::TcpAckBeyond as usize], 1);
    let (fin, answer) = (there.clone().flags(FIN | ACK).seq(3100), back.flags(FIN | ACK).ack(3101));
    process(&mut after, NOW, &[fin, answer, there.seq(3101).ack(501)]);
    assert_eq!(after.stats().anomalies.iter().sum::<u64>(), 1);
    assert_eq!(saved_by(&after, 64)[0].state, SnapshotState::TcpTimeWait);
}

#[test]
fn a_zone_that_is_not_judged_takes_it_as_it_is() {
    let mut before = Engine::new(&small());
    process(&mut before, START, &handshake(&tcp(1)));
    let flows = saved_by(&before, 64);
    let liberal = Config { tcp: TcpWindowCheck::Liberal, pick_up: TcpPickup::Strict, ..small() };
    let mut after = restored(&liberal, &flows, NOW);
    let [there, _] = tcp(1);
    process(&mut after, NOW, &[there.flags(RST).seq(1 << 30)]);
    assert_eq!(saved_by(&after, 64)[0].state, SnapshotState::TcpClose);
    // Impossible shifts are no reason to lose a connection.
    let odd = ConnSnapshot { scales: Some([15, 0]), ..flows[0].clone() };
    assert_eq!(saved_by(&restored(&small(), &[odd], NOW), 64)[0].scales, None);
}

#[test]
fn numbers_of_phases_are_for_ever() {
    let numbers: Vec<u8> = SnapshotState::ALL.iter().map(|state| *state as u8).collect();
    assert_eq!(numbers, (1..=14).collect::<Vec<_>>());
    for state in SnapshotState::ALL {
        assert_eq!(SnapshotState::of_number(state as u8), Some(state));
    }
    assert_eq!([0, 15, 255].map(SnapshotState::of_number), [None; 3]);
    assert_eq!(VlanTags::NONE.ids(), []);
}
