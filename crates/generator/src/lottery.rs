// SPDX-License-Identifier: BSD-3-Clause
//! Chooses the packets that are impaired, at random by a seed.

/// Number of packets per million that are impaired, for each kind of impairment. Packets are chosen
/// at random; each is impaired in at most one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Impairments {
    /// Packets lost.
    pub lost: u32,
    /// Packets sent twice.
    pub duplicated: u32,
    /// Packets sent after later ones.
    pub reordered: u32,
    /// Packets sent with one bit changed.
    pub damaged: u32,
}

/// Impairment of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Impairment {
    Lost,
    Duplicated,
    Reordered,
    Damaged,
    None,
}

/// Draws an impairment for each packet.
#[derive(Clone, Debug)]
pub(crate) struct Lottery {
    impairments: Impairments,
    rng: u64,
}

impl Lottery {
    pub(crate) fn new(impairments: Impairments, seed: u64) -> Self {
        Self { impairments, rng: seed | 1 }
    }

    pub(crate) fn random(&mut self) -> u64 {
        // xorshift64* (Vigna 2016).
        self.rng ^= self.rng >> 12;
        self.rng ^= self.rng << 25;
        self.rng ^= self.rng >> 27;
        self.rng.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn draw(&mut self) -> Impairment {
        let drawn = (self.random() >> 32) * 1_000_000 >> 32;
        let Impairments { lost, duplicated, reordered, damaged } = self.impairments;
        let fates = [
            (lost, Impairment::Lost),
            (duplicated, Impairment::Duplicated),
            (reordered, Impairment::Reordered),
            (damaged, Impairment::Damaged),
        ];
        let mut sum = 0;
        let found = fates.into_iter().find(|(share, _)| {
            sum += u64::from(*share);
            drawn < sum
        });
        found.map_or(Impairment::None, |(_, impairment)| impairment)
    }
}
