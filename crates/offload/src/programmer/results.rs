// SPDX-License-Identifier: BSD-3-Clause
//! Takes the results of operations from the port, and makes results for workers.

use super::{LeakedRule, Programmer, Worker};
use crate::account::{RuleHandle, RuleState};
use crate::port::{Completion, Refusal, RefusalClass, RulePort};
use engine::{Nanos, RuleId, RuleResult};

impl<P: RulePort> Programmer<P> {
    /// Takes results from the port, after `calls` operations and readings of counters since `from`.
    /// Returns the time after the call, and how many results came.
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
            self.operation_time = until.saturating_sub(from) / calls as u64;
        }
        let (ended, mut has_port_error) = (done.len(), false);
        for one in done.drain(..) {
            has_port_error |= self.end(one, until);
        }
        self.done = done;
        // Only one back-off, even if several operations failed.
        if has_port_error {
            self.pace.back_off(until);
        }
        (until, ended)
    }

    /// Takes a result. True if it shows an error of the port.
    fn end(&mut self, Completion { rule: number, result }: Completion, until: Nanos) -> bool {
        let Some((rule, handle)) = self.account.end(number) else { return false };
        if result.is_ok() {
            self.pace.reset_back_off();
        }
        match (handle.state, result) {
            (RuleState::Removing, Ok(())) => {
                self.account.remove(rule);
                self.counts.destroyed += 1;
                if handle.is_removal_requested {
                    self.quarantine(handle.worker, rule, until);
                }
                self.unblock(&handle.request.tuple);
                false
            }
            (RuleState::Removing, Err(refusal)) => {
                self.account.remove(rule);
                let waiting_worker = handle.is_removal_requested.then_some(handle.worker);
                self.count_unread(&handle);
                self.leaked.push(LeakedRule { rule, refusal, waiting_worker });
                if let Some((worker, other, _)) = self.blocked.remove(&handle.request.tuple) {
                    self.answer(worker, other, RuleResult::Postponed);
                }
                true
            }
            (_, Ok(())) => {
                self.on_created(rule, &handle, until);
                false
            }
            (_, Err(refusal)) => self.on_refused(rule, &handle, &refusal),
        }
    }

    fn on_created(&mut self, rule: RuleId, handle: &RuleHandle, until: Nanos) {
        self.account.confirm_created(rule);
        self.counts.created += 1;
        self.schedule_reading(rule, handle, until);
        if !handle.is_reported {
            // With `depth` operations in flight, one ends in this part of an operation's time.
            let share = until.saturating_sub(handle.begun) / self.depth() as u64;
            let pace = self.pace.interval(self.operation_time).max(share);
            let [pace, took] =
                [pace, self.operation_time].map(|nanos| nanos.min(u32::MAX.into()) as u32);
            self.answer(handle.worker, rule, RuleResult::Installed { pace, took });
        }
        if self.blocked.contains_key(&handle.request.tuple) {
            self.replaced.push_back(rule);
        }
        self.requeue_removal(rule, handle);
    }

    fn on_refused(&mut self, rule: RuleId, handle: &RuleHandle, refusal: &Refusal) -> bool {
        let answer = self.refused(refusal.class);
        match self.account.get(rule) {
            Some(handle) if handle.is_reported && refusal.class == RefusalClass::PortError => {
                (handle.state, handle.is_removal_requested) = (RuleState::Lost, false);
                self.lost.push_front(rule);
            }
            _ => self.account.remove(rule),
        }
        if handle.is_reported {
            self.requeue_removal(rule, handle);
        } else {
            // A worker that has requested its removal meanwhile gets no other result.
            self.answer(handle.worker, rule, answer);
        }
        self.unblock(&handle.request.tuple);
        refusal.class == RefusalClass::PortError
    }

    /// Queues the removal of a rule that was in flight when its worker requested it.
    fn requeue_removal(&mut self, rule: RuleId, handle: &RuleHandle) {
        if handle.is_removal_requested {
            self.queues[usize::from(handle.worker)].removes.push_front(rule);
        }
    }

    fn refused(&mut self, class: RefusalClass) -> RuleResult {
        let (count, answer) = match class {
            RefusalClass::Unsuitable => (&mut self.counts.unsuitable, RuleResult::Refused),
            RefusalClass::Full => (&mut self.counts.full, RuleResult::Full),
            RefusalClass::PortError => (&mut self.counts.port_errors, RuleResult::Postponed),
        };
        *count += 1;
        if class != RefusalClass::Unsuitable {
            self.refuse_waiting(answer);
        }
        answer
    }

    /// Gives the same result to all install requests that wait: the port would refuse them too.
    fn refuse_waiting(&mut self, answer: RuleResult) {
        for worker in 0..self.queues.len() {
            let waiting = std::mem::take(&mut self.queues[worker].installs);
            for (rule, _) in waiting {
                if !self.withdrawn.remove(&rule) {
                    self.counts.resting += 1;
                    self.answer(worker as Worker, rule, answer);
                }
            }
        }
    }
}
