// SPDX-License-Identifier: BSD-3-Clause
//! A worker, a programmer, and a port that forwards by itself: late, refusing, silent about its
//! counters, and reset. What is not in the records is what the port lost, and that is told.

use engine::{
    BypassAfter, BypassConfig, BypassCount, Config, Engine, FiveTuple, MarkLayout,
    MarkVerification, OffloadConfig, OffloadPolicy, Side, Verdict,
};
use offload::{
    CallPacer, Completion, Limits, Next, NicAction, Programmer, Refusal, RefusalClass, RuleNumber,
    RulePort,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::IpAddr;
use testkit::random::Random;
use wire::{BytesPacket, FrameBuilder, proto};

const MS: u64 = 1_000_000;
const LIMITS: Limits = Limits { waiting: 64, quarantine: MS, reading: 100 * MS };
const CONNECTIONS: u8 = 4;

/// A rule of the port, what it has counted, and how much of that somebody knows.
struct Rule {
    tuple: FiveTuple,
    fate: NicAction,
    counted: BypassCount,
    known: u64,
}

/// One in so many goes wrong; 0: none.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    refused: u64,
    silent: u64,
    late: u64,
    stuck: u64,
}

#[derive(Default)]
struct Port {
    rules: HashMap<RuleNumber, Rule>,
    /// To be told now, and later.
    done: [Vec<Completion>; 2],
    faults: Faults,
    random: Random,
    /// Packets of which nobody will ever know.
    lost: u64,
}

impl Port {
    fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.random.one_in(n)
    }

    fn end(&mut self, rule: RuleNumber, result: Result<(), Refusal>) {
        let is_late = self.one_in(self.faults.late);
        self.done[usize::from(is_late)].push(Completion { rule, result });
    }

    fn rule_of(&mut self, tuple: &FiveTuple) -> Option<&mut Rule> {
        // The one that was there first.
        let numbers = self.rules.iter().filter(|(_, rule)| rule.tuple == *tuple);
        let first = *numbers.map(|(number, _)| number).min()?;
        self.rules.get_mut(&first)
    }

    fn reset(&mut self) {
        let unknown = |rule: &Rule| rule.counted.packets - rule.known;
        self.lost += self.rules.drain().map(|(_, rule)| unknown(&rule)).sum::<u64>();
        self.done.iter_mut().for_each(Vec::clear);
    }
}

impl RulePort for Port {
    fn depth(&self) -> usize {
        4
    }

    fn create(&mut self, number: RuleNumber, tuple: &FiveTuple, fate: NicAction) {
        let is_there = self.rule_of(tuple).is_some();
        assert!(!is_there || self.faults.stuck > 0, "one rule at a time");
        if self.one_in(self.faults.refused) {
            let classes = [RefusalClass::Full, RefusalClass::PortError, RefusalClass::Unsuitable];
            let class = self.random.pick(&classes);
            return self.end(number, Err(Refusal { class, words: String::new() }));
        }
        let rule = Rule { tuple: *tuple, fate, counted: BypassCount::default(), known: 0 };
        self.rules.insert(number, rule);
        self.end(number, Ok(()));
    }

    fn destroy(&mut self, number: RuleNumber) {
        if self.one_in(self.faults.stuck) {
            let refusal = Refusal { class: RefusalClass::PortError, words: String::new() };
            return self.end(number, Err(refusal));
        }
        let rule = self.rules.remove(&number).expect("a rule that was made");
        self.lost += rule.counted.packets - rule.known;
        self.end(number, Ok(()));
    }

    fn counted(&mut self, number: RuleNumber) -> Option<BypassCount> {
        if self.one_in(self.faults.silent) {
            return None;
        }
        let rule = self.rules.get_mut(&number).expect("a rule that was made");
        assert_eq!(rule.fate, NicAction::Peer, "others do not count");
        rule.known = rule.counted.packets;
        Some(rule.counted)
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let [now, later] = &mut self.done;
        done.append(now);
        now.append(later);
    }
}

struct World {
    engine: Engine,
    programmer: Programmer<Port>,
    now: u64,
    sent: u64,
    recorded: u64,
}

impl World {
    fn new(faults: Faults, seed: u64) -> Self {
        let slots = 16;
        let layout = MarkLayout::new(32, OffloadConfig::indices(slots)).unwrap();
        let offload = OffloadConfig {
            layout,
            first_index: 0,
            slots,
            check: MarkVerification::Sampled { first: 2, one_in: 7 },
            admission: OffloadPolicy::After { packets: 1 },
            rules_max: 64,
            zone_rules_max: None,
            chooses_marks: false,
            bypass: [BypassConfig { udp: BypassAfter::Packets(3), tcp: BypassAfter::Never }; 2],
        };
        let (capacity_ipv4, capacity_ipv6) = (64, 1);
        let config =
            Config { capacity_ipv4, capacity_ipv6, offload: Some(offload), ..Config::default() };
        let port = Port { faults, random: Random::new(seed), ..Port::default() };
        Self {
            engine: Engine::new(&config),
            programmer: Programmer::new(port, layout, 1, LIMITS, CallPacer::new(256)),
            now: MS,
            sent: 0,
            recorded: 0,
        }
    }

    fn send(&mut self, connection: u8, end: usize) {
        self.sent += 1;
        let frame = frame(connection, end);
        if let Some(rule) = self.programmer.port().rule_of(&tuple(connection, end)) {
            if rule.fate == NicAction::Peer {
                rule.counted.packets += 1;
                rule.counted.bytes += frame.len() as u64;
                return;
            }
        }
        // Marks are not what this is about: the NIC has no effect of them.
        let side = if end == 0 { Side::A } else { Side::B };
        let packet = [BytesPacket::new(&frame)];
        self.engine.process_from(side, self.now, &packet, &mut [Verdict::Drop]);
    }

    /// What a worker and a programmer do beside, for so long.
    fn work(&mut self, span: u64) {
        let until = self.now + span;
        while self.now < until {
            self.engine.queue_drained(Side::A);
            self.engine.queue_drained(Side::B);
            self.engine.expire(self.now, 64);
            self.engine.recheck_rules(self.now, 64);
            while let Some(record) = self.engine.next_record() {
                self.recorded += record.orig.packets + record.reply.packets;
            }
            while let Some(request) = self.engine.next_request() {
                self.programmer.submit(0, request);
            }
            let now = self.now;
            let next = self.programmer.step(&mut || now);
            while let Some((_, rule, answer)) = self.programmer.next_answer() {
                self.engine.apply_result(rule, answer);
            }
            self.now = match next {
                Next::Now => self.now + 1000,
                Next::At(at) => at.clamp(self.now + 1000, self.now + 10 * MS),
                Next::Idle => self.now + 10 * MS,
            };
        }
    }

    fn end(&mut self) {
        self.engine.withdraw_bypass();
        for _ in 0..100 {
            self.work(100 * MS);
        }
        let is_stuck = !self.programmer.leaked().is_empty();
        assert!(self.engine.bypasses() == 0 || is_stuck, "every rule is answered");
        while self.engine.flush(64) {}
        self.work(1);
    }
}

fn ends(connection: u8) -> [[u8; 4]; 2] {
    [[10, 0, 0, connection], [10, 1, 0, connection]]
}

fn frame(connection: u8, end: usize) -> Vec<u8> {
    let [a, b] = ends(connection);
    let there = FrameBuilder::ipv4(a, b).udp(7, 9).pad();
    if end == 0 { there.build() } else { there.reversed().build() }
}

fn tuple(connection: u8, end: usize) -> FiveTuple {
    let ends = ends(connection).map(IpAddr::from);
    let (src, dst) = (ends[end], ends[1 - end]);
    let (sport, dport) = if end == 0 { (7, 9) } else { (9, 7) };
    FiveTuple { src, dst, proto: proto::UDP, sport, dport, zone: 0 }
}

#[derive(Clone, Debug)]
enum Step {
    Send(u8, usize, u8),
    Work(u64),
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let send = (0..CONNECTIONS, 0..2_usize, 1..80_u8);
    let step = prop_oneof![
        10 => send.prop_map(|(connection, end, count)| Step::Send(connection, end, count)),
        10 => (1..300 * MS).prop_map(Step::Work),
        1 => Just(Step::Work(6_000 * MS)),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..120)
}

fn play(world: &mut World, steps: &[Step]) {
    for step in steps {
        match *step {
            Step::Send(connection, end, count) => {
                (0..count).for_each(|_| world.send(connection, end));
            }
            Step::Work(span) => world.work(span),
            Step::Reset => {
                world.programmer.port().reset();
                let now = world.now;
                world.programmer.forget_all_rules(now);
            }
        }
    }
}

proptest! {
    #[test]
    fn only_what_is_reported_is_missing(
        steps in steps(),
        refused in prop::sample::select(vec![0, 3]),
        silent in prop::sample::select(vec![0, 2]),
        late in prop::sample::select(vec![0, 2]),
        stuck in prop::sample::select(vec![0, 0, 5]),
        seed in any::<u64>(),
    ) {
        let mut world = World::new(Faults { refused, silent, late, stuck }, seed);
        play(&mut world, &steps);
        world.end();
        // Those that are stuck forward to the end.
        world.programmer.port().reset();
        let lost = world.programmer.port().lost;
        prop_assert_eq!(world.recorded + lost, world.sent);
        prop_assert!(lost == 0 || world.programmer.counts().uncounted > 0);
        let has_reset = steps.iter().any(|step| matches!(step, Step::Reset));
        prop_assert!(has_reset || silent + stuck > 0 || lost == 0);
        prop_assert!(stuck > 0 || world.engine.offload_stats().unsettled == 0);
    }
}

/// Both directions of a connection that the port forwards.
fn bypassed() -> World {
    let mut world = World::new(Faults::default(), 1);
    for _ in 0..3 {
        (0..64).for_each(|_| (0..2).for_each(|end| world.send(0, end)));
        world.work(10 * MS);
    }
    assert_eq!(world.engine.bypasses(), 2);
    world
}

#[test]
fn counters_are_read_in_time() {
    let mut world = bypassed();
    for _ in 0..200 {
        world.send(0, 0);
        world.work(1_000 * MS);
    }
    assert_eq!((world.engine.stats().active(), world.engine.bypasses()), (1, 2));
    let passed = world.engine.offload_stats().passed.packets;
    assert_eq!(world.engine.stats().tracked + passed, world.sent);
}

#[test]
fn rules_are_made_again_after_a_reset_and_what_is_lost_is_reported() {
    let mut world = bypassed();
    (0..10).for_each(|_| world.send(0, 0));
    play(&mut world, &[Step::Reset, Step::Work(10 * MS)]);
    assert_eq!((world.engine.bypasses(), world.programmer.len()), (2, 2));
    assert_eq!((world.programmer.counts().uncounted, world.programmer.counts().lost), (2, 2));
    (0..10).for_each(|_| world.send(0, 0));
    world.end();
    assert!(world.programmer.port().lost >= 10);
    assert_eq!(world.recorded + world.programmer.port().lost, world.sent);
}
