// SPDX-License-Identifier: BSD-3-Clause
//! Counts packets by interval, for the latest intervals. A packet counts in the interval in which
//! it was sent, not in the one in which it arrived.

/// Number of intervals that are kept.
const KEPT: usize = 128;

/// Counts of the latest intervals; older ones are dropped.
#[derive(Clone, Debug)]
pub struct RecentIntervals(Box<[(u64, u64); KEPT]>);

impl RecentIntervals {
    /// Returns empty counts.
    pub(crate) fn new() -> Self {
        Self(Box::new([(0, 0); KEPT]))
    }

    /// Adds to the count of an interval; drops packets of intervals that are too old.
    #[inline(always)]
    pub(crate) fn add(&mut self, interval: u64, packets: u64) {
        let place = &mut self.0[interval as usize % KEPT];
        if place.0 < interval {
            *place = (interval, 0);
        }
        if place.0 == interval {
            place.1 += packets;
        }
    }

    /// Returns the intervals and their counts, other than 0.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied().filter(|(_, packets)| *packets > 0)
    }

    /// Sets all counts to 0.
    pub(crate) fn clear(&mut self) {
        *self.0 = [(0, 0); KEPT];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_intervals_count() {
        let mut recent = RecentIntervals::new();
        let kept = KEPT as u64;
        recent.add(3, 2);
        recent.add(kept + 1, 5);
        recent.add(3, 1);
        assert_eq!(recent.counts().collect::<Vec<_>>(), [(kept + 1, 5), (3, 3)]);
        recent.add(kept + 3, 7);
        recent.add(3, 9);
        assert_eq!(recent.counts().collect::<Vec<_>>(), [(kept + 1, 5), (kept + 3, 7)]);
        recent.clear();
        assert_eq!(recent.counts().count(), 0);
    }
}
