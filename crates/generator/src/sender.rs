// SPDX-License-Identifier: BSD-3-Clause
//! Sends the frames of a source from one port when they are due.
//!
//! If the port has no room for a frame, the sender keeps it and offers it again, so no number of a
//! stream is skipped. Frames that the port never takes count as unsent, not as lost.

use crate::cycles::{Laps, Work};
use crate::link::{Transmit, WaitingFrame};
use crate::neighbours::Replies;
use crate::recent::RecentIntervals;
use crate::reports::{Outbox, Report};
use crate::span::Span;
use crate::task::{Stage, Task};
use hdrhistogram::Histogram;
use traffic::Source;

/// Longest delay that a sender catches up with, for example after a short pause of its cpu. After a
/// longer one the schedule is postponed by the excess, and the report says so.
const CATCH_UP_NS: u64 = 10_000_000;
/// Time in which frames are still offered to a port that takes none, once sending is over.
const FLUSH_NS: u64 = 100_000_000;
/// Longest delay that the histograms distinguish.
const DELAY_MAX_NS: u64 = 10_000_000_000;

/// Counters of an interval. Those of streams count since the start.
#[derive(Clone, Debug)]
pub struct SenderReport {
    /// Number of the interval in which the report began.
    pub interval: u64,
    /// Frames that the port took.
    pub packets: u64,
    /// Bytes without FCS.
    pub bytes: u64,
    /// Stamped frames by the interval in which they were made.
    pub stamped: RecentIntervals,
    /// Stamped frames that were dropped, because the port never took them, by the interval in which
    /// they were made.
    pub dropped: RecentIntervals,
    /// Stamped frames that wait for the port now, by the interval in which they were made.
    pub waiting: RecentIntervals,
    /// Calls in which the port took fewer frames than were offered.
    pub port_full: u64,
    /// Nanoseconds by which the schedule was postponed, because the sender was too far behind.
    pub put_off_ns: u64,
    /// Time in which the port took frames.
    pub span: Span,
    /// Frames of each stream that were made, less those that were dropped.
    pub streams: Vec<u64>,
    /// Frames that were dropped.
    pub unsent: u64,
    /// True once the source has no more frames, and all are sent.
    pub is_done: bool,
    /// Delay from when the first frame of a burst was due until it was made, in nanoseconds; 1 if
    /// it was made earlier.
    pub lateness: Histogram<u64>,
    /// Difference between the actual and the scheduled gap between two bursts, in nanoseconds.
    pub gap_error: Histogram<u64>,
}

pub(crate) fn delays() -> Histogram<u64> {
    Histogram::new_with_bounds(1, DELAY_MAX_NS, 2).expect("the bounds are right")
}

impl SenderReport {
    /// Returns an empty report of a source with this many streams.
    pub(crate) fn new(streams: usize) -> Self {
        Self {
            interval: 0,
            packets: 0,
            bytes: 0,
            stamped: RecentIntervals::new(),
            dropped: RecentIntervals::new(),
            waiting: RecentIntervals::new(),
            port_full: 0,
            put_off_ns: 0,
            span: Span::default(),
            streams: vec![0; streams],
            unsent: 0,
            is_done: false,
            lateness: delays(),
            gap_error: delays(),
        }
    }

    /// Counts a dropped frame in the report and in `streams`; the first `stamped` streams are
    /// stamped.
    fn add_unsent(&mut self, made: WaitingFrame, streams: &mut [u64], stamped: usize) {
        let stream = usize::from(made.stream);
        streams[stream] += 1;
        self.unsent += 1;
        self.dropped.add(made.interval.into(), u64::from(stream < stamped));
    }
}

impl Report for SenderReport {
    fn clear(&mut self) {
        (self.packets, self.bytes, self.port_full) = (0, 0, 0);
        (self.put_off_ns, self.unsent, self.span) = (0, 0, Span::default());
        self.stamped.clear();
        self.dropped.clear();
        self.lateness.reset();
        self.gap_error.reset();
    }
}

/// Sends the frames of a source from one port.
pub struct Sender<S, T> {
    source: S,
    port: T,
    /// Start of the source's schedule.
    start: u64,
    /// Departure time of the last frame that the port keeps, in nanoseconds of the run; 0 if there
    /// is none.
    departs: u64,
    /// Lateness of the previous burst, in nanoseconds.
    lateness: u64,
    interval_ns: u64,
    outbox: Outbox<SenderReport>,
    /// Dropped frames of each stream.
    unsent: Vec<u64>,
    drain_since: Option<u64>,
    is_done: bool,
    replies: Vec<Replies>,
    /// True if the sender measures how late bursts are.
    is_timed: bool,
}

impl<S: Source, T: Transmit> Sender<S, T> {
    /// Makes a sender that sends the frames of `source` to `port`, from the time `start` on.
    pub(crate) fn new(
        source: S,
        port: T,
        start: u64,
        outbox: Outbox<SenderReport>,
        interval_ns: u64,
    ) -> Self {
        let unsent = vec![0; source.streams()];
        Self {
            source,
            port,
            start,
            departs: 0,
            lateness: 0,
            interval_ns,
            outbox,
            unsent,
            drain_since: None,
            is_done: false,
            replies: Vec::new(),
            is_timed: true,
        }
    }

    /// Sets whether the sender measures how late bursts are.
    #[must_use]
    pub fn timed(mut self, is_timed: bool) -> Self {
        self.is_timed = is_timed;
        self
    }

    /// Sets the rings of replies and queries that it also sends. They are not counted.
    #[must_use]
    pub fn replying(mut self, replies: Vec<Replies>) -> Self {
        self.replies = replies;
        self
    }

    /// Returns the number of frames that the port has taken since the last report.
    pub fn sent_since_report(&mut self) -> u64 {
        self.outbox.current().packets
    }

    /// Ends the sender; returns its port.
    pub fn into_port(self) -> T {
        self.port
    }

    /// Makes the frames that are due.
    #[inline(always)]
    fn fill(&mut self, now: u64, laps: &mut Laps) {
        // A clock that has not started stands at 0.
        let elapsed = now.checked_sub(self.start).filter(|elapsed| *elapsed > 0);
        let Some(elapsed) = elapsed else { return };
        let ahead = self.port.ahead_ns();
        let due = self.source.due().filter(|due| *due <= elapsed + ahead);
        laps.lap(Work::Pace);
        let Some(due) = due else { return };
        let mut room = self.port.prepare();
        if room == 0 {
            // Frames that are always due are never late.
            if due > 0 {
                self.put_off(elapsed.saturating_sub(due));
            }
            laps.lap(Work::Pace);
            return;
        }
        let elapsed = elapsed - self.note_lateness(elapsed, due);
        let interval = now / self.interval_ns;
        laps.lap(Work::Pace);
        if let Some(alike) = self.source.take_alike(room) {
            self.port.push_alike(interval as u32, alike);
            return;
        }
        if ahead > 0 {
            self.fill_ahead(now, elapsed + ahead, room);
            return;
        }
        let (mut stamped, stamped_streams) = (0, self.source.stamped_streams());
        while room > 0 && self.source.due().is_some_and(|due| due <= elapsed) {
            let source = &mut self.source;
            self.port.push(interval as u32, |buffer| {
                let written = source.write(buffer, now);
                stamped += u64::from(usize::from(written.stream) < stamped_streams);
                written
            });
            room -= 1;
        }
        self.outbox.current().stamped.add(interval, stamped);
    }

    /// Makes up to `room` frames that are due up to `until` nanoseconds after the start. Each
    /// departs when it is due, or now if it is late, and counts in the interval of its departure.
    fn fill_ahead(&mut self, now: u64, until: u64, room: usize) {
        let stamped_streams = self.source.stamped_streams();
        let mut interval = now / self.interval_ns;
        let mut stamped = 0;
        for _ in 0..room {
            let Some(due) = self.source.due().filter(|due| *due <= until) else { break };
            let departs = now.max(self.start + due);
            if departs - interval * self.interval_ns >= self.interval_ns {
                self.outbox.current().stamped.add(interval, stamped);
                (interval, stamped) = (departs / self.interval_ns, 0);
            }
            let source = &mut self.source;
            let write = |buffer: &mut [u8]| {
                let written = source.write(buffer, departs);
                stamped += u64::from(usize::from(written.stream) < stamped_streams);
                written
            };
            match departs > now {
                true => self.port.push_at(departs, interval as u32, write),
                false => self.port.push(interval as u32, write),
            }
            self.departs = departs;
        }
        self.outbox.current().stamped.add(interval, stamped);
    }

    /// Postpones the schedule if the next burst is too late; returns the nanoseconds by which it
    /// did.
    #[inline(always)]
    fn put_off(&mut self, lateness: u64) -> u64 {
        let excess = lateness.saturating_sub(CATCH_UP_NS);
        self.outbox.current().put_off_ns += excess;
        self.start += excess;
        excess
    }

    /// Records the lateness of the next burst, and postpones the schedule if it is too late.
    /// Returns the nanoseconds by which it did.
    #[inline(always)]
    fn note_lateness(&mut self, elapsed: u64, due: u64) -> u64 {
        // Frames that are always due are never late.
        if due == 0 {
            return 0;
        }
        // Frames that the port keeps until they are due are not late.
        let lateness = elapsed.saturating_sub(due);
        let report = self.outbox.current();
        if self.is_timed {
            report.lateness.saturating_record(lateness.max(1));
            report.gap_error.saturating_record(lateness.abs_diff(self.lateness).max(1));
            self.lateness = lateness;
        }
        self.put_off(lateness)
    }

    /// Offers frames to the port; true if it took any.
    #[inline(always)]
    fn flush(&mut self, now: u64) -> bool {
        if self.port.waiting() == 0 {
            return false;
        }
        let taken = self.port.flush();
        let report = self.outbox.current();
        report.packets += taken.packets;
        report.bytes += taken.bytes;
        report.port_full += u64::from(self.port.waiting() > 0);
        if taken.packets > 0 {
            report.span.widen(now.max(self.departs));
        }
        let stamped = self.source.stamped_streams();
        self.port.take_refused(|made| report.add_unsent(made, &mut self.unsent, stamped));
        taken.packets > 0
    }

    /// Waits for the port after sending has ended. The first call postpones the schedule one last
    /// time. Drops the waiting frames after [`FLUSH_NS`].
    fn drain(&mut self, now: u64) {
        let Some(since) = self.drain_since else {
            self.drain_since = Some(now);
            // If the driver did not return until the end, `fill` has not noted that delay.
            if let Some(due) = self.source.due().filter(|due| *due > 0) {
                self.put_off(now.saturating_sub(self.start).saturating_sub(due));
            }
            return;
        };
        if now - since > FLUSH_NS {
            self.give_up();
        }
    }

    /// Drops the frames that the port did not take.
    fn give_up(&mut self) {
        let report = self.outbox.current();
        let stamped = self.source.stamped_streams();
        self.port.discard(|made| report.add_unsent(made, &mut self.unsent, stamped));
    }

    fn hand_over(&mut self, now: u64) {
        let report = self.outbox.current();
        for (stream, (sent, unsent)) in report.streams.iter_mut().zip(&self.unsent).enumerate() {
            *sent = self.source.written(stream) - unsent;
        }
        report.is_done = self.is_done;
        report.waiting.clear();
        let stamped = self.source.stamped_streams();
        self.port.for_each_waiting(|made| {
            let is_stamped = usize::from(made.stream) < stamped;
            report.waiting.add(made.interval.into(), u64::from(is_stamped));
        });
        if let Some(next) = self.outbox.hand_over(now) {
            next.interval = now / self.interval_ns;
        }
    }

    /// Hands over a report as soon as all frames are sent.
    fn note_done(&mut self, now: u64) {
        let has_sent = self.port.waiting() == 0 && now >= self.departs;
        if !self.is_done && has_sent && self.source.due().is_none() {
            self.is_done = true;
            self.hand_over(now);
        }
    }
}

impl<S: Source + Send, T: Transmit> Task for Sender<S, T> {
    #[inline]
    fn turn(&mut self, now: u64, stage: Stage, laps: &mut Laps) -> bool {
        if self.outbox.is_due(now) {
            self.hand_over(now);
            self.port.read_clock();
            laps.lap(Work::Count);
        }
        match stage {
            Stage::Send => self.fill(now, laps),
            _ => self.drain(now),
        }
        laps.lap(Work::Build);
        let is_any = self.flush(now);
        laps.lap(Work::Tx);
        if self.port.waiting() == 0 {
            self.replies.iter_mut().for_each(|replies| replies.send(&mut self.port));
        }
        if !is_any {
            self.note_done(now);
        }
        is_any
    }

    fn finish(&mut self, now: u64) {
        self.give_up();
        self.hand_over(now);
    }
}

#[cfg(test)]
mod tests;
