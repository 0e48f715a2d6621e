// SPDX-License-Identifier: BSD-3-Clause
//! Plays packets to one engine by their time stamps, and collects its records and counters.
//!
//! Packets of the same time go to the engine as one burst. Before packets of a later time, all
//! connections that have timed out by then end. Time never runs backwards.

use capture::{Capture, CapturedPacket, Fault, Frame, LinkType};
use engine::{BURST_MAX, Engine, Verdict};
use report::records::RecordSink;
use report::summary::{Energy, Summary};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::BytesPacket;

/// Most timers checked, or connections flushed, before the player takes their records.
const BUDGET: usize = 256;

/// The engine, the burst that is being filled, and counters.
pub(crate) struct Player {
    engine: Engine,
    burst: Burst,
    records: RecordSink,
    /// Time of the first and the latest packet in nanoseconds; `None` before the first.
    span_ns: Option<(u64, u64)>,
    /// Packets read.
    rx: u64,
    /// Packets forwarded.
    tx: u64,
    /// Packets of link types that are not read; they count as forwarded.
    unread: u64,
}

/// Counts of one capture.
#[derive(Default)]
pub(crate) struct ReplayTotals {
    /// Why it could not be read to its end; `None` if it was.
    pub(super) fault: Option<Fault>,
    /// Packets of each link type that is not read.
    pub(super) unread: Vec<(LinkType, u64)>,
    /// Packets older than an earlier packet.
    pub(super) backwards: u64,
    /// Largest difference of such a packet's time, in nanoseconds.
    pub(super) backwards_ns: u64,
}

/// Packets of one time, as Ethernet frames one after the other.
#[derive(Default)]
struct Burst {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
}

impl Player {
    pub(crate) fn new(config: &engine::Config, records: RecordSink) -> Self {
        let (engine, burst) = (Engine::new(config), Burst::default());
        Self { engine, burst, records, span_ns: None, rx: 0, tx: 0, unread: 0 }
    }

    /// Plays a capture to its end, to its fault, or until `interrupted` is set.
    ///
    /// # Errors
    ///
    /// If flow records cannot be written.
    pub(crate) fn play(
        &mut self,
        capture: &mut Capture,
        interrupted: &AtomicBool,
    ) -> io::Result<ReplayTotals> {
        let mut played = ReplayTotals::default();
        while !interrupted.load(Ordering::Relaxed) {
            match capture.next() {
                Ok(Some(packet)) => self.push(&packet, &mut played)?,
                Ok(None) => break,
                Err(fault) => {
                    played.fault = Some(fault);
                    break;
                }
            }
        }
        Ok(played)
    }

    /// Ends all remaining connections. Returns the summary, and the sink with all records.
    pub(crate) fn finish(mut self) -> io::Result<(Summary, RecordSink)> {
        self.process()?;
        self.engine.release_all();
        self.take_releases();
        while self.engine.flush(BUDGET) {
            self.take_records()?;
        }
        self.take_records()?;
        let mut summary = Summary::new();
        let (first, last) = self.span_ns.unwrap_or_default();
        summary.duration_s = (last - first) as f64 / 1e9;
        summary.add_engine(self.engine.stats());
        summary.passed.add("link_type", "of a link type that is not read", self.unread);
        summary.balance(self.rx, self.tx, 0);
        summary.energy = Energy::unknown("a replay is not measured");
        Ok((summary, self.records))
    }

    fn push(&mut self, packet: &CapturedPacket<'_>, played: &mut ReplayTotals) -> io::Result<()> {
        self.rx += 1;
        self.advance(packet.time_ns, played)?;
        match packet.append_ethernet(&mut self.burst.bytes) {
            Some(frame) => self.burst.frames.push(frame),
            None => {
                self.unread += 1;
                self.tx += 1;
                played.count_unread(packet.link_type);
            }
        }
        Ok(())
    }

    /// Moves the clock to the time of the next packet and makes room for it in the burst.
    fn advance(&mut self, time_ns: u64, played: &mut ReplayTotals) -> io::Result<()> {
        let (first, now) = self.span_ns.unwrap_or((time_ns, time_ns));
        if time_ns < now {
            played.backwards += 1;
            played.backwards_ns = played.backwards_ns.max(now - time_ns);
        }
        if time_ns > now || self.burst.frames.len() == BURST_MAX {
            self.process()?;
        }
        self.span_ns = Some((first, now.max(time_ns)));
        if time_ns > now {
            while self.engine.expire(time_ns, BUDGET) == BUDGET {
                self.take_records()?;
            }
            self.take_releases();
            self.take_records()?;
        }
        Ok(())
    }

    /// Hands the burst to the engine.
    fn process(&mut self) -> io::Result<()> {
        let Some((_, now)) = self.span_ns else { return Ok(()) };
        let packets = self.burst.packets();
        let mut verdicts = [Verdict::Drop; BURST_MAX];
        let verdicts = &mut verdicts[..packets.len()];
        self.engine.process(now, &packets, verdicts);
        self.tx += verdicts.iter().filter(|verdict| **verdict == Verdict::Forward).count() as u64;
        self.burst.clear();
        self.take_releases();
        self.take_records()
    }

    /// Counts released packets, which the engine had held. The player keeps no packet.
    fn take_releases(&mut self) {
        while let Some(release) = self.engine.next_release() {
            self.tx += u64::from(release.verdict == Verdict::Forward);
        }
    }

    fn take_records(&mut self) -> io::Result<()> {
        while let Some(record) = self.engine.next_record() {
            self.records.take_in_time(&record)?;
        }
        Ok(())
    }
}

impl ReplayTotals {
    /// Returns the counts of a capture that could not be opened.
    pub(super) fn faulty(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }

    fn count_unread(&mut self, link_type: LinkType) {
        match self.unread.iter_mut().find(|(known, _)| *known == link_type) {
            Some((_, packets)) => *packets += 1,
            None => self.unread.push((link_type, 1)),
        }
    }
}

impl Burst {
    fn packets(&self) -> Vec<BytesPacket<'_>> {
        let mut rest = &self.bytes[..];
        let packet = |frame: &Frame| {
            let (captured, behind) = rest.split_at(frame.captured_len);
            rest = behind;
            BytesPacket::captured(captured, frame.frame_len, frame.wire_len)
        };
        self.frames.iter().map(packet).collect()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
    }
}
