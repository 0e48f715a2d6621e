// SPDX-License-Identifier: BSD-3-Clause
//! Owns the rings by which workers of a wire hand packets off: a ring from each worker to each
//! other one. A packet goes to the worker that has its connection.
//!
//! A packet goes from one ring into a port, never into another ring. So no worker waits for
//! another, not even at the end.

use crate::live::ports::pair::PortPair;
use config::plan::handed_mbufs;
use dpdk::{Burst, Mbuf};
use engine::{BURST_MAX, Handoff, SteeringConfig, SteeringMismatch};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use wire::rss::RssSpread;

/// A packet on its way to another worker.
pub(crate) struct HandoffPacket {
    pub(crate) mbuf: Mbuf,
    pub(crate) handoff: Handoff,
    /// 0 for up, 1 for down.
    pub(crate) direction: usize,
}

/// One worker's ends of the rings to and from the others.
pub(crate) struct HandoffRings {
    /// Rings to each worker, by its number; `None` for itself.
    to: Vec<Option<Producer<HandoffPacket>>>,
    from: HandoffInputs<HandoffPacket>,
    /// Hand-offs of the packets that [`receive`](Self::receive) returned last, by direction.
    handoffs: [Vec<Handoff>; 2],
}

/// Rings from each of the other workers, read in turn.
struct HandoffInputs<T> {
    rings: Vec<Consumer<T>>,
    /// The ring to read first.
    next: usize,
}

impl<T> HandoffInputs<T> {
    /// Pops at most a burst from the next ring that is not empty and passes it to `each`, in order.
    /// Returns how many it popped.
    fn receive(&mut self, mut each: impl FnMut(T)) -> usize {
        let count = self.rings.len();
        let mut in_turn = (self.next..self.next + count).map(|ring| ring % count);
        let Some(ring) = in_turn.find(|&ring| !self.rings[ring].is_empty()) else { return 0 };
        self.next = ring + 1;
        let mut taken = 0;
        while taken < BURST_MAX {
            let Ok(next) = self.rings[ring].pop() else { break };
            each(next);
            taken += 1;
        }
        taken
    }
}

impl HandoffRings {
    /// Returns the ends of each of `workers` workers.
    fn between(workers: usize) -> Vec<Self> {
        let new_ends = |_| Self {
            to: Vec::with_capacity(workers),
            from: HandoffInputs { rings: Vec::with_capacity(workers), next: 0 },
            handoffs: [Vec::with_capacity(BURST_MAX), Vec::with_capacity(BURST_MAX)],
        };
        let mut ends: Vec<Self> = (0..workers).map(new_ends).collect();
        let capacity = handed_mbufs(workers as u64) as usize;
        for from in 0..workers {
            for to in 0..workers {
                let ring = (from != to).then(|| RingBuffer::new(capacity));
                let (producer, consumer) = ring.unzip();
                ends[from].to.push(producer);
                ends[to].from.rings.extend(consumer);
            }
        }
        ends
    }

    /// Hands a packet off to the worker that has its connection; returns the packet if there is no
    /// room.
    pub(crate) fn send(&mut self, packet: HandoffPacket) -> Result<(), Mbuf> {
        let to = self.to.get_mut(usize::from(packet.handoff.worker()));
        match to.and_then(Option::as_mut) {
            Some(ring) => ring.push(packet).map_err(|rtrb::PushError::Full(back)| back.mbuf),
            None => Err(packet.mbuf),
        }
    }

    /// True if other workers have handed packets off to this one.
    #[inline(always)]
    pub(crate) fn has_packets(&self) -> bool {
        self.from.rings.iter().any(|ring| !ring.is_empty())
    }

    /// Returns packets of the next ring that is not empty: a burst of each direction, in order.
    pub(crate) fn receive(&mut self) -> Option<[Burst; 2]> {
        let Self { from, handoffs, .. } = self;
        let mut bursts = [Burst::new(), Burst::new()];
        handoffs.iter_mut().for_each(Vec::clear);
        let taken = from.receive(|HandoffPacket { mbuf, handoff, direction }| {
            // The bursts have room: at most a burst was popped.
            let _ = bursts[direction].push(mbuf);
            handoffs[direction].push(handoff);
        });
        (taken > 0).then_some(bursts)
    }

    /// Returns the hand-offs of the packets of a direction that were taken last.
    pub(crate) fn handoffs(&self, direction: usize) -> &[Handoff] {
        &self.handoffs[direction]
    }

    /// Closes the rings to the other workers, which wait for that at the end of a run.
    pub(crate) fn close(&mut self) {
        self.to.clear();
    }

    /// True once all rings from others are closed and empty.
    pub(crate) fn is_closed(&self) -> bool {
        self.from.rings.iter().all(|ring| ring.is_abandoned() && ring.is_empty())
    }
}

/// Returns the rings of each worker of a wire, and the configuration that says which connections
/// belong to which worker.
pub(crate) fn of_workers(
    wire: &PortPair,
) -> impl Iterator<Item = (HandoffRings, Option<SteeringConfig>)> + use<> {
    let (spread, mismatch) = (spread_of(wire), SteeringMismatch::default());
    let steering = move |worker_index| {
        let spread = Arc::clone(spread.as_ref()?);
        Some(SteeringConfig { spread, worker_index, mismatch: mismatch.clone() })
    };
    let rings = HandoffRings::between(wire.workers.len()).into_iter();
    rings.zip((0..).map(steering))
}

/// Returns how RSS of both ports of a wire spreads packets over queues, one for each worker. `None`
/// if it differs between them, or if a port does not report it.
fn spread_of(wire: &PortPair) -> Option<Arc<RssSpread>> {
    let [a, b] = [&wire.a, &wire.b].map(dpdk::Port::spread);
    let (a, b) = (a?, b?);
    let is_one = a.queues == b.queues && a.types == b.types && is_prefix(&a.key, &b.key);
    is_one.then(|| Arc::new(a.to_queues()))
}

/// True if the shorter key is a prefix of the longer.
fn is_prefix(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_take_turns_and_give_bursts() {
        const ROOM: usize = 4 * BURST_MAX;
        let (mut producers, rings): (Vec<_>, _) = (0..3).map(|_| RingBuffer::new(ROOM)).unzip();
        let mut inlets = HandoffInputs { rings, next: 0 };
        // The second ring is empty.
        for number in 0..ROOM {
            producers[0].push((0, number)).unwrap();
            producers[2].push((2, number)).unwrap();
        }
        let (mut taken, mut turns) = (vec![], vec![]);
        for _ in 0..8 {
            assert_eq!(inlets.receive(|packet| taken.push(packet)), BURST_MAX);
            turns.push(taken[taken.len() - 1].0);
            // A ring that never runs empty must not starve another.
            while producers[0].push((0, taken.len())).is_ok() {}
        }
        assert_eq!(turns, [0, 2].repeat(4));
        let of_last = taken.iter().filter(|(ring, _)| *ring == 2).map(|(_, number)| *number);
        assert!(of_last.eq(0..ROOM));
        while inlets.receive(|packet| taken.push(packet)) > 0 {}
        assert_eq!(taken.len(), 2 * ROOM + 4 * BURST_MAX);
    }
}
