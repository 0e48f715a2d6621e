// SPDX-License-Identifier: BSD-3-Clause
//! Floods of packets that each begin a connection, beside connections that are there and others
//! that honest hosts make.

use super::{Tried, config, sized};
use engine::{EndReason, FlowRecord};
use fastrand::Rng;
use std::net::IpAddr;
use wire::FrameBuilder;
use wire::tcp::{ACK, PSH, SYN};

/// What the flood is of.
#[derive(Clone, Copy, Debug)]
enum Flood {
    Syn,
    Udp,
    Icmp,
}

/// Of 64 packets of a burst.
const OF_FLOOD: u32 = 48;
const OF_LIVE: u32 = 12;
/// One honest connection begins with each burst.
const BURST_NANOS: u64 = 13_000;

/// First bytes of the addresses of those who are to be told apart.
const LIVE: u8 = 1;
const HONEST: u8 = 2;

fn of(kind: u8) -> impl Fn(&FlowRecord) -> bool {
    move |record| matches!(record.src, IpAddr::V4(address) if address.octets()[0] == kind)
}

fn is_kept(record: &FlowRecord) -> bool {
    of(LIVE)(record) || of(HONEST)(record)
}

/// A segment of connection `n` of this kind; from its client, or to it.
fn segment(kind: u8, n: u32, is_from: bool, flags: u8, numbers: (u32, u32)) -> Vec<u8> {
    let [_, a, b, c] = n.to_be_bytes();
    let ends = FrameBuilder::ipv4([kind, a, b, c], [192, 0, 2, 1]).tcp(40_000, 443);
    let ends = if is_from { ends } else { ends.reversed() };
    ends.flags(flags).seq(numbers.0).ack(numbers.1).window(60_000).build()
}

/// The handshake of a connection; numbers begin with 0 on both sides.
fn handshake(kind: u8, n: u32, step: usize) -> Vec<u8> {
    match step {
        0 => segment(kind, n, true, SYN, (0, 0)),
        1 => segment(kind, n, false, SYN | ACK, (0, 1)),
        _ => segment(kind, n, true, ACK, (1, 1)),
    }
}

fn packet(flood: Flood, rng: &mut Rng) -> Vec<u8> {
    // Beyond the addresses of the others.
    let ends = FrameBuilder::ipv4(rng.u32(0x0b00_0000..0xdf00_0000), [192, 0, 2, 1]);
    match flood {
        Flood::Syn => ends.tcp(rng.u16(..), 443).flags(SYN).seq(rng.u32(..)).build(),
        Flood::Udp => ends.udp(rng.u16(..), 443).build(),
        Flood::Icmp => ends.icmp_echo(rng.u16(..), rng.u16(..)).build(),
    }
}

/// Packets of the flood while a SYN or its answer is under way.
struct Rtt(u32);

/// How many of each hundred honest connections found their handshake in one record. Those that
/// were there lose nothing.
fn percent_made(flood: Flood, rtt: Rtt) -> usize {
    let capacity = sized(1 << 16, 1 << 20);
    let (live, packets) = (capacity / 11, sized(600_000, 10_000_000));
    let mut tried = Tried::new(&config(capacity));
    let mut rng = Rng::with_seed(7);
    for n in 0..live {
        let steps = [0, 1, 2].map(|step| handshake(LIVE, n, step));
        tried.give(0, &steps, is_kept);
    }
    let (bursts, half) = (packets / OF_FLOOD, rtt.0 / OF_FLOOD / 2);
    let mut frames = vec![];
    for burst in 0..bursts {
        frames.clear();
        for i in 0..OF_LIVE {
            let n = (burst * OF_LIVE + i) % live;
            frames.push(segment(LIVE, n, i % 2 == 0, PSH | ACK, (1, 1)));
        }
        for step in 0..3 {
            let begun = burst.checked_sub(step * half);
            frames.extend(begun.map(|n| handshake(HONEST, n, step as usize)));
        }
        frames.extend((0..OF_FLOOD).map(|_| packet(flood, &mut rng)));
        rng.shuffle(&mut frames);
        tried.give(u64::from(burst) * BURST_NANOS, &frames, is_kept);
    }
    let evicted = tried.engine.stats().ended[EndReason::Evicted as usize];
    assert!(evicted > u64::from(packets / 3), "{flood:?}: the flood met no limit");
    tried.close(is_kept);

    let of_live: Vec<_> = tried.records.iter().filter(|record| of(LIVE)(record)).collect();
    assert_eq!(of_live.len(), live as usize, "{flood:?}");
    let packets_of = |record: &&FlowRecord| record.orig.packets + record.reply.packets;
    let counted: u64 = of_live.iter().map(packets_of).sum();
    assert_eq!(counted, u64::from(3 * live + bursts * OF_LIVE), "{flood:?}");
    assert!(of_live.iter().all(|record| record.end_reason == EndReason::Exit), "{flood:?}");

    // Those whose last packet had the time to come.
    let finished = (bursts - 2 * half) as usize;
    let is_made = |r: &&FlowRecord| r.orig.packets == 2 && r.reply.packets == 1;
    let made = tried.records.iter().filter(|r| of(HONEST)(r)).filter(is_made).count();
    println!("{flood:?}, {} packets a round trip: {made} of {finished} connect", rtt.0);
    100 * made / finished
}

#[test]
fn who_is_there_stays_and_who_is_honest_connects() {
    // Half of the table is for embryonic connections: 32 768 of 65 536.
    let rtt = sized(20_000, 320_000);
    for flood in [Flood::Syn, Flood::Udp, Flood::Icmp] {
        assert!(percent_made(flood, Rtt(rtt)) >= 95, "{flood:?}");
    }
}

#[test]
fn a_round_trip_of_more_than_the_share_is_too_long() {
    assert!(percent_made(Flood::Syn, Rtt(sized(80_000, 1_280_000))) <= 5);
}
