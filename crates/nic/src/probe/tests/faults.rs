// SPDX-License-Identifier: BSD-3-Clause
//! Tests the prober with NICs that report success without effect, ports without a peer, calls that
//! hang, and interrupts.

use super::super::flow_queue::{Done, FlowQueue, NoTable};
use super::super::subject::{Age, Answer, Delivery, RuleId, Tally};
use super::super::watched::{Watchdog, WatchedPort};
use super::*;
use std::sync::mpsc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No packet has a mark.
    NoMark,
    /// The mark has 16 bits.
    ShortMark,
    /// `create` refuses rules that `validate` accepts.
    OnlyValidate,
    /// Rules are accepted, but no packet hits them.
    Phantom,
    /// Every fourth `destroy` fails.
    Undeletable,
    /// A rule with TCP flags is not destroyed.
    UndeletableFlags,
    /// Every fourth result of a flow queue is missing.
    NoResult,
    /// The tenth operation of a flow queue is refused.
    ShortQueue,
    /// No packet arrives from the peer.
    NoWire,
    /// The link comes up three seconds after a start.
    SlowLink,
    /// The link does not come up again after a stop.
    LostLink,
    /// The driver's list has lines that are no rules.
    Talkative,
    /// The driver has no list, and no packet arrives from the peer.
    Opaque,
}

/// The ideal NIC with a fault.
struct Faulty {
    model: Model,
    fault: Fault,
    destroyed: u32,
    /// Rules with TCP flags.
    with_flags: Vec<RuleId>,
    /// Time at which the link comes up.
    link_us: u64,
}

fn faulty(fault: Fault) -> Faulty {
    let model = Model::new(named("ideal"), QUEUES);
    Faulty { model, fault, destroyed: 0, with_flags: Vec::new(), link_us: 0 }
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
        !matches!(self.fault, Fault::NoWire | Fault::Opaque)
    }

    fn has_link(&mut self) -> bool {
        self.model.now_us() >= self.link_us
    }

    fn validate(&mut self, question: &RuleProbe) -> Answer {
        self.model.validate(question)
    }

    fn create(&mut self, question: &RuleProbe) -> Result<RuleId, Refused> {
        let has_sctp = question.items.iter().any(|item| item.proto == Proto::Sctp);
        match self.fault {
            Fault::OnlyValidate if has_sctp => Err(no_words()),
            _ => {
                let rule = self.model.create(question)?;
                let flags = Proto::Tcp.field("flags").unwrap();
                let mut masks = question.items.iter().filter(|item| item.proto == Proto::Tcp);
                if masks.any(|item| item.mask[flags.bit / 8] != 0) {
                    self.with_flags.push(rule);
                }
                Ok(rule)
            }
        }
    }

    fn destroy(&mut self, rule: RuleId) -> Answer {
        self.destroyed += 1;
        let fails = match self.fault {
            Fault::Undeletable => self.destroyed % 4 == 0,
            Fault::UndeletableFlags => self.with_flags.contains(&rule),
            _ => false,
        };
        if fails { Err(no_words()) } else { self.model.destroy(rule) }
    }

    fn flush(&mut self) -> Answer {
        self.model.flush()
    }

    fn dump_lines(&mut self) -> Result<usize, Refused> {
        match self.fault {
            Fault::Talkative => self.model.dump_lines().map(|lines| lines + 3),
            Fault::Opaque => Err(no_words()),
            _ => self.model.dump_lines(),
        }
    }

    fn lists_only_rules(&self) -> bool {
        self.fault != Fault::Talkative
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
        self.link_us = match self.fault {
            Fault::SlowLink => self.now_us() + 3_000_000,
            Fault::LostLink => u64::MAX,
            _ => 0,
        };
        self.model.set_started(is_started)
    }

    fn deliver(&mut self, frame: &[u8]) -> Option<Delivery> {
        let hit = self.model.deliver(frame).filter(|_| self.has_link());
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

impl FlowQueue for Faulty {
    fn most_operations(&mut self) -> Result<u32, Refused> {
        self.model.most_operations()
    }

    fn configure(&mut self, operations: u32) -> Answer {
        self.model.configure(operations)
    }

    fn make_table(&mut self, like: &RuleProbe, room: u32) -> Result<(), NoTable> {
        self.model.make_table(like, room)
    }

    fn destroy_table(&mut self) -> Answer {
        self.model.destroy_table()
    }

    fn enqueue_create(&mut self, question: &RuleProbe, number: u64) -> Answer {
        match (self.fault, number) {
            (Fault::ShortQueue, 9) => Err(no_words()),
            _ => self.model.enqueue_create(question, number),
        }
    }

    fn enqueue_destroy(&mut self, number: u64) -> Answer {
        self.model.enqueue_destroy(number)
    }

    fn push(&mut self) -> Answer {
        self.model.push()
    }

    fn pull(&mut self) -> Result<Vec<Done>, Refused> {
        let mut done = self.model.pull()?;
        done.retain(|done| self.fault != Fault::NoResult || done.number % 4 != 0);
        Ok(done)
    }
}

fn found(fault: Fault) -> (Found, Faulty) {
    found_with(fault, Extent::default())
}

fn found_with(fault: Fault, extent: Extent) -> (Found, Faulty) {
    let mut faulty = faulty(fault);
    let found = probe(&mut faulty, extent, &mut Nobody, &AtomicBool::new(false));
    assert_eq!(faulty.model.len(), 0, "{fault:?}");
    (found, faulty)
}

#[test]
fn faults_are_found_or_reported() {
    let (no_mark, _) = found(Fault::NoMark);
    assert!(no_mark.personality.mark.never_delivered);
    for (fault, words) in [
        (Fault::OnlyValidate, "validate and create disagree"),
        (Fault::Phantom, "no packet hit a rule"),
        (Fault::NoWire, "no packet hit a rule"),
    ] {
        let (found, _) = found(fault);
        assert!(found.stopped.is_none(), "{fault:?}: {:?}", found.stopped);
        assert!(found.notes.iter().any(|note| note.contains(words)), "{:#?}", found.notes);
    }
    let (short_mark, _) = found(Fault::ShortMark);
    assert!(short_mark.findings[0].contains("65536 as 0"), "{:?}", short_mark.findings);
    let (phantom, _) = found(Fault::Phantom);
    assert!(phantom.findings[0].contains("no packet hits a rule"));
    let (only_validate, _) = found(Fault::OnlyValidate);
    assert!(!only_validate.personality.pattern.headers.contains(&"sctp".to_owned()));
}

#[test]
fn a_rule_that_stays_ends_the_probe() {
    let (found, _) = found(Fault::Undeletable);
    assert!(found.findings[0].contains("not destroyed"), "{:?}", found.findings);
    assert!(!found.seen.has_stayed(), "a flush took it away");
    assert!(matches!(found.stopped, Some(Stopped::RuleStays(_))), "{:?}", found.stopped);
    assert!(found.personality.placeholder.is_some());
}

/// QEMU's igb takes rules about TCP flags, and does not destroy them.
#[test]
fn a_kind_of_rules_that_stays_is_left_out() {
    let (found, _) = found(Fault::UndeletableFlags);
    assert!(found.stopped.is_none() && found.personality.placeholder.is_none());
    let finding = &found.findings[0];
    for words in ["is not destroyed", "tcp", "the probe went on without such rules"] {
        assert!(finding.contains(words), "{:#?}", found.findings);
    }
    assert!(found.findings.len() <= 8 && !found.seen.has_stayed());
    // Everything else was found out as without the fault.
    let (usual, _) = self::found(Fault::SlowLink);
    assert_eq!(found.personality.actions, usual.personality.actions);
    assert_eq!(found.personality.mark, usual.personality.mark);
    assert_eq!(found.asked, usual.asked);
}

/// Defaults of the personality are no results.
#[test]
fn an_early_end_prints_what_was_asked_only() {
    let facts = PortIdentity {
        port: "0000:01:00.0".to_owned(),
        driver: "net_e1000_igb".to_owned(),
        firmware: None,
        dpdk: "DPDK".to_owned(),
        queues: 1,
        peer: None,
    };
    let printed = |stage| {
        let interrupted = AtomicBool::new(false);
        let mut model = Model::new(named("ideal"), QUEUES);
        let mut impatient = Impatient(stage, &interrupted);
        let found = probe(&mut model, Extent::default(), &mut impatient, &interrupted);
        let mut text = Vec::new();
        print(&mut text, &facts, &found).unwrap();
        (String::from_utf8(text).unwrap(), to_json(&facts, &found))
    };
    let (text, json) = printed("lists of headers");
    for row in ["attributes ", "headers ", "actions ", "marks ", "counters ", "ages "] {
        assert!(!text.lines().any(|line| line.starts_with(row)), "{row}: {text}");
    }
    assert!(
        text.contains("query: not found out") && text.contains("not asked: attributes"),
        "{text}"
    );
    let asked = serde_json::json!(["flow queues", "existing rules", "operations"]);
    assert_eq!((&json["complete"], &json["asked"]), (&serde_json::json!(false), &asked));
    let (text, _) = printed("marks");
    assert!(text.lines().any(|line| line.starts_with("headers ")), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("marks ")), "{text}");
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

/// Packets that are lost while the link comes up do not count as an effect of rules.
#[test]
fn a_link_is_waited_for() {
    let restart = Extent { restart: true, ..Extent::default() };
    let (slow, _) = found_with(Fault::SlowLink, restart);
    assert_eq!((slow.notes, slow.findings), (vec![], vec![]));
    assert_eq!(slow.personality.port.on_stop, OnStop::Keep);
    let (lost, _) = found_with(Fault::LostLink, restart);
    assert_eq!((lost.findings, lost.seen.has_stayed()), (vec![], false));
    assert_eq!(lost.personality.port.on_stop, OnStop::Keep);
    for words in ["the effect of a stop on rules could not be observed", "the link is down"] {
        assert!(lost.notes.iter().any(|note| note.contains(words)), "{:#?}", lost.notes);
    }
}

#[test]
fn a_table_whose_results_do_not_come_is_flushed() {
    let restart = Extent { restart: true, ..Extent::default() };
    let (found, _) = found_with(Fault::NoResult, restart);
    assert!(found.stopped.is_none() && !found.seen.has_stayed(), "{:?}", found.stopped);
    let words = ["had no result", "the template table is not destroyed: the table has rules"];
    for (finding, words) in found.findings.iter().zip(words) {
        assert!(finding.contains(words), "{:#?}", found.findings);
    }
    let create = found.figures.by_queue.unwrap().create;
    assert!(create.results < create.asked && create.refused.is_none());
    // The rate does not include the second of waiting for missing results.
    assert!(create.per_second > 2 * create.results, "{create:?}");
}

#[test]
fn what_a_flow_queue_refuses_is_reported() {
    let restart = Extent { restart: true, ..Extent::default() };
    let (found, _) = found_with(Fault::ShortQueue, restart);
    let queues::ByQueue { create, destroy, .. } = found.figures.by_queue.unwrap();
    assert_eq!(create.refused.as_deref(), Some("an operation: (no message) (EIO)"));
    assert_eq!((create.results, destroy.results, destroy.refused), (9, 9, None));
}

#[test]
fn what_cannot_be_seen_is_not_reported_as_nothing() {
    let (opaque, _) = found(Fault::Opaque);
    assert_eq!((opaque.seen.lines_left, opaque.seen.packets_left), (None, None));
    let is_said = |note: &String| note.contains("is not known: the driver does not list rules");
    assert!(opaque.notes.iter().any(is_said), "{:#?}", opaque.notes);
    let (talkative, _) = found(Fault::Talkative);
    assert!(!talkative.seen.has_others() && talkative.notes.is_empty(), "{:?}", talkative.notes);
    assert_eq!((talkative.seen.lines_before, talkative.seen.lines_left), (None, Some(0)));
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
    for stage in [
        "existing rules",
        "operations",
        "lists of actions",
        "pairs of rules",
        "ages",
        "counters",
        "capacity",
        "flow queues",
        "stop and start",
        "rules by a flow queue",
    ] {
        let interrupted = AtomicBool::new(false);
        let mut model = Model::new(named("cx6dx"), QUEUES);
        let extent = Extent { restart: true, force: false, capacity: Some(100) };
        let mut impatient = Impatient(stage, &interrupted);
        let found = probe(&mut model, extent, &mut impatient, &interrupted);
        assert!(matches!(found.stopped, Some(Stopped::Interrupted)), "{stage}");
        assert_eq!((model.len(), model.dump_lines()), (0, Ok(0)), "{stage}");
        assert_eq!(found.seen.lines_left.unwrap_or(0), 0);
        let knows_headers = !found.personality.pattern.headers.is_empty();
        let early = ["flow queues", "existing rules", "operations"];
        assert_eq!(knows_headers, !early.contains(&stage), "{stage}");
    }
}

/// Every fault of the model, at a probability of 1 unless the test names another.
#[test]
fn every_fault_of_the_model_is_revealed() {
    type Sign = fn(&Found) -> bool;
    fn finds(found: &Found, words: &str) -> bool {
        found.findings.iter().any(|finding| finding.contains(words))
    }
    let cases: [(&str, Sign); 15] = [
        ("no-mark", |found| found.personality.mark.never_delivered),
        ("mask-ignored", |found| !found.personality.items.is_empty()),
        ("phantom-success", |found| finds(found, "no packet hits a rule")),
        ("destroy-leaves-rule", |found| finds(found, "2 s after it was destroyed")),
        ("destroy-leaves-rule:0.02", |found| finds(found, "a flush removed them")),
        ("undeletable", |found| finds(found, "not destroyed") && found.seen.has_stayed()),
        ("create-refused:0.05", |found| !found.notes.is_empty()),
        ("full-early:0.001", |found| found.personality.table.guaranteed == Some(1000)),
        ("latency-cliff", |found| found.personality.latency.create_us == 10_000),
        ("late-activation", |found| found.personality.latency.effective_after_us >= 1000),
        ("late-deactivation", |found| found.personality.latency.effective_until_us >= 1000),
        ("stale-counters", |found| found.personality.count.refresh_ms == 1000),
        ("truncated-mark", |found| finds(found, "65536 as 0")),
        ("lost-on-reset", |found| found.personality.port.on_stop == OnStop::Stale),
        ("receive-stall", |found| finds(found, "packets are missed")),
    ];
    for (faults, sign) in cases {
        let list = twin::Faults::parse(faults, 1).unwrap();
        let mut model = Model::with_faults(named("ideal"), QUEUES, list);
        let extent = Extent { restart: true, force: false, capacity: Some(2000) };
        let found = probe(&mut model, extent, &mut Nobody, &AtomicBool::new(false));
        let Found { notes, findings, .. } = &found;
        assert!(sign(&found), "{faults}: {notes:#?}, {findings:#?}");
        let stays = faults == "undeletable";
        assert_eq!((model.len() > 0, found.seen.has_stayed()), (stays, stays), "{faults}");
    }
}

/// Creates a rule of another program, which TCP packets hit.
fn of_others(model: &mut Model, list: &[&str]) -> RuleId {
    let pattern = Pattern::of(&[Proto::Eth, Proto::Ipv4, Proto::Tcp]);
    let actions = list.iter().map(|name| action(name)).collect();
    model.create(&RuleProbe { attributes: INGRESS, items: pattern.items, actions }).unwrap()
}

#[test]
fn rules_of_others_are_reported_and_stay() {
    for (list, force, ends) in [
        (&["queue", "mark"][..], false, true),
        (&["queue", "mark"], true, false),
        (&["drop"], false, false),
    ] {
        let mut model = Model::new(named("ideal"), QUEUES);
        let rule = of_others(&mut model, list);
        let extent = Extent { restart: true, force, capacity: None };
        let found = probe(&mut model, extent, &mut Nobody, &AtomicBool::new(false));
        assert_eq!(matches!(found.stopped, Some(Stopped::HasRules(_))), ends, "{list:?}");
        assert_eq!(found.seen.lines_before, Some(1));
        assert_eq!(found.seen.marked_before > 0, list.contains(&"mark"));
        let told = found.notes.iter().any(|note| note.contains("rules of others"));
        assert!(told && !found.seen.has_stayed(), "{found:#?}");
        assert_eq!(model.len(), 1, "{list:?}");
        assert!(model.query_age(rule).is_err() && model.destroy(rule).is_ok());
    }
}

#[test]
fn nothing_is_flushed_beside_rules_of_others() {
    let mut faulty = faulty(Fault::Undeletable);
    of_others(&mut faulty.model, &["queue"]);
    let extent = Extent { force: true, ..Extent::default() };
    let found = probe(&mut faulty, extent, &mut Nobody, &AtomicBool::new(false));
    assert!(matches!(found.stopped, Some(Stopped::RuleStays(_))));
    assert!(found.seen.has_stayed() && faulty.model.len() > 1);
}

#[test]
fn a_call_that_hangs_is_named_with_what_is_known() {
    let (told, hears) = mpsc::channel();
    let watch = Watchdog::default();
    watch.know("marks", &named("e810"));
    let guard = watch.begin(Duration::from_millis(1), move |found| told.send(found).unwrap());
    let mut watched = WatchedPort { subject: Hanging(hears, None), watch };
    watched.flush().unwrap();
    drop(guard);
    let found = watched.subject.1.unwrap();
    assert_eq!(found.personality.name, "e810");
    let Some(Stopped::Hangs { call, stage, .. }) = found.stopped else { unreachable!() };
    assert_eq!((call, stage), ("rte_flow_flush", "marks"));
}

/// Hangs in `flush` until the test ends it.
struct Hanging(mpsc::Receiver<Found>, Option<Found>);

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

    fn has_link(&mut self) -> bool {
        unreachable!()
    }

    fn validate(&mut self, _: &RuleProbe) -> Answer {
        unreachable!()
    }

    fn create(&mut self, _: &RuleProbe) -> Result<RuleId, Refused> {
        unreachable!()
    }

    fn destroy(&mut self, _: RuleId) -> Answer {
        unreachable!()
    }

    fn dump_lines(&mut self) -> Result<usize, Refused> {
        unreachable!()
    }

    fn lists_only_rules(&self) -> bool {
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

impl FlowQueue for Hanging {
    fn most_operations(&mut self) -> Result<u32, Refused> {
        unreachable!()
    }

    fn configure(&mut self, _: u32) -> Answer {
        unreachable!()
    }

    fn make_table(&mut self, _: &RuleProbe, _: u32) -> Result<(), NoTable> {
        unreachable!()
    }

    fn destroy_table(&mut self) -> Answer {
        unreachable!()
    }

    fn enqueue_create(&mut self, _: &RuleProbe, _: u64) -> Answer {
        unreachable!()
    }

    fn enqueue_destroy(&mut self, _: u64) -> Answer {
        unreachable!()
    }

    fn push(&mut self) -> Answer {
        unreachable!()
    }

    fn pull(&mut self) -> Result<Vec<Done>, Refused> {
        unreachable!()
    }
}
