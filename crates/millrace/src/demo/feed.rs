// SPDX-License-Identifier: BSD-3-Clause
//! Sends frames into the demonstration's wire at both ends, and takes them back.
//!
//! Packets in flight never exceed the capacity of the rings, so none is lost for lack of room. A
//! packet that does not come back was kept by the bump.

mod loopable;

pub(crate) use loopable::Frames;

use dpdk::{Burst, Mempool, RxQueue, TxQueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use traffic::{Side, Workload};

/// Frames prepared before they are sent.
const BATCH: usize = 32;
/// Silence after which packets in flight are given up, so that others can be sent. A worker that
/// lost its cpu still has them, and at the end they are waited for.
const PATIENCE: Duration = Duration::from_millis(200);
const PATIENCE_AT_END: Duration = Duration::from_secs(5);

/// The source of the frames.
pub(crate) enum Source {
    /// Generated on the fly.
    Workload(Box<Workload>),
    /// The frames of a capture, in a loop.
    Frames(Frames),
}

impl Source {
    /// Writes the next frame into `buf`; returns the side where it enters, and its length.
    fn fill(&mut self, buf: &mut [u8]) -> (Side, usize) {
        match self {
            Source::Workload(workload) => workload.fill(buf),
            Source::Frames(frames) => frames.fill(buf),
        }
    }

    /// Returns the bytes of the longest frame.
    pub(crate) fn max_frame(&self) -> usize {
        match self {
            Source::Workload(_) => traffic::MAX_FRAME,
            Source::Frames(frames) => frames.max_frame(),
        }
    }
}

/// The far ends of both wires, side A and side B.
pub(crate) struct Feeder {
    pub(crate) source: Source,
    pub(crate) ends: [(RxQueue, TxQueue); 2],
    pub(crate) mempool: Mempool,
    /// Most packets in flight.
    pub(crate) window: u64,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Packets of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FeedTotals {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Feeder {
    /// Sends until the stop flag is set, then waits for packets in flight.
    pub(crate) fn run(mut self) -> FeedTotals {
        let mut fed = FeedTotals::default();
        let mut given_up = 0;
        let mut last_received = Instant::now();
        let mut staging = TxStage::new(self.source.max_frame());
        loop {
            let stopping = self.stop.load(Ordering::Relaxed);
            let missing = fed.sent - fed.received;
            // A late packet may come back after it was given up.
            given_up = missing.min(given_up);
            let on_their_way = missing - given_up;
            if stopping && (missing == 0 || last_received.elapsed() > PATIENCE_AT_END) {
                return fed;
            }
            match self.receive() {
                0 if on_their_way > 0 && last_received.elapsed() > PATIENCE => given_up = missing,
                // The worker may share this cpu.
                0 => std::thread::yield_now(),
                received => {
                    fed.received += received;
                    last_received = Instant::now();
                }
            }
            if !stopping && on_their_way + (BATCH as u64) <= self.window {
                if on_their_way == 0 {
                    last_received = Instant::now();
                }
                fed.sent += self.send(&mut staging);
            }
        }
    }

    fn receive(&mut self) -> u64 {
        let mut burst = Burst::new();
        let ends = self.ends.iter_mut();
        ends.map(|(rx, _)| {
            rx.burst(&mut burst);
            burst.free_all() as u64
        })
        .sum()
    }

    /// Generates a batch, and sends each side its part; returns the packets sent.
    fn send(&mut self, staging: &mut TxStage) -> u64 {
        staging.fill(&mut self.source);
        let mut sent = 0;
        for (side, (_, tx)) in [Side::A, Side::B].into_iter().zip(&mut self.ends) {
            let mut burst = Burst::new();
            let count = staging.count(side);
            if !self.mempool.alloc_bulk(&mut burst, count) {
                continue;
            }
            for (mbuf, frame) in burst.iter_mut().zip(staging.frames(side)) {
                mbuf.write(frame).expect("mbufs have room for the longest frame");
            }
            // The window is smaller than the ring: the ring soon takes the rest.
            while !burst.is_empty() {
                sent += tx.burst(&mut burst) as u64;
            }
        }
        sent
    }
}

/// A batch of frames, adjacent in memory.
struct TxStage {
    bytes: Vec<u8>,
    room: usize,
    frames: [(Side, usize); BATCH],
}

impl TxStage {
    fn new(room: usize) -> Self {
        Self { bytes: vec![0; room * BATCH], room, frames: [(Side::A, 0); BATCH] }
    }

    fn fill(&mut self, source: &mut Source) {
        for (place, frame) in self.bytes.chunks_exact_mut(self.room).zip(&mut self.frames) {
            *frame = source.fill(place);
        }
    }

    fn count(&self, side: Side) -> usize {
        self.frames.iter().filter(|frame| frame.0 == side).count()
    }

    fn frames(&self, side: Side) -> impl Iterator<Item = &[u8]> {
        let places = self.bytes.chunks_exact(self.room).zip(&self.frames);
        places.filter(move |(_, frame)| frame.0 == side).map(|(place, frame)| &place[..frame.1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpdk::{Eal, EalConfig, Port, PortConfig, ring_cable};
    use traffic::{Profile, Workload};

    const WINDOW: u64 = 64;
    /// No test takes this long, however busy the machine is.
    const LONG: Duration = Duration::from_secs(60);

    /// One queue of each kind.
    fn end(port: &mut Port, pool: Mempool) -> (RxQueue, TxQueue) {
        let config = PortConfig {
            rx_queues: 1,
            tx_queues: 1,
            rxd: 64,
            txd: 64,
            mempools: vec![pool],
            mtu: None,
            is_endpoint: false,
            sends_on_time: false,
        };
        let (mut rx, mut tx) = port.configure(&config).unwrap();
        (rx.remove(0), tx.remove(0))
    }

    /// A bump that forwards on request of a test.
    struct Bump {
        ends: [(RxQueue, TxQueue); 2],
        taken: u64,
        lost: u64,
    }

    impl Bump {
        /// Forwards waiting packets, except the first `losses` of each direction.
        fn forward(&mut self, losses: usize) {
            let [(a_rx, a_tx), (b_rx, b_tx)] = &mut self.ends;
            for (rx, tx) in [(a_rx, b_tx), (b_rx, a_tx)] {
                let mut burst = Burst::new();
                self.taken += rx.burst(&mut burst) as u64;
                self.lost += burst.retain(|i| i >= losses) as u64;
                while !burst.is_empty() {
                    tx.burst(&mut burst);
                }
            }
        }
    }

    #[test]
    fn late_packets_are_counted_when_they_come_and_lost_ones_never() {
        let config = EalConfig { no_huge: true, memory_mb: 64, ..EalConfig::default() };
        let eal = Eal::init(&config).unwrap();
        let mempool = Mempool::new(&eal, "feed", 4095, 2048, None).unwrap();
        let (mut a, mut far_a) = ring_cable(&eal, "feed_a", 1, 1024).unwrap();
        let (mut b, mut far_b) = ring_cable(&eal, "feed_b", 1, 1024).unwrap();
        let ends = [end(&mut a, mempool), end(&mut b, mempool)];
        let mut bump = Bump { ends, taken: 0, lost: 0 };
        let ends = [end(&mut far_a, mempool), end(&mut far_b, mempool)];
        let source = Source::Workload(Box::new(Workload::new(1, Profile::default())));
        let stop = Arc::new(AtomicBool::new(false));
        let feeder = Feeder { source, ends, mempool, window: WINDOW, stop: Arc::clone(&stop) };
        let start = Instant::now();
        let feeder = std::thread::spawn(|| feeder.run());

        // No packet comes back: after a window of packets is late, another one is sent.
        loop {
            let on_their_way = u64::from(mempool.in_use());
            let waited = start.elapsed();
            if waited < PATIENCE {
                assert!(on_their_way <= WINDOW, "{on_their_way} after {waited:?}");
            }
            if on_their_way >= 2 * WINDOW {
                break;
            }
            assert!(waited < LONG, "{on_their_way} on their way, and never more");
            std::thread::yield_now();
        }

        // Late packets come back after all, and many more.
        let is_feeding = || !feeder.is_finished() && start.elapsed() < LONG;
        while bump.taken < 100 * WINDOW && is_feeding() {
            bump.forward(0);
        }
        // Only packets that never come back are missing at the end.
        while bump.lost < 3 && is_feeding() {
            bump.forward(1);
        }
        stop.store(true, Ordering::Relaxed);
        while is_feeding() {
            bump.forward(0);
        }
        assert!(feeder.is_finished(), "{} packets in {LONG:?}", bump.taken);
        let fed = feeder.join().unwrap();
        assert_eq!(fed, FeedTotals { sent: bump.taken, received: bump.taken - bump.lost });
        assert_eq!(mempool.in_use(), 0);
    }
}
