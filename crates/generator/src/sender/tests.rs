// SPDX-License-Identifier: BSD-3-Clause
//! Tests the sender with a port that keeps frames until they are due.

use super::*;
use crate::reports::{Inbox, mailbox};
use traffic::Written;

const AHEAD_NS: u64 = 50;
const INTERVAL_NS: u64 = 1000;
const ROOM: usize = 4;

/// A frame that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pushed {
    /// The time at which the port is to send it, if it was given one.
    at: Option<u64>,
    stamp: u64,
    interval: u32,
}

/// A port that keeps frames until their times; it may have no room.
#[derive(Default)]
struct Keeper {
    pushed: Vec<Pushed>,
    waiting: u64,
    has_room: bool,
    times_read: u32,
}

impl Keeper {
    fn keep(&mut self, at: Option<u64>, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        let mut room = [0; 8];
        write(&mut room);
        self.pushed.push(Pushed { at, stamp: u64::from_ne_bytes(room), interval });
        self.waiting += 1;
    }
}

impl Transmit for Keeper {
    fn prepare(&mut self) -> usize {
        if self.has_room { ROOM } else { 0 }
    }

    fn push(&mut self, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        self.keep(None, interval, write);
    }

    fn push_at(&mut self, due: u64, interval: u32, write: impl FnOnce(&mut [u8]) -> Written) {
        self.keep(Some(due), interval, write);
    }

    fn ahead_ns(&self) -> u64 {
        AHEAD_NS
    }

    fn read_clock(&mut self) {
        self.times_read += 1;
    }

    fn flush(&mut self) -> crate::TakenFrames {
        let packets = std::mem::take(&mut self.waiting);
        crate::TakenFrames { packets, bytes: 60 * packets }
    }

    fn waiting(&self) -> usize {
        self.waiting as usize
    }

    fn for_each_waiting(&self, _: impl FnMut(WaitingFrame)) {}

    fn discard(&mut self, _: impl FnMut(WaitingFrame)) {}
}

/// A frame every 20 ns, the first at 20.
struct Even {
    written: u64,
    count: u64,
}

impl Source for Even {
    fn due(&self) -> Option<u64> {
        (self.written < self.count).then_some(20 * (self.written + 1))
    }

    fn write(&mut self, room: &mut [u8], now_ns: u64) -> Written {
        self.written += 1;
        room[..8].copy_from_slice(&now_ns.to_ne_bytes());
        Written { len: 60, stream: 0 }
    }

    fn streams(&self) -> usize {
        1
    }

    fn stamped_streams(&self) -> usize {
        1
    }

    fn written(&self, _: usize) -> u64 {
        self.written
    }
}

fn sender(count: u64, start: u64) -> (Sender<Even, Keeper>, Inbox<SenderReport>) {
    let (outbox, inbox) = mailbox(INTERVAL_NS, || SenderReport::new(1));
    let port = Keeper { has_room: true, ..Keeper::default() };
    (Sender::new(Even { written: 0, count }, port, start, outbox, INTERVAL_NS), inbox)
}

fn taken(sender: &mut Sender<Even, Keeper>) -> Vec<Pushed> {
    std::mem::take(&mut sender.port.pushed)
}

#[test]
fn a_port_that_keeps_frames_gets_those_of_the_next_time() {
    let (mut sender, _inbox) = sender(100, 100);
    sender.turn(100, Stage::Send, &mut Laps::off());
    assert!(taken(&mut sender).is_empty(), "not before the start");
    sender.turn(101, Stage::Send, &mut Laps::off());
    let at = |ns: u64| Pushed { at: Some(ns), stamp: ns, interval: 0 };
    assert_eq!(taken(&mut sender), [at(120), at(140)]);
    // Nothing is due until 160 - 50.
    sender.turn(109, Stage::Send, &mut Laps::off());
    assert!(taken(&mut sender).is_empty());
    sender.turn(110, Stage::Send, &mut Laps::off());
    assert_eq!(taken(&mut sender), [at(160)]);
    // Frames that are late or due now depart now: the port need not keep them.
    sender.turn(200, Stage::Send, &mut Laps::off());
    let now = Pushed { at: None, stamp: 200, interval: 0 };
    assert_eq!(taken(&mut sender), [now, now, at(220), at(240)]);
    let report = sender.outbox.current();
    assert_eq!(report.packets, 7);
    let lateness: Vec<_> =
        report.lateness.iter_recorded().map(|it| it.value_iterated_to()).collect();
    assert_eq!(lateness, [1, 20]);
    assert_eq!(report.span.length_ns(), 240 - 140);
}

#[test]
fn frames_count_in_the_interval_in_which_they_depart() {
    let (mut sender, _inbox) = sender(100, 1);
    (0..50).for_each(|turn| _ = sender.turn(2 + turn * 20, Stage::Send, &mut Laps::off()));
    assert_eq!(sender.outbox.current().stamped.counts().collect::<Vec<_>>(), [(0, 49), (1, 2)]);
    let pushed = taken(&mut sender);
    assert!(pushed.iter().all(|it| u64::from(it.interval) == it.stamp / INTERVAL_NS));
    assert_eq!(pushed.len(), 51);
    assert_eq!(sender.port.times_read, 0);
    sender.turn(1002, Stage::Send, &mut Laps::off());
    assert_eq!(sender.port.times_read, 1, "once a report");
}

#[test]
fn all_is_sent_once_the_last_frame_has_departed() {
    let (mut sender, mut inbox) = sender(2, 1);
    for (now, is_done) in [(2, false), (3, false), (40, false), (41, true)] {
        sender.turn(now, Stage::Send, &mut Laps::off());
        assert_eq!(sender.is_done, is_done, "at {now}");
    }
    let mut reports = 0;
    inbox.take_all(|report| {
        assert!(report.is_done);
        assert_eq!(report.streams, [2]);
        reports += 1;
    });
    assert_eq!(reports, 1);
}

#[test]
fn frames_that_are_not_due_yet_put_nothing_off() {
    let (mut sender, _inbox) = sender(100, 1);
    sender.port.has_room = false;
    sender.turn(2, Stage::Send, &mut Laps::off());
    assert_eq!(sender.outbox.current().put_off_ns, 0);
    // The first frame was due 20 ns after the start, and may be late by `CATCH_UP_NS`.
    sender.turn(21 + CATCH_UP_NS + 7, Stage::Send, &mut Laps::off());
    assert_eq!(sender.outbox.current().put_off_ns, 7);
    assert!(taken(&mut sender).is_empty());
}

#[test]
fn what_a_port_held_up_to_the_end_is_put_off() {
    let (mut sender, _inbox) = sender(100, 1);
    sender.turn(21, Stage::Send, &mut Laps::off());
    // The port did not come back until after the end. Frame 4 was due at 80.
    assert_eq!(taken(&mut sender).len(), 3);
    sender.turn(1 + 80 + CATCH_UP_NS + 500, Stage::Drain, &mut Laps::off());
    assert_eq!(sender.outbox.current().put_off_ns, 500);
    sender.turn(1 + 80 + CATCH_UP_NS + 900, Stage::Drain, &mut Laps::off());
    assert_eq!(sender.outbox.current().put_off_ns, 500, "once");
}
