// SPDX-License-Identifier: BSD-3-Clause
//! Reads the counters of bypass rules, a few at a time, and passes the counts to the workers.
//! Without these counts, a bypassed connection would expire.

use super::Programmer;
use crate::account::{RuleHandle, RuleState};
use crate::port::RulePort;
use engine::{BypassCount, Nanos, RuleAction, RuleId, RuleResult};

/// Most counters read in one step.
const READ: usize = 16;

impl<P: RulePort> Programmer<P> {
    /// Schedules the reading of a created rule's counter, if it is a bypass.
    pub(super) fn schedule_reading(&mut self, rule: RuleId, handle: &RuleHandle, now: Nanos) {
        if handle.request.action == RuleAction::Bypass {
            self.readings.push_back((now + self.limits.reading, handle.number, rule));
        }
    }

    /// Reads counters that are due, unless earlier results have not been taken yet. Returns how
    /// many it read.
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
            // Another rule with the same identifier may have taken its place.
            let handle = self.account.get(rule).filter(|handle| handle.number == number);
            if handle.is_none_or(|handle| handle.state != RuleState::Present) {
                continue;
            }
            self.readings.push_back((now + self.limits.reading, number, rule));
            self.count(rule);
            read += 1;
        }
        read
    }

    /// Reads the counter of a rule, if it is a bypass, for the last time before its removal.
    pub(super) fn read_last_count(&mut self, rule: RuleId) {
        let Some(handle) = self.account.get(rule).copied() else { return };
        if handle.request.action == RuleAction::Bypass && !self.count(rule) {
            self.count_unread(&handle);
        }
    }

    /// Notes that the last count of a rule is unknown, if it is a bypass.
    pub(super) fn count_unread(&mut self, handle: &RuleHandle) {
        self.counts.uncounted += u64::from(handle.request.action == RuleAction::Bypass);
    }

    /// Passes the packets that a rule has forwarded since the last reading to its worker. False if
    /// the count is unknown.
    fn count(&mut self, rule: RuleId) -> bool {
        let Some(handle) = self.account.get(rule) else { return false };
        let Some(counted) = self.port.counted(handle.number) else { return false };
        // If the counters of a NIC go back, they are ignored until they have caught up.
        if counted.packets > handle.reported.packets && counted.bytes >= handle.reported.bytes {
            let packets = counted.packets - handle.reported.packets;
            let passed = BypassCount { packets, bytes: counted.bytes - handle.reported.bytes };
            handle.reported = counted;
            let worker = handle.worker;
            self.answer(worker, rule, RuleResult::Passed(passed));
        }
        true
    }
}
