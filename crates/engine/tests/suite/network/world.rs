// SPDX-License-Identifier: BSD-3-Clause
//! Two hosts, two links, the box between them, and a clock that goes from one event to the next.

use super::host::Host;
use super::link::Link;
use super::middle::{Middle, Way};
use super::talk::{Place, Plan, Seen, Talk};
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Where a packet arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    /// The box, from this host.
    Middle(usize),
    Host(usize),
}

/// Connections between the same ports, one after the other.
struct Slot {
    place: Place,
    plans: Vec<Plan>,
    /// When the next one begins.
    begins: u64,
    talk: Option<Talk>,
}

/// What became of all connections, by their numbers, and whether all bytes have come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) talks: BTreeMap<usize, ([Seen; 2], bool)>,
    pub(crate) micros: u64,
}

pub(crate) struct World {
    rng: Rng,
    hosts: [Host; 2],
    ways: [Way; 2],
    pub(crate) middle: Middle,
    on_way: BinaryHeap<Reverse<(u64, usize, Stop)>>,
    packets: Vec<Vec<u8>>,
    slots: Vec<Slot>,
    now: u64,
    outcome: Outcome,
    /// When the engine is restarted.
    restart: Option<u64>,
    /// When it begins to judge by numbers.
    judge: Option<u64>,
}

/// Programs look at their sockets at least so often, microseconds.
const LOOK: u64 = 25_000;

impl World {
    /// The world of a seed is the same with and without an engine.
    pub(crate) fn new(seed: u64, has_engine: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let hosts = [1, 2].map(|number| Host::new(number, rng.usize(1280..9000), rng.u64(..)));
        let ways = [(); 2].map(|()| Way { legs: [Link::new(&mut rng), Link::new(&mut rng)] });
        let count = rng.u16(8..=32);
        let slots = (0..count).map(|number| Slot {
            place: Place { is_v6: rng.bool(), ports: [rng.u16(1024..), 80 + number] },
            plans: (0..rng.u32(1..4)).map(|_| Plan::new(&mut rng)).collect(),
            begins: rng.u64(0..800_000),
            talk: None,
        });
        let slots = slots.collect();
        Self {
            hosts,
            ways,
            middle: Middle::new(has_engine),
            on_way: BinaryHeap::new(),
            packets: vec![],
            slots,
            now: 0,
            outcome: Outcome::default(),
            restart: None,
            judge: None,
            rng,
        }
    }

    /// The engine forgets everything at this time. Then it may miss that a connection is over, so
    /// no ports are used twice.
    pub(crate) fn restart_at(mut self, micros: u64) -> Self {
        self.restart = Some(micros);
        self.slots.iter_mut().for_each(|slot| slot.plans.truncate(1));
        self
    }

    /// The engine goes by flags, and by numbers from this time on.
    pub(crate) fn judge_at(mut self, micros: u64) -> Self {
        (self.judge, self.middle) = (Some(micros), Middle::liberal());
        self
    }

    /// Until all connections are over and nothing is on its way.
    pub(crate) fn run(&mut self) -> &Outcome {
        loop {
            self.begin_talks();
            for side in 0..2 {
                self.work(side);
            }
            self.end_talks();
            let Some(next) = self.next() else { break };
            self.now = next;
            if self.restart.is_some_and(|at| at <= next) {
                self.middle.restart();
                self.restart = None;
            }
            if self.judge.is_some_and(|at| at <= next) {
                self.middle.judge();
                self.judge = None;
            }
            self.deliver();
        }
        self.outcome.micros = self.now;
        &self.outcome
    }

    fn next(&mut self) -> Option<u64> {
        let packet = self.on_way.peek().map(|Reverse((at, ..))| *at);
        let begin = self.slots.iter().filter(|slot| slot.talk.is_none() && !slot.plans.is_empty());
        let begin = begin.map(|slot| slot.begins).min();
        let talks = || self.slots.iter().filter_map(|slot| slot.talk.as_ref());
        let is_busy = talks().any(|t| (0..2).any(|side| t.is_busy_at(side, &self.hosts[side])));
        let look = is_busy.then_some(self.now + LOOK);
        let hosts = [0, 1].map(|side| self.hosts[side].next(self.now));
        let times = [packet, begin, look].into_iter().chain(hosts).flatten();
        times.min().map(|at| at.max(self.now + 1))
    }

    fn begin_talks(&mut self) {
        for (place, slot) in self.slots.iter_mut().enumerate() {
            if slot.talk.is_none() && slot.begins <= self.now && !slot.plans.is_empty() {
                let number = 4 * place + slot.plans.len();
                let plan = slot.plans.remove(0);
                slot.talk = Some(Talk::begin(plan, slot.place, number, &mut self.hosts));
            }
        }
    }

    fn end_talks(&mut self) {
        for slot in &mut self.slots {
            let is_over = |talk: &Talk| (0..2).all(|side| talk.is_over_at(side, &self.hosts[side]));
            if !slot.talk.as_ref().is_some_and(is_over) {
                continue;
            }
            let Some(talk) = slot.talk.take() else { continue };
            let is_complete = talk.is_complete();
            let (number, seen) = talk.end(&mut self.hosts);
            // An RST that is not exact ends it for this receiver (RFC 9293 section 3.10.7.4), for
            // others (RFC 5961 section 3.2) and the engine it does not.
            if self.middle.is_in_doubt(slot.place.tuple()) {
                slot.plans.clear();
            }
            self.outcome.talks.insert(number, (seen, is_complete));
            // At once, after a while, or when the record has gone.
            let pause = [0, 400_000, 400_000_000][self.rng.usize(0..3)];
            slot.begins = self.now + self.rng.u64(0..=pause);
        }
    }

    /// A host and its programs.
    fn work(&mut self, side: usize) {
        let mut sent = self.hosts[side].poll(self.now);
        for slot in &mut self.slots {
            if let Some(talk) = &mut slot.talk {
                talk.step(side, &mut self.hosts[side], &mut self.rng);
            }
        }
        sent.extend(self.hosts[side].poll(self.now));
        for packet in sent {
            self.send(side, 0, &packet, Stop::Middle(side));
        }
    }

    fn send(&mut self, side: usize, leg: usize, packet: &[u8], to: Stop) {
        for at in self.ways[side].legs[leg].arrivals(self.now) {
            self.on_way.push(Reverse((at, self.packets.len(), to)));
            self.packets.push(packet.to_vec());
        }
    }

    fn deliver(&mut self) {
        while let Some(Reverse((at, number, stop))) = self.on_way.peek().copied() {
            if at > self.now {
                return;
            }
            self.on_way.pop();
            let packet = std::mem::take(&mut self.packets[number]);
            match stop {
                // What was dropped has its place in the order of things.
                Stop::Host(_) if packet.is_empty() => {}
                Stop::Host(side) => self.hosts[side].arrive(packet),
                Stop::Middle(side) => {
                    let is_passed = self.middle.pass(self.now, side, &packet);
                    let rest = if is_passed { &packet[..] } else { &[] };
                    self.send(side, 1, rest, Stop::Host(1 - side));
                }
            }
        }
    }
}
