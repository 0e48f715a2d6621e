// SPDX-License-Identifier: BSD-3-Clause
//! A NIC that forwards by itself changes nothing but who counts: what it took from the worker's
//! eyes is in the records all the same, whatever comes between its counts.

use engine::{
    BypassAfter, BypassConfig, BypassCount, Config, Cursor, Engine, Filter, FiveTuple, FlowRecord,
    FragmentLimits, MarkLayout, MarkVerification, OffloadConfig, OffloadPolicy, Query, RuleAction,
    RuleId, RuleRequest, RuleResult, RuleState, Side, SweepProgress, Timeouts, Tracking, Verdict,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use wire::{BytesPacket, FrameBuilder, proto};

const MS: u64 = 1_000_000;
/// Packets of a direction from which on the NIC may have it.
const RELEASED: u32 = 5;
const LINK_LAYER: u64 = 14;

/// One of both ends of a connection: its number, and 0 for who began it.
type Sender = (u8, usize);
/// Packets, frame bytes, IP bytes.
type Sums = BTreeMap<Sender, [u64; 3]>;

/// What the NIC has a rule for.
struct Rule {
    id: RuleId,
    action: RuleAction,
    /// Not told yet.
    counted: BypassCount,
}

/// A NIC that does what it is asked for when it likes.
#[derive(Default)]
struct Nic {
    rules: HashMap<FiveTuple, Rule>,
    waiting: Vec<RuleRequest>,
    /// It refuses to forward by itself.
    is_stubborn: bool,
}

struct World {
    engine: Engine,
    layout: MarkLayout,
    nic: Nic,
    now: u64,
    /// When nothing was left to do.
    worked: u64,
    sent: Sums,
    recorded: Sums,
    tcp_bypasses: u32,
}

impl World {
    fn new(is_stubborn: bool, admission: OffloadPolicy, tracking: Tracking) -> Self {
        let slots = 16;
        let layout = MarkLayout::new(32, OffloadConfig::indices(slots)).unwrap();
        let offload = OffloadConfig {
            layout,
            first_index: 0,
            slots,
            check: MarkVerification::Sampled { first: 2, one_in: 7 },
            admission,
            rules_max: 64,
            zone_rules_max: None,
            chooses_marks: false,
            bypass: [BypassConfig { udp: BypassAfter::Packets(RELEASED), tcp: BypassAfter::Never };
                2],
        };
        let config = Config {
            capacity_ipv4: 64,
            capacity_ipv6: 64,
            offload: Some(offload),
            tracking,
            timeouts: Timeouts::SHORT,
            fragments: FragmentLimits { hold: 0, ..FragmentLimits::default() },
            ..Config::default()
        };
        Self {
            engine: Engine::new(&config),
            layout,
            nic: Nic { is_stubborn, ..Nic::default() },
            now: MS,
            worked: MS,
            sent: Sums::new(),
            recorded: Sums::new(),
            tcp_bypasses: 0,
        }
    }

    /// A packet arrives at the NIC.
    fn send(&mut self, (connection, end): Sender, payload: usize) {
        let frame = frame(connection, end, payload);
        let bytes = frame.len() as u64;
        let sum = self.sent.entry((connection, end)).or_default();
        add(sum, [1, bytes, bytes - LINK_LAYER]);
        let rule = self.nic.rules.get_mut(&tuple(connection, end));
        let mark = match rule {
            Some(Rule { action: RuleAction::Bypass, counted, .. }) => {
                counted.packets += 1;
                counted.bytes += bytes;
                return;
            }
            Some(Rule { id, .. }) => Some(self.layout.encode(*id)),
            None => None,
        };
        self.arrive(end, &[frame], mark);
    }

    /// Some packets come to the worker.
    fn arrive(&mut self, end: usize, frames: &[Vec<u8>], mark: Option<u32>) {
        let packets = frames.iter().map(|frame| BytesPacket::new(frame).marked(mark));
        let side = if end == 0 { Side::A } else { Side::B };
        let mut verdicts = vec![Verdict::Drop; frames.len()];
        self.engine.process_from(side, self.now, &packets.collect::<Vec<_>>(), &mut verdicts);
    }

    /// A datagram arrives in two parts, behind a part of another one that is lost. No rule is for
    /// them.
    fn send_in_parts(&mut self, (connection, end): Sender, id: u32) {
        let parts = |id| builder(connection, end, 1400).ip_id(id).fragments(1000);
        let mut frames = vec![parts(1 << 15 | id)[1].build()];
        for part in parts(id) {
            let frame = part.build();
            let bytes = frame.len() as u64;
            let sum = self.sent.entry((connection, end)).or_default();
            add(sum, [1, bytes, bytes - LINK_LAYER]);
            frames.push(frame);
        }
        self.arrive(end, &frames, None);
    }

    /// The NIC hears the requests, and does the first `most` that wait.
    fn work(&mut self, most: usize) {
        while let Some(request) = self.engine.next_request() {
            self.nic.waiting.push(request);
        }
        for _ in 0..most.min(self.nic.waiting.len()) {
            match self.nic.waiting.remove(0) {
                RuleRequest::Install { rule, tuple, action, .. } => {
                    self.install(rule, tuple, action)
                }
                RuleRequest::Remove { rule, .. } => self.remove(rule),
            }
        }
    }

    fn install(&mut self, id: RuleId, tuple: FiveTuple, action: RuleAction) {
        if action == RuleAction::Bypass && self.nic.is_stubborn {
            return self.engine.apply_result(id, RuleResult::Refused);
        }
        self.tcp_bypasses += u32::from(action == RuleAction::Bypass && tuple.proto != proto::UDP);
        let rule = Rule { id, action, counted: BypassCount::default() };
        assert!(self.nic.rules.insert(tuple, rule).is_none(), "one rule at a time");
        self.engine.apply_result(id, RuleResult::Installed { pace: 1000, took: 100 });
    }

    fn remove(&mut self, id: RuleId) {
        self.tell(id);
        self.nic.rules.retain(|_, rule| rule.id != id);
        self.engine.apply_result(id, RuleResult::Removed);
    }

    /// What is to go does so within two seconds.
    fn wait(&mut self, span: u64) {
        if self.now + span - self.worked > 1_000 * MS {
            self.work(usize::MAX);
            self.worked = self.now + span;
        }
        self.now += span;
    }

    /// What a rule has counted since the last time.
    fn tell(&mut self, id: RuleId) {
        let Some(rule) = self.nic.rules.values_mut().find(|rule| rule.id == id) else { return };
        let counted = std::mem::take(&mut rule.counted);
        if counted.packets > 0 {
            self.engine.apply_result(id, RuleResult::Passed(counted));
        }
    }

    fn tell_all(&mut self) {
        let rules: Vec<_> = self.nic.rules.values().map(|rule| rule.id).collect();
        rules.into_iter().for_each(|id| self.tell(id));
    }

    fn take_records(&mut self) {
        while let Some(record) = self.engine.next_record() {
            let FlowRecord { src, orig, reply, .. } = record;
            let (connection, end) = sender(src);
            for (end, tally) in [(end, orig), (1 - end, reply)] {
                let sum = self.recorded.entry((connection, end)).or_default();
                add(sum, [tally.packets, tally.bytes, tally.ip_bytes]);
            }
        }
        self.recorded.retain(|_, sum| *sum != [0; 3]);
    }

    fn end(&mut self) {
        self.engine.withdraw_bypass();
        while self.engine.bypasses() > 0 {
            self.work(1);
            assert!(self.engine.bypasses() == 0 || !self.nic.waiting.is_empty(), "nobody is asked");
        }
        while self.engine.flush(100) {
            self.take_records();
        }
        self.take_records();
    }
}

fn add(sum: &mut [u64; 3], more: [u64; 3]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// Some are of IPv6, and the last ones TCP.
fn address(connection: u8, end: usize) -> IpAddr {
    let end = end as u8;
    match connection % 2 {
        0 => IpAddr::from([10, end, 0, connection]),
        _ => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, end.into(), connection.into()]),
    }
}

fn sender(address: IpAddr) -> Sender {
    match address {
        IpAddr::V4(address) => (address.octets()[3], address.octets()[1].into()),
        IpAddr::V6(address) => (address.segments()[7] as u8, address.segments()[6].into()),
    }
}

const CONNECTIONS: u8 = 6;
const PORTS: [u16; 2] = [1000, 53];

fn is_tcp(connection: u8) -> bool {
    connection >= CONNECTIONS - 2
}

fn frame(connection: u8, end: usize, payload: usize) -> Vec<u8> {
    builder(connection, end, payload).build()
}

fn builder(connection: u8, end: usize, payload: usize) -> FrameBuilder {
    let ends = [0, 1].map(|end| address(connection, end));
    let there = FrameBuilder::ip(ends[0], ends[1]);
    let [a, b] = PORTS;
    let there = if is_tcp(connection) { there.tcp(a, b) } else { there.udp(a, b) };
    let frame = if end == 0 { there } else { there.reversed() };
    frame.payload(vec![0; payload])
}

fn tuple(connection: u8, end: usize) -> FiveTuple {
    let [src, dst] = [end, 1 - end].map(|end| address(connection, end));
    let [sport, dport] = if end == 0 { PORTS } else { [PORTS[1], PORTS[0]] };
    let proto = if is_tcp(connection) { proto::TCP } else { proto::UDP };
    FiveTuple { src, dst, proto, sport, dport, zone: 0 }
}

#[derive(Clone, Debug)]
enum Step {
    /// So many packets of this length.
    Send(Sender, u8, usize),
    Work(usize),
    Tell,
    /// Not for so long that anybody's time is over.
    Wait(u64),
    /// For longer.
    Silence,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sender = (0..CONNECTIONS, 0..2_usize);
    let step = prop_oneof![
        8 => (sender, 1..90_u8, 20..1400_usize).prop_map(|(s, n, len)| Step::Send(s, n, len)),
        4 => (0..4_usize).prop_map(Step::Work),
        2 => Just(Step::Tell),
        2 => (1..500 * MS).prop_map(Step::Wait),
        1 => Just(Step::Silence),
    ];
    prop::collection::vec(step, 1..200)
}

fn play(world: &mut World, steps: &[Step]) {
    for step in steps {
        match *step {
            Step::Send(sender, count, len) => (0..count).for_each(|_| world.send(sender, len)),
            Step::Work(most) => world.work(most),
            Step::Tell => world.tell_all(),
            Step::Wait(span) => world.wait(span),
            Step::Silence => world.wait(6_000 * MS),
        }
        world.engine.expire(world.now, 100);
        world.engine.recheck_rules(world.now, 100);
        world.engine.queue_drained(Side::A);
        world.engine.queue_drained(Side::B);
        world.take_records();
    }
}

proptest! {
    #[test]
    fn what_the_nic_forwards_is_in_the_records(
        steps in steps(),
        is_stubborn in prop::bool::weighted(0.1),
        admission in prop::sample::select(vec![
            OffloadPolicy::After { packets: 1 },
            OffloadPolicy::After { packets: 20 },
            OffloadPolicy::Measured { least: 2 },
        ]),
        tracking in prop::sample::select(vec![Tracking::Connections, Tracking::Flows]),
    ) {
        let mut world = World::new(is_stubborn, admission, tracking);
        play(&mut world, &steps);
        world.end();
        prop_assert_eq!(&world.recorded, &world.sent);
        let rules = world.engine.offload_stats();
        let all: u64 = world.sent.values().map(|sum| sum[0]).sum();
        prop_assert_eq!(world.engine.stats().tracked + rules.passed.packets, all);
        prop_assert_eq!((rules.unsettled, world.tcp_bypasses), (0, 0));
        prop_assert!(!is_stubborn || rules.bypasses == 0);
    }
}

/// Both directions of connection 0 are the NIC's.
fn bypassed() -> World {
    bypassed_with(Tracking::Connections)
}

fn bypassed_with(tracking: Tracking) -> World {
    let mut world = World::new(false, OffloadPolicy::After { packets: 1 }, tracking);
    for _ in 0..4 {
        (0..2).for_each(|end| (0..64).for_each(|_| world.send((0, end), 20)));
        world.work(usize::MAX);
        world.engine.queue_drained(Side::A);
        world.engine.queue_drained(Side::B);
        world.engine.recheck_rules(world.now, 100);
    }
    assert_eq!(world.engine.bypasses(), 2);
    world
}

#[test]
fn a_flow_lives_by_what_the_nic_counts() {
    let mut world = bypassed();
    let tracked = world.engine.stats().tracked;
    for _ in 0..100 {
        world.now += 4_000 * MS;
        (0..2).for_each(|end| world.send((0, end), 20));
        world.tell_all();
        world.engine.expire(world.now, 100);
    }
    assert_eq!((world.engine.stats().active(), world.engine.bypasses()), (1, 2));
    assert_eq!(world.engine.stats().tracked, tracked, "none has come to the worker");
    let all: u64 = world.sent.values().map(|sum| sum[0]).sum();
    assert_eq!(world.engine.offload_stats().passed.packets, all - tracked);
    let query = Query { has_rules: true, with_rules: true, ..Query::default() };
    let mut hits = 0;
    world.engine.list(&query, &mut Cursor::default(), u32::MAX, &mut |flow| {
        for view in flow.rules.expect("asked for") {
            assert_eq!((view.state, view.reason), (RuleState::Bypassed, None));
            hits += view.hits;
        }
    });
    assert_eq!(hits, all - tracked);
}

#[test]
fn udp_without_states_is_bypassed_too() {
    let mut world = bypassed_with(Tracking::Flows);
    (0..2).for_each(|end| (0..100).for_each(|_| world.send((0, end), 20)));
    world.tell_all();
    world.end();
    assert_eq!(world.recorded, world.sent);
}

#[test]
fn a_flow_whose_time_is_over_waits_for_its_last_packets() {
    let mut world = bypassed();
    world.tell_all();
    (0..1000).for_each(|_| world.send((0, 0), 20));
    // Nobody reads the counters in time.
    world.now += 6_000 * MS;
    world.engine.expire(world.now, 100);
    assert_eq!(world.engine.stats().active(), 1, "its rules are asked to go first");
    world.work(usize::MAX);
    world.now += 100 * MS;
    world.engine.expire(world.now, 100);
    assert_eq!(world.engine.stats().active(), 1, "its packets were no silence");
    world.now += 6_000 * MS;
    world.engine.expire(world.now, 100);
    world.take_records();
    assert_eq!((world.engine.stats().active(), world.engine.bypasses()), (0, 0));
    assert_eq!(world.recorded, world.sent);
}

#[test]
fn a_sweep_waits_for_what_the_nic_has_counted() {
    let mut world = bypassed();
    world.tell_all();
    world.now += 10 * MS;
    world.engine.expire(world.now, 0);
    (0..1000).for_each(|_| world.send((0, 0), 20));
    let (filter, mut cursor) = (Filter::default(), Cursor::default());
    let held = SweepProgress { held: 1, ..SweepProgress::default() };
    assert_eq!(world.engine.sweep(&filter, &mut cursor, 100), held);
    assert_eq!(world.engine.sweep(&filter, &mut cursor.again(), 100), held, "it is asked to go");
    world.work(usize::MAX);
    let ended = SweepProgress { ended: 1, ..SweepProgress::default() };
    assert_eq!(world.engine.sweep(&filter, &mut cursor.again(), 100), ended);
    world.take_records();
    assert_eq!(world.recorded, world.sent);
    assert_eq!(world.engine.offload_stats().unsettled, 0);
}

#[test]
fn a_rule_that_does_not_go_holds_its_flow_for_two_seconds() {
    let mut world = bypassed();
    for (wait, active) in [(6_000, 1), (1_000, 1), (1_500, 0)] {
        world.now += wait * MS;
        world.engine.expire(world.now, 100);
        assert_eq!(world.engine.stats().active(), active, "{wait}");
    }
    assert_eq!(world.engine.offload_stats().unsettled, 2);
    // What comes later is nobody's.
    world.tell_all();
    assert_eq!(world.engine.offload_stats().passed.packets, 0);
}

#[test]
fn packets_that_come_past_a_rule_end_it() {
    let mut world = bypassed();
    world.tell_all();
    // The NIC has forgotten it.
    world.nic.rules.clear();
    world.now += 1_000 * MS;
    (0..4 * 64).for_each(|_| world.send((0, 0), 20));
    world.work(usize::MAX);
    assert_eq!(world.engine.offload_stats().lost_effect, 1);
    // From now on it has marks.
    (0..2 * 64).for_each(|_| world.send((0, 0), 20));
    world.work(usize::MAX);
    let actions: Vec<_> = world.nic.rules.values().map(|rule| rule.action).collect();
    assert_eq!(actions, [RuleAction::Mark]);
}

#[test]
fn fragments_come_past_no_rule() {
    let mut world = bypassed();
    world.tell_all();
    world.now += 1_000 * MS;
    for id in 0..256 {
        world.send_in_parts((0, 0), id);
        // Looks are at packets of both places.
        world.send_in_parts((0, 1), id);
        if id % 64 == 0 {
            let frame = frame(0, 1, 20);
            let bytes = frame.len() as u64;
            let sum = world.sent.get_mut(&(0, 1)).unwrap();
            add(sum, [1, bytes, bytes - LINK_LAYER]);
            world.arrive(1, &[frame], None);
        }
    }
    world.work(usize::MAX);
    let rules = world.engine.offload_stats();
    assert_eq!((rules.lost_effect, rules.ineffective, world.engine.bypasses()), (0, 0, 2));
    world.end();
    assert_eq!(world.recorded, world.sent);
}

/// Fragments are worth no rule, and what came whole before keeps its own.
#[test]
fn fragments_are_missed_by_no_mark() {
    let mut world = World::new(true, OffloadPolicy::After { packets: 20 }, Tracking::Connections);
    (0..256).for_each(|id| world.send_in_parts((0, 0), id));
    world.work(usize::MAX);
    assert!(world.nic.rules.is_empty());
    (0..1024).for_each(|_| world.send((0, 0), 20));
    world.work(usize::MAX);
    assert_eq!(world.nic.rules.len(), 1);
    (0..64).for_each(|_| world.send((0, 0), 20));
    world.now += 1_000 * MS;
    (0..256).for_each(|id| world.send_in_parts((0, 0), id));
    world.work(usize::MAX);
    let rules = world.engine.offload_stats();
    assert_eq!((rules.effective, rules.lost_effect, rules.ineffective), (1, 0, 0));
    world.end();
    assert_eq!(world.recorded, world.sent);
}

#[test]
fn counts_of_any_size_are_counted() {
    let mut world = bypassed();
    let tuple = tuple(0, 0);
    // More than the low words of counters have room for.
    for packets in [1, 32_767, 32_768, 3_000_000_000] {
        let frame = frame(0, 0, 1000).len() as u64;
        let counted = BypassCount { packets, bytes: packets * frame };
        let ip_bytes = packets * (frame - LINK_LAYER);
        add(world.sent.get_mut(&(0, 0)).unwrap(), [packets, counted.bytes, ip_bytes]);
        let rule = world.nic.rules.get_mut(&tuple).unwrap();
        rule.counted.packets += counted.packets;
        rule.counted.bytes += counted.bytes;
        world.tell_all();
    }
    world.end();
    assert_eq!(world.recorded, world.sent);
}
