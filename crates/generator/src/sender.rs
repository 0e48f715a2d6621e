// SPDX-License-Identifier: BSD-3-Clause
//! Sends the frames of a source when they are due, from up to two ports.
//!
//! A frame that the port has no room for is kept and offered again, so no number of a stream is
//! skipped; frames that the port never took are "unsent" in the end, and not lost.

use crate::reports::{Outbox, Report};
use crate::task::{Stage, Task};
use dpdk::{BURST_MAX, Burst, Mbuf, Mempool, TxQueue};
use hdrhistogram::Histogram;
use traffic::{Side, Source, Written};

/// Longest time that a sender may be behind and still catch up: the pause of a cpu that was taken
/// away for a moment. Whatever it is behind beyond that is not sent, and told as such.
const CATCH_UP_NS: u64 = 10_000_000;
/// How long frames are offered to a port that takes none once sending is over.
const FLUSH_NS: u64 = 100_000_000;
/// Longest delay that the histograms tell apart.
const DELAY_MAX_NS: u64 = 10_000_000_000;

/// Counters of an interval.
#[derive(Clone, Debug)]
pub struct SenderReport {
    /// Number of the interval in which it began.
    pub interval: u64,
    /// Frames that ports A and B took.
    pub packets: [u64; 2],
    /// Bytes without FCS.
    pub bytes: [u64; 2],
    /// Frames that were stamped with times of each of the latest few intervals.
    pub stamped: [(u64, u64); 4],
    /// Calls in which a port took fewer frames than were offered.
    pub port_full: u64,
    /// Nanoseconds by which the schedule was put off, as the sender was too far behind.
    pub put_off_ns: u64,
    /// When a port took frames first and last, in nanoseconds of the run; 0 if none did.
    pub span: (u64, u64),
    /// Frames of each lane that were made since the start, less those that no port took until the
    /// end.
    pub lanes: Vec<u64>,
    /// Frames that no port took until the end.
    pub unsent: u64,
    /// The source has no more frames, and all are sent.
    pub is_done: bool,
    /// From when a frame was due to when it was made, in nanoseconds, of the first of each burst.
    pub lateness: Histogram<u64>,
    /// By how much the gap between two bursts differs from what was due, in nanoseconds.
    pub gap_error: Histogram<u64>,
}

pub(crate) fn delays() -> Histogram<u64> {
    Histogram::new_with_bounds(1, DELAY_MAX_NS, 2).expect("the bounds are right")
}

impl SenderReport {
    /// An empty report of a source with this many lanes.
    pub fn new(lanes: usize) -> Self {
        Self {
            interval: 0,
            packets: [0; 2],
            bytes: [0; 2],
            stamped: [(0, 0); 4],
            port_full: 0,
            put_off_ns: 0,
            span: (0, 0),
            lanes: vec![0; lanes],
            unsent: 0,
            is_done: false,
            lateness: delays(),
            gap_error: delays(),
        }
    }
}

impl Report for SenderReport {
    fn clear(&mut self) {
        (self.packets, self.bytes, self.stamped) = ([0; 2], [0; 2], [(0, 0); 4]);
        (self.port_full, self.put_off_ns, self.unsent, self.span) = (0, 0, 0, (0, 0));
        self.lateness.reset();
        self.gap_error.reset();
    }
}

/// Adds to the count of an interval among the latest few; older ones make room.
#[inline(always)]
pub(crate) fn count_interval(counts: &mut [(u64, u64); 4], interval: u64, packets: u64) {
    let place = &mut counts[(interval % 4) as usize];
    if place.0 < interval {
        *place = (interval, 0);
    }
    if place.0 == interval {
        place.1 += packets;
    }
}

/// Makes a span reach to `now`.
#[inline(always)]
pub(crate) fn widen(span: &mut (u64, u64), now: u64) {
    if span.1 == 0 {
        span.0 = now;
    }
    span.1 = now;
}

/// Sends from up to two ports.
pub struct Sender<S> {
    source: S,
    ports: [Option<Out>; 2],
    mempool: Mempool,
    stock: Burst,
    /// When the schedule of the source began.
    start: Option<u64>,
    /// Lateness of the burst before.
    lateness: u64,
    interval_ns: u64,
    outbox: Outbox<SenderReport>,
    /// Frames of each lane that no port took until the end.
    unsent: Vec<u64>,
    drain_since: Option<u64>,
    is_done: bool,
}

/// Frames on their way to a port.
struct Out {
    queue: TxQueue,
    burst: Burst,
    /// Lanes of the frames of the burst.
    lanes: [u16; BURST_MAX],
}

impl Out {
    /// Adds a frame, for which there is room.
    #[inline(always)]
    fn push(&mut self, mbuf: Mbuf, lane: u16) {
        self.lanes[self.burst.len()] = lane;
        // There is room.
        let _ = self.burst.push(mbuf);
    }

    /// Offers the frames to the port; returns how many it took.
    #[inline(always)]
    fn offer(&mut self) -> usize {
        let taken = self.queue.burst(&mut self.burst);
        if !self.burst.is_empty() {
            self.lanes.copy_within(taken..taken + self.burst.len(), 0);
        }
        taken
    }
}

impl<S: Source> Sender<S> {
    /// Sends the frames of `source` by a queue of port A, and of port B if it has frames for that.
    ///
    /// # Panics
    /// If mbufs of the pool have no room for a frame.
    pub fn new(
        source: S,
        queues: [Option<TxQueue>; 2],
        mempool: Mempool,
        outbox: Outbox<SenderReport>,
        interval_ns: u64,
    ) -> Self {
        let out = |queue| Out { queue, burst: Burst::new(), lanes: [0; BURST_MAX] };
        let ports = queues.map(|queue| queue.map(out));
        let unsent = vec![0; source.lanes()];
        Self {
            source,
            ports,
            mempool,
            stock: Burst::new(),
            start: None,
            lateness: 0,
            interval_ns,
            outbox,
            unsent,
            drain_since: None,
            is_done: false,
        }
    }

    /// Frames that ports have taken since the last report.
    pub fn sent_since_report(&mut self) -> u64 {
        self.outbox.current().packets.iter().sum()
    }

    /// Ends it; returns its queues.
    pub fn into_queues(self) -> [Option<TxQueue>; 2] {
        self.ports.map(|out| out.map(|out| out.queue))
    }

    /// Makes the frames that are due.
    #[inline(always)]
    fn fill(&mut self, now: u64) {
        let start = *self.start.get_or_insert(now);
        let elapsed = now - start;
        let Some(due) = self.source.due().filter(|due| *due <= elapsed) else { return };
        let is_full = self.ports.iter().flatten().any(|out| out.burst.room() == 0);
        if is_full || (self.stock.is_empty() && !self.restock()) {
            return;
        }
        let elapsed = elapsed - self.note_lateness(elapsed, due);
        let (mut stamped, stamped_lanes) = (0, self.source.stamped_lanes());
        while self.source.due().is_some_and(|due| due <= elapsed) {
            if self.ports.iter().flatten().any(|out| out.burst.room() == 0) {
                break;
            }
            let Some(mut mbuf) = self.stock.pop() else { break };
            let mut written = Written { side: Side::A, len: 0, lane: 0 };
            mbuf.write_with(|room| {
                written = self.source.write(room, now);
                written.len
            });
            let out = self.ports[written.side as usize].as_mut();
            out.expect("a port for each side of a source").push(mbuf, written.lane);
            stamped += u64::from(usize::from(written.lane) < stamped_lanes);
        }
        let interval = now / self.interval_ns;
        count_interval(&mut self.outbox.current().stamped, interval, stamped);
    }

    /// Takes mbufs into stock; false if the pool has none left.
    fn restock(&mut self) -> bool {
        let room = self.stock.room();
        self.mempool.alloc_bulk(&mut self.stock, room)
    }

    /// Notes how late the next burst is; puts the schedule off if that is too much, and returns by
    /// how much.
    #[inline(always)]
    fn note_lateness(&mut self, elapsed: u64, due: u64) -> u64 {
        // Frames that are always due are never late.
        if due == 0 {
            return 0;
        }
        let lateness = elapsed - due;
        let report = self.outbox.current();
        report.lateness.saturating_record(lateness.max(1));
        report.gap_error.saturating_record(lateness.abs_diff(self.lateness).max(1));
        self.lateness = lateness;
        let excess = lateness.saturating_sub(CATCH_UP_NS);
        report.put_off_ns += excess;
        self.start = self.start.map(|start| start + excess);
        excess
    }

    /// Offers frames to the ports; true if one took any.
    #[inline(always)]
    fn flush(&mut self) -> bool {
        let report = self.outbox.current();
        let mut is_any = false;
        for (port, out) in self.ports.iter_mut().enumerate() {
            let Some(out) = out.as_mut().filter(|out| !out.burst.is_empty()) else { continue };
            let bytes = |burst: &Burst| -> u64 {
                burst.iter().map(|mbuf| wire::Packet::frame_len(mbuf) as u64).sum()
            };
            let offered = bytes(&out.burst);
            let taken = out.offer() as u64;
            report.packets[port] += taken;
            report.bytes[port] += offered - bytes(&out.burst);
            report.port_full += u64::from(!out.burst.is_empty());
            is_any |= taken > 0;
        }
        is_any
    }

    /// Frees what no port took.
    fn give_up(&mut self) {
        for out in self.ports.iter_mut().flatten() {
            let lanes = &out.lanes[..out.burst.len()];
            lanes.iter().for_each(|lane| self.unsent[usize::from(*lane)] += 1);
            self.outbox.current().unsent += out.burst.free_all() as u64;
        }
    }

    fn hand_over(&mut self, now: u64) {
        let report = self.outbox.current();
        for (lane, (sent, unsent)) in report.lanes.iter_mut().zip(&self.unsent).enumerate() {
            *sent = self.source.written(lane) - unsent;
        }
        report.is_done = self.is_done;
        if let Some(next) = self.outbox.hand_over(now) {
            next.interval = now / self.interval_ns;
        }
    }

    /// Reports at once that all is sent.
    fn note_done(&mut self, now: u64) {
        let is_empty = self.ports.iter().flatten().all(|out| out.burst.is_empty());
        if !self.is_done && is_empty && self.source.due().is_none() {
            self.is_done = true;
            self.hand_over(now);
        }
    }
}

impl<S: Source + Send> Task for Sender<S> {
    #[inline]
    fn turn(&mut self, now: u64, stage: Stage) -> bool {
        if self.outbox.is_due(now) {
            self.hand_over(now);
        }
        match stage {
            Stage::Send => self.fill(now),
            _ if now - *self.drain_since.get_or_insert(now) > FLUSH_NS => self.give_up(),
            _ => {}
        }
        let is_any = self.flush();
        match is_any {
            true => widen(&mut self.outbox.current().span, now),
            false => self.note_done(now),
        }
        is_any
    }

    fn finish(&mut self, now: u64) {
        self.give_up();
        self.hand_over(now);
    }
}
