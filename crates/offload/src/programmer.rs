// SPDX-License-Identifier: BSD-3-Clause
//! What is wished of a port, and what it has.
//!
//! Rules that are to go come first: they make room, and their marks are the ones that can do harm.
//! Each worker has its turn. A rule that went is quarantined before its worker hears of it, so that
//! packets which it marked have come out of the port.

use crate::pace::Pace;
use crate::port::{Refusal, RefusalClass, RulePort};
use engine::{Answer, MarkLayout, Nanos, RuleId, Tuple, Wish};
use std::collections::{HashMap, HashSet, VecDeque};

/// A worker, by its receive queue.
pub type Worker = u16;

/// What is bounded.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// New rules of one worker that may wait.
    pub waiting: usize,
    /// From a rule's end until its worker hears of it.
    pub quarantine: Nanos,
}

/// When to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once: there is more to do.
    Now,
    /// Not before then.
    At(Nanos),
    /// Once there is another wish.
    Idle,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rules that the port took.
    pub created: u64,
    /// Rules that it parted with.
    pub destroyed: u64,
    /// Rules that it lost; those that it took again are among those that it took.
    pub lost: u64,
    /// Wishes that were withdrawn before the port heard of them.
    pub withdrawn: u64,
    /// Refused for want of room.
    pub full: u64,
    /// Refused for trouble.
    pub trouble: u64,
    /// Refused for what they are.
    pub unsuitable: u64,
    /// Not asked for, because the port rests.
    pub resting: u64,
}

/// A rule that the port has, or had and is to have again.
struct Kept<R> {
    /// `None`: it was lost.
    rule: Option<R>,
    tuple: Tuple,
    worker: Worker,
}

/// A rule that the port did not part with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Which.
    pub rule: RuleId,
    /// Why, in the port's words.
    pub refusal: Refusal,
    /// Who waits to hear that it is gone.
    awaited_by: Option<Worker>,
}

/// What one worker wants.
#[derive(Default)]
struct Desk {
    removes: VecDeque<RuleId>,
    installs: VecDeque<(RuleId, Tuple)>,
}

/// Programs one port.
pub struct Programmer<P: RulePort> {
    port: P,
    layout: MarkLayout,
    limits: Limits,
    pace: Pace,
    desks: Vec<Desk>,
    /// Whose turn it is.
    turn: usize,
    rules: HashMap<RuleId, Kept<P::Rule>>,
    by_tuple: HashMap<Tuple, RuleId>,
    /// Lost, and to be made again unless they are to go meanwhile.
    lost: VecDeque<RuleId>,
    /// Rules that are kept, and not in the port.
    missing: usize,
    /// Waiting, and no longer wished for.
    withdrawn: HashSet<RuleId>,
    /// Gone, and not told yet.
    quarantined: VecDeque<(Nanos, Worker, RuleId)>,
    /// Not gone, though they were to go; nobody hears of them.
    stuck: Vec<Stuck>,
    answers: VecDeque<(Worker, RuleId, Answer)>,
    counts: Counts,
}

impl<P: RulePort> Programmer<P> {
    /// For `workers` workers, with marks as `layout` has them.
    pub fn new(port: P, layout: MarkLayout, workers: u16, limits: Limits, pace: Pace) -> Self {
        Self {
            port,
            layout,
            limits,
            pace,
            desks: (0..workers).map(|_| Desk::default()).collect(),
            turn: 0,
            rules: HashMap::new(),
            by_tuple: HashMap::new(),
            lost: VecDeque::new(),
            missing: 0,
            withdrawn: HashSet::new(),
            quarantined: VecDeque::new(),
            stuck: Vec::new(),
            answers: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Hears a worker. A wish for a new rule that finds no room is answered at once.
    pub fn hear(&mut self, worker: Worker, wish: Wish) {
        let desk = &mut self.desks[usize::from(worker)];
        match wish {
            Wish::Remove { rule, .. } => desk.removes.push_back(rule),
            Wish::Install { rule, tuple, .. } if desk.installs.len() < self.limits.waiting => {
                desk.installs.push_back((rule, tuple));
            }
            Wish::Install { rule, .. } => self.answer(worker, rule, Answer::Postponed),
        }
    }

    /// Whether a worker's wish for a new rule would find room.
    pub fn has_room(&self, worker: Worker) -> bool {
        self.desks[usize::from(worker)].installs.len() < self.limits.waiting
    }

    /// Destroys so many rules at most, whoever wished for them and whatever the pace: for the end,
    /// when nobody waits for answers. Returns how many the port still has.
    pub fn clear(&mut self, most: usize, clock: &mut impl FnMut() -> Nanos) -> usize {
        let rules: Vec<_> = self.rules.keys().take(most).copied().collect();
        for rule in rules {
            self.destroy(rule, clock);
        }
        self.rules.len()
    }

    /// The port has none of its rules any more: it was reset, or flushed and stopped. What named
    /// them is forgotten, as it may point to nothing. Rules that their workers still want are made
    /// again, one by one, with the same marks, which are as right as before: a mark is of a
    /// connection, not of a call. One that the port does not take again goes without a word: its
    /// worker sees that marks come no more. Those that were stuck stay so, for want of anybody who
    /// knows.
    pub fn lose(&mut self) {
        self.counts.lost += self.len() as u64;
        self.missing = self.rules.len();
        self.rules.values_mut().for_each(|kept| kept.rule = None);
        self.lost = self.rules.keys().copied().collect();
        // Another order each time would be nobody's gain.
        self.lost.make_contiguous().sort_unstable_by_key(|rule| (rule.index, rule.direction));
    }

    /// As [`lose`](Self::lose), and so thoroughly that those are gone, too, that were stuck: the
    /// NIC itself was reset.
    pub fn lose_all(&mut self, now: Nanos) {
        self.lose();
        self.counts.lost += self.stuck.len() as u64;
        let until = now + self.limits.quarantine;
        let awaited =
            self.stuck.drain(..).filter_map(|stuck| Some((stuck.awaited_by?, stuck.rule)));
        self.quarantined.extend(awaited.map(|(worker, rule)| (until, worker, rule)));
    }

    /// Asks the port for one thing at most. `clock` is read before and after.
    pub fn step(&mut self, clock: &mut impl FnMut() -> Nanos) -> Next {
        let now = clock();
        self.release(now);
        if now < self.pace.next() {
            return self.later(self.pace.next());
        }
        for place in 0..self.desks.len() {
            let worker = (self.turn + place) % self.desks.len();
            if let Some(rule) = self.desks[worker].removes.pop_front() {
                self.turn = worker + 1;
                self.remove(worker as Worker, rule, clock);
                return Next::Now;
            }
        }
        if self.remake(clock) {
            return Next::Now;
        }
        for place in 0..self.desks.len() {
            let worker = (self.turn + place) % self.desks.len();
            if let Some((rule, tuple)) = self.desks[worker].installs.pop_front() {
                self.turn = worker + 1;
                self.install(worker as Worker, rule, tuple, clock);
                return Next::Now;
            }
        }
        self.later(Nanos::MAX)
    }

    /// What became of a wish, for its worker.
    pub fn next_answer(&mut self) -> Option<(Worker, RuleId, Answer)> {
        self.answers.pop_front()
    }

    /// Rules that the port has, by this account, without those that are stuck.
    pub fn len(&self) -> usize {
        self.rules.len() - self.missing
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rules that the port did not part with.
    pub fn stuck(&self) -> &[Stuck] {
        &self.stuck
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The port.
    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }

    fn later(&self, at: Nanos) -> Next {
        let has_wishes = !self.lost.is_empty()
            || self.desks.iter().any(|desk| !(desk.removes.is_empty() && desk.installs.is_empty()));
        let release = self.quarantined.front().map_or(Nanos::MAX, |(until, ..)| *until);
        match if has_wishes { at.min(release) } else { release } {
            Nanos::MAX => Next::Idle,
            at => Next::At(at),
        }
    }

    fn answer(&mut self, worker: Worker, rule: RuleId, answer: Answer) {
        self.answers.push_back((worker, rule, answer));
    }

    fn release(&mut self, now: Nanos) {
        while let Some(&(_, worker, rule)) =
            self.quarantined.front().filter(|(until, ..)| *until <= now)
        {
            self.quarantined.pop_front();
            self.answer(worker, rule, Answer::Removed);
        }
    }

    fn remove(&mut self, worker: Worker, rule: RuleId, clock: &mut impl FnMut() -> Nanos) {
        if self.rules.contains_key(&rule) && self.destroy(rule, clock) {
            self.quarantined.push_back((clock() + self.limits.quarantine, worker, rule));
            return;
        }
        // It did not go, now or when it had to make room for another of its packets.
        if let Some(stuck) = self.stuck.iter_mut().rfind(|stuck| stuck.rule == rule) {
            stuck.awaited_by = Some(worker);
            return;
        }
        let waiting = &self.desks[usize::from(worker)].installs;
        if waiting.iter().any(|(other, _)| *other == rule) {
            self.withdrawn.insert(rule);
            self.counts.withdrawn += 1;
            return self.answer(worker, rule, Answer::Removed);
        }
        // It was refused, or made room; when, nobody noted.
        self.quarantined.push_back((clock() + self.limits.quarantine, worker, rule));
    }

    /// Whether it is gone.
    fn destroy(&mut self, rule: RuleId, clock: &mut impl FnMut() -> Nanos) -> bool {
        let Some(Kept { rule: handle, tuple, .. }) = self.rules.remove(&rule) else { return true };
        self.by_tuple.remove(&tuple);
        let Some(handle) = handle else {
            self.missing -= 1;
            return true;
        };
        let from = clock();
        match self.port.destroy(handle) {
            Ok(()) => {
                self.counts.destroyed += 1;
                self.pace.went_well(from, clock());
                true
            }
            Err(refusal) => {
                self.stuck.push(Stuck { rule, refusal, awaited_by: None });
                self.pace.rest(clock());
                false
            }
        }
    }

    fn install(
        &mut self,
        worker: Worker,
        rule: RuleId,
        tuple: Tuple,
        clock: &mut impl FnMut() -> Nanos,
    ) {
        if self.withdrawn.remove(&rule) {
            return;
        }
        // Its worker will have it removed, and hears then that it is.
        if let Some(&other) = self.by_tuple.get(&tuple) {
            if !self.destroy(other, clock) {
                return self.answer(worker, rule, Answer::Postponed);
            }
        }
        let from = clock();
        let answer = match self.port.create(&tuple, self.layout.encode(rule), worker) {
            Ok(handle) => {
                self.rules.insert(rule, Kept { rule: Some(handle), tuple, worker });
                self.by_tuple.insert(tuple, rule);
                self.counts.created += 1;
                let until = clock();
                self.pace.went_well(from, until);
                let pace = self.pace.interval(until.saturating_sub(from));
                Answer::Installed { pace: pace.min(u32::MAX.into()) as u32 }
            }
            Err(refusal) => self.refused(&refusal, from, clock()),
        };
        self.answer(worker, rule, answer);
    }

    /// Makes a rule that was lost; false if there is none.
    fn remake(&mut self, clock: &mut impl FnMut() -> Nanos) -> bool {
        while let Some(rule) = self.lost.pop_front() {
            let kept = self.rules.get_mut(&rule).filter(|kept| kept.rule.is_none());
            let Some(Kept { rule: handle, tuple, worker }) = kept else { continue };
            let from = clock();
            match self.port.create(tuple, self.layout.encode(rule), *worker) {
                Ok(made) => {
                    *handle = Some(made);
                    self.missing -= 1;
                    self.counts.created += 1;
                    self.pace.went_well(from, clock());
                }
                Err(refusal) => {
                    self.refused(&refusal, from, clock());
                    match refusal.class {
                        RefusalClass::Trouble => self.lost.push_front(rule),
                        RefusalClass::Full | RefusalClass::Unsuitable => {
                            self.destroy(rule, clock);
                        }
                    }
                }
            }
            return true;
        }
        false
    }

    fn refused(&mut self, refusal: &Refusal, from: Nanos, until: Nanos) -> Answer {
        match refusal.class {
            RefusalClass::Unsuitable => {
                self.counts.unsuitable += 1;
                self.pace.took(from, until);
                Answer::Refused
            }
            RefusalClass::Full => {
                self.counts.full += 1;
                self.pace.took(from, until);
                self.answer_waiting(Answer::Full);
                Answer::Full
            }
            RefusalClass::Trouble => {
                self.counts.trouble += 1;
                self.pace.rest(until);
                self.answer_waiting(Answer::Postponed);
                Answer::Postponed
            }
        }
    }

    /// Those that wait are not worth a call that would be refused too.
    fn answer_waiting(&mut self, answer: Answer) {
        for worker in 0..self.desks.len() {
            let waiting = std::mem::take(&mut self.desks[worker].installs);
            self.counts.resting += waiting.len() as u64;
            for (rule, _) in waiting {
                if !self.withdrawn.remove(&rule) {
                    self.answer(worker as Worker, rule, answer);
                }
            }
        }
    }
}
