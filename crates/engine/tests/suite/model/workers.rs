// SPDX-License-Identifier: BSD-3-Clause
//! Several engines behind a port that spreads packets are as one that sees them all: what comes to
//! one of them about a connection of another goes there.

use super::drive::{Case, sorted, taken};
use super::fragments::any_fragment;
use super::reference::Record;
use super::traffic::{Packet, Rng};
use engine::{
    Config, Engine, FragmentLimits, Handoff, InvalidPackets, Side, Stats, SteeringConfig,
    SteeringMismatch, UntrackedReason, Verdict,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::rss::{RssFields, RssSpread};
use wire::{BytesPacket, FrameBuilder};

const MS: u64 = 1_000_000;
const WORKERS: usize = 3;

/// The NIC: a hash over addresses, and ports if it is no fragment and has some. Source and
/// destination may change places: they are added up.
struct Nic {
    key: Vec<u8>,
    table: Vec<u16>,
}

impl Nic {
    fn new(dice: &mut Rng) -> Self {
        // Repeats every 16 bits; no hash is missing.
        let pattern = dice.pick(&[0x6d5b_u16, 0x1f37, 0xa40b]).to_be_bytes();
        let key = pattern.into_iter().cycle().take(40).collect();
        let table = (0..128).map(|entry| entry % WORKERS as u16).collect();
        Nic { key, table }
    }

    /// As it describes itself.
    fn spread(&self) -> Arc<RssSpread> {
        let all = RssFields { tcp: true, udp: true, sctp: true, addresses: true };
        let (key, workers) = (self.key.clone(), self.table.clone());
        Arc::new(RssSpread::new(&key, workers, [all; 2]))
    }

    /// For each of so many workers.
    fn steerings(&self, workers: u16) -> impl Iterator<Item = SteeringConfig> {
        let (spread, mismatch) = (self.spread(), SteeringMismatch::default());
        (0..workers).map(move |worker_index| SteeringConfig {
            spread: Arc::clone(&spread),
            worker_index,
            mismatch: mismatch.clone(),
        })
    }

    /// The RSS specification, bit by bit.
    fn hash(&self, input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], i: usize| u32::from(bytes[i / 8] >> (7 - i % 8) & 1);
        let window = |i: usize| (i..i + 32).fold(0, |window, j| window << 1 | bit(&self.key, j));
        let set = (0..input.len() * 8).filter(|&i| bit(input, i) == 1);
        set.fold(0, |hash, i| hash ^ window(i))
    }

    fn worker(&self, frame: &[u8]) -> usize {
        let input = hashed_of(frame).unwrap_or_default();
        self.table[self.hash(&input) as usize % self.table.len()].into()
    }
}

/// Addresses, and ports where there are some; nothing of what is not IP or is cut.
fn hashed_of(frame: &[u8]) -> Option<Vec<u8>> {
    let mut at = 12;
    while [[0x81, 0], [0x88, 0xa8], [0x91, 0]].contains(frame.get(at..)?.first_chunk()?) {
        at += 4;
    }
    let (ether_type, l3) = (frame.get(at..at + 2)?, at + 2);
    let (addresses, proto, l4) = match ether_type {
        [8, 0] => {
            let header = frame.get(l3..l3 + 20)?;
            let is_fragment = u16::from_be_bytes([header[6] & 0x3f, header[7]]) != 0;
            let l4 = (!is_fragment).then_some(l3 + usize::from(header[0] & 15) * 4);
            (&header[12..], header[9], l4)
        }
        [0x86, 0xdd] => {
            let header = frame.get(l3..l3 + 40)?;
            let (proto, l4) = behind_extensions(frame, header[6], l3 + 40)?;
            (&header[8..], proto, l4)
        }
        _ => return None,
    };
    let l4 = l4.filter(|_| [6, 17, 132].contains(&proto));
    let ports = l4.and_then(|l4| frame.get(l4..l4 + 4)).unwrap_or_default();
    Some([addresses, ports].concat())
}

/// The protocol, and where it begins if this is no fragment.
fn behind_extensions(frame: &[u8], first: u8, start: usize) -> Option<(u8, Option<usize>)> {
    let (mut proto, mut at) = (first, start);
    while [0, 43, 44, 51, 60].contains(&proto) {
        let header = frame.get(at..at + 8)?;
        if proto == 44 && [header[2], header[3] & 0xf9] != [0, 0] {
            return Some((header[0], None));
        }
        let units = usize::from(header[1]);
        at += match proto {
            44 => 8,
            51 => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        proto = header[0];
    }
    Some((proto, Some(at)))
}

/// Where everything is as if there were room for all: what is bounded is so for each engine.
fn roomy(config: Config) -> Config {
    let mut config = Config {
        capacity_ipv4: 1000,
        capacity_ipv6: 1000,
        has_all_packets: true,
        embryonic_percent: 100,
        adaptive_percent: None,
        source_max: None,
        new_per_second: None,
        ..config
    };
    config.zones.iter_mut().for_each(|(_, policy)| policy.connections_max = None);
    config
}

/// One engine, and several that know of each other.
struct Both {
    one: Engine,
    several: Vec<Engine>,
    nic: Nic,
    now: u64,
    packets: usize,
    /// Packets that are kept, and their frames, by engine and slot; the first is the one.
    kept: Vec<BTreeMap<u16, (usize, Vec<u8>)>>,
    /// What became of packets in the end, of the one and of the several.
    ends: [BTreeMap<usize, Verdict>; 2],
}

impl Both {
    fn new(config: Config, dice: &mut Rng) -> Self {
        let (config, nic) = (roomy(config), Nic::new(dice));
        let config_of = |steering: SteeringConfig| {
            let of_worker = config.of_worker(steering.worker_index.into());
            Config { has_all_packets: false, steering: Some(steering), ..of_worker }
        };
        let several =
            nic.steerings(WORKERS as u16).map(|steering| Engine::new(&config_of(steering)));
        Both {
            one: Engine::new(&config),
            several: several.collect(),
            nic,
            now: 1 << 40,
            packets: 0,
            kept: vec![BTreeMap::new(); 1 + WORKERS],
            ends: Default::default(),
        }
    }

    fn packet(&mut self, frame: &[u8], packet: BytesPacket) {
        let number = self.packets;
        self.packets += 1;
        let mut verdict = [Verdict::Forward];
        let side = side_of(&packet);
        self.one.process_from(side, self.now, &[&packet], &mut verdict);
        match verdict[0] {
            Verdict::Hold => self.keep(0, number, frame),
            verdict => _ = self.ends[0].insert(number, verdict),
        }
        let me = self.nic.worker(frame);
        self.several[me].process_from(side, self.now, &[&packet], &mut verdict);
        match verdict[0] {
            Verdict::Hold => self.keep(1 + me, number, frame),
            Verdict::Elsewhere => {
                let handoff = self.several[me].handed()[0].handoff;
                self.take_over(number, packet, handoff);
            }
            verdict => _ = self.ends[1].insert(number, verdict),
        }
        self.let_go();
    }

    fn keep(&mut self, at: usize, number: usize, frame: &[u8]) {
        let engine = if at == 0 { &self.one } else { &self.several[at - 1] };
        let held = engine.held()[0];
        self.kept[at].insert(held.slot, (number, frame.to_vec()));
    }

    fn take_over(&mut self, number: usize, packet: BytesPacket, handoff: Handoff) {
        let other = &mut self.several[usize::from(handoff.worker())];
        let mut verdict = [Verdict::Hold];
        let side = side_of(&packet);
        other.process_handoffs((side, self.now), &[packet], &[handoff], &mut verdict);
        assert!(matches!(verdict[0], Verdict::Forward | Verdict::Drop));
        assert!(other.handed().is_empty() && other.held().is_empty());
        self.ends[1].insert(number, verdict[0]);
    }

    fn let_go(&mut self) {
        for at in 0..self.kept.len() {
            loop {
                let engine = if at == 0 { &mut self.one } else { &mut self.several[at - 1] };
                let Some(release) = engine.next_release() else { break };
                let (number, frame) = self.kept[at].remove(&release.slot).expect("it is kept");
                match release.handoff {
                    Some(handoff) => self.take_over(number, BytesPacket::new(&frame), handoff),
                    None => _ = self.ends[at.min(1)].insert(number, release.verdict),
                }
            }
        }
    }

    /// Time goes on; what has ended is the same.
    fn wait(&mut self, time: u64) {
        self.now += time;
        self.one.expire(self.now, 10_000);
        self.several.iter_mut().for_each(|engine| _ = engine.expire(self.now, 10_000));
        self.let_go();
        self.compare();
    }

    fn compare(&mut self) {
        let ended: Vec<Record> = self.several.iter_mut().flat_map(taken).collect();
        assert_eq!(taken(&mut self.one), sorted(ended));
        assert_eq!(self.ends[0], self.ends[1]);
        let sum = self.several.iter().map(Engine::stats).fold([0; 8], |sum, stats| {
            let of = counters(stats);
            std::array::from_fn(|i| sum[i] + of[i])
        });
        assert_eq!(counters(self.one.stats()), sum);
        let of = |counter: fn(&Stats) -> u64| {
            self.several.iter().map(|engine| counter(engine.stats())).sum::<u64>()
        };
        assert_eq!(of(|stats| stats.handed), of(|stats| stats.taken));
        assert_eq!(of(Stats::packets), self.packets as u64 + of(|stats| stats.taken));
    }

    fn finish(mut self) -> u64 {
        self.one.release_all();
        self.several.iter_mut().for_each(Engine::release_all);
        self.let_go();
        let engines = std::iter::once(&mut self.one).chain(&mut self.several);
        engines.for_each(|engine| while engine.flush(1000) {});
        self.compare();
        self.several.iter().map(|engine| engine.stats().taken).sum()
    }
}

/// Where a packet comes in: anywhere, but whoever handles it is told the same.
fn side_of(packet: &BytesPacket) -> Side {
    let mut sum = 0_u8;
    wire::Packet::segments(packet, &mut |bytes| {
        sum = bytes.iter().fold(sum, |sum, byte| sum.wrapping_add(*byte));
    });
    if sum % 2 == 0 { Side::A } else { Side::B }
}

/// What does not depend on who has a packet.
fn counters(stats: &Stats) -> [u64; 8] {
    let weighed = |counters: &[u64]| (1..).zip(counters).map(|(weight, n)| weight * n).sum::<u64>();
    [
        stats.bytes,
        stats.tracked,
        weighed(&stats.passed),
        weighed(&stats.dropped),
        stats.held,
        weighed(&stats.anomalies),
        stats.created,
        weighed(&stats.ended),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Packets of every kind, of which some are ICMP errors and some first fragments.
    #[test]
    fn several_are_as_one(
        bits: [u64; 3],
        operations in prop::collection::vec(any::<u64>(), 1..600),
    ) {
        let case = Case::on_ticks(bits);
        let mut both = Both::new(case.config, &mut Rng(bits[0]));
        for operation in operations {
            let mut dice = Rng(operation);
            if dice.one_in(40) {
                both.wait(dice.below(4000) * MS);
            }
            let packet = Packet::new(&mut dice, case.pools);
            both.packet(&packet.frame, packet.bytes());
        }
        both.finish();
    }

    /// Fragments that come in any order.
    #[test]
    fn several_are_as_one_for_fragments(
        bits: u64,
        operations in prop::collection::vec(any::<u64>(), 1..400),
    ) {
        let mut dice = Rng(bits);
        let none = FragmentLimits { datagrams: 0, ..FragmentLimits::default() };
        let fragments = dice.pick(&[FragmentLimits::default(), FragmentLimits::default(), none]);
        let mut both = Both::new(Config { fragments, ..Config::default() }, &mut dice);
        for operation in operations {
            let mut dice = Rng(operation);
            if dice.one_in(20) {
                both.wait(dice.below(30) * MS);
            }
            let frame = any_fragment(&mut dice);
            both.packet(&frame, BytesPacket::new(&frame));
        }
        both.finish();
    }
}

/// So the tests above have something to say.
#[test]
fn much_goes_to_others() {
    let mut both = Both::new(Config::default(), &mut Rng(9));
    let case = Case::on_ticks([5, 6, 7]);
    for operation in 0..4000_u64 {
        let mut dice = Rng(operation.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let packet = Packet::new(&mut dice, case.pools);
        both.packet(&packet.frame, packet.bytes());
    }
    let taken = both.finish();
    assert!(taken > 100, "{taken}");
}

/// An engine that was told nonsense of its port notices, and keeps what comes.
#[test]
fn a_port_that_spreads_otherwise_is_found_out() {
    let mut dice = Rng(77);
    let nic = Nic::new(&mut dice);
    let steering = nic.steerings(1 + WORKERS as u16).last();
    let config = Config { steering, has_all_packets: false, ..roomy(Config::default()) };
    let mut engine = Engine::new(&config);
    let (mut verdict, mut handed) = ([Verdict::Forward], vec![]);
    for round in 0..4 {
        for i in 0..2000_u64 {
            let mut dice = Rng((round * 2000 + i).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let packet = Packet::new(&mut dice, Case::on_ticks([5, 6, 7]).pools);
            engine.process(1 << 40, &[packet.bytes()], &mut verdict);
            if verdict[0] == Verdict::Elsewhere {
                // The other has no room: it is forwarded as it is.
                assert_eq!(engine.handoff_failed(), Verdict::Forward);
            }
        }
        handed.push(engine.stats().passed[UntrackedReason::WorkerBusy as usize]);
    }
    assert!(handed[0] > 0 && handed[1] == handed[3], "{handed:?}");
    assert_eq!((engine.stats().handed, engine.stats().packets()), (0, 8000));
}

/// Two tags are more than some ports look behind: they give all such packets to the first worker.
/// Errors about them then go to a worker that does not have the connection, and are not dropped
/// where anybody has seen that.
#[test]
fn errors_pass_where_some_packets_come_otherwise() {
    let nic = Nic { key: [0x6d, 0x5b].repeat(20), table: vec![0, 1] };
    let mut steerings = nic.steerings(2);
    let mut engines: [_; 2] = std::array::from_fn(|_| {
        let (steering, invalid) = (steerings.next(), InvalidPackets::Drop);
        Engine::new(&Config {
            steering,
            invalid,
            has_all_packets: false,
            ..roomy(Config::default())
        })
    });
    let packet = |port| FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(port, 53);
    let of_second = |port: &u16| nic.worker(&packet(*port).build()) == 1;
    let packet = packet((1..).find(of_second).expect("half of them are"));
    let quoted = packet.build_packet();
    let error = FrameBuilder::ipv4([10, 0, 0, 9], [10, 0, 0, 1]).icmp_error(3, 4, &quoted);
    let [packet, tagged] = [packet, error.clone()].map(|frame| frame.qinq(100).vlan(5).build());
    let mut hand_over = |frame: &[u8]| {
        let mut verdict = [Verdict::Hold];
        engines[0].process(1 << 40, &[BytesPacket::new(frame)], &mut verdict);
        if verdict == [Verdict::Elsewhere] {
            let handoff = [engines[0].handed()[0].handoff];
            let moment = (Side::A, 1 << 40);
            engines[1].process_handoffs(moment, &[BytesPacket::new(frame)], &handoff, &mut verdict);
        }
        (verdict[0], engines[1].stats().taken)
    };
    // Nothing is known against the port.
    assert_eq!(hand_over(&error.build()), (Verdict::Drop, 1));
    for _ in 0..64 {
        assert_eq!(hand_over(&packet), (Verdict::Forward, 1));
    }
    assert_eq!(hand_over(&tagged), (Verdict::Forward, 2));
    let stats = engines[1].stats();
    let of = |counters: &[u64]| counters[UntrackedReason::Unrelated as usize];
    assert_eq!((of(&stats.passed), of(&stats.dropped)), (1, 1));
}

/// Two engines, of which one gives to the other what is not its own, in bursts of a size.
struct Chain {
    engines: [Engine; 2],
    burst: usize,
    /// Numbers and frames.
    waiting: Vec<(usize, Vec<u8>)>,
    on_the_way: Vec<(usize, Vec<u8>, Handoff)>,
    verdicts: BTreeMap<usize, Verdict>,
}

impl Chain {
    fn new(burst: usize) -> Self {
        let nic = Nic { key: [0x6d, 0x5b].repeat(20), table: vec![0, 1] };
        let mut steerings = nic.steerings(2);
        let engines = std::array::from_fn(|_| {
            // What does not wait has its verdict at once.
            let fragments = FragmentLimits { hold: 0, ..FragmentLimits::default() };
            let steering = steerings.next();
            Engine::new(&Config { steering, fragments, ..roomy(Config::default()) })
        });
        let verdicts = BTreeMap::new();
        Chain { engines, burst, waiting: vec![], on_the_way: vec![], verdicts }
    }

    fn packet(&mut self, number: usize, frame: Vec<u8>) {
        self.waiting.push((number, frame));
        if self.waiting.len() == self.burst {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let packets: Vec<_> = waiting.iter().map(|(_, frame)| BytesPacket::new(frame)).collect();
        let mut verdicts = vec![Verdict::Hold; packets.len()];
        self.engines[0].process(1 << 40, &packets, &mut verdicts);
        let mut handed = self.engines[0].handed().to_vec();
        handed.sort_by_key(|handed| handed.position);
        let away = verdicts.iter().filter(|verdict| **verdict == Verdict::Elsewhere);
        assert_eq!(away.count(), handed.len());
        for ((number, _), verdict) in waiting.iter().zip(verdicts) {
            self.verdicts.insert(*number, verdict);
        }
        for handed in handed {
            let (number, frame) = &waiting[usize::from(handed.position)];
            assert_eq!(self.verdicts[number], Verdict::Elsewhere);
            self.on_the_way.push((*number, frame.clone(), handed.handoff));
        }
    }

    fn arrive(&mut self) {
        for some in self.on_the_way.chunks(self.burst) {
            let packets: Vec<_> =
                some.iter().map(|(_, frame, _)| BytesPacket::new(frame)).collect();
            let handoffs: Vec<_> = some.iter().map(|(_, _, handoff)| *handoff).collect();
            let mut verdicts = vec![Verdict::Hold; some.len()];
            self.engines[1].process_handoffs(
                (Side::B, 1 << 40),
                &packets,
                &handoffs,
                &mut verdicts,
            );
            for ((number, ..), verdict) in some.iter().zip(verdicts) {
                self.verdicts.insert(*number, verdict);
            }
        }
    }

    fn finish(mut self) -> (BTreeMap<usize, Verdict>, [[u64; 8]; 2], Vec<Record>) {
        self.flush();
        self.arrive();
        self.engines.iter_mut().for_each(|engine| while engine.flush(1000) {});
        let records = self.engines.iter_mut().flat_map(taken).collect();
        (self.verdicts, self.engines.map(|engine| counters(engine.stats())), records)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What goes to another, and what it does with that, does not depend on bursts.
    #[test]
    fn bursts_do_not_matter_to_others(
        operations in prop::collection::vec(any::<u64>(), 1..300),
        burst in 2..=64_usize,
    ) {
        let mut chains = [Chain::new(1), Chain::new(burst)];
        for (number, operation) in operations.into_iter().enumerate() {
            let mut dice = Rng(operation);
            let frame = match dice.one_in(2) {
                true => any_fragment(&mut dice),
                false => Packet::new(&mut dice, Case::on_ticks([5, 6, 7]).pools).frame,
            };
            chains.iter_mut().for_each(|chain| chain.packet(number, frame.clone()));
        }
        let [one_by_one, in_bursts] = chains.map(Chain::finish);
        prop_assert_eq!(one_by_one, in_bursts);
    }
}
