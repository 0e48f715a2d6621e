// SPDX-License-Identifier: BSD-3-Clause
//! Owns the packets that wait for another packet: fragments that arrived before the first fragment
//! of their datagram. The engine assigns each a slot, and decides later whether it is forwarded.
//! This module also hands off packets to other workers.

use crate::live::worker::handoff::{HandoffPacket, HandoffRings};
use crate::live::worker::rejects::Rejecter;
use dpdk::{Burst, Mbuf};
use engine::{BURST_MAX, Engine, Nanos, Release, Verdict};

/// Packets that wait, by the slot that the engine assigned.
pub(crate) struct HeldPackets {
    slots: Box<[Option<Waiting>]>,
}

struct Waiting {
    mbuf: Mbuf,
    /// 0 for up, 1 for down.
    direction: usize,
}

impl HeldPackets {
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots: (0..slots).map(|_| None).collect() }
    }

    /// Carries out the verdicts of a burst: keeps held packets, hands off those of other workers,
    /// frees dropped ones, and
    /// answers rejected ones. Packets to forward stay in the burst.
    #[cold]
    pub(crate) fn apply_verdicts(
        &mut self,
        (direction, now): (usize, Nanos),
        burst: &mut Burst,
        verdicts: &[Verdict; BURST_MAX],
        (engine, rings, rejects): (&mut Engine, &mut HandoffRings, &mut Rejecter),
    ) {
        let rejects_any = verdicts.contains(&Verdict::Reject);
        if engine.held().is_empty() && engine.handed().is_empty() && !rejects_any {
            burst.retain(|i| verdicts[i] == Verdict::Forward);
            return;
        }
        burst.sort_out(|i, mbuf| match verdicts[i] {
            Verdict::Forward => Some(mbuf),
            Verdict::Drop => None,
            Verdict::Reject => {
                rejects.add(mbuf, engine.access_limits().rejects_per_second, now);
                None
            }
            Verdict::Hold => {
                let held = engine.held().iter().find(|held| usize::from(held.position) == i);
                let slot = held.map(|held| usize::from(held.slot));
                if let Some(slot_entry) = slot.and_then(|slot| self.slots.get_mut(slot)) {
                    *slot_entry = Some(Waiting { mbuf, direction });
                }
                None
            }
            Verdict::Elsewhere => {
                let mut handed = engine.handed().iter();
                let handed = handed.find(|handed| usize::from(handed.position) == i)?;
                let handed = HandoffPacket { mbuf, handoff: handed.handoff, direction };
                hand_off(handed, engine, rings)
            }
        });
    }

    /// Returns the next released packet to forward, with its direction. Frees packets to drop, and
    /// hands off those of other workers.
    pub(crate) fn next_released(
        &mut self,
        engine: &mut Engine,
        rings: &mut HandoffRings,
    ) -> Option<(usize, Mbuf)> {
        loop {
            let Release { slot, verdict, handoff } = engine.next_release()?;
            let slot_entry = self.slots.get_mut(usize::from(slot));
            let Some(Waiting { mbuf, direction }) = slot_entry.and_then(Option::take) else {
                continue;
            };
            let forwarded = match (verdict, handoff) {
                (Verdict::Forward, _) => Some(mbuf),
                (_, Some(handoff)) => {
                    hand_off(HandoffPacket { mbuf, handoff, direction }, engine, rings)
                }
                _ => None,
            };
            if let Some(mbuf) = forwarded {
                return Some((direction, mbuf));
            }
        }
    }
}

/// Hands a packet off to the worker that has its connection. If the ring is full, the engine
/// decides whether the packet is returned, to be forwarded.
fn hand_off(handed: HandoffPacket, engine: &mut Engine, rings: &mut HandoffRings) -> Option<Mbuf> {
    let returned = rings.send(handed).err()?;
    (engine.handoff_failed() == Verdict::Forward).then_some(returned)
}
