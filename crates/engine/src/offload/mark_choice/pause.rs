// SPDX-License-Identifier: BSD-3-Clause
//! Decides when marks that have lost get another chance: after a time that grows with each attempt
//! in vain, or when the load has changed.

use crate::base::Nanos;

/// First and longest time without rules, in nanoseconds. The time doubles with each vain attempt:
/// while rules are installed, packets cost more.
const FIRST: Nanos = 60_000_000_000;
const LONGEST: Nanos = 300_000_000_000;

/// Trials without rules before the load is noted: the rules have to go first.
const SETTLING: u32 = 4;

/// If the number of connections changes by this part, in percent, in so many trials in a row, marks
/// are tried again. Also if the cost of a packet in software becomes twice or half as much, or
/// changes by its part. What others do to the caches and the clock of the machine changes the cost
/// too, by more than half and for seconds.
const OTHER_CONNECTIONS: u64 = 25;
const OTHER_COST: u64 = 50;
const CHANGES: [u32; 3] = [2, 4, 20];

/// A smaller change of the number of connections does not count.
const CONNECTIONS_MIN: u64 = 64;

/// After such an attempt in vain, changes do not count for this time, in nanoseconds. It doubles
/// with each, since the machine itself may be unsteady.
const UNSTEADY: Nanos = 10_000_000_000;

/// What decides whether marks pay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoadSeen {
    /// Cost in software, in sixteenths of a cycle per packet.
    pub(super) cost: u64,
    pub(super) connections: u64,
}

impl LoadSeen {
    /// True if there are other numbers of connections, if packets cost twice or half as much, and
    /// if they have another cost.
    fn differences(self, other: LoadSeen) -> [bool; 3] {
        let is_far = |a: u64, b: u64, part: u64| a.abs_diff(b) * 100 > b * part;
        let more = self.connections.abs_diff(other.connections);
        [
            more > CONNECTIONS_MIN
                && is_far(self.connections, other.connections, OTHER_CONNECTIONS),
            self.cost > 2 * other.cost || 2 * self.cost < other.cost,
            is_far(self.cost, other.cost, OTHER_COST),
        ]
    }
}

/// The times without rules.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    length: Nanos,
    until: Nanos,
    /// Trials until the load is noted, and that load.
    settling: u32,
    load: Option<LoadSeen>,
    /// Trials in a row in which each of [`LoadSeen::differences`] held.
    changes: [u32; 3],
    /// When changes count again, and for how long they do not after the next attempt.
    heeds_changes_at: Nanos,
    unsteady: Nanos,
}

impl Pause {
    pub(super) const NONE: Pause = Pause {
        length: FIRST,
        until: 0,
        settling: 0,
        load: None,
        changes: [0; 3],
        heeds_changes_at: 0,
        unsteady: UNSTEADY,
    };

    /// Begins a time without rules.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.until = now.saturating_add(self.length);
        self.length = (2 * self.length).min(LONGEST);
        (self.settling, self.load, self.changes) = (SETTLING, None, [0; 3]);
    }

    pub(super) fn is_over(&self, now: Nanos) -> bool {
        now >= self.until
    }

    /// Returns how long the next time without rules lasts: as long as an attempt may take.
    pub(super) fn length(&self) -> Nanos {
        self.length
    }

    /// Notes that marks have won, so that a later attempt is not a vain one.
    pub(super) fn reset(&mut self) {
        (self.length, self.unsteady) = (FIRST, UNSTEADY);
    }

    /// Notes the load in a trial without rules. True if it has changed, so that marks may pay.
    pub(super) fn note(&mut self, load: LoadSeen, now: Nanos) -> bool {
        if self.settling > 0 {
            self.settling -= 1;
            return false;
        }
        let before = *self.load.get_or_insert(load);
        for (changes, differs) in self.changes.iter_mut().zip(load.differences(before)) {
            *changes = if differs { *changes + 1 } else { 0 };
        }
        let has_changed = self.changes.iter().zip(CHANGES).any(|(changes, max)| *changes >= max);
        if !has_changed || now < self.heeds_changes_at {
            return false;
        }
        self.heeds_changes_at = now.saturating_add(self.unsteady);
        self.unsteady = (2 * self.unsteady).min(LONGEST);
        true
    }
}
