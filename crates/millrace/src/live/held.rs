// SPDX-License-Identifier: BSD-3-Clause
//! Packets that wait for another one: fragments that came before the first of their datagram. Each
//! has the place that the engine said; what becomes of it, the engine says later.

use dpdk::{Burst, Mbuf};
use engine::{BURST_MAX, Engine, Held, Verdict};

/// A fixed number of places for packets.
pub(super) struct Shelf {
    places: Box<[Option<Waiting>]>,
}

struct Waiting {
    mbuf: Mbuf,
    /// 0 for up, 1 for down.
    direction: usize,
}

impl Shelf {
    pub(super) fn new(places: usize) -> Self {
        Self { places: (0..places).map(|_| None).collect() }
    }

    /// Leaves in a burst what is to be forwarded; keeps what is to wait, and frees the rest.
    #[cold]
    pub(super) fn put(
        &mut self,
        direction: usize,
        burst: &mut Burst,
        verdicts: &[Verdict; BURST_MAX],
        held: &[Held],
    ) {
        if held.is_empty() {
            burst.retain(|i| verdicts[i] == Verdict::Forward);
            return;
        }
        let mut held = held.iter();
        burst.sort_out(|i, mbuf| match verdicts[i] {
            Verdict::Forward => Some(mbuf),
            Verdict::Drop => None,
            // They are in the order of the burst.
            Verdict::Hold => {
                let slot = held.next().map(|held| usize::from(held.slot));
                if let Some(place) = slot.and_then(|slot| self.places.get_mut(slot)) {
                    *place = Some(Waiting { mbuf, direction });
                }
                None
            }
        });
    }

    /// The next packet that need not wait any more and is to be forwarded, with its direction;
    /// frees those that are to be dropped.
    pub(super) fn take(&mut self, engine: &mut Engine) -> Option<(usize, Mbuf)> {
        loop {
            let release = engine.next_release()?;
            let place = self.places.get_mut(usize::from(release.slot));
            if let Some(Waiting { mbuf, direction }) = place.and_then(Option::take) {
                if release.verdict == Verdict::Forward {
                    return Some((direction, mbuf));
                }
            }
        }
    }
}
