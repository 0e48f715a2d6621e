// SPDX-License-Identifier: BSD-3-Clause
//! Counters of rules by which the NIC forwards by itself: read one after the other, a few at a
//! time, and told to the workers, whose flows live by them.

use super::Programmer;
use crate::account::{RuleHandle, State};
use crate::port::RulePort;
use engine::{BypassCount, Nanos, RuleAction, RuleId, RuleResult};

/// Counters that are read between two operations.
const READ: usize = 16;

impl<P: RulePort> Programmer<P> {
    /// A rule was made: if it counts, its counter is read from now on.
    pub(super) fn begin_readings(&mut self, rule: RuleId, kept: &RuleHandle, now: Nanos) {
        if kept.request.action == RuleAction::Bypass {
            self.readings.push_back((now + self.limits.reading, kept.number, rule));
        }
    }

    /// Reads counters that are due, unless what was read before has not been taken yet; returns how
    /// many.
    pub(super) fn read_counters(&mut self, now: Nanos) -> usize {
        if !self.answers.is_empty() {
            return 0;
        }
        let mut read = 0;
        while read < READ {
            let Some(&(due, number, rule)) = self.readings.front() else { break };
            if due > now {
                break;
            }
            self.readings.pop_front();
            // One of the same name may have taken its place.
            let kept = self.account.get(rule).filter(|kept| kept.number == number);
            if kept.is_none_or(|kept| kept.state != State::There) {
                continue;
            }
            self.readings.push_back((now + self.limits.reading, number, rule));
            self.count(rule);
            read += 1;
        }
        read
    }

    /// The same of a rule that is to go, and for the last time.
    pub(super) fn count_last(&mut self, rule: RuleId) {
        let Some(kept) = self.account.get(rule).copied() else { return };
        if kept.request.action == RuleAction::Bypass && !self.count(rule) {
            self.miss_count(&kept);
        }
    }

    /// The last count of a rule is not known, if it counts.
    pub(super) fn miss_count(&mut self, kept: &RuleHandle) {
        self.counts.uncounted += u64::from(kept.request.action == RuleAction::Bypass);
    }

    /// Tells what a rule has forwarded since the last time; whether that is known.
    fn count(&mut self, rule: RuleId) -> bool {
        let Some(kept) = self.account.get(rule) else { return false };
        let Some(counted) = self.port.counted(kept.number) else { return false };
        // A NIC whose counters go back is not believed until they have caught up.
        if counted.packets > kept.told.packets && counted.bytes >= kept.told.bytes {
            let packets = counted.packets - kept.told.packets;
            let passed = BypassCount { packets, bytes: counted.bytes - kept.told.bytes };
            kept.told = counted;
            let worker = kept.worker;
            self.answer(worker, rule, RuleResult::Passed(passed));
        }
        true
    }
}
