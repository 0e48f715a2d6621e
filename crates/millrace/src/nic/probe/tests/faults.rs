// SPDX-License-Identifier: BSD-3-Clause
//! NICs that do not do what they say, ports without a peer, calls that hang, people who lose
//! patience.

use super::super::subject::{Age, Answer, Delivery, RuleId, Tally};
use super::super::watched::{Watch, Watched};
use super::*;
use std::sync::mpsc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No packet has a mark.
    NoMark,
    /// The mark has 16 bits.
    ShortMark,
    /// `create` refuses what `validate` takes.
    OnlyValidate,
    /// Rules are taken, and no packet hits them.
    Phantom,
    /// Every fourth `destroy` fails.
    Undeletable,
    /// Nothing comes in by the peer.
    NoWire,
}

/// The ideal NIC with a fault.
struct Faulty {
    model: Model,
    fault: Fault,
    destroyed: u32,
}

fn faulty(fault: Fault) -> Faulty {
    Faulty { model: Model::new(named("ideal"), QUEUES), fault, destroyed: 0 }
}

fn no_words() -> Refused {
    let errno = Some(Errno::EIO);
    Refused { errno, kind: twin::Kind::None, place: None, message: None }
}

impl Subject for Faulty {
    fn queues(&self) -> u16 {
        self.model.queues()
    }

    fn has_wire(&self) -> bool {
        self.fault != Fault::NoWire
    }

    fn validate(&mut self, question: &Question) -> Answer {
        self.model.validate(question)
    }

    fn create(&mut self, question: &Question) -> Result<RuleId, Refused> {
        let has_sctp = question.items.iter().any(|item| item.proto == Proto::Sctp);
        match self.fault {
            Fault::OnlyValidate if has_sctp => Err(no_words()),
            _ => self.model.create(question),
        }
    }

    fn destroy(&mut self, rule: RuleId) -> Answer {
        self.destroyed += 1;
        let fails = self.fault == Fault::Undeletable && self.destroyed % 4 == 0;
        if fails { Err(no_words()) } else { self.model.destroy(rule) }
    }

    fn flush(&mut self) -> Answer {
        self.model.flush()
    }

    fn query(&mut self, rule: RuleId) -> Result<Tally, Refused> {
        self.model.query(rule)
    }

    fn query_age(&mut self, rule: RuleId) -> Result<Age, Refused> {
        self.model.query_age(rule)
    }

    fn aged(&mut self) -> Result<Vec<RuleId>, Refused> {
        self.model.aged()
    }

    fn isolate(&mut self, isolate: bool) -> Answer {
        self.model.isolate(isolate)
    }

    fn knows_dead_rules(&self) -> bool {
        true
    }

    fn set_started(&mut self, is_started: bool) -> bool {
        self.model.set_started(is_started)
    }

    fn deliver(&mut self, frame: &[u8]) -> Option<Delivery> {
        let hit = self.model.deliver(frame);
        match (self.fault, hit) {
            (Fault::NoMark, Some(hit)) => Some(Delivery { mark: None, ..hit }),
            (Fault::ShortMark, Some(hit)) => {
                Some(Delivery { mark: hit.mark.map(|mark| mark & 0xffff), ..hit })
            }
            (Fault::Phantom, _) => Some(Delivery { mark: None, flag: false, queue: 0 }),
            (_, hit) => hit,
        }
    }

    fn now_us(&self) -> u64 {
        self.model.now_us()
    }

    fn wait_us(&mut self, us: u64) {
        self.model.wait_us(us);
    }
}

fn found(fault: Fault) -> (Found, Faulty) {
    let mut faulty = faulty(fault);
    let never = AtomicBool::new(false);
    let found = probe(&mut faulty, Extent::default(), &mut Nobody, &never);
    assert_eq!(faulty.model.len(), 0, "{fault:?}");
    (found, faulty)
}

#[test]
fn faults_are_found_or_told() {
    let (no_mark, _) = found(Fault::NoMark);
    assert!(no_mark.personality.mark.never_delivered);
    for (fault, words) in [
        (Fault::ShortMark, "mark 65536 arrives with 0"),
        (Fault::OnlyValidate, "validate and create do not say the same"),
        (Fault::Phantom, "no packet was seen to hit a rule"),
        (Fault::NoWire, "no packet was seen to hit a rule"),
    ] {
        let (found, _) = found(fault);
        assert!(found.stopped.is_none(), "{fault:?}: {:?}", found.stopped);
        assert!(found.notes.iter().any(|note| note.contains(words)), "{:#?}", found.notes);
    }
    let (only_validate, _) = found(Fault::OnlyValidate);
    assert!(!only_validate.personality.pattern.headers.contains(&"sctp".to_owned()));
}

#[test]
fn a_rule_that_stays_ends_the_probe() {
    let (found, _) = found(Fault::Undeletable);
    assert!(matches!(found.stopped, Some(Stopped::RuleStays(_))), "{:?}", found.stopped);
    assert!(found.personality.placeholder.is_some());
}

#[test]
fn rules_that_are_late_are_waited_for() {
    let plain = Personality::parse("table = { duplicate = \"last-wins\" }", "plain").unwrap();
    let (effective_after_us, effective_until_us) = (5000, 700);
    let latency = Latency { effective_after_us, effective_until_us, ..Latency::default() };
    let late = Personality { latency, ..plain.clone() };
    let found = probed(&late);
    assert_eq!((found.notes, found.unlike), (vec![], vec![]));
    let Latency { effective_after_us, effective_until_us, .. } = found.personality.latency;
    assert!(is_near(effective_after_us, 5000) && is_near(effective_until_us, 700));
    let found = Personality { latency: Latency::default(), ..found.personality };
    assert_eq!(found, probed(&plain).personality);
}

/// Interrupts the probe at a stage.
struct Impatient<'a>(&'static str, &'a AtomicBool);

impl Watcher for Impatient<'_> {
    fn stage(&mut self, name: &'static str, _: &Personality) {
        if name == self.0 {
            self.1.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn step(&mut self, _: u64, _: u64) {}
}

#[test]
fn an_interrupt_leaves_what_is_known_and_no_rule() {
    for stage in ["operations", "lists of actions", "pairs of rules", "capacity", "stop and start"]
    {
        let interrupted = AtomicBool::new(false);
        let mut model = Model::new(named("x710"), QUEUES);
        let extent = Extent { restart: true, capacity: Some(100) };
        let mut impatient = Impatient(stage, &interrupted);
        let found = probe(&mut model, extent, &mut impatient, &interrupted);
        assert!(matches!(found.stopped, Some(Stopped::Interrupted)), "{stage}");
        assert_eq!(model.len(), 0, "{stage}");
        let knows_chains = !found.personality.chains.is_empty();
        assert_eq!(knows_chains, !["operations", "lists of actions"].contains(&stage), "{stage}");
    }
}

#[test]
fn a_call_that_hangs_is_named_with_what_is_known() {
    let (told, hears) = mpsc::channel();
    let watch = Watch::default();
    watch.know(&named("e810"));
    let guard = watch.begin(Duration::from_millis(1), move |call, draft| {
        told.send((call, draft.name.clone())).unwrap();
    });
    let mut watched = Watched { subject: Hanging(hears, None), watch };
    watched.flush().unwrap();
    drop(guard);
    assert_eq!(watched.subject.1, Some(("rte_flow_flush", "e810".to_owned())));
}

type Told = (&'static str, String);

/// Hangs in `flush` until somebody says so.
struct Hanging(mpsc::Receiver<Told>, Option<Told>);

impl Subject for Hanging {
    fn flush(&mut self) -> Answer {
        self.1 = self.0.recv().ok();
        Ok(())
    }

    fn queues(&self) -> u16 {
        unreachable!()
    }

    fn has_wire(&self) -> bool {
        unreachable!()
    }

    fn validate(&mut self, _: &Question) -> Answer {
        unreachable!()
    }

    fn create(&mut self, _: &Question) -> Result<RuleId, Refused> {
        unreachable!()
    }

    fn destroy(&mut self, _: RuleId) -> Answer {
        unreachable!()
    }

    fn query(&mut self, _: RuleId) -> Result<Tally, Refused> {
        unreachable!()
    }

    fn query_age(&mut self, _: RuleId) -> Result<Age, Refused> {
        unreachable!()
    }

    fn aged(&mut self) -> Result<Vec<RuleId>, Refused> {
        unreachable!()
    }

    fn isolate(&mut self, _: bool) -> Answer {
        unreachable!()
    }

    fn knows_dead_rules(&self) -> bool {
        unreachable!()
    }

    fn set_started(&mut self, _: bool) -> bool {
        unreachable!()
    }

    fn deliver(&mut self, _: &[u8]) -> Option<Delivery> {
        unreachable!()
    }

    fn now_us(&self) -> u64 {
        unreachable!()
    }

    fn wait_us(&mut self, _: u64) {
        unreachable!()
    }
}
