// SPDX-License-Identifier: BSD-3-Clause
//! Measures one trial: bursts in the way that is in use, then as many in the other way.

use crate::base::Nanos;

/// Bursts of one way that a trial measures.
pub(super) const MEASURED: usize = 256;

/// Bursts of the way in use, and of the other way, before they are measured: their data has to come
/// into the caches. The worker may have been without its cpu before.
pub(super) const WARM_UP: [usize; 2] = [1024, 1024];

/// Bursts of the other way before they are measured, if both ways cost about as much. Then cold
/// caches could decide, and so many bursts of the way that costs more cost little.
pub(super) const LONG_WARM_UP: usize = 8192;

/// Longest time that bursts of the other way are not measured, in nanoseconds: a change has to be
/// followed soon also where bursts are rare.
const WARM_UP_MAX: Nanos = 25_000_000;

/// Bursts without marks that a trial waits through.
const WITHOUT_MARKS_MAX: usize = 4 * MEASURED;

/// Costs of bursts of one way, in sixteenths of a cycle per packet.
#[derive(Clone, Debug)]
struct Costs {
    of_bursts: [u32; MEASURED],
    len: usize,
}

impl Costs {
    const NONE: Costs = Costs { of_bursts: [0; MEASURED], len: 0 };

    fn add(&mut self, cycles: u64, packets: usize) {
        if let Some(cost) = self.of_bursts.get_mut(self.len) {
            *cost = (cycles.saturating_mul(16) / packets.max(1) as u64).min(u32::MAX.into()) as u32;
            self.len += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.len == MEASURED
    }

    /// Returns the median, and forgets all. Interrupts do not change it.
    fn take_median(&mut self) -> u64 {
        let len = std::mem::take(&mut self.len);
        if len == 0 {
            return 0;
        }
        let (_, median, _) = self.of_bursts[..len].select_nth_unstable(len / 2);
        u64::from(*median)
    }
}

/// What the next burst of a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrialStep {
    /// It is processed in the way in use, and not measured.
    WarmUp,
    Measure,
    /// It is processed in the other way, and not measured.
    WarmUpOther,
    MeasureOther,
    /// Too many bursts had no mark: the trial is over.
    GiveUp,
}

/// Packets of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BurstCounts {
    /// Packets with a mark.
    pub(crate) marked: usize,
    pub(crate) packets: usize,
}

/// The measurements of one trial.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// Costs of the way in use, and of the other one.
    costs: [Costs; 2],
    /// Bursts of warm-up left, of the way in use and of the other one.
    warm_up: [usize; 2],
    /// When the other way is measured at the latest, once it is being warmed up.
    warm_at: Option<Nanos>,
    /// Bursts without marks.
    without_marks: usize,
    /// Packets with a mark, and all packets.
    marked: u64,
    packets: u64,
}

impl Trial {
    pub(super) const NONE: Trial = Trial {
        costs: [Costs::NONE; 2],
        warm_up: WARM_UP,
        warm_at: None,
        without_marks: 0,
        marked: 0,
        packets: 0,
    };

    /// Begins a trial of two ways that cost about as much, if `are_close`.
    pub(super) fn begin(&mut self, are_close: bool) {
        let of_other = if are_close { LONG_WARM_UP } else { WARM_UP[1] };
        (self.warm_up, self.without_marks, self.marked, self.packets) =
            ([WARM_UP[0], of_other], 0, 0, 0);
        (self.warm_at, self.costs[0].len, self.costs[1].len) = (None, 0, 0);
    }

    /// Returns the next step if only the way in use is measured.
    pub(super) fn next_alone(&mut self) -> TrialStep {
        if self.is_warming_up() { TrialStep::WarmUp } else { TrialStep::Measure }
    }

    /// Returns the next step if both ways are measured. Only bursts with marks differ by the way.
    pub(super) fn next(&mut self, counts: BurstCounts, now: Nanos) -> TrialStep {
        self.marked += counts.marked as u64;
        self.packets += counts.packets as u64;
        if counts.marked == 0 {
            self.without_marks += 1;
            let is_over = self.without_marks == WITHOUT_MARKS_MAX;
            return if is_over { TrialStep::GiveUp } else { TrialStep::WarmUp };
        }
        if self.is_warming_up() {
            TrialStep::WarmUp
        } else if !self.costs[0].is_full() {
            TrialStep::Measure
        } else if self.is_warming_up_other(now) {
            TrialStep::WarmUpOther
        } else {
            TrialStep::MeasureOther
        }
    }

    /// True if a burst still warms up the caches for the way in use.
    fn is_warming_up(&mut self) -> bool {
        let left = self.warm_up[0];
        self.warm_up[0] = left.saturating_sub(1);
        left > 0
    }

    /// True if a burst still warms up the caches for the other way.
    fn is_warming_up_other(&mut self, now: Nanos) -> bool {
        let until = *self.warm_at.get_or_insert(now.saturating_add(WARM_UP_MAX));
        let left = if now < until { self.warm_up[1] } else { 0 };
        self.warm_up[1] = left.saturating_sub(1);
        left > 0
    }

    /// Adds the cycles of a burst that was processed in the way in use (0) or the other one (1).
    /// True if that was the last one of its way.
    pub(super) fn add(&mut self, way: usize, (cycles, packets): (u64, usize)) -> bool {
        let costs = &mut self.costs[way];
        costs.add(cycles, packets);
        costs.is_full()
    }

    /// Returns the median costs of both ways, in sixteenths of a cycle per packet, and forgets all.
    pub(super) fn take_medians(&mut self) -> [u64; 2] {
        [0, 1].map(|way| self.costs[way].take_median())
    }

    /// Returns how many of a thousand packets had a mark.
    pub(super) fn marked_permille(&self) -> u64 {
        self.marked * 1000 / self.packets.max(1)
    }
}
