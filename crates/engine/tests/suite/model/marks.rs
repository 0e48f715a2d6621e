// SPDX-License-Identifier: BSD-3-Clause
//! Marks change nothing but the way: with a NIC that marks late, refuses, and forgets late, and
//! with one that lies, everything that comes out is what comes out without a NIC.

use super::drive::Case;
use super::icmp;
use super::invariance::{Outcome, outcome, outcome_of, packets, process};
use super::reference::Seen;
use super::sequence::Said;
use super::traffic::{Packet, Rng, Shape};
use engine::{
    BURST_MAX, BypassConfig, Config, EndReason, Engine, Evict, FiveTuple, FragmentLimits,
    MarkLayout, MarkStats, MarkVerification, OffloadConfig, OffloadPolicy, RuleRequest, RuleResult,
    Side, Timeouts, Verdict, ZoneSource,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::IpAddr;
use testkit::random::Random;
use wire::{BytesPacket, FrameBuilder, tcp};

/// Rules, and what the NIC does to packets.
struct Nic {
    layout: MarkLayout,
    zone: ZoneSource,
    rules: HashMap<FiveTuple, u32>,
    /// Taken, and not done.
    waiting: Vec<RuleRequest>,
    /// Every mark that was ever on a packet.
    marks: Vec<u32>,
    is_liar: bool,
    random: Random,
}

impl Nic {
    fn mark(&mut self, packet: &Packet) -> Option<u32> {
        if self.is_liar {
            match self.random.below(8) {
                0 => return Some((self.random.below(1 << 31) << 1 | self.random.below(2)) as u32),
                1 if !self.marks.is_empty() => {
                    return Some(self.random.pick(&self.marks));
                }
                2 => return None,
                _ => {}
            }
        }
        let mark = self.rules.get(&self.tuple(packet)?).copied();
        self.marks.extend(mark);
        mark
    }

    fn tuple(&self, packet: &Packet) -> Option<FiveTuple> {
        let seen = packet.meaning.as_ref().ok()?;
        let zone = match self.zone {
            ZoneSource::None | ZoneSource::Fixed(_) => 0,
            ZoneSource::OuterVlan => seen.tags.first().copied().unwrap_or(0),
            ZoneSource::InnerVlan => seen.tags.last().copied().unwrap_or(0),
        };
        let ((src, sport), (dst, dport)) = (seen.src, seen.dst);
        Some(FiveTuple { src, dst, proto: seen.proto, sport, dport, zone })
    }

    /// Does some of what the engine requests, in order, and says so.
    fn work(&mut self, engine: &mut Engine, is_last: bool) {
        while let Some(request) = engine.next_request() {
            self.waiting.push(request);
        }
        while !self.waiting.is_empty() && (is_last || self.random.below(3) > 0) {
            let (rule, answer) = match self.waiting.remove(0) {
                RuleRequest::Install { rule, .. } if self.random.below(5) == 0 => {
                    let refusals = [RuleResult::Refused, RuleResult::Full, RuleResult::Postponed];
                    (rule, self.random.pick(&refusals))
                }
                RuleRequest::Install { rule, tuple, .. } => {
                    self.rules.insert(tuple, self.layout.encode(rule));
                    (rule, RuleResult::Installed { pace: 1000, took: 100 })
                }
                RuleRequest::Remove { rule, .. } => {
                    let gone = self.layout.encode(rule);
                    self.rules.retain(|_, mark| *mark != gone);
                    (rule, RuleResult::Removed)
                }
            };
            engine.apply_result(rule, answer);
        }
    }
}

fn with_offload(config: &Config, dice: &mut Rng, check: MarkVerification) -> (Config, MarkLayout) {
    let first_index = dice.pick(&[0, 5, 1000]);
    let slots = dice.pick(&[100, 1, 4]);
    let indices = first_index + OffloadConfig::indices(slots);
    let widths = (12..=32).filter(|&width| indices <= MarkLayout::most(width));
    let widths: Vec<u32> = widths.collect();
    let layout = MarkLayout::new(dice.pick(&widths), indices).unwrap();
    let admission = dice.pick(&[
        OffloadPolicy::After { packets: 1 },
        OffloadPolicy::After { packets: 5 },
        OffloadPolicy::Rate { per_second: 100 },
        OffloadPolicy::Measured { least: 1 },
        OffloadPolicy::Measured { least: 2 },
    ]);
    let rules_max = dice.pick(&[1000, 1, 4]);
    let offload = OffloadConfig {
        layout,
        first_index,
        slots,
        check,
        admission,
        rules_max,
        zone_rules_max: None,
        chooses_marks: false,
        bypass: [BypassConfig::OFF; 2],
    };
    (Config { offload: Some(offload), ..config.clone() }, layout)
}

/// Packets as a bump receives them: those of one burst come from one side. Sorted by that, 64 at a
/// time.
fn by_side(mut packets: Vec<Packet>) -> Vec<Packet> {
    packets.chunks_mut(BURST_MAX).for_each(|chunk| chunk.sort_by_key(side));
    packets
}

fn side(packet: &Packet) -> bool {
    packet.meaning.as_ref().is_ok_and(|seen| seen.src < seen.dst)
}

/// Packets, and what comes out where nobody marks them.
fn without_nic(seed: [u64; 3], bits: &[u64]) -> (Case, Vec<Packet>, Outcome) {
    let mut case = Case::off_ticks(seed);
    // Fragments never have a mark that counts, and find their connections beside those that have.
    let fragments = FragmentLimits { datagrams: 64, hold: 0, ..FragmentLimits::default() };
    case.config.fragments = fragments;
    let mut packets = packets(&case, bits);
    // Marked packets of a burst come first: what an error quotes of TCP may be acknowledged by one
    // behind it.
    packets.retain(|packet| !icmp::is_about_tcp(packet));
    let packets = by_side(packets);
    let plain: Vec<_> = packets.iter().map(Packet::bytes).collect();
    let outcome = outcome(&case, &plain, BURST_MAX);
    (case, packets, outcome)
}

/// As [`outcome`], with a NIC.
fn marked_outcome(
    case: &Case,
    packets: &[Packet],
    seed: u64,
    check: MarkVerification,
    is_liar: bool,
) -> (Outcome, MarkStats) {
    let mut dice = Rng(seed);
    let (config, layout) = with_offload(&case.config, &mut dice, check);
    let burst = dice.pick(&[64, 32, 7, 1]);
    let (rules, waiting, marks) = (HashMap::new(), vec![], vec![]);
    let zone = config.zone;
    let mut nic = Nic { layout, zone, rules, waiting, marks, is_liar, random: Random::new(seed) };
    let mut engine = Engine::new(&config);
    let mut given = 0;
    let outcome = outcome_of(&mut engine, case.start, packets, |engine, now, chunk, verdicts| {
        let sides = chunk.chunk_by(|a, b| side(a) == side(b));
        for packets in sides.flat_map(|side| side.chunks(burst)) {
            let marked: Vec<_> =
                packets.iter().map(|packet| packet.bytes().marked(nic.mark(packet))).collect();
            let mark = |packet: &&BytesPacket| wire::Packet::mark(*packet).unwrap_or(0);
            given += marked.iter().filter(|packet| mark(packet) != 0).count();
            process(engine, now, &marked, verdicts);
            nic.work(engine, false);
            // What was marked before is through.
            drain(engine);
        }
    });
    nic.work(&mut engine, true);
    assert!(nic.rules.is_empty(), "no rule outlives its flow");
    let stats = engine.mark_stats();
    let MarkStats { counted, unusual, foreign, stale, mismatched, .. } = stats;
    assert_eq!(given as u64, counted + unusual + foreign + stale + mismatched, "{stats:?}");
    (outcome, stats)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_honest_nic_changes_nothing(
        seed: [u64; 3],
        nic: u64,
        bits in prop::collection::vec(any::<u64>(), 1..1500),
    ) {
        let (case, packets, expected) = without_nic(seed, &bits);
        for (first, one_in) in [(2, 16), (0, 1 << 20)] {
            let check = MarkVerification::Sampled { first, one_in };
            let (outcome, stats) = marked_outcome(&case, &packets, nic, check, false);
            prop_assert!(outcome == expected, "{}", difference(&outcome, &expected));
            prop_assert_eq!((stats.foreign, stats.mismatched), (0, 0));
        }
    }

    #[test]
    fn a_lying_nic_changes_nothing_where_keys_are_compared(
        seed: [u64; 3],
        nic: u64,
        bits in prop::collection::vec(any::<u64>(), 1..1500),
    ) {
        let (case, packets, expected) = without_nic(seed, &bits);
        let (outcome, _) = marked_outcome(&case, &packets, nic, MarkVerification::Always, true);
        prop_assert!(outcome == expected, "{}", difference(&outcome, &expected));
    }
}

/// The test above is about something: packets are counted by their marks.
#[test]
fn most_packets_of_a_busy_flow_are_counted_by_their_mark() {
    let case = Case::off_ticks([0, 0, 7]);
    let (src, dst) = ((IpAddr::from([10, 0, 0, 1]), 7), (IpAddr::from([10, 0, 0, 2]), 9));
    let frame = FrameBuilder::ip(src.0, dst.0).pad().udp(src.1, dst.1).build();
    let (bytes, ip_bytes) = (frame.len() as u64, 28);
    let seen = Seen {
        src,
        dst,
        proto: 17,
        icmp: None,
        number: 0,
        quote: None,
        is_spoilt: false,
        side: None,
        tcp_flags: 0,
        said: Said::default(),
        spoken: None,
        tags: vec![],
        bytes,
        ip_bytes,
    };
    let packets = vec![Packet { frame, shape: Shape::Whole, meaning: Ok(seen) }; 640];
    let check = MarkVerification::Sampled { first: 4, one_in: 64 };
    // Some NICs refuse the rule.
    let stats = (0..9).map(|nic| marked_outcome(&case, &packets, nic, check, false).1);
    let good = stats.filter(|stats| stats.counted > 300 && stats.checked >= 4).count();
    assert!(good >= 3, "{good}");
}

/// The first of what is otherwise.
fn difference(one: &Outcome, other: &Outcome) -> String {
    let records = one.records.iter().zip(&other.records).find(|(one, other)| one != other);
    let verdict = one.verdicts.iter().zip(&other.verdicts).position(|(one, other)| one != other);
    format!("{records:#?}\nverdict {verdict:?}\n{:?}\n{:?}", one.stats, other.stats)
}

/// An engine with room for one flow that requests for rules at once, and how its marks are made.
fn of_one_flow() -> (Engine, MarkLayout) {
    of_one_slot(1)
}

/// An engine with room for `capacity` connections of each IP version, of which one may have rules
/// at a time.
pub(super) fn of_one_slot(capacity: u32) -> (Engine, MarkLayout) {
    of_timeouts(capacity, Timeouts::SHORT)
}

fn of_timeouts(capacity: u32, timeouts: Timeouts) -> (Engine, MarkLayout) {
    let check = MarkVerification::Sampled { first: 0, one_in: u32::MAX };
    of_check(capacity, timeouts, check)
}

fn of_check(capacity: u32, timeouts: Timeouts, check: MarkVerification) -> (Engine, MarkLayout) {
    let layout = MarkLayout::new(32, 2).unwrap();
    let admission = OffloadPolicy::After { packets: 1 };
    let offload = OffloadConfig {
        layout,
        first_index: 0,
        slots: 1,
        check,
        admission,
        rules_max: 8,
        zone_rules_max: None,
        chooses_marks: false,
        bypass: [BypassConfig::OFF; 2],
    };
    let (capacity_ipv4, capacity_ipv6) = (capacity, capacity);
    let offload = Some(offload);
    let evict = Evict::Nothing;
    let config =
        Config { capacity_ipv4, capacity_ipv6, offload, timeouts, evict, ..Config::default() };
    (Engine::new(&config), layout)
}

/// Nothing is left in the receive queues.
pub(super) fn drain(engine: &mut Engine) {
    engine.queue_drained(Side::A);
    engine.queue_drained(Side::B);
    engine.recheck_rules(0, 8);
}

/// Does what is wished; the mark of the rule that was asked for, if one was.
fn obey(engine: &mut Engine, layout: MarkLayout) -> Option<u32> {
    let mut mark = None;
    drain(engine);
    while let Some(request) = engine.next_request() {
        match request {
            RuleRequest::Install { rule, .. } => {
                mark = Some(layout.encode(rule));
                engine.apply_result(rule, RuleResult::Installed { pace: 1000, took: 100 });
            }
            RuleRequest::Remove { rule, .. } => engine.apply_result(rule, RuleResult::Removed),
        }
    }
    mark
}

fn tcp_frame(host: u8, flags: u8) -> Vec<u8> {
    FrameBuilder::ipv4([10, 0, 0, host], [10, 9, 9, 9]).tcp(1, 80).flags(flags).pad().build()
}

pub(super) fn arrive(engine: &mut Engine, now: u64, packets: &[(&[u8], Option<u32>)]) {
    let packets: Vec<_> =
        packets.iter().map(|(frame, mark)| BytesPacket::new(frame).marked(*mark)).collect();
    engine.process(now, &packets, &mut [Verdict::Forward; BURST_MAX]);
}

#[test]
fn a_mark_of_an_earlier_generation_is_nobodys() {
    let (mut engine, layout) = of_one_flow();
    let [a, b, c] = [1, 2, 3].map(|host| tcp_frame(host, tcp::ACK));
    arrive(&mut engine, 0, &[(&a, None)]);
    let old = obey(&mut engine, layout);
    engine.flush(usize::MAX);
    obey(&mut engine, layout);
    arrive(&mut engine, 1, &[(&b, None)]);
    let new = obey(&mut engine, layout);
    assert!(old.is_some() && new.is_some() && old != new);
    // The first of a rule has its place among the others of its burst.
    arrive(&mut engine, 2, &[(&b, new)]);
    assert_eq!((engine.mark_stats().unusual, engine.mark_stats().checked), (1, 1));
    // One that is right, and one of another flow, for which there is no room.
    arrive(&mut engine, 2, &[(&b, new), (&c, old)]);
    let stats = engine.mark_stats();
    assert_eq!((stats.stale, stats.counted, engine.stats().tracked), (1, 1, 4));
}

#[test]
fn a_mark_is_not_enough_where_another_flow_may_begin() {
    let (mut engine, layout) = of_one_flow();
    let [ack, rst, syn] = [tcp::ACK, tcp::RST, tcp::SYN].map(|flags| tcp_frame(1, flags));
    arrive(&mut engine, 0, &[(&ack, None)]);
    let mark = obey(&mut engine, layout);
    arrive(&mut engine, 1, &[(&rst, None)]);
    // The NIC missed the SYN: what is behind it is the new flow's all the same.
    arrive(&mut engine, 2, &[(&syn, None), (&ack, mark)]);
    let ended = engine.next_record().expect("the one that was reset");
    assert_eq!((ended.orig.packets, ended.end_reason), (2, EndReason::Reuse));
}

/// The one slot is of the one record, or of whichever comes.
#[test]
fn an_index_is_not_used_again_while_a_packet_may_have_its_last_mark() {
    for capacity in [1, 2] {
        let (mut engine, layout) = of_one_slot(capacity);
        let [a, b] = [1, 2].map(|host| tcp_frame(host, tcp::ACK));
        arrive(&mut engine, 0, &[(&a, None)]);
        let old = obey(&mut engine, layout);
        engine.flush(usize::MAX);
        let Some(RuleRequest::Remove { rule, .. }) = engine.next_request() else {
            panic!("the flow ended")
        };
        assert_eq!(Some(layout.encode(rule)), old);
        // Every 64th packet would be reason enough, were the one slot free.
        let next_rule = |engine: &mut Engine| {
            (0..64).for_each(|_| arrive(engine, 1, &[(&b, None)]));
            engine.recheck_rules(1, 8);
            engine.next_request()
        };
        drain(&mut engine);
        assert_eq!(next_rule(&mut engine), None, "the NIC may have it");
        engine.apply_result(rule, RuleResult::Removed);
        assert_eq!(next_rule(&mut engine), None, "packets may be in the queues");
        engine.queue_drained(Side::A);
        assert_eq!(next_rule(&mut engine), None, "those of the other side");
        engine.queue_drained(Side::B);
        let Some(RuleRequest::Install { rule, .. }) = next_rule(&mut engine) else {
            panic!("a free slot")
        };
        assert_ne!(Some(layout.encode(rule)), old);
    }
}

#[test]
fn queues_that_are_never_empty_are_drained_by_what_comes_out_of_them() {
    let (mut engine, layout) = of_one_flow();
    let [a, b] = [1, 2].map(|host| tcp_frame(host, tcp::ACK));
    arrive(&mut engine, 0, &[(&a, None)]);
    obey(&mut engine, layout);
    engine.flush(usize::MAX);
    let Some(RuleRequest::Remove { rule, .. }) = engine.next_request() else {
        panic!("the flow ended")
    };
    engine.apply_result(rule, RuleResult::Removed);
    let burst = vec![BytesPacket::new(&b); BURST_MAX];
    let process = |engine: &mut Engine, side, bursts| {
        for _ in 0..bursts {
            engine.process_from(side, 1, &burst, &mut [Verdict::Forward; BURST_MAX]);
            engine.recheck_rules(1, 8);
        }
        engine.next_request()
    };
    assert_eq!(process(&mut engine, Side::A, (1 << 15) / BURST_MAX), None);
    assert_eq!(process(&mut engine, Side::B, (1 << 15) / BURST_MAX - 1), None);
    assert!(matches!(process(&mut engine, Side::B, 2), Some(RuleRequest::Install { .. })));
}

#[test]
fn a_mark_is_not_enough_where_any_packet_changes_the_state() {
    let timeouts = Timeouts { tcp_syn_recv: 1_000_000_000, ..Timeouts::SHORT };
    let (mut engine, layout) = of_timeouts(1, timeouts);
    let ack = tcp_frame(1, tcp::ACK);
    let answer = FrameBuilder::ipv4([10, 0, 0, 1], [10, 9, 9, 9]).tcp(1, 80).reversed();
    let answer = answer.flags(tcp::SYN | tcp::ACK).pad().build();
    arrive(&mut engine, 0, &[(&ack, None)]);
    let mark = obey(&mut engine, layout);
    // Believed from the second one on.
    (1..4).for_each(|now| arrive(&mut engine, now, &[(&ack, mark)]));
    // A connection that was picked up turns out to be one that begins, and is confirmed.
    arrive(&mut engine, 4, &[(&answer, None)]);
    arrive(&mut engine, 5, &[(&ack, mark)]);
    engine.expire(2_000_000_000, BURST_MAX);
    assert_eq!(engine.next_record(), None, "confirmed by a packet with a mark");
}

#[test]
fn a_mark_that_was_not_read_is_no_miss_of_its_rule() {
    let (mut engine, layout) = of_check(2, Timeouts::SHORT, MarkVerification::Always);
    let [a, b] = [1, 2]
        .map(|host| FrameBuilder::ipv4([10, 0, 0, host], [10, 9, 9, 9]).udp(1, 53).pad().build());
    arrive(&mut engine, 0, &[(&a, None)]);
    let mark = obey(&mut engine, layout);
    (1..4).for_each(|now| arrive(&mut engine, now, &[(&a, mark)]));
    // Every mark is compared in order, so a packet behind one without a mark is looked up.
    for _ in 0..512 {
        arrive(&mut engine, 500_000_000, &[(&b, None), (&a, mark)]);
    }
    let rules = engine.offload_stats();
    assert_eq!((rules.effective, rules.lost_effect), (1, 0));
    for _ in 0..512 {
        arrive(&mut engine, 500_000_000, &[(&b, None), (&a, None)]);
    }
    assert_eq!(engine.offload_stats().lost_effect, 1);
}

/// No rule matches fragments.
#[test]
fn fragments_of_tcp_are_no_misses_of_its_rule() {
    let (mut engine, layout) = of_timeouts(2, Timeouts::SHORT);
    let ack = tcp_frame(1, tcp::ACK);
    arrive(&mut engine, 0, &[(&ack, None)]);
    let mark = obey(&mut engine, layout);
    (1..4).for_each(|now| arrive(&mut engine, now, &[(&ack, mark)]));
    for id in 0..512 {
        let whole = FrameBuilder::ipv4([10, 0, 0, 1], [10, 9, 9, 9]).tcp(1, 80).flags(tcp::ACK);
        let parts = whole.payload([0; 1400]).ip_id(id).fragments(1000);
        let [first, second] = [0, 1].map(|part| parts[part].build());
        arrive(&mut engine, 500_000_000, &[(&first, None), (&second, None)]);
    }
    assert_eq!(engine.stats().tracked, 4 + 1024);
    let rules = engine.offload_stats();
    assert_eq!((rules.effective, rules.lost_effect), (1, 0));
}
