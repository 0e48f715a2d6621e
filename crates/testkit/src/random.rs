// SPDX-License-Identifier: BSD-3-Clause
//! Seeded random numbers: the same seed gives the same numbers on every machine.

/// A generator of random numbers: SplitMix64 (Steele, Lea, Flood, 2014). Every seed is as good as
/// any other, also seeds that follow each other.
#[derive(Clone, Debug, Default)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ a >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ b >> 31
    }

    /// Returns a number from 0 up to `n`, without `n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    /// Returns an index of a slice of `len` items.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Returns true in one of `n` calls on average.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `items`.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.index(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// The first numbers of the reference implementation (Vigna, `splitmix64.c`) with seed 1234567.
    #[test]
    fn the_sequence_is_that_of_the_reference() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.bits());
        let reference =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, reference);
    }

    #[test]
    fn a_shuffle_loses_nothing_and_moves_most() {
        let mut items: Vec<u32> = (0..1000).collect();
        Random::new(7).shuffle(&mut items);
        assert!(items.iter().zip(0..).filter(|(item, place)| *item == place).count() < 20);
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
