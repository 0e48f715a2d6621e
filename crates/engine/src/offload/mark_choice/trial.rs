// SPDX-License-Identifier: BSD-3-Clause
//! Measures one trial: bursts in the way that is in use, then as many in the other way.

/// Bursts of one way that a trial measures.
pub(super) const MEASURED: usize = 256;

/// Bursts of the way in use, and of the other way, before they are measured: their data has to come
/// into the caches. The worker may have been without its cpu before.
pub(super) const WARM_UP: [usize; 2] = [1024, 256];

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
        without_marks: 0,
        marked: 0,
        packets: 0,
    };

    pub(super) fn begin(&mut self) {
        (self.warm_up, self.without_marks, self.marked, self.packets) = (WARM_UP, 0, 0, 0);
        (self.costs[0].len, self.costs[1].len) = (0, 0);
    }

    /// Returns the next step if only the way in use is measured.
    pub(super) fn next_alone(&mut self) -> TrialStep {
        if self.is_warming_up(0) { TrialStep::WarmUp } else { TrialStep::Measure }
    }

    /// Returns the next step if both ways are measured. Only bursts with marks differ by the way.
    pub(super) fn next(&mut self, counts: BurstCounts) -> TrialStep {
        self.marked += counts.marked as u64;
        self.packets += counts.packets as u64;
        if counts.marked == 0 {
            self.without_marks += 1;
            let is_over = self.without_marks == WITHOUT_MARKS_MAX;
            return if is_over { TrialStep::GiveUp } else { TrialStep::WarmUp };
        }
        if self.is_warming_up(0) {
            TrialStep::WarmUp
        } else if !self.costs[0].is_full() {
            TrialStep::Measure
        } else if self.is_warming_up(1) {
            TrialStep::WarmUpOther
        } else {
            TrialStep::MeasureOther
        }
    }

    /// True if a burst still warms up the caches for the way in use (0) or the other one (1).
    fn is_warming_up(&mut self, way: usize) -> bool {
        let left = &mut self.warm_up[way];
        let is_left = *left > 0;
        *left -= usize::from(is_left);
        is_left
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
