// SPDX-License-Identifier: BSD-3-Clause
//! Takes the results of operations from the port, and makes results for workers.

use super::{LeakedRule, Programmer, Worker};
use crate::account::{RuleHandle, State};
use crate::port::{Completion, Refusal, RefusalClass, RulePort};
use engine::{Nanos, RuleId, RuleResult};

impl<P: RulePort> Programmer<P> {
    /// Takes results after `calls` operations began since `from`. Returns the time after the call,
    /// and how many results came.
    pub(super) fn poll(
        &mut self,
        (from, calls): (Nanos, usize),
        clock: &mut impl FnMut() -> Nanos,
    ) -> (Nanos, usize) {
        let mut done = std::mem::take(&mut self.done);
        self.port.poll(&mut done);
        let until = clock();
        self.pace.took(from, until);
        if calls > 0 {
            self.call = until.saturating_sub(from) / calls as u64;
        }
        let (ended, mut is_in_trouble) = (done.len(), false);
        for one in done.drain(..) {
            is_in_trouble |= self.end(one, until);
        }
        self.done = done;
        // One rest, however many operations failed.
        if is_in_trouble {
            self.pace.rest(until);
        }
        (until, ended)
    }

    /// Takes a result. True if it shows trouble.
    fn end(&mut self, Completion { rule: number, result }: Completion, until: Nanos) -> bool {
        let Some((rule, kept)) = self.account.end(number) else { return false };
        if result.is_ok() {
            self.pace.went_well();
        }
        match (kept.state, result) {
            (State::Leaving, Ok(())) => {
                self.account.remove(rule);
                self.counts.destroyed += 1;
                if kept.is_unwanted {
                    self.quarantine(kept.worker, rule, until);
                }
                self.unblock(&kept.request.tuple);
                false
            }
            (State::Leaving, Err(refusal)) => {
                self.account.remove(rule);
                let awaited_by = kept.is_unwanted.then_some(kept.worker);
                self.miss_count(&kept);
                self.stuck.push(LeakedRule { rule, refusal, awaited_by });
                if let Some((worker, other, _)) = self.blocked.remove(&kept.request.tuple) {
                    self.answer(worker, other, RuleResult::Postponed);
                }
                true
            }
            (_, Ok(())) => {
                self.made(rule, &kept, until);
                false
            }
            (_, Err(refusal)) => self.not_made(rule, &kept, &refusal),
        }
    }

    fn made(&mut self, rule: RuleId, kept: &RuleHandle, until: Nanos) {
        self.account.arrive(rule);
        self.counts.created += 1;
        self.begin_readings(rule, kept, until);
        if !kept.is_told {
            // With `depth` operations in flight, one ends in this part of an operation's time.
            let share = until.saturating_sub(kept.begun) / self.depth() as u64;
            let pace = self.pace.interval(self.call).max(share);
            let pace = pace.min(u32::MAX.into()) as u32;
            self.answer(kept.worker, rule, RuleResult::Installed { pace });
        }
        if self.blocked.contains_key(&kept.request.tuple) {
            self.replaced.push_back(rule);
        }
        self.remind(rule, kept);
    }

    fn not_made(&mut self, rule: RuleId, kept: &RuleHandle, refusal: &Refusal) -> bool {
        let answer = self.refused(refusal.class);
        match self.account.get(rule) {
            Some(kept) if kept.is_told && refusal.class == RefusalClass::Trouble => {
                (kept.state, kept.is_unwanted) = (State::Lost, false);
                self.lost.push_front(rule);
            }
            _ => self.account.remove(rule),
        }
        if kept.is_told {
            self.remind(rule, kept);
        } else {
            // A worker that has requested its removal meanwhile gets no other result.
            self.answer(kept.worker, rule, answer);
        }
        self.unblock(&kept.request.tuple);
        refusal.class == RefusalClass::Trouble
    }

    /// Queues the removal of a rule that was in flight when its worker requested it.
    fn remind(&mut self, rule: RuleId, kept: &RuleHandle) {
        if kept.is_unwanted {
            self.queues[usize::from(kept.worker)].removes.push_front(rule);
        }
    }

    fn refused(&mut self, class: RefusalClass) -> RuleResult {
        let (count, answer) = match class {
            RefusalClass::Unsuitable => (&mut self.counts.unsuitable, RuleResult::Refused),
            RefusalClass::Full => (&mut self.counts.full, RuleResult::Full),
            RefusalClass::Trouble => (&mut self.counts.trouble, RuleResult::Postponed),
        };
        *count += 1;
        if class != RefusalClass::Unsuitable {
            self.answer_waiting(answer);
        }
        answer
    }

    /// Gives the requests that wait the same result: their calls would be refused too.
    fn answer_waiting(&mut self, answer: RuleResult) {
        for worker in 0..self.queues.len() {
            let waiting = std::mem::take(&mut self.queues[worker].installs);
            self.counts.resting += waiting.len() as u64;
            for (rule, _) in waiting {
                if !self.withdrawn.remove(&rule) {
                    self.answer(worker as Worker, rule, answer);
                }
            }
        }
    }
}
