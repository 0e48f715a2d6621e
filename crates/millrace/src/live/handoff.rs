// SPDX-License-Identifier: BSD-3-Clause
//! Packets that go from the worker to which they came to the one that has their connection: a ring
//! from each worker of a wire to each other.
//!
//! A packet goes from one ring into a port and never into another ring, so no worker waits for
//! another, not even at the end.

use super::PortPair;
use config::plan::handed_mbufs;
use dpdk::{Burst, Mbuf, PortSpread};
use engine::{BURST_MAX, Handoff, RssFields, RssSpread, SteeringConfig, SteeringMismatch};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;

/// A packet on its way.
pub(super) struct HandoffPacket {
    pub(super) mbuf: Mbuf,
    pub(super) errand: Handoff,
    /// 0 for up, 1 for down.
    pub(super) direction: usize,
}

/// The ends of one worker's rings.
pub(super) struct HandoffRings {
    /// To each worker; to itself there is none.
    to: Vec<Option<Producer<HandoffPacket>>>,
    from: HandoffInputs<HandoffPacket>,
    /// Of the packets that were taken last, by direction.
    errands: [Vec<Handoff>; 2],
}

/// A ring from each of the others, in turn.
struct HandoffInputs<T> {
    rings: Vec<Consumer<T>>,
    /// The one to look at first.
    next: usize,
}

impl<T> HandoffInputs<T> {
    /// Gives a burst at most to `each`, of the next one that has some, in its order; returns how
    /// many.
    fn take(&mut self, mut each: impl FnMut(T)) -> usize {
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
    /// Those of so many workers.
    fn between(workers: usize) -> Vec<Self> {
        let none = |_| Self {
            to: Vec::with_capacity(workers),
            from: HandoffInputs { rings: Vec::with_capacity(workers), next: 0 },
            errands: [Vec::with_capacity(BURST_MAX), Vec::with_capacity(BURST_MAX)],
        };
        let mut ends: Vec<Self> = (0..workers).map(none).collect();
        let room = handed_mbufs(workers as u64) as usize;
        for from in 0..workers {
            for to in 0..workers {
                let ring = (from != to).then(|| RingBuffer::new(room));
                let (producer, consumer) = ring.unzip();
                ends[from].to.push(producer);
                ends[to].from.rings.extend(consumer);
            }
        }
        ends
    }

    /// Gives a packet to the worker that has its connection; back if there is no room.
    pub(super) fn give(&mut self, traveller: HandoffPacket) -> Result<(), Mbuf> {
        let to = self.to.get_mut(usize::from(traveller.errand.worker()));
        match to.and_then(Option::as_mut) {
            Some(ring) => ring.push(traveller).map_err(|rtrb::PushError::Full(back)| back.mbuf),
            None => Err(traveller.mbuf),
        }
    }

    /// Whether there are packets from others.
    #[inline(always)]
    pub(super) fn has_some(&self) -> bool {
        self.from.rings.iter().any(|ring| !ring.is_empty())
    }

    /// Packets from the next of them that has some: a burst of each direction, in its order.
    pub(super) fn take(&mut self) -> Option<[Burst; 2]> {
        let Self { from, errands, .. } = self;
        let mut bursts = [Burst::new(), Burst::new()];
        errands.iter_mut().for_each(Vec::clear);
        let taken = from.take(|HandoffPacket { mbuf, errand, direction }| {
            // There is room.
            let _ = bursts[direction].push(mbuf);
            errands[direction].push(errand);
        });
        (taken > 0).then_some(bursts)
    }

    /// What goes with those of a direction.
    pub(super) fn errands(&self, direction: usize) -> &[Handoff] {
        &self.errands[direction]
    }

    /// Gives nothing any more. Others wait for that in the end.
    pub(super) fn close(&mut self) {
        self.to.clear();
    }

    /// Whether nothing comes any more.
    pub(super) fn is_over(&self) -> bool {
        self.from.rings.iter().all(|ring| ring.is_abandoned() && ring.is_empty())
    }
}

/// For each worker of a wire its rings, and which connections the others have.
pub(super) fn of_workers(
    wire: &PortPair,
) -> impl Iterator<Item = (HandoffRings, Option<SteeringConfig>)> + use<> {
    let (spread, doubt) = (spread_of(wire), SteeringMismatch::default());
    let steering = move |me| {
        let spread = Arc::clone(spread.as_ref()?);
        Some(SteeringConfig { spread, me, doubt: doubt.clone() })
    };
    let exchanges = HandoffRings::between(wire.workers.len()).into_iter();
    exchanges.zip((0..).map(steering))
}

/// How both ports of a wire spread packets over its workers, if they do it alike and say how.
fn spread_of(wire: &PortPair) -> Option<Arc<RssSpread>> {
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
fn spread(PortSpread { key, types, queues }: PortSpread) -> RssSpread {
    let has =
        |name: &str| dpdk::flow::RSS_TYPES.iter().any(|(is, bit)| *is == name && types & bit != 0);
    let of = |version: &str| {
        let has = |kind: &str| has(&format!("{version}{kind}"));
        let addresses = has("") || has("-other");
        RssFields { tcp: has("-tcp"), udp: has("-udp"), sctp: has("-sctp"), addresses }
    };
    RssSpread { key, workers: queues, hashed: ["ipv4", "ipv6"].map(of) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_take_turns_and_give_bursts() {
        const ROOM: usize = 4 * BURST_MAX;
        let (mut producers, rings): (Vec<_>, _) = (0..3).map(|_| RingBuffer::new(ROOM)).unzip();
        let mut inlets = HandoffInputs { rings, next: 0 };
        // The second one has nothing.
        for number in 0..ROOM {
            producers[0].push((0, number)).unwrap();
            producers[2].push((2, number)).unwrap();
        }
        let (mut taken, mut turns) = (vec![], vec![]);
        for _ in 0..8 {
            assert_eq!(inlets.take(|packet| taken.push(packet)), BURST_MAX);
            turns.push(taken[taken.len() - 1].0);
            // Whoever is never through does not keep another from it.
            while producers[0].push((0, taken.len())).is_ok() {}
        }
        assert_eq!(turns, [0, 2].repeat(4));
        let of_last = taken.iter().filter(|(ring, _)| *ring == 2).map(|(_, number)| *number);
        assert!(of_last.eq(0..ROOM));
        while inlets.take(|packet| taken.push(packet)) > 0 {}
        assert_eq!(taken.len(), 2 * ROOM + 4 * BURST_MAX);
    }
}
