// SPDX-License-Identifier: BSD-3-Clause
//! Owns the rule requests for one port, and the record of the port's rules.
//!
//! The programmer begins as many operations as the port has room for, in this order:
//!
//! 1. Removals that workers request: they make room, and a mark that stays too long can do harm.
//! 2. Removals of a rule in favour of another one for the same packets.
//! 3. Lost rules, which it creates again.
//! 4. New rules.
//!
//! Workers are served in turn. Once a rule has reached the port, its worker gets the result of the
//! removal only after a quarantine: until then, packets with the mark may still arrive.

mod counters;
mod results;

use crate::account::{Request, RuleState, RuleTable};
use crate::pace::CallPacer;
use crate::port::{Completion, NicAction, Refusal, RuleNumber, RulePort};
use engine::{FiveTuple, MarkLayout, Nanos, RuleAction, RuleId, RuleRequest, RuleResult};
use std::collections::{HashMap, HashSet, VecDeque};

/// A worker, by its receive queue.
pub type Worker = u16;

/// Limits of a programmer.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// New rules of one worker that may wait for the port.
    pub waiting: usize,
    /// Time from the removal of a rule until its worker gets the result, in nanoseconds.
    pub quarantine: Nanos,
    /// Time between two readings of a counter, in nanoseconds.
    pub reading: Nanos,
}

/// When the next step is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once: there is more to do.
    Now,
    /// At this time.
    At(Nanos),
    /// Once there is another request.
    Idle,
}

/// Counters of a programmer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rules that the port created.
    pub created: u64,
    /// Rules that the port removed.
    pub destroyed: u64,
    /// Rules that the port lost. If it creates them again, `created` counts them again.
    pub lost: u64,
    /// Requests that were withdrawn before they reached the port.
    pub withdrawn: u64,
    /// Rules refused because the port had no room.
    pub full: u64,
    /// Rules refused because the port or its driver had a problem.
    pub port_errors: u64,
    /// Rules refused because the NIC does not take such rules.
    pub unsuitable: u64,
    /// Requests that were not passed on after the port had no room for another, or an error.
    pub resting: u64,
    /// Bypass rules whose last count could not be read: packets that they forwarded since the count
    /// before are not counted.
    pub uncounted: u64,
}

/// A rule that the port failed to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakedRule {
    /// The rule.
    pub rule: RuleId,
    /// The refusal of the port.
    pub refusal: Refusal,
    /// Worker that waits for the result of the removal.
    waiting_worker: Option<Worker>,
}

/// Requests of one worker that wait for the port.
#[derive(Default)]
struct WorkerQueue {
    removes: VecDeque<RuleId>,
    installs: VecDeque<(RuleId, Request)>,
}

/// Time until the next poll for results, in nanoseconds.
const POLL: Nanos = 50_000;

/// Programs one port.
pub struct Programmer<P> {
    port: P,
    layout: MarkLayout,
    limits: Limits,
    pace: CallPacer,
    queues: Vec<WorkerQueue>,
    /// Number of the worker whose turn it is.
    turn: usize,
    account: RuleTable,
    /// Average time of one operation in the last step that called the port, in nanoseconds.
    operation_time: Nanos,
    /// Rules to remove, so that other rules for the same packets can be created.
    replaced: VecDeque<RuleId>,
    /// Rules that wait because their packets still have another rule.
    blocked: HashMap<FiveTuple, (Worker, RuleId, RuleAction)>,
    /// Lost rules to create again, unless their removal is requested meanwhile.
    lost: VecDeque<RuleId>,
    /// Rules that wait for the port although they were withdrawn.
    withdrawn: HashSet<RuleId>,
    /// Removed rules in quarantine, with its end: their workers have no result yet.
    quarantined: VecDeque<(Nanos, Worker, RuleId)>,
    /// Rules that the port failed to remove. Their workers get no result, unless the NIC is reset.
    leaked: Vec<LeakedRule>,
    answers: VecDeque<(Worker, RuleId, RuleResult)>,
    counts: Counts,
    /// Rules whose counters are read, each with the time when it is due.
    readings: VecDeque<(Nanos, RuleNumber, RuleId)>,
    /// Scratch memory for results.
    done: Vec<Completion>,
}

impl<P: RulePort> Programmer<P> {
    /// Creates a programmer for `workers` workers. `layout` is the layout of their marks.
    pub fn new(port: P, layout: MarkLayout, workers: u16, limits: Limits, pace: CallPacer) -> Self {
        Self {
            port,
            layout,
            limits,
            pace,
            queues: (0..workers).map(|_| WorkerQueue::default()).collect(),
            turn: 0,
            account: RuleTable::default(),
            operation_time: 0,
            replaced: VecDeque::new(),
            blocked: HashMap::new(),
            lost: VecDeque::new(),
            withdrawn: HashSet::new(),
            quarantined: VecDeque::new(),
            leaked: Vec::new(),
            answers: VecDeque::new(),
            counts: Counts::default(),
            readings: VecDeque::new(),
            done: Vec::new(),
        }
    }

    /// Takes a worker's request. If too many install requests wait, a new one gets the result
    /// [`RuleResult::Postponed`] at once. If a rule that still waits for the port is to be removed,
    /// the removal gets its result at once, and the install request gets none.
    pub fn submit(&mut self, worker: Worker, request: RuleRequest) {
        let queue = &mut self.queues[usize::from(worker)];
        match request {
            RuleRequest::Remove { rule, .. } => self.submit_removal(worker, rule),
            RuleRequest::Install { rule, tuple, action, .. }
                if queue.installs.len() < self.limits.waiting =>
            {
                queue.installs.push_back((rule, Request { tuple, action }));
            }
            RuleRequest::Install { rule, .. } => self.answer(worker, rule, RuleResult::Postponed),
        }
    }

    fn submit_removal(&mut self, worker: Worker, rule: RuleId) {
        if let Some(handle) =
            self.account.get(rule).filter(|handle| handle.state == RuleState::Creating)
        {
            handle.is_removal_requested = true;
        } else if self.withdraw_waiting(worker, rule) {
            self.counts.withdrawn += 1;
            self.answer(worker, rule, RuleResult::Removed);
        } else {
            self.queues[usize::from(worker)].removes.push_back(rule);
        }
    }

    /// True if an install request of this worker would find room.
    pub fn has_room(&self, worker: Worker) -> bool {
        self.queues[usize::from(worker)].installs.len() < self.limits.waiting
    }

    /// Begins the removal of up to `most` rules, whether a worker has requested it or not, and does
    /// not pause between calls. For the end of a run, when no worker waits for results. Returns the
    /// number of rules whose removal is not confirmed.
    pub fn clear(&mut self, most: usize, clock: &mut impl FnMut() -> Nanos) -> usize {
        let mut rules = self.account.idle(most).into_iter().peekable();
        loop {
            let now = clock();
            let room = self.depth().saturating_sub(self.account.operations());
            rules.by_ref().take(room).for_each(|rule| self.destroy(rule, now));
            self.poll((now, 0), clock);
            if room == 0 || rules.peek().is_none() {
                return self.account.len();
            }
        }
    }

    /// Marks all rules as lost: the port was reset, or flushed and stopped. Operations in flight
    /// have no result.
    ///
    /// Rules that their workers still need are created again with the same marks. The marks stay
    /// valid, because a mark belongs to a connection. If the port refuses such a rule, its worker
    /// gets no result: it notices that packets have no mark. Rules that the port failed to remove
    /// before stay listed, because their state is unknown.
    pub fn forget_rules(&mut self) {
        self.counts.lost += self.len() as u64;
        self.replaced.clear();
        self.lost.clear();
        for (rule, handle) in self.account.forget_rules() {
            if matches!(handle.state, RuleState::Creating | RuleState::Present) {
                self.count_unread(&handle);
            }
            match handle.state {
                // Its worker has no result yet, so the request waits as if it had not begun.
                RuleState::Creating if !handle.is_reported => {
                    self.account.remove(rule);
                    let queue = &mut self.queues[usize::from(handle.worker)];
                    queue.installs.push_front((rule, handle.request));
                }
                RuleState::Removing => self.account.remove(rule),
                RuleState::Creating | RuleState::Present | RuleState::Lost => {
                    self.lost.push_back(rule)
                }
            }
            if handle.is_removal_requested {
                self.submit_removal(handle.worker, rule);
            }
        }
        let tuples: Vec<_> = self.blocked.keys().copied().collect();
        tuples.iter().for_each(|tuple| self.unblock(tuple));
    }

    /// Marks all rules as lost after a reset of the NIC itself. Unlike
    /// [`forget_rules`](Self::forget_rules), this clears the list of rules that the port failed to
    /// remove: they are gone too.
    pub fn forget_all_rules(&mut self, now: Nanos) {
        self.forget_rules();
        self.pace.reset();
        self.counts.lost += self.leaked.len() as u64;
        for LeakedRule { rule, waiting_worker, .. } in std::mem::take(&mut self.leaked) {
            if let Some(worker) = waiting_worker {
                self.quarantine(worker, rule, now);
            }
        }
    }

    /// Begins as many operations as the port has room for, reads counters of bypass rules, and
    /// takes results. Reads `clock` before and after. Returns when the next step is due.
    pub fn step(&mut self, clock: &mut impl FnMut() -> Nanos) -> Next {
        let now = clock();
        self.release(now);
        let operations = self.account.operations();
        let is_time = now >= self.pace.next();
        let begun = if is_time { self.begin(now) } else { 0 };
        let read = if is_time { self.read_counters(now) } else { 0 };
        if begun + read == 0 && operations == 0 {
            return self.later(now);
        }
        let calls = self.account.operations() - operations + read;
        let (until, ended) = self.poll((now, calls), clock);
        if begun + read + ended > 0 { Next::Now } else { self.later(until) }
    }

    /// Takes the next result, with its worker and rule.
    pub fn next_answer(&mut self) -> Option<(Worker, RuleId, RuleResult)> {
        self.answers.pop_front()
    }

    /// Returns the recorded number of rules that the port has, without those that it failed to
    /// remove.
    pub fn len(&self) -> usize {
        self.account.present()
    }

    /// True if the port has no rules, as recorded here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the rules that the port failed to remove.
    pub fn leaked(&self) -> &[LeakedRule] {
        &self.leaked
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the port.
    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }

    fn depth(&self) -> usize {
        self.port.depth().max(1)
    }

    fn later(&self, now: Nanos) -> Next {
        let has_requests = !(self.lost.is_empty() && self.replaced.is_empty())
            || self
                .queues
                .iter()
                .any(|queue| !(queue.removes.is_empty() && queue.installs.is_empty()));
        // If the pace allows a call now, requests wait for results, not for a time.
        let pace = Some(self.pace.next()).filter(|&at| has_requests && at > now);
        let release = self.quarantined.front().map(|(until, ..)| *until);
        let results = (self.account.operations() > 0).then_some(now + POLL);
        // No counter is read while results wait to be taken.
        let reading = self.readings.front().filter(|_| self.answers.is_empty());
        let reading = reading.map(|(due, ..)| self.pace.next().max(*due));
        let first = [pace, release, results, reading].into_iter().flatten().min();
        first.map_or(Next::Idle, Next::At)
    }

    fn answer(&mut self, worker: Worker, rule: RuleId, answer: RuleResult) {
        self.answers.push_back((worker, rule, answer));
    }

    fn release(&mut self, now: Nanos) {
        while let Some(&(_, worker, rule)) =
            self.quarantined.front().filter(|(until, ..)| *until <= now)
        {
            self.quarantined.pop_front();
            self.answer(worker, rule, RuleResult::Removed);
        }
    }

    fn quarantine(&mut self, worker: Worker, rule: RuleId, now: Nanos) {
        self.quarantined.push_back((now + self.limits.quarantine, worker, rule));
    }

    /// Begins as many requests as the port has room for; returns their number.
    fn begin(&mut self, now: Nanos) -> usize {
        let depth = self.depth();
        let room = depth.saturating_sub(self.account.operations());
        (0..room).take_while(|_| self.begin_one(now)).count()
    }

    /// Begins the next request. False if there is none.
    fn begin_one(&mut self, now: Nanos) -> bool {
        if let Some((worker, rule)) = self.next_of(|queue| queue.removes.pop_front()) {
            self.remove(worker, rule, now);
        } else if let Some(rule) = self.replaced.pop_front() {
            self.destroy(rule, now);
        } else if let Some(rule) = self.lost.pop_front() {
            self.recreate(rule, now);
        } else if let Some((worker, request)) = self.next_of(|queue| queue.installs.pop_front()) {
            self.install(worker, request, now);
        } else {
            return false;
        }
        true
    }

    /// Takes a request of the first worker that has one, beginning with the worker whose turn it
    /// is.
    fn next_of<T>(&mut self, take: impl Fn(&mut WorkerQueue) -> Option<T>) -> Option<(Worker, T)> {
        let (turn, count) = (self.turn, self.queues.len());
        let mut order = (0..count).map(|place| (turn + place) % count);
        let (worker, taken) =
            order.find_map(|worker| Some((worker, take(&mut self.queues[worker])?)))?;
        self.turn = worker + 1;
        Some((worker as Worker, taken))
    }

    fn remove(&mut self, worker: Worker, rule: RuleId, now: Nanos) {
        if let Some(handle) = self.account.get(rule) {
            handle.is_removal_requested = true;
            if handle.state == RuleState::Lost {
                self.quarantine(worker, rule, now);
            }
            // A rule that is being created is removed once that is done.
            return self.destroy(rule, now);
        }
        // The port has failed to remove it already, when another rule was to replace it.
        if let Some(leaked) = self.leaked.iter_mut().rfind(|leaked| leaked.rule == rule) {
            leaked.waiting_worker = Some(worker);
            return;
        }
        // It was refused, or another rule has replaced it, at an unknown time.
        self.quarantine(worker, rule, now);
    }

    /// Withdraws a rule that waits for the port. False if it does not wait.
    fn withdraw_waiting(&mut self, worker: Worker, rule: RuleId) -> bool {
        let is_same = |other: RuleId| other == rule;
        let waiting = &self.queues[usize::from(worker)].installs;
        if waiting.iter().any(|(other, _)| is_same(*other)) {
            return self.withdrawn.insert(rule);
        }
        let tuple = self.blocked.iter().find(|(_, (_, other, _))| is_same(*other));
        let tuple = tuple.map(|(tuple, _)| *tuple);
        tuple.and_then(|tuple| self.blocked.remove(&tuple)).is_some()
    }

    /// Begins the removal of a rule, if the port has it.
    fn destroy(&mut self, rule: RuleId, now: Nanos) {
        match self.account.get(rule).map(|handle| handle.state) {
            Some(RuleState::Present) => {
                self.read_last_count(rule);
                self.port.destroy(self.account.begin_removal(rule, now));
            }
            Some(RuleState::Lost) => self.account.remove(rule),
            Some(RuleState::Creating | RuleState::Removing) | None => {}
        }
    }

    fn install(&mut self, worker: Worker, (rule, request): (RuleId, Request), now: Nanos) {
        let Request { tuple, action } = request;
        if self.withdrawn.remove(&rule) {
            return;
        }
        // If the other rule is lost or replaced, its worker gets the result once it requests the
        // removal.
        match self.account.of_tuple(&tuple) {
            Some((other, RuleState::Lost)) => self.account.remove(other),
            Some((other, _)) => {
                self.replaced.push_back(other);
                let waiting = (worker, rule, action);
                if let Some((worker, rule, _)) = self.blocked.insert(tuple, waiting) {
                    self.answer(worker, rule, RuleResult::Postponed);
                }
                return;
            }
            None => {}
        }
        let number = self.account.begin(rule, (worker, request), now);
        self.create(number, rule, (worker, request));
    }

    fn create(&mut self, number: RuleNumber, rule: RuleId, (queue, request): (Worker, Request)) {
        let action = match request.action {
            RuleAction::Mark => NicAction::Mark { mark: self.layout.encode(rule), queue },
            RuleAction::Bypass => NicAction::Peer,
        };
        self.port.create(number, &request.tuple, action);
    }

    /// Begins to create a lost rule again, unless its removal was requested meanwhile.
    fn recreate(&mut self, rule: RuleId, now: Nanos) {
        let handle =
            self.account.get(rule).filter(|handle| handle.state == RuleState::Lost).copied();
        let Some(handle) = handle else { return };
        let number = self.account.recreate(rule, now);
        self.create(number, rule, (handle.worker, handle.request));
    }

    /// Queues the rule that waited until these packets have no other one.
    fn unblock(&mut self, tuple: &FiveTuple) {
        if let Some((worker, rule, action)) = self.blocked.remove(tuple) {
            let request = Request { tuple: *tuple, action };
            self.queues[usize::from(worker)].installs.push_front((rule, request));
        }
    }
}
