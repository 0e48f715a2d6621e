// SPDX-License-Identifier: BSD-3-Clause
//! Finds how many connections a device has room for, in the two phases of RFC 9693: the number is
//! doubled while the device sustains it, and then the distance of the bounds is halved.

/// A search for the capacity of a table.
#[derive(Clone, Debug)]
pub struct CapacitySearch {
    initial: u32,
    max: u32,
    relative_width: f64,
    lower: Option<u32>,
    upper: Option<u32>,
}

impl CapacitySearch {
    /// Begins with `initial` connections, and goes up to `max`. The bounds of the answer differ by
    /// `relative_width` of the upper one at most, or by one connection.
    pub fn new(initial: u32, max: u32, relative_width: f64) -> Self {
        let max = max.max(1);
        Self { initial: initial.clamp(1, max), max, relative_width, lower: None, upper: None }
    }

    /// Returns the number of connections to try next; `None` at the end.
    pub fn choose(&self) -> Option<u32> {
        match (self.lower, self.upper) {
            (None, None) => Some(self.initial),
            (None, Some(1)) => None,
            (None, Some(upper)) => Some(upper / 2),
            (Some(lower), None) if lower >= self.max => None,
            (Some(lower), None) => Some(lower.saturating_mul(2).min(self.max)),
            (Some(lower), Some(upper)) => {
                let distance = upper - lower;
                let is_close = f64::from(distance) <= f64::from(upper) * self.relative_width;
                (distance > 1 && !is_close).then_some(lower + distance / 2)
            }
        }
    }

    /// Notes whether the device sustained the number of [`choose`](Self::choose).
    pub fn note(&mut self, connections: u32, is_sustained: bool) {
        let bound = if is_sustained { &mut self.lower } else { &mut self.upper };
        *bound = Some(connections);
    }

    /// Returns the largest number that the device sustained, and the smallest above it that it did
    /// not.
    pub fn bounds(&self) -> [Option<u32>; 2] {
        [self.lower, self.upper]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches on a device of this capacity; returns the bounds, and the numbers that were tried.
    fn search(capacity: u32, [initial, max]: [u32; 2], width: f64) -> ([Option<u32>; 2], Vec<u32>) {
        let (mut search, mut tried) = (CapacitySearch::new(initial, max, width), Vec::new());
        while let Some(connections) = search.choose() {
            assert!((1..=max).contains(&connections), "{connections}");
            search.note(connections, connections <= capacity);
            tried.push(connections);
            assert!(tried.len() < 100, "it does not end: {tried:?}");
        }
        (search.bounds(), tried)
    }

    proptest! {
        #[test]
        fn a_capacity_is_found(capacity in 1..4_000_000_u32, initial in 1..100_000_u32) {
            let ([lower, upper], _) = search(capacity, [initial, u32::MAX], 0.01);
            let (lower, upper) = (lower.unwrap(), upper.unwrap());
            prop_assert!(lower <= capacity && capacity < upper);
            prop_assert!(upper - lower <= (f64::from(upper) * 0.01).max(1.0) as u32);
        }
    }

    #[test]
    fn the_number_is_doubled_first() {
        let (bounds, tried) = search(5000, [1000, 100_000], 0.1);
        assert_eq!(tried, [1000, 2000, 4000, 8000, 6000, 5000, 5500]);
        assert_eq!(bounds, [Some(5000), Some(5500)]);
    }

    #[test]
    fn limits_without_a_figure_have_one_bound() {
        assert_eq!(search(u32::MAX, [1000, 5000], 0.1).0, [Some(5000), None]);
        assert_eq!(search(0, [1000, 5000], 0.1).0, [None, Some(1)]);
        assert_eq!(search(1, [1, 5000], 0.1).0, [Some(1), Some(2)]);
    }
}
