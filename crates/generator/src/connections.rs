// SPDX-License-Identifier: BSD-3-Clause
//! Runs the ends of connections of a [`Stack`] on a pair of queues.

use crate::cycles::{Laps, Work};
use crate::hand_off::HandOff;
use crate::link::{Receive, TakenFrames, Transmit};
use crate::neighbours::NO_STREAM;
use crate::reports::{Outbox, Report};
use crate::task::{Stage, Task};
use rtrb::{Consumer, Producer, RingBuffer};
use stateful::{BURST_MAX, Counters, Latencies, Note, Output, Stack};
use traffic::neighbour::{Message, reply};
use traffic::{ROOM, Written};

/// Counters of an interval.
#[derive(Clone, Debug, Default)]
pub struct ConnectionsReport {
    /// Number of the interval in which the report began.
    pub interval: u64,
    /// Time of its end, in nanoseconds of the run.
    pub end_ns: u64,
    /// What was counted in the interval.
    pub counters: Counters,
    /// What was timed in the interval.
    pub latencies: Latencies,
    /// Connections that were due at the end of the interval and not opened yet.
    pub overdue: u64,
    /// Frames that the port took, and their bytes without FCS.
    pub taken: TakenFrames,
    /// Longest time between two turns, in nanoseconds.
    pub longest_gap_ns: u64,
}

impl Report for ConnectionsReport {
    fn clear(&mut self) {
        self.latencies.clear();
        (self.counters, self.taken) = (Counters::default(), TakenFrames::default());
        (self.overdue, self.longest_gap_ns) = (0, 0);
    }
}

/// What the control thread tells a task.
#[derive(Debug)]
pub enum ConnectionsCommand {
    /// Forgets all connections, and goes on with these ends, which have none.
    Replace(Box<Stack>),
    /// Opens connections from now on: `multiplier` times as many as the profile says, after a
    /// linear ramp.
    Start {
        /// Rate, as a multiple of that of the profile.
        multiplier: f64,
        /// Time in which the rate grows to it, in nanoseconds.
        ramp_ns: u64,
    },
    /// Changes the rate.
    SetMultiplier(f64),
    /// Opens no more connections.
    Stop,
    /// Cuts off all connections.
    Abort,
}

/// Bursts that are received in a turn at most. Each may be answered by more frames than it has, so
/// that a single burst a turn would leave more and more frames waiting.
const BURSTS: u32 = 4;
/// Bursts that are received at the end at most: as many as a large receive queue has.
const LATE_BURSTS_MAX: usize = 1024;
/// Time without a frame taken by the port after which frames are received without room for their
/// answers. The device may wait for this, before it takes frames.
const STUCK_NS: u64 = 10_000_000;
/// Commands that a task has not taken yet.
const COMMANDS: usize = 16;

/// Makes a ring of commands for a task.
pub fn commands() -> (Producer<ConnectionsCommand>, Consumer<ConnectionsCommand>) {
    RingBuffer::new(COMMANDS)
}

// All frames of a burst are noted.
const _: () = assert!(dpdk::BURST_MAX <= BURST_MAX);

/// Ends of connections at a pair of queues.
pub struct Connections<T, R> {
    stack: Box<Stack>,
    tx: FrameOutput<T>,
    rx: R,
    /// MAC address of the port.
    mac: [u8; 6],
    /// Frames from and to the other tasks of the port.
    hand_off: HandOff,
    /// True if the frames of the burst are of other tasks.
    is_handed_off: bool,
    /// Frames of the burst, and the number of those that are processed.
    burst: usize,
    done: usize,
    commands: Consumer<ConnectionsCommand>,
    is_aborting: bool,
    /// Frames that the port had taken at the begin of the turn.
    taken_before: u64,
    /// Time since which it takes none, though some wait or must be answered.
    waits_since: Option<u64>,
    interval_ns: u64,
    last_turn: Option<u64>,
    before: Counters,
    outbox: Outbox<ConnectionsReport>,
}

/// Hands frames to a port.
struct FrameOutput<T> {
    port: T,
    room: usize,
    taken: TakenFrames,
}

impl<T: Transmit> FrameOutput<T> {
    fn flush(&mut self) {
        if self.port.waiting() > 0 {
            let taken = self.port.flush();
            self.taken.packets += taken.packets;
            self.taken.bytes += taken.bytes;
        }
        self.room = 0;
    }
}

impl<T: Transmit> Output for FrameOutput<T> {
    #[inline(always)]
    fn room(&mut self) -> usize {
        if self.room == 0 {
            self.room = self.port.prepare();
            if self.room == 0 {
                self.flush();
                self.room = self.port.prepare();
            }
        }
        self.room
    }

    #[inline(always)]
    fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        self.room -= 1;
        self.port.push(0, |room| Written { len: write(room), stream: NO_STREAM });
    }
}

/// Counts frames that there is no buffer for.
struct UnsentFrames {
    count: u64,
    room: [u8; ROOM],
}

impl Output for UnsentFrames {
    fn room(&mut self) -> usize {
        usize::MAX
    }

    fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        write(&mut self.room);
        self.count += 1;
    }
}

impl<T: Transmit, R: Receive> Connections<T, R> {
    /// Makes the only task of a port with this MAC address. It opens connections when a command
    /// says so, and reports which of the intervals of `interval_ns` nanoseconds it counts in.
    pub fn new(
        stack: Box<Stack>,
        (tx, rx, mac): (T, R, [u8; 6]),
        commands: Consumer<ConnectionsCommand>,
        interval_ns: u64,
        outbox: Outbox<ConnectionsReport>,
    ) -> Self {
        let tx = FrameOutput { port: tx, room: 0, taken: TakenFrames::default() };
        let before = Counters::default();
        Self {
            stack,
            tx,
            rx,
            mac,
            hand_off: HandOff::default(),
            is_handed_off: false,
            burst: 0,
            done: 0,
            commands,
            is_aborting: false,
            taken_before: 0,
            waits_since: None,
            interval_ns,
            last_turn: None,
            before,
            outbox,
        }
    }

    /// Shares the port with other tasks.
    #[must_use]
    pub fn sharing(self, hand_off: HandOff) -> Self {
        Self { hand_off, ..self }
    }

    /// Returns the ends.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Receives a burst and processes it, as far as there is room for answers, or if there has been
    /// none for a while; true if there was one.
    #[inline(always)]
    fn receive(&mut self, now: u64, laps: &mut Laps) -> bool {
        if self.done == self.burst {
            self.take_burst(laps);
        }
        let first = self.done;
        while self.done < self.burst && (self.tx.room() > 0 || self.is_stuck(now)) {
            let frame = match self.is_handed_off {
                false => self.rx.frame(self.done),
                true => self.hand_off.from.frame(self.done),
            };
            let other = self.stack.process(self.done, frame, now, &mut self.tx);
            if other.is_some_and(|worker| !self.hand_off.to.send(worker, frame)) {
                self.stack.count_lost_hand_off();
            }
            self.done += 1;
        }
        laps.lap(Work::Verify);
        self.done > first
    }

    /// True if the port has taken nothing for long. Ends without room try again later.
    #[inline(never)]
    fn is_stuck(&self, now: u64) -> bool {
        self.waits_since.is_some_and(|since| now.saturating_sub(since) > STUCK_NS)
    }

    /// Hands over the frames of a turn.
    #[inline(always)]
    fn flush(&mut self, now: u64) {
        self.tx.flush();
        if self.tx.taken.packets > self.taken_before {
            self.waits_since = None;
        } else if self.tx.port.waiting() > 0 || self.done < self.burst {
            self.waits_since = self.waits_since.or(Some(now));
        }
    }

    /// Takes frames of other tasks and of the port in turn.
    #[inline(always)]
    fn take_burst(&mut self, laps: &mut Laps) {
        self.rx.free();
        let handed_off = if self.is_handed_off { 0 } else { self.hand_off.from.receive() };
        laps.lap(Work::Rx);
        self.is_handed_off = handed_off > 0;
        (self.done, self.burst) = (0, handed_off);
        if self.is_handed_off {
            for number in 0..handed_off {
                // It is TCP or UDP, or an error about a connection here: the sender has seen that.
                let _ = self.stack.note(number, self.hand_off.from.frame(number));
            }
        } else {
            self.burst = self.rx.receive();
            laps.lap(Work::Rx);
            for number in 0..self.burst {
                let frame = self.rx.frame(number);
                self.stack.count_received(frame);
                match self.stack.note(number, frame) {
                    Note::Noted => {}
                    Note::Foreign => {
                        answer_neighbour(&mut self.stack, self.mac, frame, &mut self.tx);
                    }
                    Note::OfWorker(worker) if self.hand_off.to.send(worker, frame) => {}
                    Note::OfWorker(_) => self.stack.count_lost_hand_off(),
                }
            }
        }
        self.stack.look_up(self.burst);
    }

    /// Drops the frames that the port has not taken.
    fn discard(&mut self) {
        let mut unsent = 0;
        self.tx.port.discard(|_| unsent += 1);
        self.stack.count_unsent(unsent);
    }

    /// Cuts off all connections, without telling the peers.
    #[cold]
    fn abort_silently(&mut self, now: u64) {
        let mut unsent = UnsentFrames { count: 0, room: [0; ROOM] };
        while self.stack.abort(BURST_MAX, now, &mut unsent) {}
        self.stack.count_unsent(unsent.count);
    }

    fn obey(&mut self, command: ConnectionsCommand, now: u64) {
        match command {
            ConnectionsCommand::Start { multiplier, ramp_ns } => {
                self.stack.start(multiplier, now, ramp_ns);
            }
            ConnectionsCommand::SetMultiplier(multiplier) => {
                self.stack.set_multiplier(multiplier, now);
            }
            ConnectionsCommand::Replace(stack) => {
                // The latencies and counts of the old ends are reported first.
                self.hand_over(now);
                self.stack = stack;
                // Its deadlines begin now: the run may be days old.
                self.stack.expire(now, &mut self.tx);
                self.before = Counters::default();
                (self.done, self.burst) = (0, 0);
                self.rx.free();
            }
            ConnectionsCommand::Stop => self.stack.set_multiplier(0.0, now),
            ConnectionsCommand::Abort => {
                self.stack.set_multiplier(0.0, now);
                self.is_aborting = true;
            }
        }
    }

    fn hand_over(&mut self, now: u64) {
        let report = self.outbox.current();
        let counters = *self.stack.counters();
        report.end_ns = now;
        report.counters = counters.since(&self.before);
        report.overdue = self.stack.overdue(now);
        std::mem::swap(&mut report.latencies, self.stack.latencies());
        report.taken = std::mem::take(&mut self.tx.taken);
        let interval = now / self.interval_ns;
        if let Some(next) = self.outbox.hand_over(now) {
            next.interval = interval;
            self.before = counters;
        } else {
            // The report continues: it gets its latencies back, and counts from where it began.
            let report = self.outbox.current();
            std::mem::swap(&mut report.latencies, self.stack.latencies());
            self.tx.taken = std::mem::take(&mut report.taken);
        }
    }
}

/// Answers a request for one of our addresses.
#[inline(never)]
fn answer_neighbour(stack: &mut Stack, mac: [u8; 6], frame: &[u8], out: &mut impl Output) {
    let Some(Message::Request { from, target }) = Message::read(frame) else { return };
    if !stack.is_own(target) || out.room() == 0 {
        return;
    }
    if let Some(reply) = reply(frame, from, target, mac) {
        stack.count_sent(reply.bytes().len());
        out.push(|room| {
            let bytes = reply.bytes();
            room[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        });
    }
}

impl<T: Transmit, R: Receive> Task for Connections<T, R> {
    #[inline]
    fn turn(&mut self, now: u64, stage: Stage, laps: &mut Laps) -> bool {
        if self.outbox.is_due(now) {
            self.hand_over(now);
            laps.lap(Work::Count);
        }
        let report = self.outbox.current();
        let gap = self.last_turn.replace(now).map_or(0, |before| now - before);
        report.longest_gap_ns = report.longest_gap_ns.max(gap);
        // Before its start the clock is at 0.
        if now == 0 {
            return false;
        }
        while let Ok(command) = self.commands.pop() {
            self.obey(command, now);
        }
        self.taken_before = self.tx.taken.packets;
        let bursts = (0..BURSTS).take_while(|_| self.receive(now, laps)).count() as u32;
        let mut is_any = bursts > 0;
        is_any |= self.stack.expire(now, &mut self.tx);
        laps.lap(Work::Pace);
        if self.is_aborting {
            self.is_aborting = self.stack.abort(BURST_MAX, now, &mut self.tx);
        } else if stage == Stage::Send && bursts < BURSTS {
            // Open connections go first: those that are due wait until the queue is empty.
            is_any |= self.stack.open(now, &mut self.tx);
        }
        laps.lap(Work::Build);
        self.flush(now);
        laps.lap(Work::Tx);
        is_any | (self.tx.taken.packets > self.taken_before)
    }

    fn finish(&mut self, now: u64) {
        self.rx.free();
        while self.stack.abort(BURST_MAX, now, &mut self.tx) {
            self.tx.flush();
            if self.tx.port.waiting() > 0 {
                // The port is full and nobody empties it any more.
                self.discard();
            }
            if self.tx.room() == 0 {
                // No buffer is free, and none may ever be.
                self.abort_silently(now);
            }
        }
        self.tx.flush();
        self.discard();
        // What has arrived meanwhile counts as received, so that the port's counters agree.
        for _ in 0..LATE_BURSTS_MAX {
            let frames = self.rx.receive();
            self.stack.count_late(frames, self.rx.bytes());
            self.rx.free();
            if frames == 0 {
                break;
            }
        }
        self.hand_over(now);
    }
}
