// SPDX-License-Identifier: BSD-3-Clause
//! Policies that change while there are connections: what holds from then on, for those that begin
//! and for those that are there.

use engine::{
    Anomaly, BURST_MAX, Config, ConnView, Cursor, EndReason, Engine, EventKind, ProtoState, Query,
    TcpPickup, TcpWindowCheck, Timeouts, Tracking, UntrackedReason, Verdict, ZonePolicies,
    ZonePolicy,
};
use std::sync::Arc;
use wire::tcp::{ACK, FIN, RST, SYN};
use wire::{BytesPacket, FrameBuilder};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

fn process(engine: &mut Engine, now: u64, frames: &[FrameBuilder]) {
    let frames: Vec<_> = frames.iter().map(|frame| frame.build()).collect();
    let packets: Vec<_> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
    for burst in packets.chunks(BURST_MAX) {
        engine.process(now, burst, &mut [Verdict::Forward; BURST_MAX]);
    }
}

/// Ends all whose time is over; returns how many are left.
fn active(engine: &mut Engine, now: u64) -> u64 {
    while engine.expire(now, 64) > 0 {
        while engine.next_record().is_some() {}
    }
    engine.stats().active()
}

fn set(engine: &mut Engine, config: &Config) {
    engine.set_zones(Arc::new(ZonePolicies::new(config)));
}

/// The whole walk, so many places at a time; how many timers it armed anew.
fn review(engine: &mut Engine, budget: u32) -> u64 {
    let (mut cursor, mut retimed) = (Cursor::default(), 0);
    loop {
        let before = retimed;
        let more = engine.review(&mut cursor, budget, &mut retimed);
        assert!(retimed - before <= budget.into());
        if !more {
            return retimed;
        }
    }
}

fn reload(engine: &mut Engine, config: &Config) -> u64 {
    set(engine, config);
    review(engine, 7)
}

fn list(engine: &Engine) -> Vec<ConnView> {
    let (mut cursor, mut flows) = (Cursor::default(), vec![]);
    while engine.list(&Query::default(), &mut cursor, 64, &mut |flow| flows.push(flow)) {}
    flows
}

/// Timeouts of `seconds` seconds in every phase.
fn all(seconds: u64) -> Timeouts {
    let time = seconds * SECOND;
    Timeouts {
        tcp_syn_sent: time,
        tcp_syn_recv: time,
        tcp_established: time,
        tcp_fin_wait: time,
        tcp_time_wait: time,
        tcp_close: time,
        udp_first: time,
        udp_single: time,
        udp_multiple: time,
        icmp_first: time,
        icmp_reply: time,
        sctp_init: time,
        sctp_cookie: time,
        sctp_established: time,
        sctp_shutdown: time,
        sctp_closed: time,
        sctp_heartbeat: time,
        other_first: time,
        other_multiple: time,
        flow_first: time,
        flow_multiple: time,
    }
}

fn lasting(seconds: u64) -> Config {
    let capacity = 1000;
    let timeouts = all(seconds);
    Config { capacity_ipv4: capacity, capacity_ipv6: capacity, timeouts, ..Config::default() }
}

/// A hundred connections of each IP version: handshakes, SYNs without an answer, UDP of one and of
/// both directions, ICMP.
fn mixture() -> Vec<FrameBuilder> {
    let of = |i: u8, frame: FrameBuilder| {
        let frame = if i % 2 == 0 { frame.vlan(7) } else { frame };
        match i % 5 {
            0 => vec![frame.udp(1, 53)],
            1 => {
                let udp = frame.udp(2, 53);
                vec![udp.clone(), udp.reversed()]
            }
            2 => vec![frame.tcp(3, 80).flags(SYN)],
            3 => {
                let syn = frame.tcp(4, 80).flags(SYN).seq(99);
                let syn_ack = syn.clone().reversed().flags(SYN | ACK).seq(499).ack(100);
                vec![syn.clone(), syn_ack, syn.flags(ACK).seq(100).ack(500)]
            }
            _ => vec![frame.icmp_echo(5, 1)],
        }
    };
    let v4 = (0..100).flat_map(|i| of(i, FrameBuilder::ipv4([10, 0, 0, i], [10, 0, 1, i])));
    let v6 = (0..100).flat_map(|i| match i % 5 {
        4 => vec![FrameBuilder::ipv6([i; 16], [200; 16]).gre(0x0800, Some(7))],
        _ => of(i, FrameBuilder::ipv6([i; 16], [200; 16])),
    });
    v4.chain(v6).collect()
}

#[test]
fn a_shorter_timeout_holds_for_all_that_is_there() {
    let mut engine = Engine::new(&lasting(86_400));
    process(&mut engine, START, &mixture());
    assert_eq!(active(&mut engine, START + 61 * SECOND), 200);
    assert_eq!(reload(&mut engine, &lasting(120)), 200);
    assert!(list(&engine).iter().all(|flow| flow.expires == START + 120 * SECOND));
    assert_eq!(active(&mut engine, START + 119 * SECOND), 200);
    assert_eq!(active(&mut engine, START + 121 * SECOND), 0);
}

#[test]
fn one_that_should_have_ended_before_ends_now() {
    let mut engine = Engine::new(&lasting(86_400));
    process(&mut engine, START, &mixture());
    assert_eq!(active(&mut engine, START + 3600 * SECOND), 200);
    assert_eq!(reload(&mut engine, &lasting(60)), 200);
    assert_eq!(active(&mut engine, START + 3601 * SECOND), 0);
}

#[test]
fn a_longer_timeout_holds_for_all_that_is_there() {
    let mut engine = Engine::new(&lasting(60));
    process(&mut engine, START, &mixture());
    active(&mut engine, START + 59 * SECOND);
    assert_eq!(reload(&mut engine, &lasting(86_400)), 0);
    assert_eq!(active(&mut engine, START + 86_399 * SECOND), 200);
    assert_eq!(active(&mut engine, START + 86_401 * SECOND), 0);
}

#[test]
fn what_is_said_of_a_zone_holds_there_only() {
    let mut engine = Engine::new(&lasting(600));
    process(&mut engine, START, &mixture());
    let short = ZonePolicy { timeouts: all(60), ..lasting(600).policy() };
    let config = Config { zones: vec![(vec![7], short)], ..lasting(600) };
    assert_eq!(reload(&mut engine, &config), 90);
    assert_eq!(active(&mut engine, START + 61 * SECOND), 110);
    assert!(list(&engine).iter().all(|flow| flow.record.zone == 0));
}

/// Packets and ends come in between; whoever begins meanwhile is under the new policy anyway.
#[test]
fn a_review_goes_on_while_packets_come() {
    let mut engine = Engine::new(&lasting(86_400));
    let frames = mixture();
    process(&mut engine, START, &frames);
    set(&mut engine, &lasting(60));
    let (mut cursor, mut retimed, mut parts) = (Cursor::default(), 0, 0);
    let others: Vec<_> =
        (0..100_u8).map(|i| FrameBuilder::ipv4([10, 1, 0, i], [10, 1, 1, i]).udp(1, 53)).collect();
    while engine.review(&mut cursor, 16, &mut retimed) {
        process(&mut engine, START + SECOND, &others[parts..=parts]);
        process(&mut engine, START + SECOND, &frames[parts..=parts]);
        parts += 1;
    }
    assert_eq!((retimed, parts), (200, 12));
    assert_eq!(active(&mut engine, START + 62 * SECOND), 0);
}

#[test]
fn limits_end_nobody_and_hold_for_who_comes_next() {
    let mut engine = Engine::new(&lasting(600));
    process(&mut engine, START, &mixture());
    let policy = ZonePolicy {
        connections_max: Some(3),
        pick_up: TcpPickup::Strict,
        ..lasting(600).policy()
    };
    let config = Config { zones: vec![(vec![0], policy)], ..lasting(600) };
    assert_eq!(reload(&mut engine, &config), 0);
    assert_eq!(engine.stats().active(), 200);
    let next = FrameBuilder::ipv4([10, 2, 0, 1], [10, 2, 0, 2]);
    process(&mut engine, START + SECOND, &[next.clone().udp(1, 53), next.tcp(1, 80).flags(ACK)]);
    let stats = engine.stats();
    assert_eq!((stats.active(), stats.passed[UntrackedReason::ZoneFull as usize]), (200, 1));
    assert_eq!(stats.anomalies[Anomaly::TcpNoSyn as usize], 1);
}

fn liberal() -> Config {
    Config { tcp: TcpWindowCheck::Liberal, ..lasting(600) }
}

/// Both directions of a connection whose handshake had these shifts.
struct Talk {
    there: FrameBuilder,
    back: FrameBuilder,
}

impl Talk {
    fn begin(engine: &mut Engine) -> Self {
        let there = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(4000, 80).window(1000);
        let back = there.clone().reversed().window(1000);
        let scale = |shift| [3, 3, shift, 0];
        let handshake = [
            there.clone().flags(SYN).seq(99).tcp_options(&scale(7)),
            back.clone().flags(SYN | ACK).seq(499).ack(100).tcp_options(&scale(2)),
            there.clone().flags(ACK).seq(100).ack(500),
        ];
        process(engine, START, &handshake);
        Self { there, back }
    }

    fn says(&self, seq: u32, ack: u32) -> FrameBuilder {
        self.there.clone().flags(ACK).seq(seq).ack(ack).payload([0; 100])
    }

    fn answers(&self, seq: u32, ack: u32) -> FrameBuilder {
        self.back.clone().flags(ACK).seq(seq).ack(ack).payload([0; 100])
    }
}

fn irregular(engine: &Engine) -> u64 {
    engine.stats().anomalies.iter().sum()
}

#[test]
fn numbers_that_nobody_followed_are_learnt_anew() {
    let mut engine = Engine::new(&liberal());
    let talk = Talk::begin(&mut engine);
    // Far away from those of the handshake, and not followed.
    let (a, b) = (2_000_000_000, 3_000_000_000);
    process(&mut engine, START, &[talk.says(a, b), talk.answers(b, a)]);
    set(&mut engine, &lasting(600));
    process(&mut engine, START, &[talk.says(a + 100, b), talk.answers(b + 100, a + 100)]);
    review(&mut engine, 16);
    process(&mut engine, START, &[talk.says(a + 200, b + 200), talk.answers(b + 200, a + 300)]);
    process(&mut engine, START, &[talk.says(a + 300, b + 300), talk.answers(b + 300, a + 400)]);
    assert_eq!((irregular(&engine), list(&engine).len()), (0, 1));
    // Now they are known.
    process(&mut engine, START, &[talk.says(a + 400, b + 1_200_000_000)]);
    assert_eq!(engine.stats().anomalies[Anomaly::TcpAckBeyond as usize], 1);
    process(&mut engine, START, &[talk.there.flags(RST).seq(7)]);
    assert_eq!(irregular(&engine), 2);
    assert_eq!(list(&engine)[0].record.proto_state, ProtoState::Established);
}

/// A second reload changes nothing about what was learnt.
#[test]
fn who_is_judged_stays_so() {
    let mut engine = Engine::new(&lasting(600));
    let talk = Talk::begin(&mut engine);
    reload(&mut engine, &lasting(600));
    process(&mut engine, START, &[talk.says(100, 5000)]);
    assert_eq!(engine.stats().anomalies[Anomaly::TcpAckBeyond as usize], 1);
}

#[test]
fn who_is_not_judged_any_more_goes_by_flags() {
    let mut engine = Engine::new(&lasting(600));
    let talk = Talk::begin(&mut engine);
    set(&mut engine, &liberal());
    // Before a review has come to it as after.
    process(&mut engine, START, &[talk.says(1 << 30, 1 << 31)]);
    review(&mut engine, 16);
    process(&mut engine, START, &[talk.answers(5, 6), talk.there.flags(RST).seq(7)]);
    assert_eq!((irregular(&engine), list(&engine)[0].record.proto_state), (0, ProtoState::Close));
}

/// Which acknowledgment is the last one is a matter of numbers.
#[test]
fn a_last_acknowledgment_is_not_waited_for_without_numbers() {
    let short = Timeouts { tcp_time_wait: 5 * SECOND, ..all(600) };
    let mut engine = Engine::new(&Config { timeouts: short, ..lasting(600) });
    let Talk { there, back } = Talk::begin(&mut engine);
    let fin = there.flags(FIN | ACK).seq(100).ack(500);
    process(&mut engine, START, &[fin, back.flags(FIN | ACK).seq(500).ack(101)]);
    assert_eq!(list(&engine)[0].record.proto_state, ProtoState::LastAck);
    engine.subscribe(true);
    reload(&mut engine, &Config { timeouts: short, ..liberal() });
    let event = engine.next_event().expect("whoever listens hears of it");
    assert_eq!((event.change, event.record.proto_state), (EventKind::Update, ProtoState::TimeWait));
    assert_eq!(engine.next_event(), None);
    assert_eq!(active(&mut engine, START + 6 * SECOND), 0);
}

#[test]
fn nothing_of_before_is_left_when_it_is_given_back() {
    let mut engine = Engine::new(&lasting(600));
    let first = engine.set_zones(Arc::new(ZonePolicies::new(&lasting(60))));
    assert_eq!(Arc::strong_count(&first), 1);
    let next = Arc::new(ZonePolicies::new(&liberal()));
    drop(engine.set_zones(next.clone()));
    assert!(Arc::ptr_eq(&engine.set_zones(first), &next));
}

/// States that were not tracked are those that the flags of the flow show.
#[test]
fn the_depth_of_tracking_may_change() {
    let depth = |tracking| Config { tracking, ..lasting(600) };
    let states = |engine: &Engine| {
        let mut states: Vec<_> = list(engine).iter().map(|flow| flow.record.proto_state).collect();
        states.sort();
        states
    };
    let mut engine = Engine::new(&depth(Tracking::Flows));
    let tcp = |port| FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(port, 80);
    let udp = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 53);
    for (port, flags) in [(1, ACK), (2, FIN | ACK), (3, RST)] {
        let frames = [tcp(port).flags(flags).seq(7), tcp(port).reversed().flags(ACK).seq(7)];
        process(&mut engine, START, &frames);
    }
    process(&mut engine, START, &[tcp(4).flags(ACK), udp.clone()]);
    let (first, multiple) = (ProtoState::FlowFirst, ProtoState::FlowMultiple);
    assert_eq!(states(&engine), sorted([multiple, multiple, multiple, first, first]));

    reload(&mut engine, &depth(Tracking::Connections));
    let expected = [
        ProtoState::Established,
        ProtoState::FinWait,
        ProtoState::Close,
        ProtoState::PickedUp,
        ProtoState::UdpSingle,
    ];
    assert_eq!(states(&engine), sorted(expected));
    // Its numbers are learnt anew.
    process(&mut engine, START, &[tcp(1).flags(ACK).seq(1 << 30)]);
    assert_eq!(irregular(&engine), 0);

    reload(&mut engine, &depth(Tracking::Flows));
    assert_eq!(states(&engine), sorted([multiple, multiple, multiple, first, first]));

    reload(&mut engine, &depth(Tracking::Off));
    engine.expire(START + 1, 64);
    let reasons: Vec<_> =
        std::iter::from_fn(|| engine.next_record()).map(|record| record.end_reason).collect();
    assert_eq!((reasons, engine.stats().active()), (vec![EndReason::Flushed; 5], 0));
    process(&mut engine, START + 1, &[udp]);
    assert_eq!(engine.stats().passed[UntrackedReason::TrackingOff as usize], 1);
}

fn sorted<const N: usize>(mut states: [ProtoState; N]) -> [ProtoState; N] {
    states.sort();
    states
}
