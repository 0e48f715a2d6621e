// SPDX-License-Identifier: BSD-3-Clause
//! Packets that go from the worker to which they came to the one that has their connection: a ring
//! from each worker of a wire to each other.
//!
//! A packet goes from one ring into a port and never into another ring, so no worker waits for
//! another, not even at the end.

use super::Wire;
use crate::plan::handed_mbufs;
use dpdk::{Burst, Mbuf, PortSpread};
use engine::{BURST_MAX, Doubt, Errand, Hashed, Spread, Steering};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;

/// A packet on its way.
pub(super) struct Traveller {
    pub(super) mbuf: Mbuf,
    pub(super) errand: Errand,
    /// 0 for up, 1 for down.
    pub(super) direction: usize,
}

/// The ends of one worker's rings.
pub(super) struct Exchange {
    /// To each worker; to itself there is none.
    to: Vec<Option<Producer<Traveller>>>,
    from: Vec<Consumer<Traveller>>,
    /// Of the packets that were taken last.
    errands: Vec<Errand>,
}

impl Exchange {
    /// Those of so many workers.
    fn between(workers: usize) -> Vec<Self> {
        let none = |_| Self {
            to: Vec::with_capacity(workers),
            from: Vec::with_capacity(workers),
            errands: Vec::with_capacity(BURST_MAX),
        };
        let mut ends: Vec<Self> = (0..workers).map(none).collect();
        let room = handed_mbufs(workers as u64) as usize;
        for from in 0..workers {
            for to in 0..workers {
                let ring = (from != to).then(|| RingBuffer::new(room));
                let (producer, consumer) = ring.unzip();
                ends[from].to.push(producer);
                ends[to].from.extend(consumer);
            }
        }
        ends
    }

    /// Gives a packet to the worker that has its connection; back if there is no room.
    pub(super) fn give(&mut self, traveller: Traveller) -> Result<(), Mbuf> {
        let to = self.to.get_mut(usize::from(traveller.errand.worker()));
        match to.and_then(Option::as_mut) {
            Some(ring) => ring.push(traveller).map_err(|rtrb::PushError::Full(back)| back.mbuf),
            None => Err(traveller.mbuf),
        }
    }

    /// Whether there are packets from others.
    #[inline(always)]
    pub(super) fn has_some(&self) -> bool {
        self.from.iter().any(|ring| !ring.is_empty())
    }

    /// Packets of one direction from one of them.
    pub(super) fn take(&mut self) -> Option<(usize, Burst)> {
        let ring = self.from.iter_mut().find(|ring| !ring.is_empty())?;
        let direction = ring.peek().ok()?.direction;
        let mut burst = Burst::new();
        self.errands.clear();
        while burst.room() > 0 && ring.peek().is_ok_and(|next| next.direction == direction) {
            let Ok(Traveller { mbuf, errand, .. }) = ring.pop() else { break };
            // There is room.
            let _ = burst.push(mbuf);
            self.errands.push(errand);
        }
        Some((direction, burst))
    }

    /// What goes with them.
    pub(super) fn errands(&self) -> &[Errand] {
        &self.errands
    }

    /// Gives nothing any more. Others wait for that in the end.
    pub(super) fn close(&mut self) {
        self.to.clear();
    }

    /// Whether nothing comes any more.
    pub(super) fn is_over(&self) -> bool {
        self.from.iter().all(|ring| ring.is_abandoned() && ring.is_empty())
    }
}

/// For each worker of a wire its rings, and which connections the others have.
pub(super) fn of_workers(
    wire: &Wire,
) -> impl Iterator<Item = (Exchange, Option<Steering>)> + use<> {
    let (spread, doubt) = (spread_of(wire), Doubt::default());
    let steering = move |me| {
        let spread = Arc::clone(spread.as_ref()?);
        Some(Steering { spread, me, doubt: doubt.clone() })
    };
    let exchanges = Exchange::between(wire.workers.len()).into_iter();
    exchanges.zip((0..).map(steering))
}

/// How both ports of a wire spread packets over its workers, if they do it alike and say how.
fn spread_of(wire: &Wire) -> Option<Arc<Spread>> {
    let [a, b] = [&wire.a, &wire.b].map(dpdk::Port::spread);
    let (a, b) = (a?, b?);
    let is_one = a.queues == b.queues && a.types == b.types && is_prefix(&a.key, &b.key);
    is_one.then(|| Arc::new(spread(a)))
}

/// Whether two keys are one, as far as the shorter goes.
fn is_prefix(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// The engine's words for a port's. Queue `w` is that of worker `w`.
fn spread(PortSpread { key, types, queues }: PortSpread) -> Spread {
    let has =
        |name: &str| dpdk::flow::RSS_TYPES.iter().any(|(is, bit)| *is == name && types & bit != 0);
    let of = |version: &str| {
        let has = |kind: &str| has(&format!("{version}{kind}"));
        let addresses = has("") || has("-other");
        Hashed { tcp: has("-tcp"), udp: has("-udp"), sctp: has("-sctp"), addresses }
    };
    Spread { key, workers: queues, hashed: ["ipv4", "ipv6"].map(of) }
}
