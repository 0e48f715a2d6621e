// SPDX-License-Identifier: BSD-3-Clause
//! Chooses which of several groups of streams sends next.

use super::schedule::Group;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Groups of streams, in the order in which their next frames are due.
#[derive(Debug)]
pub(crate) struct Turns {
    groups: Vec<Group>,
    /// The group that sends until another is due. Most frames need no change of the group, and then
    /// the heap is not touched.
    current: usize,
    others: BinaryHeap<Reverse<Waiting>>,
    /// Time at which the first of the others is due, in nanoseconds; `u64::MAX` for never.
    until: u64,
    /// Number of changes of the group so far, plus the number of groups.
    changes: u64,
}

/// A group that waits for its turn. Of groups that are due at the same time, the one that has
/// waited longest sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due: u64,
    since: u64,
    group: usize,
}

impl Turns {
    /// Begins the groups; the next frame is the one that is due first.
    pub(crate) fn new(mut groups: Vec<Group>) -> Self {
        groups.iter_mut().for_each(Group::begin);
        let waiting = groups
            .iter()
            .enumerate()
            .map(|(group, it)| Reverse(Waiting { due: it.due(), since: group as u64, group }));
        let mut others: BinaryHeap<_> = waiting.collect();
        let changes = groups.len() as u64;
        let current = others.pop().map_or(0, |Reverse(first)| first.group);
        let mut turns = Self { groups, current, others, until: u64::MAX, changes };
        turns.until = turns.first_of_others();
        turns
    }

    /// Returns the time at which the next frame is due, in nanoseconds; `None` if there are no
    /// more.
    #[inline(always)]
    pub(crate) fn due(&self) -> Option<u64> {
        self.groups.get(self.current).map(Group::due).filter(|due| *due != u64::MAX)
    }

    /// Returns the group of the next frame.
    ///
    /// # Panics
    /// If there are no groups.
    #[inline(always)]
    pub(crate) fn current(&self) -> &Group {
        &self.groups[self.current]
    }

    /// Returns the group if there is only one.
    #[inline(always)]
    pub(crate) fn only(&mut self) -> Option<&mut Group> {
        match &mut self.groups[..] {
            [group] => Some(group),
            _ => None,
        }
    }

    /// Advances to the next frame. `is_over` is true if the stream of the frame just sent has no
    /// more.
    #[inline(always)]
    pub(crate) fn advance(&mut self, is_over: bool) {
        let group = &mut self.groups[self.current];
        group.advance(is_over);
        // At the same time, another group may send only between bursts.
        if group.due() > self.until || group.due() == self.until && group.begins_burst() {
            self.change();
        }
    }

    /// Changes to the other group that is due first, if there is one.
    fn change(&mut self) {
        let due = self.groups[self.current].due();
        let waiting = Waiting { due, since: self.changes, group: self.current };
        let Some(mut first) = self.others.peek_mut() else { return };
        self.current = std::mem::replace(&mut first.0, waiting).group;
        drop(first);
        self.changes += 1;
        self.until = self.first_of_others();
    }

    fn first_of_others(&self) -> u64 {
        self.others.peek().map_or(u64::MAX, |Reverse(first)| first.due)
    }
}
