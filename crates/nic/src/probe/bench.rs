// SPDX-License-Identifier: BSD-3-Clause
//! Tries rules on a subject whose table is empty before and after each try.
//!
//! `Bench` remembers every answer, counts and times every call, and holds the results so far as a
//! draft of a personality. It destroys every rule that it creates.

use super::chains::in_words;
use super::model::Model;
use super::pattern::Pattern;
use super::subject::{Answer, Delivery, Refused, RuleId, RuleProbe, Subject, wait_for_link};
use super::traces::Seen;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use twin::personality::RefusalFacts;
use twin::{Action, Attributes, Personality};

pub(super) const INGRESS: Attributes = Attributes::INGRESS;

/// Number of answers of `validate` that `create` must confirm before `validate` is trusted.
const CONFIRMATIONS: u32 = 50;

/// Number of kinds of rules that a NIC may take and not destroy. With more, no rule can be trusted.
const UNDELETABLE_MAX: usize = 8;

/// The reason why a probe ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A signal interrupted the probe.
    #[error("interrupted")]
    Interrupted,
    /// The NIC accepted a rule and does not destroy it.
    #[error("the NIC does not destroy a rule that it took: {0}")]
    RuleStays(Refused),
    /// No rule was accepted, so refusals allow no conclusion.
    #[error(
        "the port takes none of the usual rules through rte_flow_create; the last refusal: {0}"
    )]
    TakesNothing(Refused),
    /// The NIC took a rule, but none of the rules after it.
    #[error("no usual rule is left to ask with: what the NIC took, it refuses later or keeps")]
    NoneLeft,
    /// The port did not start again.
    #[error("the port does not start again")]
    DoesNotStart,
    /// The port has rules of others.
    #[error(
        "{0} kinds of packets arrive with a mark or a flag before the first rule, so there are \
         rules already; --force probes beside them"
    )]
    HasRules(usize),
    /// A call did not return.
    #[error(
        "{call} did not return for {patience:?}, in the stage \"{stage}\"; nothing could be \
         restored, and a rule may have stayed in the NIC: reset the port before it is used"
    )]
    Hangs {
        /// Name of the call.
        call: &'static str,
        /// The current stage.
        stage: &'static str,
        /// Time that the prober waited for it.
        patience: Duration,
    },
}

/// Number of calls of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    pub(crate) validate: u64,
    pub(crate) create: u64,
    /// Rules that were created.
    pub(crate) made: u64,
    /// Rules that were destroyed.
    pub(crate) destroyed: u64,
    pub(crate) packets: u64,
}

/// Observes the probe: a progress bar, or the watchdog, which saves the results so far in case a
/// call hangs.
pub trait Watcher {
    /// A stage begins.
    fn stage(&mut self, name: &'static str, draft: &Personality);
    /// `done` of `of` steps of the stage are done.
    fn step(&mut self, done: u64, of: u64);
}

/// What rules have in common that differ in values only: headers, masks and actions.
#[derive(Clone, Debug)]
struct RuleKind {
    /// Identifies the kind.
    key: String,
    /// The rule in a few words.
    words: String,
}

impl RuleKind {
    fn of(question: &RuleProbe) -> Self {
        let actions: Vec<_> = question.actions.iter().map(Action::name).collect();
        let words = format!("{} -> {}", in_words(question), actions.join(" / "));
        let items = question.items.iter().map(|item| (item.proto, item.given, item.mask));
        let key = format!("{:?} {actions:?}", items.collect::<Vec<_>>());
        Self { key, words }
    }
}

impl PartialEq for RuleKind {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for RuleKind {}

impl std::hash::Hash for RuleKind {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

pub(crate) struct Bench<'a> {
    pub(super) subject: &'a mut dyn Subject,
    watcher: &'a mut dyn Watcher,
    interrupted: &'a AtomicBool,
    pub(super) draft: Personality,
    /// Attributes of questions about other parts of a rule.
    pub(super) attributes: Attributes,
    /// Accepted actions, for questions about patterns.
    pub(super) usual_actions: Vec<Action>,
    /// Facts that could not be found out, and facts that the file cannot express.
    pub(super) notes: Vec<String>,
    /// Faults of the NIC.
    pub(super) findings: Vec<String>,
    /// Rules of others, and rules that the probe left behind.
    pub(super) seen: Seen,
    /// Stages that are over.
    pub(super) asked: Vec<&'static str>,
    stage: Option<&'static str>,
    /// Rules that exist, and what kind of rule each is.
    live: HashMap<RuleId, RuleKind>,
    /// Kinds of rules that the NIC takes and does not destroy, with its refusal.
    undeletable: HashMap<RuleKind, Refused>,
    pub(super) calls: Calls,
    pub(super) validate_us: Vec<u64>,
    pub(super) create_us: Vec<u64>,
    pub(super) destroy_us: Vec<u64>,
    /// Indexes into `asked`, by the text of the question.
    answers: HashMap<String, usize>,
    pub(super) answered: Vec<(RuleProbe, Answer)>,
    /// Number of answers of `validate` that `create` confirmed; `None` once one was wrong.
    pub(super) confirmed: Option<u32>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        subject: &'a mut dyn Subject,
        watcher: &'a mut dyn Watcher,
        interrupted: &'a AtomicBool,
    ) -> Self {
        Self {
            subject,
            watcher,
            interrupted,
            draft: Personality::default(),
            attributes: INGRESS,
            usual_actions: Vec::new(),
            notes: Vec::new(),
            findings: Vec::new(),
            seen: Seen::default(),
            asked: Vec::new(),
            stage: None,
            live: HashMap::new(),
            undeletable: HashMap::new(),
            calls: Calls::default(),
            validate_us: Vec::new(),
            create_us: Vec::new(),
            destroy_us: Vec::new(),
            answers: HashMap::new(),
            answered: Vec::new(),
            confirmed: Some(0),
        }
    }

    pub(super) fn stage(&mut self, name: &'static str) -> Result<(), Stopped> {
        self.asked.extend(self.stage.replace(name));
        self.watcher.stage(name, &self.draft);
        self.go_on()
    }

    /// Ends the last stage, which was completed.
    pub(super) fn end_stages(&mut self) {
        self.asked.extend(self.stage.take());
    }

    pub(super) fn step(&mut self, done: u64, of: u64) {
        self.watcher.step(done, of);
    }

    pub(super) fn note(&mut self, words: impl Into<String>) {
        self.notes.push(words.into());
    }

    pub(super) fn finding(&mut self, words: impl Into<String>) {
        self.findings.push(words.into());
    }

    pub(super) fn go_on(&self) -> Result<(), Stopped> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Stopped::Interrupted) } else { Ok(()) }
    }

    /// Returns a rule with this pattern, the current attributes and the usual actions.
    pub(super) fn about(&self, pattern: &Pattern) -> RuleProbe {
        let items = pattern.items.clone();
        RuleProbe { attributes: self.attributes, items, actions: self.usual_actions.clone() }
    }

    /// Asks whether a pattern is accepted, with the usual actions.
    pub(super) fn ask_pattern(&mut self, pattern: &Pattern) -> Result<Answer, Stopped> {
        self.ask(&self.about(pattern))
    }

    /// Asks whether an empty table accepts a rule.
    pub(super) fn ask(&mut self, question: &RuleProbe) -> Result<Answer, Stopped> {
        self.go_on()?;
        let text = format!("{question:?}");
        if let Some(&place) = self.answers.get(&text) {
            return Ok(self.answered[place].1.clone());
        }
        let answer = self.ask_anew(question)?;
        self.answers.insert(text, self.answered.len());
        self.answered.push((question.clone(), answer.clone()));
        Ok(answer)
    }

    fn ask_anew(&mut self, question: &RuleProbe) -> Result<Answer, Stopped> {
        if let Some(refused) = self.refusal_to_destroy(question) {
            return Ok(Err(refused));
        }
        let Some(confirmed) = self.confirmed.filter(|_| !self.draft.operations.no_validate) else {
            return self.with(question, |_, _| Ok(()));
        };
        self.calls.validate += 1;
        let from = self.subject.now_us();
        let validated = self.subject.validate(question);
        self.validate_us.push(self.subject.now_us() - from);
        if confirmed >= CONFIRMATIONS {
            return Ok(validated);
        }
        let done = self.with(question, |_, _| Ok(()))?;
        if self.refusal_to_destroy(question).is_some() {
            return Ok(done);
        }
        let agree = match (&validated, &done) {
            (Ok(()), Ok(())) => true,
            (Err(validated), Err(done)) => validated.is_same_refusal(done),
            _ => false,
        };
        self.confirmed = agree.then_some(confirmed + 1);
        if !agree {
            self.note("validate and create disagree about a rule; from then on, create was used");
        }
        Ok(done)
    }

    /// Returns the refusal to destroy a rule of this kind, if the NIC has refused that. Such a rule
    /// counts as refused, because no program can use it.
    fn refusal_to_destroy(&self, question: &RuleProbe) -> Option<Refused> {
        self.undeletable.get(&RuleKind::of(question)).cloned()
    }

    /// Creates a rule, calls `then`, destroys the rule, and waits until packets no longer hit it.
    pub(super) fn with<T>(
        &mut self,
        question: &RuleProbe,
        then: impl FnOnce(&mut Self, RuleId) -> Result<T, Stopped>,
    ) -> Result<Result<T, Refused>, Stopped> {
        self.go_on()?;
        let rule = match self.create(question) {
            Ok(rule) => rule,
            Err(refused) => return Ok(Err(refused)),
        };
        let result = then(self, rule);
        if !self.live.contains_key(&rule) {
            self.note(format!(
                "a flush ended the rule {} too early; what was asked beside it may be wrong",
                in_words(question)
            ));
        }
        let destroyed = self.destroy(rule);
        // Of two errors, the first is the cause.
        let result = result?;
        destroyed?;
        self.wait(self.draft.latency.effective_until_us.into());
        Ok(self.refusal_to_destroy(question).map_or(Ok(result), Err))
    }

    pub(super) fn create(&mut self, question: &RuleProbe) -> Result<RuleId, Refused> {
        if let Some(refused) = self.refusal_to_destroy(question) {
            return Err(refused);
        }
        self.calls.create += 1;
        let from = self.subject.now_us();
        let rule = self.subject.create(question)?;
        self.calls.made += 1;
        self.create_us.push(self.subject.now_us() - from);
        self.live.insert(rule, RuleKind::of(question));
        Ok(rule)
    }

    pub(super) fn destroy(&mut self, rule: RuleId) -> Result<(), Stopped> {
        // A flush has ended rules that are missing here.
        let Some(kind) = self.live.remove(&rule) else { return Ok(()) };
        let from = self.subject.now_us();
        if let Err(refused) = self.subject.destroy(rule) {
            return self.flush_undeletable(kind, refused);
        }
        self.calls.destroyed += 1;
        self.destroy_us.push(self.subject.now_us() - from);
        Ok(())
    }

    /// Removes a rule that the NIC does not destroy, together with all others. The probe then goes
    /// on without rules of that kind. It ends if the rule stays, as far as can be seen.
    fn flush_undeletable(&mut self, kind: RuleKind, refused: Refused) -> Result<(), Stopped> {
        let is_gone = self.flush() && self.has_no_more_lines();
        self.undeletable.insert(kind.clone(), refused.clone());
        let goes_on = is_gone && self.undeletable.len() <= UNDELETABLE_MAX;
        let end = match goes_on {
            true => "; it was flushed, and the probe went on without such rules",
            false => "",
        };
        self.finding(format!(
            "a rule that was taken is not destroyed: {refused}: {}{end}",
            kind.words
        ));
        if goes_on { Ok(()) } else { Err(Stopped::RuleStays(refused)) }
    }

    /// Flushes all rules, as the last attempt to remove a rule that stays, unless there may be
    /// rules of others. Returns false if it was not flushed. The traces at the end of the probe
    /// show whether it helped.
    pub(super) fn flush(&mut self) -> bool {
        if self.seen.has_others() {
            return false;
        }
        self.live.clear();
        self.subject.flush().is_ok()
    }

    /// False if the driver's list shows more rules than before the probe.
    fn has_no_more_lines(&mut self) -> bool {
        let lines = self.seen.lines_before.zip(self.subject.dump_lines().ok());
        lines.is_none_or(|(before, now)| now <= before)
    }

    /// Starts the port again, and waits for the link.
    pub(super) fn start(&mut self) -> Result<(), Stopped> {
        if !self.subject.set_started(true) {
            return Err(Stopped::DoesNotStart);
        }
        self.has_link();
        Ok(())
    }

    /// Waits for the link, which takes time after a start. True if packets can be delivered.
    pub(super) fn has_link(&mut self) -> bool {
        self.subject.has_wire() && wait_for_link(self.subject, self.interrupted)
    }

    /// Waits until new rules are in effect, then has the NIC receive a frame.
    pub(super) fn deliver(&mut self, frame: &[u8]) -> Option<Delivery> {
        self.wait(self.draft.latency.effective_after_us.into());
        self.calls.packets += 1;
        self.subject.deliver(frame)
    }

    pub(super) fn wait(&mut self, us: u64) {
        if us > 0 {
            self.subject.wait_us(us);
        }
    }

    /// Returns the answer of the model, playing the draft, for a rule.
    pub(super) fn drafted(&self, question: &RuleProbe) -> Answer {
        let mut model = Model::member(self.draft.clone(), self.subject.queues());
        model.create(question).map(drop)
    }

    /// Returns the answer of the draft's engine ahead for a rule, or of the draft if it has no
    /// engine ahead.
    pub(super) fn drafted_ahead(&self, question: &RuleProbe) -> Answer {
        let ahead = self.draft.ahead.as_deref().unwrap_or(&self.draft);
        let mut model = Model::member(ahead.clone(), self.subject.queues());
        model.create(question).map(drop)
    }

    /// Returns the refusal in `answer`, if the draft does not imply it.
    pub(super) fn new_refusal(
        &self,
        question: &RuleProbe,
        answer: &Answer,
    ) -> Option<RefusalFacts> {
        let refused = answer.as_ref().err()?;
        let is_implied =
            self.drafted(question).is_err_and(|drafted| drafted.is_same_refusal(refused));
        (!is_implied).then(|| refused.to_facts())
    }
}
