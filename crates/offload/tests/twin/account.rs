// SPDX-License-Identifier: BSD-3-Clause
//! Whatever the NIC does, every request is answered, and the programmer's account is that of the
//! NIC.

use crate::port::Port;
use engine::{FiveTuple, MarkLayout, RuleAction, RuleId, RuleRequest, RuleResult, Side};
use offload::{CallPacer, Counts, Limits, Next, Programmer};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use twin::{Faults, Nic, Personality};

const WORKERS: u16 = 2;
const LIMITS: Limits = Limits { waiting: 8, quarantine: 1_000_000, reading: 1_000_000 };

/// A programmer, its port, and what its workers know.
struct World {
    programmer: Programmer<Port>,
    now_ns: Rc<Cell<u64>>,
    layout: MarkLayout,
    /// Rules that were wished for, and the last answer.
    known: BTreeMap<u32, (RuleId, u16, Option<RuleResult>)>,
    next: u32,
}

impl World {
    fn new(personality: Personality, faults: &str, seed: u64) -> Self {
        Self::with_depth(personality, faults, seed, 1)
    }

    fn with_depth(personality: Personality, faults: &str, seed: u64, depth: usize) -> Self {
        let faults = Faults::parse(faults, seed).unwrap();
        let mut nic = Nic::with_faults(personality, seed, faults);
        nic.set_queues(WORKERS);
        nic.set_started(true);
        let now_ns = Rc::new(Cell::new(0));
        let port = Port::new(nic, Rc::clone(&now_ns), depth);
        let layout = MarkLayout::new(32, 1 << 16).unwrap();
        let programmer = Programmer::new(port, layout, WORKERS, LIMITS, CallPacer::new(128));
        Self { programmer, now_ns, layout, known: BTreeMap::new(), next: 0 }
    }

    fn install(&mut self, worker: u16, flow: u8) {
        let rule = RuleId { index: self.next, generation: 1, direction: 0 };
        let (src, dst) = (IpAddr::from([10, 0, 0, flow]), IpAddr::from([10, 1, 0, 1]));
        let tuple = FiveTuple { src, dst, proto: 17, sport: 7, dport: 9, zone: 0 };
        self.known.insert(self.next, (rule, worker, None));
        self.next += 1;
        let action = RuleAction::Mark;
        self.programmer.submit(worker, RuleRequest::Install { rule, side: Side::A, tuple, action });
        self.listen();
    }

    /// Whether the NIC did not take a rule.
    fn is_refusal(answer: RuleResult) -> bool {
        matches!(answer, RuleResult::Refused | RuleResult::Full | RuleResult::Postponed)
    }

    /// As a worker does: of a rule that was not refused, and once.
    fn remove(&mut self, number: usize) {
        let wished = |(_, _, answer): &&(RuleId, u16, Option<RuleResult>)| {
            matches!(answer, None | Some(RuleResult::Installed { .. }))
        };
        let rules: Vec<_> = self.known.values().filter(wished).copied().collect();
        let Some((rule, worker, _)) = rules.get(number % rules.len().max(1)) else { return };
        self.known.get_mut(&rule.index).unwrap().2 = Some(RuleResult::Removed);
        self.programmer.submit(*worker, RuleRequest::Remove { rule: *rule, side: Side::A });
    }

    fn step(&mut self) -> Next {
        let now_ns = Rc::clone(&self.now_ns);
        let next = self.programmer.step(&mut || {
            now_ns.set(now_ns.get() + 10);
            now_ns.get()
        });
        self.listen();
        next
    }

    fn listen(&mut self) {
        while let Some((worker, rule, answer)) = self.programmer.next_answer() {
            let (known, of, last) = self.known.get_mut(&rule.index).expect("somebody's rule");
            assert_eq!((*known, *of), (rule, worker));
            match (*last, answer) {
                (None, RuleResult::Installed { .. }) => *last = Some(answer),
                (None, refusal) if Self::is_refusal(refusal) => *last = Some(answer),
                // It was to go meanwhile.
                (Some(RuleResult::Removed), RuleResult::Installed { .. }) => {}
                (Some(RuleResult::Removed), _) => {
                    self.known.remove(&rule.index);
                }
                (last, answer) => panic!("{answer:?} after {last:?}"),
            }
        }
    }

    /// Until there is nothing to do.
    fn rest(&mut self) {
        loop {
            match self.step() {
                Next::Now => {}
                Next::At(at) => self.now_ns.set(at.max(self.now_ns.get())),
                Next::Idle => return,
            }
        }
    }
}

/// A NIC that takes anything, as long as there is room.
fn ideal(room: u32) -> Personality {
    Personality::parse(&format!("table = {{ guaranteed = {room} }}"), "ideal").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Of the faults, those that say what they do, and those that nobody can see.
    #[test]
    fn the_account_is_that_of_the_nic(
        seed: u64,
        faults in prop::sample::select(vec![
            "", "undeletable:0.2", "create-refused:0.3", "full-early", "latency-cliff:0.1",
            "undeletable:0.1+create-refused:0.1+late-activation:0.1",
        ]),
        room in prop::sample::select(vec![u32::MAX, 3, 9]),
        depth in prop::sample::select(vec![1, 2, 64]),
        operations in prop::collection::vec((0..40_u8, any::<u8>()), 1..400),
    ) {
        let mut world = World::with_depth(ideal(room), faults, seed, depth);
        for (what, number) in operations {
            match what {
                0..=14 => world.install(u16::from(number % 2), number % 16),
                15..=24 => world.remove(number.into()),
                25..=29 => world.now_ns.set(world.now_ns.get() + 10_000 * u64::from(number)),
                // A NIC that does not part with rules keeps them then, too.
                30 if !faults.contains("undeletable") => reset(&mut world),
                _ => _ = world.step(),
            }
        }
        world.rest();
        let there = world.programmer.len() + world.programmer.leaked().len();
        prop_assert_eq!(there, world.programmer.port().nic.len());
        let is_there =
            |answer: &Option<RuleResult>| matches!(answer, Some(RuleResult::Installed { .. }));
        while world.known.values().any(|(.., answer)| is_there(answer)) {
            world.remove(0);
            world.rest();
        }
        let stuck = world.programmer.leaked().len();
        prop_assert!(world.programmer.is_empty());
        prop_assert_eq!(stuck, world.programmer.port().nic.len());
        let answers = world.known.values().map(|(.., answer)| *answer);
        let open = answers.filter(|answer| !answer.is_some_and(World::is_refusal)).count();
        prop_assert!(open <= stuck, "only of rules that are stuck nobody hears");
        let Counts { created, destroyed, lost, .. } = world.programmer.counts();
        prop_assert_eq!(created, destroyed + lost + stuck as u64);
    }
}

#[test]
fn a_rule_that_goes_is_reported_after_the_quarantine() {
    for depth in [1, 4] {
        let mut world = World::with_depth(ideal(u32::MAX), "", 1, depth);
        world.install(0, 1);
        world.rest();
        world.remove(0);
        // From its result, not from when it was asked for.
        let mut gone = 0;
        while !world.programmer.is_empty() {
            gone = world.now_ns.get();
            if let Next::At(at) = world.step() {
                world.now_ns.set(at);
            }
        }
        let until = match world.step() {
            Next::At(until) => until,
            next => panic!("{next:?}"),
        };
        assert!(until >= gone + LIMITS.quarantine && world.known.len() == 1);
        world.now_ns.set(until);
        world.step();
        assert!(world.known.is_empty());
    }
}

#[test]
fn packets_get_the_mark_that_was_wished_for() {
    let mut world = World::new(Personality::named("x710").unwrap(), "", 1);
    world.install(1, 5);
    world.rest();
    let frame = [
        &[0; 12][..],
        &[8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 5, 10, 1, 0, 1],
        &[0, 7, 0, 9, 0, 8, 0, 0],
    ];
    let frame = frame.concat();
    let now_us = world.now_ns.get() / 1000;
    let nic = &world.programmer.port().nic;
    let verdict = nic.classify(&frame, frame.len() as u32, now_us);
    let mark = world.layout.encode(world.known[&0].0);
    assert_eq!((verdict.mark, verdict.queue), (Some(mark), 1));
}

/// Connections that follow each other on the same ports do so faster than rules go.
#[test]
fn a_new_rule_takes_the_place_of_the_old_one_of_the_same_packets() {
    let mut world = World::new(ideal(u32::MAX), "", 1);
    world.install(0, 1);
    world.rest();
    world.install(0, 1);
    world.rest();
    let answers: Vec<_> = world.known.values().map(|(.., answer)| *answer).collect();
    assert!(matches!(
        answers[..],
        [Some(RuleResult::Installed { .. }), Some(RuleResult::Installed { .. })]
    ));
    assert_eq!((world.programmer.len(), world.programmer.port().nic.len()), (1, 1));
    world.remove(0);
    world.rest();
    assert_eq!(world.known.len(), 1, "the old one is gone when its worker asks");
    assert_eq!(world.programmer.len(), 1);
}

#[test]
fn nobody_hears_that_a_rule_is_gone_that_is_stuck() {
    let mut world = World::new(ideal(u32::MAX), "undeletable", 1);
    world.install(0, 1);
    world.rest();
    world.install(0, 1);
    world.rest();
    assert_eq!(world.programmer.leaked().len(), 1);
    world.remove(0);
    world.rest();
    let answers: Vec<_> = world.known.values().map(|(.., answer)| *answer).collect();
    assert_eq!(
        answers,
        [Some(RuleResult::Removed), Some(RuleResult::Postponed)],
        "the first still waits"
    );
}

#[test]
fn in_the_end_all_rules_go_a_few_at_a_time() {
    let mut world = World::new(ideal(u32::MAX), "", 1);
    for flow in 0..LIMITS.waiting as u8 {
        assert!(world.programmer.has_room(0) && world.programmer.has_room(1));
        world.install(0, flow);
    }
    assert!(!world.programmer.has_room(0) && world.programmer.has_room(1));
    world.rest();
    let mut clock = || 0;
    assert_eq!(world.programmer.clear(5, &mut clock), LIMITS.waiting - 5);
    assert_eq!(world.programmer.port().nic.len(), LIMITS.waiting - 5);
    assert_eq!(world.programmer.clear(5, &mut clock), 0);
    assert_eq!(world.programmer.port().nic.len(), 0);
    assert_eq!(world.programmer.counts().destroyed, LIMITS.waiting as u64);
}

/// With results that come later, as many rules are on their way as the port has room for; none is
/// there, and none is gone, before its result says so.
#[test]
fn a_rule_is_what_its_result_says() {
    let mut world = World::with_depth(ideal(u32::MAX), "", 1, 4);
    (0..6).for_each(|flow| world.install(0, flow));
    assert_eq!(world.step(), Next::Now);
    assert!(matches!(world.step(), Next::At(_)), "four are on their way, two wait for results");
    assert_eq!((world.programmer.len(), world.programmer.port().on_their_way()), (0, 4));
    // One that is on its way, and one that is not.
    [0, 4].into_iter().for_each(|number| world.remove(number));
    assert_eq!(world.programmer.counts().withdrawn, 1);
    world.rest();
    assert_eq!((world.programmer.len(), world.programmer.port().nic.len()), (4, 4));
    assert_eq!((world.known.len(), world.programmer.counts().created), (4, 5));
    assert_eq!(world.programmer.clear(3, &mut || 0), 4, "asked to go is not gone");
    assert_eq!(world.programmer.len(), 4);
    while world.programmer.clear(3, &mut || world.now_ns.get()) > 0 {
        world.now_ns.set(world.now_ns.get() + 50_000);
    }
    assert!(world.programmer.port().nic.is_empty());
    assert_eq!(world.programmer.counts().destroyed, 5);
}

/// Each takes the place of the one before it, which may not even have come.
#[test]
fn packets_never_have_two_rules_on_their_way() {
    let mut world = World::with_depth(ideal(u32::MAX), "", 1, 8);
    (0..3).for_each(|_| world.install(0, 1));
    world.step();
    assert_eq!(world.programmer.port().on_their_way(), 1);
    world.rest();
    let answers: Vec<_> = world.known.values().map(|(.., answer)| answer.unwrap()).collect();
    let [RuleResult::Installed { .. }, RuleResult::Postponed, RuleResult::Installed { .. }] =
        answers[..]
    else {
        panic!("{answers:?}");
    };
    assert_eq!((world.programmer.len(), world.programmer.port().nic.len()), (1, 1));
}

#[test]
fn what_was_on_its_way_at_a_reset_is_asked_for_again() {
    let mut world = World::with_depth(ideal(u32::MAX), "", 1, 8);
    (0..3).for_each(|flow| world.install(0, flow));
    world.rest();
    (3..6).for_each(|flow| world.install(0, flow));
    world.remove(0);
    world.step();
    // One comes, and has no successor yet.
    world.install(0, 3);
    world.step();
    world.remove(3);
    reset(&mut world);
    assert_eq!(world.programmer.counts().lost, 3);
    world.rest();
    assert_eq!((world.programmer.len(), world.programmer.port().nic.len()), (4, 4));
    assert_eq!(world.known.len(), 5 - 1 + 1, "two were not wanted any more");
}

/// The NIC forgets all; handles of before name nothing any more.
fn reset(world: &mut World) {
    let nic = &mut world.programmer.port().nic;
    nic.flush().unwrap();
    nic.set_started(false);
    nic.set_started(true);
    world.programmer.port().forget();
    world.programmer.forget_rules();
    assert_eq!((world.programmer.len(), world.programmer.port().nic.len()), (0, 0));
}

#[test]
fn rules_that_were_lost_come_back() {
    let mut world = World::new(ideal(u32::MAX), "", 1);
    (0..5).for_each(|flow| world.install(u16::from(flow % 2), flow));
    world.rest();
    reset(&mut world);
    // Before its turn came, this one is not wanted any more.
    world.remove(0);
    // Another connection has the packets of this one.
    world.install(0, 1);
    world.rest();
    assert_eq!((world.programmer.len(), world.programmer.port().nic.len()), (4, 4));
    let Counts { created, destroyed, lost, .. } = world.programmer.counts();
    assert_eq!((created, destroyed, lost), (5 + 4 + 1, 1, 5));
    while world
        .known
        .values()
        .any(|(.., answer)| matches!(answer, Some(RuleResult::Installed { .. })))
    {
        world.remove(0);
        world.rest();
    }
    assert!(world.known.is_empty() && world.programmer.port().nic.is_empty());
}

/// The NIC has no rule of any kind any more, whatever it refused to part with.
#[test]
fn a_reset_parts_with_rules_that_were_stuck() {
    let mut world = World::new(ideal(u32::MAX), "undeletable", 1);
    (0..3).for_each(|flow| world.install(0, flow));
    world.rest();
    // Its worker waits; that of the next does not know yet.
    world.remove(0);
    world.install(1, 1);
    world.rest();
    assert_eq!(world.programmer.leaked().len(), 2);
    let nic = &mut world.programmer.port().nic;
    assert!(nic.bring_back());
    world.programmer.port().forget();
    world.programmer.forget_all_rules(world.now_ns.get());
    world.rest();
    assert!(world.programmer.leaked().is_empty());
    assert_eq!((world.programmer.len(), world.programmer.port().nic.len()), (1, 1));
    assert_eq!(world.known.len(), 3, "one of four is gone");
    let Counts { created, lost, .. } = world.programmer.counts();
    assert_eq!((created, lost), (4, 3));
    world.remove(0);
    world.rest();
    assert_eq!(world.known.len(), 2, "it was gone when its worker asked");
}

#[test]
fn what_a_nic_does_not_take_again_is_forgotten() {
    let mut world = World::new(ideal(u32::MAX), "", 1);
    (0..5).for_each(|flow| world.install(0, flow));
    world.rest();
    reset(&mut world);
    let (seed, room) = (1, ideal(2));
    world.programmer.port().nic = Nic::new(room, seed);
    world.programmer.port().nic.set_started(true);
    world.rest();
    assert_eq!((world.programmer.len(), world.programmer.counts().full), (2, 3));
    (0..5).for_each(|_| world.remove(0));
    world.rest();
    assert!(world.known.is_empty() && world.programmer.port().nic.is_empty());
}

#[test]
fn a_withdrawn_request_is_not_refused_as_well() {
    let mut world = World::new(ideal(1), "", 1);
    world.install(0, 1);
    world.rest();
    (2..5).for_each(|flow| world.install(0, flow));
    // The last one. The NIC is full at the first of the three, and one more waits.
    world.remove(3);
    world.rest();
    let counts = world.programmer.counts();
    assert_eq!((counts.full, counts.withdrawn, counts.resting), (1, 1, 1));
}
