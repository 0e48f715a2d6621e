// SPDX-License-Identifier: BSD-3-Clause
//! Packets that wait for another one: fragments that came before the first of their datagram. Each
//! has the place that the engine said; what becomes of it, the engine says later. And packets that
//! go to another worker, at once or after they have waited.

use super::handoff::{HandoffPacket, HandoffRings};
use dpdk::{Burst, Mbuf};
use engine::{BURST_MAX, Engine, Release, Verdict};

/// A fixed number of places for packets.
pub(super) struct HeldPackets {
    places: Box<[Option<Waiting>]>,
}

struct Waiting {
    mbuf: Mbuf,
    /// 0 for up, 1 for down.
    direction: usize,
}

impl HeldPackets {
    pub(super) fn new(places: usize) -> Self {
        Self { places: (0..places).map(|_| None).collect() }
    }

    /// Leaves in a burst what is to be forwarded; keeps what is to wait, gives away what is of
    /// other workers, and frees the rest.
    #[cold]
    pub(super) fn put(
        &mut self,
        direction: usize,
        burst: &mut Burst,
        verdicts: &[Verdict; BURST_MAX],
        (engine, exchange): (&mut Engine, &mut HandoffRings),
    ) {
        if engine.held().is_empty() && engine.handed().is_empty() {
            burst.retain(|i| verdicts[i] == Verdict::Forward);
            return;
        }
        burst.sort_out(|i, mbuf| match verdicts[i] {
            Verdict::Forward => Some(mbuf),
            Verdict::Drop => None,
            Verdict::Hold => {
                let held = engine.held().iter().find(|held| usize::from(held.position) == i);
                let slot = held.map(|held| usize::from(held.slot));
                if let Some(place) = slot.and_then(|slot| self.places.get_mut(slot)) {
                    *place = Some(Waiting { mbuf, direction });
                }
                None
            }
            Verdict::Elsewhere => {
                let mut handed = engine.handed().iter();
                let handed = handed.find(|handed| usize::from(handed.position) == i)?;
                let traveller = HandoffPacket { mbuf, errand: handed.handoff, direction };
                give(traveller, engine, exchange)
            }
        });
    }

    /// The next packet that need not wait any more and is to be forwarded, with its direction;
    /// frees those that are to be dropped, and gives away those of other workers.
    pub(super) fn take(
        &mut self,
        engine: &mut Engine,
        exchange: &mut HandoffRings,
    ) -> Option<(usize, Mbuf)> {
        loop {
            let Release { slot, verdict, handoff: errand } = engine.next_release()?;
            let place = self.places.get_mut(usize::from(slot));
            let Some(Waiting { mbuf, direction }) = place.and_then(Option::take) else { continue };
            let forwarded = match (verdict, errand) {
                (Verdict::Forward, _) => Some(mbuf),
                (_, Some(errand)) => {
                    give(HandoffPacket { mbuf, errand, direction }, engine, exchange)
                }
                _ => None,
            };
            if let Some(mbuf) = forwarded {
                return Some((direction, mbuf));
            }
        }
    }
}

/// Gives a packet to the worker that has its connection. If that has no room, it comes back to be
/// forwarded.
fn give(
    traveller: HandoffPacket,
    engine: &mut Engine,
    exchange: &mut HandoffRings,
) -> Option<Mbuf> {
    let back = exchange.give(traveller).err()?;
    (engine.handoff_failed() == Verdict::Forward).then_some(back)
}
