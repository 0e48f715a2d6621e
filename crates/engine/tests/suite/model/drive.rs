// SPDX-License-Identifier: BSD-3-Clause
//! One random operation after the other, on the engine and on the model.

use super::reference::{Model, Record};
use super::traffic::{self, Packet, Pools, Rng, VLANS};
use engine::{
    BURST_MAX, ChecksumCheck, Config, CtState, Cursor, EndpointMatch, Engine, Evict,
    FragmentLimits, InvalidPackets, MalformedPackets, NeighbourDiscovery, RestoreOutcome, Side,
    Stats, TcpPickup, TcpWindowCheck, Timeouts, Tracking, Verdict, WhenFull, ZonePolicies,
    ZonePolicy, ZoneRule, ZoneSource,
};
use std::sync::Arc;
use wire::{BytesPacket, FrameBuilder};

/// A tick of the timer wheel, nanoseconds.
pub(crate) const TICK: u64 = 8_192_000;

/// Secrets below this are those where sources have limits. They are counted by a hash, and with one
/// secret in some thousand a source shares both of its counts with others, of which the model knows
/// nothing.
const SECRETS: u64 = 4;

/// What one run is made of, from random bits.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) config: Config,
    pub(crate) pools: Pools,
    pub(crate) start: u64,
    pub(crate) burst: usize,
    /// Steps of time are multiples of this.
    grid: u64,
}

impl Case {
    /// All times fall on ticks: when a flow ends is exact.
    pub(crate) fn on_ticks(bits: [u64; 3]) -> Self {
        Self::new(bits, TICK)
    }

    /// Times as they come: a flow may end up to a tick late.
    pub(crate) fn off_ticks(bits: [u64; 3]) -> Self {
        Self::new(bits, 1)
    }

    fn new([a, b, secret]: [u64; 3], grid: u64) -> Self {
        let mut dice = Rng(a);
        // Few enough that the table is a bucket or two, and holds what it says whatever the hash.
        let capacities = [1000, 1, 2, 3, 7, 14];
        let config = Config {
            capacity_ipv4: dice.pick(&capacities),
            capacity_ipv6: dice.pick(&capacities),
            when_full: dice.pick(&[WhenFull::PassUntracked, WhenFull::Drop]),
            malformed: dice.pick(&[MalformedPackets::Pass, MalformedPackets::Drop]),
            tcp: dice.pick(&[
                TcpWindowCheck::Strict,
                TcpWindowCheck::Strict,
                TcpWindowCheck::Liberal,
            ]),
            invalid: dice.pick(&[InvalidPackets::Pass, InvalidPackets::Drop]),
            checksums: dice.pick(&[ChecksumCheck::Verified, ChecksumCheck::Trusted]),
            has_all_packets: dice.pick(&[true, false]),
            zone: dice.pick(&[
                ZoneSource::OuterVlan,
                ZoneSource::None,
                ZoneSource::InnerVlan,
                ZoneSource::Fixed(9),
            ]),
            timeouts: any_timeouts(b, grid),
            neighbour_discovery: [NeighbourDiscovery::Untracked, NeighbourDiscovery::Tracked]
                [(b % 2) as usize],
            pick_up: dice.pick(&[TcpPickup::Loose, TcpPickup::Loose, TcpPickup::Strict]),
            embryonic_percent: dice.pick(&[100, 100, 50, 25, 1]),
            evict: dice.pick(&[Evict::Embryonic, Evict::Nothing]),
            tracking: dice.pick(&[Tracking::Connections, Tracking::Connections, Tracking::Flows]),
            source_max: dice.pick(&[None, None, Some(1), Some(5)]),
            new_per_second: dice.pick(&[None, None, Some(0), Some(9), Some(200)]),
            // Of these packets none has another fragment of its datagram.
            fragments: FragmentLimits { datagrams: 0, ..FragmentLimits::default() },
            ..Config::default()
        };
        let secret = if config.source_max.is_some() { secret % SECRETS } else { secret };
        let config = Config {
            zones: any_zones(&mut dice, &config, grid),
            zone_rules: any_rules(&mut dice, [80, 443], VLANS[0]),
            secret: [secret, secret.rotate_left(17)],
            ..config
        };
        let pools = Pools {
            hosts: 1 + dice.below(6) as usize,
            ports: 1 + dice.below(5) as usize,
            vlans: 1 + dice.below(4) as usize,
            is_sctp: dice.one_in(4),
        };
        // A restart takes several packets of one association that fit together.
        let pools = match pools.is_sctp && dice.one_in(2) {
            true => Pools { hosts: 2, ports: 1, vlans: 1, ..pools },
            false => pools,
        };
        let burst = dice.pick(&[1, 7, 32, 64]);
        let epochs = [0, 1_700_000_000_000_000_000, 1 << 61, 123_456_789_012_345];
        Case { config, pools, start: dice.pick(&epochs) / grid * grid, burst, grid }
    }

    /// How much later than its deadline a flow may end.
    fn slack(&self) -> u64 {
        if self.grid == TICK { 0 } else { TICK }
    }
}

/// Other policies of some zones.
fn any_zones(dice: &mut Rng, config: &Config, grid: u64) -> Vec<(Vec<u16>, ZonePolicy)> {
    let zones = [&[0][..], &VLANS[..2], &VLANS, &[9, 0]];
    let mut policy = |_| {
        let policy = ZonePolicy {
            tracking: dice.pick(&[config.tracking, config.tracking, Tracking::Off]),
            timeouts: any_timeouts(dice.below(u64::MAX), grid),
            tcp: dice.pick(&[TcpWindowCheck::Strict, TcpWindowCheck::Liberal]),
            pick_up: dice.pick(&[TcpPickup::Loose, TcpPickup::Strict]),
            connections_max: dice.pick(&[None, Some(0), Some(2), Some(9)]),
            when_full: dice.pick(&[WhenFull::PassUntracked, WhenFull::Drop, config.when_full]),
        };
        (dice.pick(&zones).to_vec(), policy)
    };
    let count = [0, 0, 1, 3][(config.capacity_ipv4 + config.capacity_ipv6) as usize % 4];
    (0..count).map(&mut policy).collect()
}

/// What puts some packets into other zones, most of which others are in as well: by these ports,
/// and the zone that this tag makes.
pub(crate) fn any_rules(dice: &mut Rng, [a, b]: [u16; 2], tag: u16) -> Vec<ZoneRule> {
    let nets = ["10.0.0.0/30", "10.0.0.1", "0.0.0.0/0", "2001:db8::/126", "::/0"];
    let end = |dice: &mut Rng| EndpointMatch {
        address: dice.pick(&nets).parse().ok().filter(|_| dice.one_in(3)),
        port: dice.pick(&[None, None, None, Some(a), Some(b)]),
    };
    let count = dice.pick(&[0, 0, 1, 3]);
    let rule = |_| {
        let (end, peer) = (end(dice), end(dice));
        let from = dice.pick(&[None, None, Some(0), Some(tag), Some(9)]);
        let proto = dice.pick(&[None, None, None, Some(6), Some(17), Some(1)]);
        ZoneRule { from, proto, end, peer, zone: dice.pick(&[0, tag, 9, 700]) }
    };
    (0..count).map(rule).collect()
}

fn any_timeouts(bits: u64, grid: u64) -> Timeouts {
    let mut dice = Rng(bits);
    let mut any = || dice.pick(&[600, 400, 0, 1, 3, 255, 256, 70_000]) * TICK / grid * grid;
    Timeouts {
        tcp_syn_sent: any(),
        tcp_syn_recv: any(),
        tcp_established: any(),
        tcp_fin_wait: any(),
        tcp_time_wait: any(),
        tcp_close: any(),
        udp_first: any(),
        udp_single: any(),
        udp_multiple: any(),
        icmp_first: any(),
        icmp_reply: any(),
        sctp_init: any(),
        sctp_cookie: any(),
        sctp_established: any(),
        sctp_shutdown: any(),
        sctp_closed: any(),
        sctp_heartbeat: any(),
        other_first: any(),
        other_multiple: any(),
        flow_first: any(),
        flow_multiple: any(),
    }
}

/// Runs the operations on both; panics where they differ.
pub(crate) fn agree(case: Case, operations: &[u64]) {
    let mut pair = Pair {
        engine: Engine::new(&case.config),
        model: Model::new(&case.config),
        now: case.start,
        bursts: 0,
        waiting: vec![],
        case,
    };
    for &operation in operations {
        pair.apply(Rng(operation));
    }
    pair.burst();
    pair.flush(usize::MAX);
    assert_eq!(pair.engine.stats().active(), 0);
}

/// Engine and model side by side.
struct Pair {
    case: Case,
    engine: Engine,
    model: Model,
    now: u64,
    bursts: u64,
    waiting: Vec<Packet>,
}

impl Pair {
    fn apply(&mut self, mut dice: Rng) {
        let what = dice.below(64);
        if what < 54 {
            self.waiting.push(Packet::new(&mut dice, self.case.pools));
            if self.waiting.len() == self.case.burst {
                self.burst();
            }
            return;
        }
        self.burst();
        match what {
            54..=56 => self.step(dice.below(4) * TICK + dice.below(TICK)),
            57 => self.step(dice.below(300) * TICK),
            58 => self.step(dice.below(5) << dice.below(50)),
            59 => self.now = self.now.saturating_sub(dice.below(10) * TICK),
            60 => self.expire(usize::MAX),
            61 => {
                let talks = [traffic::talk, traffic::dialogue];
                for packet in dice.pick(&talks)(&mut dice, self.case.pools) {
                    self.waiting.push(packet);
                    if self.waiting.len() == self.case.burst {
                        self.burst();
                    }
                }
                self.burst();
            }
            62 if dice.one_in(3) => self.reload(dice),
            62 => self.expire(dice.below(5) as usize),
            _ if dice.one_in(4) => self.flush(1 + dice.below(4) as usize),
            _ if dice.one_in(3) => self.restart(1 + dice.below(9) as u32),
            _ => self.expire(usize::MAX),
        }
        assert_eq!(without_cycles(self.engine.stats()), self.model.stats);
    }

    fn step(&mut self, by: u64) {
        self.now += by / self.case.grid * self.case.grid;
    }

    fn burst(&mut self) {
        let packets: Vec<_> = self.waiting.iter().map(Packet::bytes).collect();
        let mut verdicts = [Verdict::Forward; BURST_MAX];
        let mut states = [CtState::NEW; BURST_MAX];
        // Whether anybody asks for states changes nothing.
        let are_told = self.now / TICK % 2 == 0;
        self.bursts += 1;
        let side = match self.bursts % 3 {
            _ if are_told => None,
            0 => None,
            1 => Some(Side::A),
            _ => Some(Side::B),
        };
        match side {
            None if are_told => {
                let states = &mut states[..packets.len()];
                self.engine.process_with_states(self.now, &packets, &mut verdicts, states);
            }
            None => self.engine.process(self.now, &packets, &mut verdicts),
            Some(side) => self.engine.process_from(side, self.now, &packets, &mut verdicts),
        }
        self.model.at(self.now);
        self.model.stats.bytes +=
            packets.iter().map(|packet| wire::Packet::frame_len(packet) as u64).sum::<u64>();
        let mut reused = vec![];
        for ((packet, verdict), state) in self.waiting.iter().zip(verdicts).zip(states) {
            let mut meaning = packet.meaning.clone();
            if let Ok(seen) = &mut meaning {
                seen.side = side;
                seen.spoken.iter_mut().for_each(|spoken| spoken.side = side);
            }
            let (expected, ended) = self.model.packet(&meaning);
            assert_eq!(verdict, expected, "{packet:?}");
            assert!(!are_told || state == self.model.state, "{state} {packet:?}");
            reused.extend(ended);
        }
        assert_eq!(taken(&mut self.engine), sorted(reused));
        self.waiting.clear();
    }

    fn expire(&mut self, budget: usize) {
        self.model.at(self.now);
        loop {
            let looked_at = self.engine.expire(self.now, budget);
            assert!(looked_at <= budget);
            let ended = taken(&mut self.engine);
            // No record waited, so that it stopped short of its budget means that nothing is due.
            let is_done = looked_at == 0 && budget > 0;
            self.model.expired(&ended, is_done, self.case.slack());
            if is_done || budget < usize::MAX {
                return;
            }
        }
    }

    /// Another engine goes on with what this one has saved.
    fn restart(&mut self, budget: u32) {
        self.model.at(self.now);
        let secret = next_secret(self.case.config.secret);
        let mut next = Engine::new(&Config { secret, ..self.case.config.clone() });
        let (mut cursor, mut flows) = (Cursor::default(), vec![]);
        while self.engine.save(&mut cursor, budget, &mut |flow| flows.push(flow)) {}
        let now = self.model.now();
        next.expire(now, 0);
        let mut became = [0, 0];
        for flow in flows {
            match next.restore(&flow, now) {
                RestoreOutcome::Known => became[0] += 1,
                RestoreOutcome::Expired => became[1] += 1,
                RestoreOutcome::Refused => panic!("{flow:?}"),
            }
        }
        self.engine = next;
        assert_eq!(self.model.restart(), (became[0], became[1]));
    }

    /// Something else holds in zones from now on.
    fn reload(&mut self, mut dice: Rng) {
        self.engine.expire(self.now, 0);
        let (config, grid) = (&self.case.config, self.case.grid);
        let config = Config {
            tcp: dice.pick(&[TcpWindowCheck::Strict, TcpWindowCheck::Liberal]),
            timeouts: any_timeouts(dice.below(u64::MAX), grid),
            when_full: dice.pick(&[WhenFull::PassUntracked, WhenFull::Drop]),
            pick_up: dice.pick(&[TcpPickup::Loose, TcpPickup::Loose, TcpPickup::Strict]),
            ..config.clone()
        };
        let config = Config { zones: any_zones(&mut dice, &config, grid), ..config };
        drop(self.engine.set_zones(Arc::new(ZonePolicies::new(&config))));
        let (mut cursor, mut retimed) = (Cursor::default(), 0);
        while self.engine.review(&mut cursor, 1 + dice.below(9) as u32, &mut retimed) {}
        assert!(retimed <= self.engine.stats().active());
        self.model.at(self.now);
        self.model.reload(&config);
        self.case.config = config;
    }

    fn flush(&mut self, budget: usize) {
        let mut ended = vec![];
        while self.engine.flush(budget) {
            ended.extend(taken(&mut self.engine));
        }
        ended.extend(taken(&mut self.engine));
        self.model.flushed(&ended);
        assert_eq!(without_cycles(self.engine.stats()), self.model.stats);
    }
}

/// The secret behind a restart.
fn next_secret(secret: [u64; 2]) -> [u64; 2] {
    secret.map(u64::reverse_bits)
}

/// The records that wait, sorted: their order among flows is not part of the promise.
pub(crate) fn taken(engine: &mut Engine) -> Vec<Record> {
    sorted(std::iter::from_fn(|| engine.next_record()).map(|flow| Record::from(&flow)).collect())
}

pub(crate) fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort();
    records
}

/// The counters that depend on packets alone, not on the sampling of bursts.
pub(crate) fn without_cycles(stats: &Stats) -> Stats {
    Stats {
        stage_cycles: Default::default(),
        stage_readings: Default::default(),
        sampled_packets: 0,
        ..stats.clone()
    }
}

/// With the secrets that are drawn where sources have limits, no source of this traffic shares both
/// of its counts, whatever others are there: then a limit is as exact as the model says.
#[test]
fn no_source_is_counted_with_others() {
    let mut sources: Vec<_> =
        VLANS.iter().flat_map(|vlan| traffic::sources().map(|source| (*vlan, source))).collect();
    let secrets = (0..SECRETS).map(|secret| [secret, secret.rotate_left(17)]);
    for secret in secrets.flat_map(|secret| [secret, next_secret(secret)]) {
        let config = Config {
            capacity_ipv4: 100,
            capacity_ipv6: 100,
            source_max: Some(1),
            secret,
            ..Config::default()
        };
        for _ in 0..sources.len() {
            sources.rotate_left(1);
            let mut engine = Engine::new(&config);
            let frames = sources.iter().map(|(vlan, source)| {
                FrameBuilder::ip(*source, *source).vlan(*vlan).udp(1, 2).build()
            });
            let frames: Vec<_> = frames.collect();
            let packets: Vec<_> = frames.iter().map(|frame| BytesPacket::new(frame)).collect();
            engine.process(0, &packets, &mut [Verdict::Forward; BURST_MAX]);
            assert_eq!(engine.stats().active(), sources.len() as u64, "{secret:?} {sources:?}");
        }
    }
}
