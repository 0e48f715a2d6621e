// SPDX-License-Identifier: BSD-3-Clause
//! Computes the times of a rate that grows linearly at the start of a run.

/// Growth of a rate, linearly from 0 to the full rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ramp {
    ns: u64,
}

impl Ramp {
    /// Makes a ramp of `ns` nanoseconds. With 0 the rate is full from the start.
    pub(crate) fn new(ns: u64) -> Self {
        Self { ns }
    }

    /// Returns the time in nanoseconds of an event that is due at `whole_ns` at the full rate.
    ///
    /// At time `t` of the ramp the rate is `t / ns` of the full one. So the number of events until
    /// `t` is that of the time `t * t / (2 * ns)` at the full rate. After the ramp, every event is
    /// `ns / 2` later than at the full rate.
    #[inline]
    pub(crate) fn time(self, whole_ns: u64) -> u64 {
        if whole_ns >= self.ns / 2 {
            return whole_ns.saturating_add(self.ns / 2);
        }
        (2.0 * self.ns as f64 * whole_ns as f64).sqrt() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_grows_linearly() {
        let ramp = Ramp::new(4_000_000_000);
        // A million a second: in second n of the ramp, from 0, (2n + 1) / 8 of a million.
        let times = (0..4_000_000).map(|number| ramp.time(number * 1000));
        let mut seconds = [0_u32; 6];
        times.for_each(|time| seconds[(time / 1_000_000_000) as usize] += 1);
        let expected = [125_000, 375_000, 625_000, 875_000, 1_000_000, 1_000_000];
        for (found, expected) in seconds.iter().zip(expected) {
            assert!(found.abs_diff(expected) <= 1, "{seconds:?}");
        }
    }

    #[test]
    fn the_order_stays() {
        for ns in [0, 1, 3, 1001, 10_000_000_000] {
            let ramp = Ramp::new(ns);
            let middle = (ns / 2).saturating_sub(1000)..ns / 2 + 1000;
            let times = [0].into_iter().chain(middle).chain([ns + 1000, u64::MAX / 2]);
            assert!(times.map(|it| ramp.time(it)).is_sorted(), "{ns}");
        }
        assert_eq!(Ramp::default().time(5), 5);
    }
}
