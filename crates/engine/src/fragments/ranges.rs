// SPDX-License-Identifier: BSD-3-Clause
//! Owns the parts of a datagram that have arrived, as a fixed number of runs. A run is a row of
//! adjacent pieces of one length.
//!
//! A sender cuts a datagram into pieces of one length, with a shorter one at the end. Two runs are
//! therefore enough if the pieces arrive in order; out of order takes a few more. A run tells where
//! each of its pieces began, which distinguishes a copy from an overlap.

use crate::packet::{FragmentRange, UNIT};

/// Most runs of one datagram.
const RUNS: usize = 8;

/// How a new range relates to the ranges before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeOutcome {
    New,
    /// It is an exact copy of a piece, as networks make them.
    Copy,
    /// It overlaps an earlier piece, or contradicts the end of the datagram.
    Overlap,
    /// It fits, but all runs are in use.
    TooMany,
}

/// A run: pieces of `step` units each, from `start` to `end`, in units of [`UNIT`] bytes.
#[derive(Clone, Copy, Debug)]
struct ByteRange {
    pub(crate) start: u16,
    pub(crate) end: u16,
    step: u16,
}

/// The parts of one datagram that have arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeSet {
    /// The first `len` are in use. They do not overlap.
    runs: [ByteRange; RUNS],
    len: u8,
    /// Units in all runs.
    covered: u16,
    /// Length of the datagram in bytes, once its last piece has arrived.
    total: Option<u16>,
}

impl RangeSet {
    pub(super) const NONE: RangeSet = RangeSet {
        runs: [ByteRange { start: 0, end: 0, step: 0 }; RUNS],
        len: 0,
        covered: 0,
        total: None,
    };

    /// Adds a range, unless it overlaps or there is no room.
    pub(super) fn add(&mut self, span: FragmentRange) -> RangeOutcome {
        let (start, end) = (span.start / UNIT, span.end.div_ceil(UNIT));
        let runs = &self.runs[..usize::from(self.len)];
        let is_beyond = match self.total {
            Some(total) if span.has_more => span.end >= total,
            Some(total) => span.end != total,
            None => !span.has_more && runs.iter().any(|run| run.end > start),
        };
        if is_beyond {
            return RangeOutcome::Overlap;
        }
        if let Some(run) = runs.iter().find(|run| start < run.end && run.start < end) {
            let is_inside = run.start <= start && end <= run.end;
            let is_one = end - start == run.step && (start - run.start.min(start)) % run.step == 0;
            return if is_inside && is_one { RangeOutcome::Copy } else { RangeOutcome::Overlap };
        }
        if !self.join(start, end) {
            return RangeOutcome::TooMany;
        }
        self.covered += end - start;
        if !span.has_more {
            self.total = Some(span.end);
        }
        RangeOutcome::New
    }

    /// True if the whole datagram has arrived. Runs neither overlap nor lie beyond the end, so the
    /// sum of their lengths is enough to tell.
    pub(super) fn is_complete(&self) -> bool {
        self.total.is_some_and(|total| total.div_ceil(UNIT) == self.covered)
    }

    /// Records a piece that overlaps no run; false if there is no room.
    fn join(&mut self, start: u16, end: u16) -> bool {
        let step = end - start;
        let mut all = self.runs[..usize::from(self.len)].iter_mut();
        if let Some(run) =
            all.find(|run| run.step == step && (run.end == start || run.start == end))
        {
            (run.start, run.end) = (run.start.min(start), run.end.max(end));
            self.close_gap(step);
            return true;
        }
        let Some(free) = self.runs.get_mut(usize::from(self.len)) else { return false };
        *free = ByteRange { start, end, step };
        self.len += 1;
        true
    }

    /// Merges two runs of this step that have become adjacent.
    fn close_gap(&mut self, step: u16) {
        let len = usize::from(self.len);
        for first in 0..len {
            let ByteRange { end, .. } = self.runs[first];
            let is_next = |run: &ByteRange| run.step == step && run.start == end;
            if self.runs[first].step != step {
                continue;
            }
            if let Some(second) = self.runs[..len].iter().position(is_next) {
                self.runs[first].end = self.runs[second].end;
                self.runs[second] = self.runs[len - 1];
                self.len -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn more(start: u16, end: u16) -> FragmentRange {
        FragmentRange { start, end, has_more: true }
    }

    fn last(start: u16, end: u16) -> FragmentRange {
        FragmentRange { start, end, has_more: false }
    }

    fn all(spans: &[FragmentRange]) -> (Vec<RangeOutcome>, bool) {
        let mut known = RangeSet::NONE;
        (spans.iter().map(|span| known.add(*span)).collect(), known.is_complete())
    }

    #[test]
    fn a_datagram_of_any_length_takes_few_runs_in_order_and_reversed() {
        let mut spans: Vec<_> = (0..65_528 / 8).map(|i| more(i * 8, i * 8 + 8)).collect();
        spans.push(last(65_528, 65_535));
        for _ in 0..2 {
            let mut known = RangeSet::NONE;
            assert!(spans.iter().all(|span| known.add(*span) == RangeOutcome::New));
            assert!(known.is_complete() && known.len <= 2);
            assert!(spans.iter().all(|span| known.add(*span) == RangeOutcome::Copy));
            spans.reverse();
        }
    }

    #[test]
    fn what_is_not_an_exact_copy_is_an_overlap() {
        let before = [more(16, 32), more(32, 48), last(64, 70)];
        for (span, fit) in [
            (more(16, 32), RangeOutcome::Copy),
            (more(32, 48), RangeOutcome::Copy),
            (last(64, 70), RangeOutcome::Copy),
            (more(0, 16), RangeOutcome::New),
            (more(48, 64), RangeOutcome::New),
            (more(48, 56), RangeOutcome::New),
            (more(16, 48), RangeOutcome::Overlap),
            (more(24, 40), RangeOutcome::Overlap),
            (more(8, 24), RangeOutcome::Overlap),
            (more(24, 32), RangeOutcome::Overlap),
            (more(0, 64), RangeOutcome::Overlap),
            (more(56, 72), RangeOutcome::Overlap),
            (more(64, 72), RangeOutcome::Overlap),
            (more(72, 80), RangeOutcome::Overlap),
            (last(64, 71), RangeOutcome::Overlap),
            (last(72, 80), RangeOutcome::Overlap),
            (last(48, 64), RangeOutcome::Overlap),
        ] {
            let mut known = RangeSet::NONE;
            assert!(before.iter().all(|span| known.add(*span) == RangeOutcome::New));
            assert_eq!(known.add(span), fit, "{span:?}");
        }
        let (fits, _) = all(&[more(16, 32), last(8, 16)]);
        assert_eq!(fits, [RangeOutcome::New, RangeOutcome::Overlap]);
    }

    #[test]
    fn there_is_room_for_so_many_runs() {
        let holes: Vec<_> = (0..=RUNS as u16).map(|i| more(i * 32, i * 32 + 16)).collect();
        let (fits, _) = all(&holes);
        assert!(fits[..RUNS].iter().all(|fit| *fit == RangeOutcome::New));
        assert_eq!(fits[RUNS], RangeOutcome::TooMany);
    }

    proptest! {
        /// Against a map of bytes.
        #[test]
        fn spans_are_what_bytes_say(
            spans in prop::collection::vec((0..12_u16, 1..5_u16, 0..8_u16, any::<bool>()), 1..14),
        ) {
            let (mut known, mut bytes) = (RangeSet::NONE, [None; 200]);
            let (mut taken, mut total): (Vec<FragmentRange>, _) = (vec![], None);
            for (at, len, odd, has_more) in spans {
                let end = (at + len) * UNIT - if has_more { 0 } else { odd };
                let span = FragmentRange { start: at * UNIT, end, has_more };
                let fit = known.add(span);
                if fit == RangeOutcome::TooMany {
                    break;
                }
                let range = usize::from(span.start)..usize::from(span.end);
                let is_behind = match total {
                    Some(total) if has_more => end >= total,
                    Some(total) => end != total,
                    None => !has_more && bytes[range.start..].iter().any(Option::is_some),
                };
                let wanted = match () {
                    () if taken.contains(&span) => RangeOutcome::Copy,
                    () if is_behind => RangeOutcome::Overlap,
                    () if bytes[range.clone()].iter().any(Option::is_some) => RangeOutcome::Overlap,
                    () => RangeOutcome::New,
                };
                prop_assert_eq!(fit, wanted, "{:?} after {:?}", span, taken);
                if fit == RangeOutcome::New {
                    taken.push(span);
                    bytes[range].fill(Some(()));
                    total = if has_more { total } else { Some(end) };
                }
                let is_complete = total.is_some_and(|total| {
                    bytes[..usize::from(total)].iter().all(Option::is_some)
                });
                prop_assert_eq!(known.is_complete(), is_complete);
            }
        }
    }
}
