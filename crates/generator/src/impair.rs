// SPDX-License-Identifier: BSD-3-Clause
//! Implements a wire for tests that loses, duplicates, reorders and damages packets. It counts each
//! impairment exactly, so that tests can compare the receiver's figures with its own.

use crate::cycles::Laps;
use crate::lottery::{Impairment, Impairments, Lottery};
use crate::task::{Stage, Task};
use dpdk::{Burst, Mbuf, Mempool, RxQueue, TxQueue};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use traffic::{Finding, StampKey, Verifier};
use wire::Packet;

/// Counters of impaired packets; any thread may read them.
#[derive(Debug, Default)]
pub struct Impaired {
    lost: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
    damaged: AtomicU64,
}

impl Impaired {
    /// Returns the numbers of packets lost, duplicated, reordered and damaged.
    pub fn counts(&self) -> [u64; 4] {
        let counters = [&self.lost, &self.duplicated, &self.reordered, &self.damaged];
        counters.map(|counter| counter.load(Ordering::Acquire))
    }
}

/// Forwards packets from a receive queue to a transmit queue, and impairs some of them.
pub struct Impairer {
    from: RxQueue,
    to: TxQueue,
    mempool: Mempool,
    lottery: Lottery,
    impaired: Arc<Impaired>,
    verifier: Verifier,
    arrived: Burst,
    /// Packets that wait for room in the transmit queue, in order.
    leaving: VecDeque<Mbuf>,
    offered: Burst,
    /// The packet that waits for the next one of its lane, and the number of the lane.
    held: Option<(u16, Mbuf)>,
}

impl Impairer {
    /// Makes a wire for stamped packets of runs with `seed`. The seed also determines which packets
    /// are impaired.
    pub fn new(
        from: RxQueue,
        to: TxQueue,
        mempool: Mempool,
        impairments: Impairments,
        (seed, key): (u64, StampKey),
    ) -> Self {
        Self {
            from,
            to,
            mempool,
            lottery: Lottery::new(impairments, seed),
            impaired: Arc::default(),
            verifier: Verifier::new(seed, key),
            arrived: Burst::new(),
            leaving: VecDeque::with_capacity(4 * dpdk::BURST_MAX),
            offered: Burst::new(),
            held: None,
        }
    }

    /// Returns the counters of impaired packets, which continue to change.
    pub fn impaired(&self) -> Arc<Impaired> {
        Arc::clone(&self.impaired)
    }

    fn carry(&mut self, mbuf: Mbuf) {
        let Finding::Good(stamp) = self.verifier.examine(mbuf.head()) else {
            return self.send(mbuf);
        };
        match self.lottery.draw() {
            Impairment::Lost => count(&self.impaired.lost),
            Impairment::Damaged => self.damage(mbuf),
            Impairment::Reordered if self.held.is_none() => self.held = Some((stamp.lane, mbuf)),
            Impairment::Duplicated => {
                if let Some(copy) = self.copy(&mbuf) {
                    self.send(copy);
                    count(&self.impaired.duplicated);
                }
                self.pass(stamp.lane, mbuf);
            }
            Impairment::Reordered | Impairment::None => self.pass(stamp.lane, mbuf),
        }
    }

    /// Sends an intact packet, and after it the waiting packet if it is of the same lane.
    fn pass(&mut self, lane: u16, mbuf: Mbuf) {
        self.send(mbuf);
        if let Some((_, late)) = self.held.take_if(|(held, _)| *held == lane) {
            self.send(late);
            count(&self.impaired.reordered);
        }
    }

    /// Inverts a random bit of the last 16 bytes of a packet, sends the packet and counts it.
    fn damage(&mut self, mut mbuf: Mbuf) {
        let random = self.lottery.random();
        let bytes = mbuf.head_mut();
        let bits = 8 * traffic::Stamp::LEN as u64;
        let bit = 8 * bytes.len() - 1 - (random % bits) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        self.send(mbuf);
        count(&self.impaired.damaged);
    }

    fn copy(&self, mbuf: &Mbuf) -> Option<Mbuf> {
        let mut burst = Burst::new();
        self.mempool.alloc_bulk(&mut burst, 1);
        let mut copy = burst.pop()?;
        copy.write(mbuf.head()).ok()?;
        Some(copy)
    }

    fn send(&mut self, mbuf: Mbuf) {
        self.leaving.push_back(mbuf);
    }

    /// Sends packets while the transmit queue has room; true if none is left.
    fn flush(&mut self) -> bool {
        loop {
            while self.offered.room() > 0 {
                let Some(mbuf) = self.leaving.pop_front() else { break };
                // The loop has made sure that there is room.
                let _ = self.offered.push(mbuf);
            }
            if self.offered.is_empty() {
                return true;
            }
            if self.to.burst(&mut self.offered) == 0 {
                return false;
            }
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Release);
}

impl Task for Impairer {
    fn turn(&mut self, _now: u64, stage: Stage, _laps: &mut Laps) -> bool {
        if !self.flush() {
            return false;
        }
        let received = self.from.burst(&mut self.arrived);
        let mut packets: [Option<Mbuf>; dpdk::BURST_MAX] = [const { None }; dpdk::BURST_MAX];
        // `pop` returns the last packet first.
        packets[..received].iter_mut().rev().for_each(|place| *place = self.arrived.pop());
        packets.into_iter().flatten().for_each(|mbuf| self.carry(mbuf));
        if received == 0 && stage != Stage::Send {
            // No packet of its lane follows, so it is sent in order and not counted.
            if let Some((_, late)) = self.held.take() {
                self.send(late);
            }
        }
        self.flush();
        received > 0
    }

    fn finish(&mut self, _now: u64) {}
}
