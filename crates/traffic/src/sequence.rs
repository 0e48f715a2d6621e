// SPDX-License-Identifier: BSD-3-Clause
//! Tracks which packets of a lane have arrived: finds losses, duplicates and reordering by their
//! indices.
//!
//! A sliding window of bits tells a late packet from one that came twice (RFC 5236 has the idea of
//! a bounded window). Nothing is allocated after [`Sequence::new`].

/// The packets of a lane that have arrived.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// One bit for each of the latest indices; a power of two.
    window: Box<[u64]>,
    /// One above the highest index that arrived; 0 if none did.
    next: u64,
}

/// Order of a packet's arrival among the others of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Behind all that arrived before.
    InOrder,
    /// The packet arrived after this number of indices above its own. The reordering extent (RFC
    /// 4737 section 4.2) counts packets instead, which is the same if none was lost.
    Reordered(u64),
    /// A second time.
    Duplicate,
    /// The packet arrived after more indices than the window has, so it is unknown whether it
    /// arrived before.
    TooLate,
}

impl Sequence {
    /// Nothing has arrived. The window has the latest 64 to `packets` indices, as whole words of 64
    /// enter it; `packets` is moved up to a power of two.
    pub fn new(packets: usize) -> Self {
        let words = (packets / 64).max(1).next_power_of_two();
        Self { window: vec![0; words].into(), next: 0 }
    }

    /// Adds the packet with this index.
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

    /// One above the highest index that arrived.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Makes `word` the last one of the window, and clears the words that come into it.
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

    /// A set that forgets nothing says the same, but for what is too late.
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
