// SPDX-License-Identifier: BSD-3-Clause
//! Records which packets of a lane have arrived, to find losses, duplicates and reordering.
//!
//! A sliding window of bits distinguishes a late packet from a duplicate (RFC 5236 has the idea of
//! a bounded window). Nothing is allocated after [`Sequence::new`].

/// The packets of a lane that have arrived.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// One bit for each of the latest indices. The number of words is a power of two.
    window: Box<[u64]>,
    /// The highest index that has arrived, plus 1; 0 if none has.
    next: u64,
}

/// Order of a packet's arrival among the others of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The index is above all that arrived before.
    InOrder,
    /// The packet arrived late: the highest index that arrived before is this much above its own.
    /// Without loss that is the reordering extent, which counts packets (RFC 4737 section 4.2).
    Reordered(u64),
    /// The packet has arrived before.
    Duplicate,
    /// The index is below the window, so it is unknown whether the packet has arrived before.
    TooLate,
}

impl Sequence {
    /// Makes the record of a lane without any arrival.
    ///
    /// The window has `packets / 64` words of 64 indices, rounded up to a power of two and at least
    /// one. Whole words enter and leave it, so it covers up to 63 indices fewer.
    pub fn new(packets: usize) -> Self {
        let words = (packets / 64).max(1).next_power_of_two();
        Self { window: vec![0; words].into(), next: 0 }
    }

    /// Records the arrival of the packet with this index.
    #[inline]
    pub fn add(&mut self, index: u64) -> Arrival {
        let word = index / 64;
        if index >= self.next {
            self.advance(word);
            self.next = index + 1;
            *self.word(word) |= 1 << (index % 64);
            return Arrival::InOrder;
        }
        let head = (self.next - 1) / 64;
        if head - word >= self.window.len() as u64 {
            return Arrival::TooLate;
        }
        let bit = 1 << (index % 64);
        let extent = self.next - 1 - index;
        if *self.word(word) & bit != 0 {
            return Arrival::Duplicate;
        }
        *self.word(word) |= bit;
        Arrival::Reordered(extent)
    }

    /// Returns the highest index that has arrived, plus 1.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Moves the window so that `word` is its last one, and clears the words that enter it.
    #[inline]
    fn advance(&mut self, word: u64) {
        let begin = if self.next == 0 { 0 } else { (self.next - 1) / 64 + 1 };
        let begin = begin.max((word + 1).saturating_sub(self.window.len() as u64));
        for entered in begin..=word {
            *self.word(entered) = 0;
        }
    }

    #[inline(always)]
    fn word(&mut self, word: u64) -> &mut u64 {
        let mask = self.window.len() - 1;
        &mut self.window[word as usize & mask]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_kind_of_arrival() {
        let mut sequence = Sequence::new(128);
        let arrivals =
            [0, 1, 3, 2, 2, 0, 200, 150, 150, 100, 1000, 872, 900].map(|index| sequence.add(index));
        use Arrival::{Duplicate, InOrder, Reordered, TooLate};
        let expected = [
            InOrder,
            InOrder,
            InOrder,
            Reordered(1),
            Duplicate,
            Duplicate,
            InOrder,
            Reordered(50),
            Duplicate,
            TooLate,
            InOrder,
            TooLate,
            Reordered(100),
        ];
        assert_eq!(arrivals, expected);
        assert_eq!(sequence.next(), 1001);
    }

    /// Compares with a set that forgets nothing; only packets that are too late may differ.
    #[test]
    fn a_set_says_the_same() {
        let mut rng = fastrand::Rng::with_seed(3);
        for packets in [64, 256, 4096] {
            let (mut sequence, mut seen, mut highest) =
                (Sequence::new(packets), HashSet::new(), 0_u64);
            for _ in 0..200_000 {
                let step = if rng.u8(..) == 0 { 3 * packets as u64 } else { 4 };
                let index = (highest + rng.u64(..step))
                    .saturating_sub(rng.u64(..2 * packets as u64) * u64::from(rng.bool()));
                let is_first = seen.is_empty();
                let is_new = seen.insert(index);
                let arrival = sequence.add(index);
                match arrival {
                    Arrival::InOrder => assert!(is_new && (is_first || index > highest)),
                    Arrival::Reordered(extent) => assert!(is_new && extent == highest - index),
                    Arrival::Duplicate => assert!(!is_new),
                    Arrival::TooLate => assert!(highest - index > packets as u64 - 64),
                }
                highest = highest.max(index);
            }
        }
    }
}
