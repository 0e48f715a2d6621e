// SPDX-License-Identifier: BSD-3-Clause
//! Chooses which of several groups of streams sends next.

use super::schedule::Group;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Groups of streams, and the one whose frame is due first.
#[derive(Debug)]
pub(crate) struct Turns {
    groups: Vec<Group>,
    /// The group that sends until the first of the others is due: most frames change nothing else.
    current: usize,
    others: BinaryHeap<Reverse<Waiting>>,
    /// Time at which the first of the others is due; `u64::MAX` for never.
    until: u64,
    /// Number of times that groups took turns.
    changes: u64,
}

/// A group whose turn is to come. Of several that are due at one time, the one that has waited for
/// the longest sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due: u64,
    since: u64,
    group: usize,
}

impl Turns {
    /// Makes turns of the groups, from their first frames on.
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

    /// Returns when the next frame is due; `None` if there are no more.
    #[inline(always)]
    pub(crate) fn due(&self) -> Option<u64> {
        self.groups.get(self.current).map(Group::due).filter(|due| *due != u64::MAX)
    }

    /// The group of the next frame.
    ///
    /// # Panics
    /// If there are no groups.
    #[inline(always)]
    pub(crate) fn current(&self) -> &Group {
        &self.groups[self.current]
    }

    /// The only group.
    #[inline(always)]
    pub(crate) fn only(&mut self) -> Option<&mut Group> {
        match &mut self.groups[..] {
            [group] => Some(group),
            _ => None,
        }
    }

    /// Advances to the next frame; `is_over` says that the stream of the last one has no more.
    #[inline(always)]
    pub(crate) fn advance(&mut self, is_over: bool) {
        let group = &mut self.groups[self.current];
        group.advance(is_over);
        // Frames of a burst stay together.
        if group.due() > self.until || group.due() == self.until && group.begins_burst() {
            self.change();
        }
    }

    /// Changes to the first of the other groups, if there are others.
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
