// SPDX-License-Identifier: BSD-3-Clause
//! Owns the candidates for rules, by score. The best comes first; of equals, the one that came
//! first.
//!
//! The queue is bounded: if it is full, the lowest score goes. Nothing searches the queue. An entry
//! that no longer holds stays until its turn, and the caller recognises it then.

use super::score::Score;

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CandidateId {
    pub(crate) record: u32,
    /// 1: its sender is the second end of the key.
    pub(crate) direction: u8,
}

/// Most entries.
const ENTRIES: usize = 1024;

/// Stands for no entry.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Entry {
    candidate: CandidateId,
    next: u16,
}

/// Entries with one score, first in, first out.
#[derive(Clone, Copy)]
struct Queue {
    first: u16,
    last: u16,
}

/// Candidates by score.
pub(crate) struct CandidateQueue {
    entries: Box<[Entry]>,
    /// First of the unused entries, which are linked.
    free: u16,
    queues: [Queue; Score::COUNT],
    /// Bit `i`: the queue of score `i` has entries.
    filled: u128,
}

impl CandidateQueue {
    pub(crate) fn new() -> Self {
        let entry = |i: usize| Entry {
            candidate: CandidateId { record: 0, direction: 0 },
            next: if i + 1 < ENTRIES { i as u16 + 1 } else { NONE },
        };
        Self {
            entries: (0..ENTRIES).map(entry).collect(),
            free: 0,
            queues: [Queue { first: NONE, last: NONE }; Score::COUNT],
            filled: 0,
        }
    }

    /// Adds a candidate. Returns the one that has to go for it, which may be the same.
    pub(crate) fn push(
        &mut self,
        score: Score,
        candidate: CandidateId,
    ) -> Option<(Score, CandidateId)> {
        let mut gone = None;
        if self.free == NONE {
            let lowest = Score::from_number(self.filled.trailing_zeros() as usize);
            if lowest >= score {
                return Some((score, candidate));
            }
            gone = self.pop(lowest).map(|candidate| (lowest, candidate));
        }
        let at = self.free;
        let entry = &mut self.entries[usize::from(at)];
        self.free = entry.next;
        *entry = Entry { candidate, next: NONE };
        let queue = &mut self.queues[score.number()];
        match queue.last {
            NONE => queue.first = at,
            last => self.entries[usize::from(last)].next = at,
        }
        queue.last = at;
        self.filled |= 1 << score.number();
        gone
    }

    /// Returns the best score of the candidates for which `holds` is true. Removes those before it
    /// for which it is false.
    pub(crate) fn best(&mut self, holds: impl Fn(Score, CandidateId) -> bool) -> Option<Score> {
        while self.filled != 0 {
            let score = Score::from_number(self.filled.ilog2() as usize);
            let first = self.queues[score.number()].first;
            if holds(score, self.entries[usize::from(first)].candidate) {
                return Some(score);
            }
            self.pop(score);
        }
        None
    }

    /// Takes the first candidate with this score.
    pub(crate) fn pop(&mut self, score: Score) -> Option<CandidateId> {
        let queue = &mut self.queues[score.number()];
        let at = queue.first;
        let entry = self.entries.get_mut(usize::from(at))?;
        queue.first = entry.next;
        if entry.next == NONE {
            queue.last = NONE;
            self.filled &= !(1 << score.number());
        }
        entry.next = self.free;
        self.free = at;
        Some(entry.candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;

    fn score(number: usize) -> Score {
        Score::from_number(number)
    }

    proptest! {
        /// Against a list that is sorted each time.
        #[test]
        fn the_best_comes_first_and_the_worst_makes_room(
            steps in prop::collection::vec(prop::option::weighted(0.7, 0..Score::COUNT), 1..4000),
        ) {
            let mut candidates = CandidateQueue::new();
            let mut model: Vec<(usize, u32)> = Vec::new();
            for (record, step) in (0..).zip(steps) {
                let Some(number) = step else {
                    let at = (0..model.len()).min_by_key(|&i| (Reverse(model[i].0), model[i].1));
                    let expected = at.map(|at| model.remove(at));
                    let best = candidates.best(|_, _| true);
                    let taken = best.and_then(|best| candidates.pop(best));
                    let taken = taken.map(|candidate| (best.unwrap().number(), candidate.record));
                    prop_assert_eq!(taken, expected);
                    continue;
                };
                let candidate = CandidateId { record, direction: 0 };
                let gone = candidates.push(score(number), candidate).map(|(score, candidate)| {
                    (score.number(), candidate.record)
                });
                let lowest = (0..model.len()).min_by_key(|&i| model[i]);
                let expected = match lowest {
                    Some(_) if model.len() < ENTRIES => None,
                    Some(at) if model[at].0 < number => Some(model.remove(at)),
                    Some(_) => Some((number, record)),
                    None => None,
                };
                prop_assert_eq!(gone, expected);
                if expected != Some((number, record)) {
                    model.push((number, record));
                }
            }
        }
    }

    #[test]
    fn who_no_longer_holds_goes() {
        let mut candidates = CandidateQueue::new();
        for record in 0..3 {
            candidates.push(score(record as usize), CandidateId { record, direction: 0 });
        }
        assert_eq!(candidates.best(|_, candidate| candidate.record == 1), Some(score(1)));
        assert_eq!(candidates.pop(score(1)), Some(CandidateId { record: 1, direction: 0 }));
        assert_eq!(candidates.best(|_, _| false), None);
        assert_eq!(candidates.best(|_, _| true), None);
    }
}
