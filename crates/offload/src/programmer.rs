// SPDX-License-Identifier: BSD-3-Clause
//! What is wished of a port, and what it has.
//!
//! Operations are begun as many as the port has room for, and end when their results come. Rules
//! that are to go come first: they make room, and their marks are the ones that can do harm; then
//! those that make room for another of the same packets, then new ones. Each worker has its turn. A
//! rule that went is quarantined before its worker hears of it, so that packets which it marked
//! have come out of the port.

mod counters;
mod results;

use crate::account::{Request, RuleTable, State};
use crate::pace::CallPacer;
use crate::port::{Completion, OperationResult, Refusal, RuleNumber, RulePort};
use engine::{FiveTuple, MarkLayout, Nanos, RuleAction, RuleId, RuleRequest, RuleResult};
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
    /// From one reading of a counter to the next.
    pub reading: Nanos,
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
    /// Rules of which the last count is not known: what they forwarded since the one before is
    /// lost with it.
    pub uncounted: u64,
}

/// A rule that the port did not part with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakedRule {
    /// Which.
    pub rule: RuleId,
    /// Why, in the port's words.
    pub refusal: Refusal,
    /// Who waits to hear that it is gone.
    awaited_by: Option<Worker>,
}

/// What one worker wants.
#[derive(Default)]
struct WorkerQueue {
    removes: VecDeque<RuleId>,
    installs: VecDeque<(RuleId, Request)>,
}

/// How long to wait before one looks for results again.
const POLL: Nanos = 50_000;

/// Programs one port.
pub struct Programmer<P> {
    port: P,
    layout: MarkLayout,
    limits: Limits,
    pace: CallPacer,
    desks: Vec<WorkerQueue>,
    /// Whose turn it is.
    turn: usize,
    account: RuleTable,
    /// What one operation took of late, in calls.
    call: Nanos,
    /// To go, so that others can come.
    replaced: VecDeque<RuleId>,
    /// Those others, which wait for packets that have another rule still.
    blocked: HashMap<FiveTuple, (Worker, RuleId, RuleAction)>,
    /// Lost, and to be made again unless they are to go meanwhile.
    lost: VecDeque<RuleId>,
    /// Waiting, and no longer wished for.
    withdrawn: HashSet<RuleId>,
    /// Gone, and not told yet.
    quarantined: VecDeque<(Nanos, Worker, RuleId)>,
    /// Not gone, though they were to go; nobody hears of them.
    stuck: Vec<LeakedRule>,
    answers: VecDeque<(Worker, RuleId, RuleResult)>,
    counts: Counts,
    /// Rules whose counters are read, each when it is due.
    readings: VecDeque<(Nanos, RuleNumber, RuleId)>,
    /// Room for results.
    done: Vec<Completion>,
}

impl<P: RulePort> Programmer<P> {
    /// For `workers` workers, with marks as `layout` has them.
    pub fn new(port: P, layout: MarkLayout, workers: u16, limits: Limits, pace: CallPacer) -> Self {
        Self {
            port,
            layout,
            limits,
            pace,
            desks: (0..workers).map(|_| WorkerQueue::default()).collect(),
            turn: 0,
            account: RuleTable::default(),
            call: 0,
            replaced: VecDeque::new(),
            blocked: HashMap::new(),
            lost: VecDeque::new(),
            withdrawn: HashSet::new(),
            quarantined: VecDeque::new(),
            stuck: Vec::new(),
            answers: VecDeque::new(),
            counts: Counts::default(),
            readings: VecDeque::new(),
            done: Vec::new(),
        }
    }

    /// Hears a worker. A wish for a new rule that finds no room is answered at once, as is one to
    /// remove a rule that the port has not heard of: what is refused later is refused once.
    pub fn submit(&mut self, worker: Worker, wish: RuleRequest) {
        let desk = &mut self.desks[usize::from(worker)];
        match wish {
            RuleRequest::Remove { rule, .. } => self.hear_remove(worker, rule),
            RuleRequest::Install { rule, tuple, action, .. }
                if desk.installs.len() < self.limits.waiting =>
            {
                desk.installs.push_back((rule, Request { tuple, action }));
            }
            RuleRequest::Install { rule, .. } => self.answer(worker, rule, RuleResult::Postponed),
        }
    }

    fn hear_remove(&mut self, worker: Worker, rule: RuleId) {
        if let Some(kept) = self.account.get(rule).filter(|kept| kept.state == State::Coming) {
            kept.is_unwanted = true;
        } else if self.withdraws(worker, rule) {
            self.counts.withdrawn += 1;
            self.answer(worker, rule, RuleResult::Removed);
        } else {
            self.desks[usize::from(worker)].removes.push_back(rule);
        }
    }

    /// Whether a worker's wish for a new rule would find room.
    pub fn has_room(&self, worker: Worker) -> bool {
        self.desks[usize::from(worker)].installs.len() < self.limits.waiting
    }

    /// Has so many rules at most destroyed, whoever wished for them and whatever the pace: for the
    /// end, when nobody waits for answers. Returns how many are not known to be gone.
    pub fn clear(&mut self, most: usize, clock: &mut impl FnMut() -> Nanos) -> usize {
        let mut rules = self.account.at_rest(most).into_iter().peekable();
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

    /// The port has none of its rules any more: it was reset, or flushed and stopped, and what was
    /// on its way there will not be done. Rules that their workers still want are made again, with
    /// the same marks, which are as right as before: a mark is of a connection, not of a call. One
    /// that the port does not take again goes without a word: its worker sees that marks come no
    /// more. Those that were stuck stay so, for want of anybody who knows.
    pub fn lose(&mut self) {
        self.counts.lost += self.len() as u64;
        self.replaced.clear();
        self.lost.clear();
        for (rule, kept) in self.account.lose() {
            if matches!(kept.state, State::Coming | State::There) {
                self.miss_count(&kept);
            }
            match kept.state {
                // Nobody was told that it is there: it is as if it was not asked for yet.
                State::Coming if !kept.is_told => {
                    self.account.remove(rule);
                    let desk = &mut self.desks[usize::from(kept.worker)];
                    desk.installs.push_front((rule, kept.request));
                }
                State::Leaving => self.account.remove(rule),
                State::Coming | State::There | State::Lost => self.lost.push_back(rule),
            }
            if kept.is_unwanted {
                self.hear_remove(kept.worker, rule);
            }
        }
        let tuples: Vec<_> = self.blocked.keys().copied().collect();
        tuples.iter().for_each(|tuple| self.unblock(tuple));
    }

    /// As [`lose`](Self::lose), and so thoroughly that those are gone, too, that were stuck: the
    /// NIC itself was reset.
    pub fn lose_all(&mut self, now: Nanos) {
        self.lose();
        self.pace.begin_anew();
        self.counts.lost += self.stuck.len() as u64;
        for LeakedRule { rule, awaited_by, .. } in std::mem::take(&mut self.stuck) {
            if let Some(worker) = awaited_by {
                self.quarantine(worker, rule, now);
            }
        }
    }

    /// Begins what there is room for, reads counters and takes results. `clock` is read before and
    /// after.
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
        let asked = self.account.operations() - operations + read;
        let (until, ended) = self.poll((now, asked), clock);
        if begun + read + ended > 0 { Next::Now } else { self.later(until) }
    }

    /// What became of a wish, for its worker.
    pub fn next_answer(&mut self) -> Option<(Worker, RuleId, RuleResult)> {
        self.answers.pop_front()
    }

    /// Rules that the port has, by this account, without those that are stuck.
    pub fn len(&self) -> usize {
        self.account.there()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rules that the port did not part with.
    pub fn stuck(&self) -> &[LeakedRule] {
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

    fn depth(&self) -> usize {
        self.port.depth().max(1)
    }

    fn later(&self, now: Nanos) -> Next {
        let has_wishes = !(self.lost.is_empty() && self.replaced.is_empty())
            || self.desks.iter().any(|desk| !(desk.removes.is_empty() && desk.installs.is_empty()));
        // Where it is not the pace that they wait for, it is results.
        let pace = Some(self.pace.next()).filter(|&at| has_wishes && at > now);
        let release = self.quarantined.front().map(|(until, ..)| *until);
        let results = (self.account.operations() > 0).then_some(now + POLL);
        // As long as answers wait, nothing more is read.
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

    /// Looks at as many wishes as the port has room for; returns at how many.
    fn begin(&mut self, now: Nanos) -> usize {
        let depth = self.depth();
        let room = depth.saturating_sub(self.account.operations());
        (0..room).take_while(|_| self.begin_one(now)).count()
    }

    /// False if there is nothing to begin.
    fn begin_one(&mut self, now: Nanos) -> bool {
        if let Some((worker, rule)) = self.next_of(|desk| desk.removes.pop_front()) {
            self.remove(worker, rule, now);
        } else if let Some(rule) = self.replaced.pop_front() {
            self.destroy(rule, now);
        } else if let Some(rule) = self.lost.pop_front() {
            self.remake(rule, now);
        } else if let Some((worker, wish)) = self.next_of(|desk| desk.installs.pop_front()) {
            self.install(worker, wish, now);
        } else {
            return false;
        }
        true
    }

    /// Of the first worker that has some, beginning with the one whose turn it is.
    fn next_of<T>(&mut self, take: impl Fn(&mut WorkerQueue) -> Option<T>) -> Option<(Worker, T)> {
        let (turn, count) = (self.turn, self.desks.len());
        let mut order = (0..count).map(|place| (turn + place) % count);
        let (worker, taken) =
            order.find_map(|worker| Some((worker, take(&mut self.desks[worker])?)))?;
        self.turn = worker + 1;
        Some((worker as Worker, taken))
    }

    fn remove(&mut self, worker: Worker, rule: RuleId, now: Nanos) {
        if let Some(kept) = self.account.get(rule) {
            kept.is_unwanted = true;
            if kept.state == State::Lost {
                self.quarantine(worker, rule, now);
            }
            // One that comes goes when it has come.
            return self.destroy(rule, now);
        }
        // It did not go, now or when it had to make room for another of its packets.
        if let Some(stuck) = self.stuck.iter_mut().rfind(|stuck| stuck.rule == rule) {
            stuck.awaited_by = Some(worker);
            return;
        }
        // It was refused, or made room; when, nobody noted.
        self.quarantine(worker, rule, now);
    }

    /// Whether a rule was waiting, which it then does no more.
    fn withdraws(&mut self, worker: Worker, rule: RuleId) -> bool {
        let is_it = |other: RuleId| other == rule;
        let waiting = &self.desks[usize::from(worker)].installs;
        if waiting.iter().any(|(other, _)| is_it(*other)) {
            return self.withdrawn.insert(rule);
        }
        let tuple = self.blocked.iter().find(|(_, (_, other, _))| is_it(*other));
        let tuple = tuple.map(|(tuple, _)| *tuple);
        tuple.and_then(|tuple| self.blocked.remove(&tuple)).is_some()
    }

    /// Asks that a rule goes, if it is there.
    fn destroy(&mut self, rule: RuleId, now: Nanos) {
        match self.account.get(rule).map(|kept| kept.state) {
            Some(State::There) => {
                self.count_last(rule);
                self.port.destroy(self.account.leave(rule, now));
            }
            Some(State::Lost) => self.account.remove(rule),
            Some(State::Coming | State::Leaving) | None => {}
        }
    }

    fn install(&mut self, worker: Worker, (rule, request): (RuleId, Request), now: Nanos) {
        let Request { tuple, action } = request;
        if self.withdrawn.remove(&rule) {
            return;
        }
        // Its worker will have the other removed, and hears then that it is.
        match self.account.of_tuple(&tuple) {
            Some((other, State::Lost)) => self.account.remove(other),
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
        let fate = match request.action {
            RuleAction::Mark => OperationResult::Mark { mark: self.layout.encode(rule), queue },
            RuleAction::Bypass => OperationResult::Peer,
        };
        self.port.create(number, &request.tuple, fate);
    }

    /// Asks for a rule that was lost, if it is to be made still.
    fn remake(&mut self, rule: RuleId, now: Nanos) {
        let kept = self.account.get(rule).filter(|kept| kept.state == State::Lost).copied();
        let Some(kept) = kept else { return };
        let number = self.account.begin_again(rule, now);
        self.create(number, rule, (kept.worker, kept.request));
    }

    /// Lets what waited for packets to have no rule have its turn.
    fn unblock(&mut self, tuple: &FiveTuple) {
        if let Some((worker, rule, action)) = self.blocked.remove(tuple) {
            let request = Request { tuple: *tuple, action };
            self.desks[usize::from(worker)].installs.push_front((rule, request));
        }
    }
}
