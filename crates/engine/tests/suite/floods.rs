// SPDX-License-Identifier: BSD-3-Clause
//! Flows that all have one hash value under a weak hash are flows like any others to the table.

use engine::{BURST_MAX, Config, Engine, Evict, UntrackedReason, Verdict};
use std::collections::HashSet;
use testkit::random::Random;
use traffic::flood::{self, Target};
use wire::{BytesPacket, FrameBuilder, tcp};

/// What 4096 buckets are for: no index is ever fuller.
const CAPACITY: usize = 29_491;
/// Flows that come too late.
const LATE: usize = 100;

fn frames(seed: u64, target: Target) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let count = (CAPACITY + LATE) as u32;
    flood::packets(seed, target, count, |_, frame| frames.push(frame.to_vec()));
    frames
}

/// Frames of IPv6 connections with the tuples of a flood, whose addresses are the last bits of
/// longer ones. The equal prefix leaves them colliding, also where a hash folds words by exclusive
/// or.
fn frames_ipv6(seed: u64, target: Target) -> Vec<Vec<u8>> {
    let prefix = 0x2001_0db8_u128 << 96;
    let tuples = flood::tuples(seed, target, (CAPACITY + LATE) as u32);
    let frames = tuples.map(|tuple| {
        let [src, dst] = [tuple.src, tuple.dst].map(|end| prefix | u128::from(end.to_bits()));
        FrameBuilder::ipv6(src, dst).udp(tuple.sport, tuple.dport).build()
    });
    frames.collect()
}

fn process(engine: &mut Engine, frames: &[Vec<u8>]) {
    let mut verdicts = [Verdict::Drop; BURST_MAX];
    for frames in frames.chunks(BURST_MAX) {
        let packets: Vec<_> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
        engine.process(0, &packets, &mut verdicts);
    }
}

/// New flows and packets that found the table full so far.
fn created_and_refused(engine: &Engine) -> [u64; 2] {
    let stats = engine.stats();
    [stats.created, stats.passed[UntrackedReason::TableFull as usize]]
}

/// Fills the table for one IP version, and finds all again.
fn fill(frames: &[Vec<u8>], capacities: [usize; 2], secret: [u64; 2], name: &str) {
    let [capacity_ipv4, capacity_ipv6] = capacities.map(|capacity| capacity as u32);
    let (evict, embryonic_percent) = (Evict::Nothing, 100);
    let config = Config {
        capacity_ipv4,
        capacity_ipv6,
        secret,
        evict,
        embryonic_percent,
        ..Config::default()
    };
    let mut engine = Engine::new(&config);
    let (early, late) = frames.split_at(CAPACITY);
    for round in ["first", "second"] {
        process(&mut engine, early);
        let expected = [CAPACITY as u64, 0];
        assert_eq!(created_and_refused(&engine), expected, "{name}, {round} round");
    }
    process(&mut engine, late);
    assert_eq!(created_and_refused(&engine), [CAPACITY, LATE].map(|n| n as u64), "{name}");

    let mut flows = HashSet::new();
    let mut are_left = true;
    while are_left {
        are_left = engine.flush(BURST_MAX);
        while let Some(flow) = engine.next_record() {
            assert_eq!((flow.orig.packets, flow.reply.packets), (2, 0), "{flow:?}");
            flows.insert((flow.src, flow.sport, flow.dst, flow.dport));
        }
    }
    assert_eq!(flows.len(), CAPACITY, "{name}");
}

#[test]
fn a_flood_fills_the_table_to_the_last_record_and_is_found_again() {
    for (seed, target) in (0..3).flat_map(|seed| Target::ALL.map(|target| (seed, target))) {
        let secret = [0x6b8b_4567_327b_23c6 ^ seed, 0x643c_9869_6633_4873];
        fill(&frames(seed, target), [CAPACITY, 1], secret, target.name());
        fill(&frames_ipv6(seed, target), [1, CAPACITY], secret, target.name());
    }
}

/// Connections at which errors are sent.
const LIVE: u16 = 100;

/// The packets of a connection that is open: of the client, and of the server.
fn connection(i: u16) -> [FrameBuilder; 2] {
    let client = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1000 + i, 80);
    let client = client.seq(u32::from(i) << 24).ack(77);
    [client.clone(), client.reversed().seq(77).ack(u32::from(i) << 24)]
}

/// What is left of such connections if so many errors come in the second half of their life.
fn after_errors(errors: u32) -> (Vec<engine::FlowRecord>, engine::Stats) {
    let timeouts = engine::Timeouts { tcp_established: 10_000, ..engine::Timeouts::default() };
    let mut engine = Engine::new(&Config { timeouts, ..Config::default() });
    for [client, server] in (0..LIVE).map(connection) {
        process(&mut engine, &[client.build(), server.build()]);
    }
    let mut random = Random::new(1);
    for _ in 0..errors {
        let bits = random.bits();
        let [client, server] = connection(bits as u16 % LIVE);
        let quoted = if bits & 1 == 0 { client } else { server };
        let quoted = quoted.seq((bits >> 8) as u32).flags((bits >> 3) as u8);
        let to = if bits & 1 == 0 { [10, 0, 0, 1] } else { [10, 0, 0, 2] };
        let kind = [3, 4, 5, 11, 12][bits as usize % 5];
        let error = FrameBuilder::ipv4([192, 0, 2, 1], to);
        let error = error.icmp_error(kind, tcp::ACK, &quoted.build_packet()[..28]);
        engine.process(9_000, &[BytesPacket::new(&error.build())], &mut [Verdict::Drop]);
    }
    while engine.expire(1 << 40, BURST_MAX) > 0 {}
    let mut flows: Vec<_> = std::iter::from_fn(|| engine.next_record()).collect();
    flows.sort_by_key(|flow| flow.sport);
    (flows, engine.stats().clone())
}

#[test]
fn errors_at_live_connections_change_nothing() {
    const ERRORS: u32 = 100_000;
    let (flows, stats) = after_errors(ERRORS);
    assert_eq!(flows.len(), usize::from(LIVE));
    assert_eq!(flows, after_errors(0).0);
    let [related, unrelated] = [UntrackedReason::Related, UntrackedReason::Unrelated]
        .map(|reason| stats.passed[reason as usize]);
    assert_eq!((related + unrelated, stats.created), (ERRORS.into(), LIVE.into()));
    // Picked up, its windows may be 1 GB: a number made up fits in with one in four.
    assert!(related > 0 && related < u64::from(ERRORS) / 3, "{related}");
}
