// SPDX-License-Identifier: BSD-3-Clause
//! Sends every frame back to the port that it came from, with source and destination exchanged.

use crate::cycles::{Laps, Work};
use crate::port::BurstSizes;
use crate::reports::{Outbox, Report};
use crate::task::{Stage, Task};
use dpdk::{Burst, Mbuf, RxQueue, TxQueue};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use traffic::neighbour::{Message, reply};
use traffic::reflector_query::{self, ReflectorCounters};
use traffic::{KeptPorts, NotSwapped, Swap, Swapped};
use wire::Packet;

/// Counters of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReflectorReport {
    /// Frames received.
    pub received: u64,
    /// Bytes without FCS.
    pub bytes: u64,
    /// Frames that were sent back.
    pub reflected: u64,
    /// Frames that were not sent back, by reason, in the order of [`NotSwapped::ALL`].
    pub not_swapped: [u64; NotSwapped::ALL.len()],
    /// Frames whose addresses were exchanged but not their ports, by reason, in the order of
    /// [`KeptPorts::ALL`].
    pub without_ports: [u64; KeptPorts::ALL.len()],
    /// Frames for which the port had no room.
    pub port_full: u64,
    /// Queries and requests of neighbours that were answered; they count as received, too.
    pub answered: u64,
    /// Longest time between two polls of the queues, in nanoseconds.
    pub longest_gap_ns: u64,
}

impl Report for ReflectorReport {
    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Options of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// Addresses and ports that are exchanged.
    pub swap: Swap,
    /// Number of times that a burst is offered again to a port that has no room.
    pub tries: u32,
    /// Maximum numbers of frames of a burst.
    pub bursts: BurstSizes,
}

/// Queues at which frames are reflected.
pub struct ReflectorQueue {
    /// Queue that frames are received from.
    pub rx: RxQueue,
    /// Queue that frames are sent back to.
    pub tx: TxQueue,
    /// Counters that senders at this port may query.
    pub counters: Arc<PublishedCounters>,
    /// Addresses for which requests of neighbours are answered; `None` if none are.
    pub addresses: Option<Addresses>,
}

/// Addresses of a reflector, and the MAC address of its port.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// Addresses of the reflector.
    pub addresses: Vec<IpAddr>,
    /// The MAC address of all of them.
    pub mac: [u8; 6],
}

/// Counters of a port that senders may query. The control thread sets them, workers read them.
#[derive(Debug, Default)]
pub struct PublishedCounters([AtomicU64; 4]);

impl PublishedCounters {
    /// Sets the counters.
    pub fn set(&self, counters: ReflectorCounters) {
        let ReflectorCounters { received, reflected, dropped, missed } = counters;
        for (cell, counter) in self.0.iter().zip([received, reflected, dropped, missed]) {
            cell.store(counter, Ordering::Relaxed);
        }
    }

    /// Returns the counters as they were set last.
    pub fn get(&self) -> ReflectorCounters {
        let [received, reflected, dropped, missed] =
            std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed));
        ReflectorCounters { received, reflected, dropped, missed }
    }
}

/// Reflects frames on one or more pairs of queues.
pub struct Reflector {
    lanes: Vec<Lane>,
    reflection: Reflection,
    last_turn: Option<u64>,
    outbox: Outbox<ReflectorReport>,
}

/// A pair of queues, and the burst between them.
struct Lane {
    queue: ReflectorQueue,
    burst: Burst,
    /// Number of times that the burst has been offered again.
    tries: u32,
}

impl Reflector {
    /// Makes a reflector from receive queues to the transmit queues beside them.
    pub fn new(
        queues: Vec<ReflectorQueue>,
        reflection: Reflection,
        outbox: Outbox<ReflectorReport>,
    ) -> Self {
        let lane = |queue| Lane { queue, burst: Burst::new(), tries: 0 };
        Self { lanes: queues.into_iter().map(lane).collect(), reflection, last_turn: None, outbox }
    }
}

impl Lane {
    /// Receives, turns and sends a burst, once the previous one is sent. True if it received or
    /// sent frames.
    #[inline(always)]
    fn turn(
        &mut self,
        reflection: Reflection,
        report: &mut ReflectorReport,
        laps: &mut Laps,
    ) -> bool {
        if !self.burst.is_empty() {
            self.tries += 1;
            let before = report.reflected;
            self.send(reflection.bursts.tx, report);
            laps.lap(Work::Tx);
            if self.burst.is_empty() {
                return true;
            }
            if self.tries >= reflection.tries {
                report.port_full += self.burst.free_all() as u64;
            }
            // Do not try again now: the other queues get their turn first.
            return report.reflected > before;
        }
        let received = self.queue.rx.burst_up_to(&mut self.burst, reflection.bursts.rx);
        if received == 0 {
            return false;
        }
        self.burst.prefetch();
        laps.lap(Work::Rx);
        report.received += received as u64;
        self.turn_all(reflection.swap, report);
        laps.lap(Work::Build);
        self.tries = 0;
        self.send(reflection.bursts.tx, report);
        laps.lap(Work::Tx);
        true
    }

    /// Sends the burst, up to `most` frames a call, until the port has no more room.
    #[inline(always)]
    fn send(&mut self, most: usize, report: &mut ReflectorReport) {
        while !self.burst.is_empty() {
            let offered = self.burst.len().min(most);
            let taken = self.queue.tx.burst_up_to(&mut self.burst, most);
            report.reflected += taken as u64;
            if taken < offered {
                return;
            }
        }
    }

    /// Exchanges the addresses of the frames of the burst; frees those that cannot be sent back.
    #[inline(always)]
    fn turn_all(&mut self, swap: Swap, report: &mut ReflectorReport) {
        let ReflectorQueue { counters, addresses, .. } = &self.queue;
        let mut is_turned = [true; dpdk::BURST_MAX];
        let mut is_all = true;
        for (mbuf, is_turned) in self.burst.iter_mut().zip(&mut is_turned) {
            report.bytes += mbuf.frame_len() as u64;
            match swap.apply(mbuf.head_mut()) {
                Ok(Swapped::Whole) => {
                    let is_query = reflector_query::answer(mbuf.head_mut(), || counters.get());
                    report.answered += u64::from(is_query);
                }
                Ok(Swapped::WithoutPorts(reason)) => report.without_ports[reason as usize] += 1,
                Err(_) if addresses.as_ref().is_some_and(|it| it.answer(mbuf)) => {
                    report.answered += 1;
                }
                Err(reason) => {
                    report.not_swapped[reason as usize] += 1;
                    (*is_turned, is_all) = (false, false);
                }
            }
        }
        if !is_all {
            self.burst.retain(|number| is_turned[number]);
        }
    }
}

impl Addresses {
    /// Turns a request for one of the addresses into an answer; false if it is another frame.
    #[inline(never)]
    fn answer(&self, mbuf: &mut Mbuf) -> bool {
        let Some(Message::Request { from, target }) = Message::read(mbuf.head()) else {
            return false;
        };
        if !self.addresses.contains(&target) {
            return false;
        }
        let answer = reply(mbuf.head(), from, target, self.mac);
        answer.is_some_and(|answer| mbuf.write(answer.bytes()).is_ok())
    }
}

impl Task for Reflector {
    #[inline]
    fn turn(&mut self, now: u64, _stage: Stage, laps: &mut Laps) -> bool {
        if self.outbox.is_due(now) {
            self.outbox.hand_over(now);
            laps.lap(Work::Count);
        }
        let report = self.outbox.current();
        let gap = self.last_turn.replace(now).map_or(0, |before| now - before);
        report.longest_gap_ns = report.longest_gap_ns.max(gap);
        let mut is_any = false;
        for lane in &mut self.lanes {
            is_any |= lane.turn(self.reflection, report, laps);
        }
        is_any
    }

    fn finish(&mut self, now: u64) {
        let report = self.outbox.current();
        for lane in &mut self.lanes {
            report.port_full += lane.burst.free_all() as u64;
        }
        self.outbox.hand_over(now);
    }
}
