// SPDX-License-Identifier: BSD-3-Clause
//! Owns some packets of a burst, that are processed without the others.

use super::marked::BurstMask;
use crate::api::Verdict;
use crate::base::BURST_MAX;

/// Some packets of a burst, in their order, and their places in it.
pub(super) struct Subset<'a, P> {
    packets: [&'a P; BURST_MAX],
    places: [u8; BURST_MAX],
    len: usize,
}

impl<'a, P> Subset<'a, P> {
    /// Returns the packets of this set. `packets` is not empty.
    pub(super) fn of(packets: &'a [P], set: BurstMask) -> Self {
        let mut subset = Self { packets: [&packets[0]; BURST_MAX], places: [0; BURST_MAX], len: 0 };
        let mut left = set;
        while left != 0 {
            let place = left.trailing_zeros();
            left &= left - 1;
            let Some(packet) = packets.get(place as usize) else { break };
            subset.packets[subset.len % BURST_MAX] = packet;
            subset.places[subset.len % BURST_MAX] = place as u8;
            subset.len += 1;
        }
        subset
    }

    pub(super) fn packets(&self) -> &[&'a P] {
        &self.packets[..self.len.min(BURST_MAX)]
    }

    /// Returns the place in the burst of a packet at this position of the subset.
    pub(super) fn place(&self, position: u8) -> u8 {
        self.places[usize::from(position) % BURST_MAX]
    }

    /// Writes verdicts of the packets to their places in the burst, where they are not
    /// [`Verdict::Forward`].
    pub(super) fn copy_verdicts(&self, out: &[Verdict; BURST_MAX], verdicts: &mut [Verdict]) {
        if out.iter().fold(false, |any, verdict| any | (*verdict != Verdict::Forward)) {
            for (&verdict, &place) in out.iter().zip(&self.places).take(self.len) {
                if verdict != Verdict::Forward {
                    verdicts[usize::from(place)] = verdict;
                }
            }
        }
    }

    /// Returns which of the packets are in a set of places of the burst: bit `i` for packet `i`.
    pub(super) fn in_set(&self, set: BurstMask) -> BurstMask {
        let places = self.places.iter().take(self.len).enumerate();
        places.fold(0, |all, (i, place)| all | (set >> (place % 64) & 1) << i)
    }
}
