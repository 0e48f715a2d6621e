// SPDX-License-Identifier: BSD-3-Clause
//! Measures the time that a hypervisor took from the cpus of the workers, by interval.

use doctor::host::Cpus;
use std::collections::BTreeMap;

/// Readings of the stolen time at the borders of intervals.
pub(super) struct Steal {
    cpus: Vec<u32>,
    /// Time stolen until the start of each interval, in milliseconds.
    until: BTreeMap<u64, u64>,
}

impl Steal {
    /// Measures the stolen time of these cpus; the first interval begins now.
    pub(super) fn new(cpus: Vec<u32>) -> Self {
        let mut steal = Self { cpus, until: BTreeMap::new() };
        steal.note(0);
        steal
    }

    /// Reads the stolen time if there is no reading for interval `number` or a later one.
    pub(super) fn note(&mut self, number: u64) {
        let is_new = self.until.last_key_value().is_none_or(|(last, _)| *last < number);
        if let Some(now) = is_new.then(|| Cpus::stolen_ms(&self.cpus)).flatten() {
            self.until.insert(number, now);
        }
    }

    /// Returns the milliseconds stolen in interval `number`; `None` if unknown. Callers take
    /// intervals in ascending order.
    pub(super) fn take(&mut self, number: u64) -> Option<u64> {
        self.note(number + 1);
        self.until = self.until.split_off(&number);
        let (begin, end) = (self.until.get(&number)?, self.until.get(&(number + 1))?);
        Some(end.saturating_sub(*begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_what_was_stolen_in_them() {
        let mut steal = Steal { cpus: Vec::new(), until: [(0, 5), (1, 15), (3, 40)].into() };
        assert_eq!(steal.take(0), Some(10));
        assert_eq!(steal.take(1), None, "its end was not seen");
        assert_eq!(steal.until.len(), 2);
        assert_eq!(Steal::new(Vec::new()).take(0), Some(0), "of no cpus nothing is stolen");
    }
}
