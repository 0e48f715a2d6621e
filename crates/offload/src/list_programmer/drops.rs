// SPDX-License-Identifier: BSD-3-Clause
//! Rules of access lists by which the port itself drops packets: how many there may be, what they
//! have dropped, and their end before the lists change.
//!
//! A mark of earlier lists can be ignored at once, but a rule that drops does so until it is gone.
//! So there are only as many as the port can destroy within a bound, which ends before a change of
//! lists does.

use super::{ListPort, ListProgrammer, PortRule};
use engine::{Nanos, RuleHits};
use std::collections::HashMap;

/// Time from one reading of all counters to the next.
const READING: Nanos = 1_000_000_000;

/// What was read of the counter of a port rule that drops.
#[derive(Clone, Copy, Debug)]
pub(super) struct DropCounter {
    /// Number of the rule in its list.
    pub(super) rule: u32,
    /// Packets and bytes.
    pub(super) read: [u64; 2],
}

/// State of all port rules that drop.
#[derive(Debug, Default)]
pub(super) struct Drops {
    /// Time within which all of them must be destroyed; 0 for none.
    bound: Nanos,
    /// Removals so far, and their time.
    removals: u64,
    removal_time: Nanos,
    /// True if none is to be there until the lists change.
    pub(super) are_stopped: bool,
    /// What the port said when it failed to destroy a rule.
    pub(super) failure: Option<String>,
    /// Rules that the port marks, since it refused to drop their packets with these words.
    pub(super) refused: HashMap<u32, String>,
    /// Packets that were not taken yet, by number of the rule.
    unreported: Vec<(u32, RuleHits)>,
    /// When all counters are read again; `None` without such rules.
    next_reading: Option<Nanos>,
}

/// Port rules that still drop packets, after they were to be destroyed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropsLeft {
    /// Their number.
    pub left: usize,
    /// What the port said when it failed to destroy a rule.
    pub failure: Option<String>,
}

impl Drops {
    pub(super) fn begin_lists(&mut self) {
        (self.are_stopped, self.failure) = (false, None);
        self.refused.clear();
    }

    /// Notes a removal, as the time of further ones is estimated by.
    pub(super) fn note_removal(&mut self, took: Nanos) {
        self.removals += 1;
        self.removal_time += took;
    }

    pub(super) fn next_reading(&self) -> Option<Nanos> {
        self.next_reading
    }

    /// Reads the counter of a port rule, if it drops. False if it cannot be read.
    pub(super) fn read(
        &mut self,
        port: &mut impl ListPort,
        rule: &mut PortRule,
        now: Nanos,
    ) -> bool {
        let Some(counter) = &mut rule.counter else { return true };
        let Some(read) = port.dropped_by(rule.number) else { return false };
        // If the counters of a NIC go back, they are ignored until they have caught up.
        let [packets, bytes] = [0, 1].map(|at| read[at].saturating_sub(counter.read[at]));
        if packets > 0 && read[1] >= counter.read[1] {
            counter.read = read;
            self.unreported.push((counter.rule, RuleHits { packets, bytes, last: now }));
        }
        true
    }
}

impl ListProgrammer {
    /// Sets the time within which the port must be able to destroy all rules that drop, with those
    /// that must go before them; 0 if no rule is to drop. Takes effect with the next
    /// [`replace`](Self::replace).
    pub fn set_drop_bound(&mut self, bound: Nanos) {
        self.drops.bound = bound;
    }

    /// Notes how long the port took for some removals. Without any, no rule drops.
    pub fn note_removals(&mut self, count: u64, time: Nanos) {
        self.drops.removals += count;
        self.drops.removal_time += time;
    }

    /// Returns the time from one removal to the next, as measured so far.
    pub fn removal_interval(&self) -> Nanos {
        self.pacer.interval(self.drops.removal_time / self.drops.removals.max(1)).max(1)
    }

    /// Returns how many port rules may be in the way of a change of lists.
    pub fn drops_max(&self) -> usize {
        if self.drops.are_stopped || self.drops.removals == 0 {
            return 0;
        }
        (self.drops.bound / self.removal_interval()) as usize
    }

    /// Returns the number of port rules that drop.
    pub fn dropping(&self) -> usize {
        let installed = self.installed.values().flat_map(|rule| &rule.rules);
        let all = installed.chain(&self.old).chain(&self.stuck);
        all.filter(|rule| rule.counter.is_some()).count()
    }

    /// Begins to destroy all port rules that drop, and those that must go before them, also those
    /// that the port has failed to destroy. No rule is created until [`replace`](Self::replace) or
    /// [`resume_drops`](Self::resume_drops).
    pub fn stop_drops(&mut self) {
        if self.drops.are_stopped {
            return;
        }
        (self.drops.are_stopped, self.drops.failure) = (true, None);
        let (again, stuck) = self.stuck.drain(..).partition(|rule| rule.counter.is_some());
        self.stuck = stuck;
        let again: Vec<_> = again;
        self.old.extend(again);
        self.choose();
    }

    /// Returns what is left of them.
    pub fn drops_left(&self) -> DropsLeft {
        DropsLeft { left: self.dropping(), failure: self.drops.failure.clone() }
    }

    /// Goes on with the same lists after [`stop_drops`](Self::stop_drops).
    pub fn resume_drops(&mut self) {
        if std::mem::take(&mut self.drops.are_stopped) {
            self.choose();
        }
    }

    /// Returns why the port marks the packets of a rule that may drop.
    pub fn why_marked(&self, number: u32) -> Option<&str> {
        self.drops.refused.get(&number).map(String::as_str)
    }

    /// Reads the counters of all port rules that drop.
    pub fn read_drops(&mut self, port: &mut impl ListPort, now: Nanos) {
        let installed = self.installed.values_mut().flat_map(|rule| &mut rule.rules);
        for rule in installed.chain(&mut self.old).chain(&mut self.stuck) {
            self.drops.read(port, rule, now);
        }
    }

    /// Takes the packets that rules have dropped since the last call, as far as they were read.
    pub fn take_dropped(&mut self) -> Vec<(u32, RuleHits)> {
        std::mem::take(&mut self.drops.unreported)
    }

    /// Reads all counters if it is time. True if it did.
    pub(super) fn read_due(&mut self, port: &mut impl ListPort, now: Nanos) -> bool {
        if self.drops.bound == 0 && self.drops.next_reading.is_none() {
            return false;
        }
        let due = *self.drops.next_reading.get_or_insert(now + READING);
        if now < due {
            return false;
        }
        self.drops.next_reading = (self.dropping() > 0).then_some(now + READING);
        self.read_drops(port, now);
        self.drops.next_reading.is_some()
    }
}
