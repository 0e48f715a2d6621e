// SPDX-License-Identifier: BSD-3-Clause
//! One direction of a bad link: frames that are on their way, in buffers that are allocated at the
//! start.

use super::{BadLink, BadLinkCounters};
use crate::lottery::{Impairment, Lottery};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::ethernet::{Ethernet, ether_type};

/// Longest frame: an IP packet of 9216 bytes with its Ethernet header and one VLAN tag.
const ROOM: usize = 9216 + 18;

/// Frames that are on their way at most.
const FRAMES: usize = 4096;
/// Frames that one call to [`Line::enter`] adds at most: a frame and its copy.
const ADDED: usize = 2;
/// Extra time of a reordered frame, in nanoseconds.
const LATE_NS: u64 = 2_000_000;

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fault {
    Lost,
    Duplicated,
    Reordered,
    Damaged,
    /// Lost, because too many frames were on their way.
    Overflowed,
}

impl Fault {
    pub(super) const ALL: [Self; 5] =
        [Self::Lost, Self::Duplicated, Self::Reordered, Self::Damaged, Self::Overflowed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Duplicated => "duplicated",
            Self::Reordered => "reordered",
            Self::Damaged => "damaged",
            Self::Overflowed => "lost, too many on their way",
        }
    }
}

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
struct Travelling {
    due_ns: u64,
    place: u16,
}

/// One direction.
pub(super) struct Line {
    lottery: Lottery,
    delay_ns: u64,
    pub(super) counters: Arc<BadLinkCounters>,
    /// Buffers of [`ROOM`] bytes, and the length of the frame in each.
    bytes: Box<[u8]>,
    lens: Box<[u16]>,
    free: Vec<u16>,
    /// Frames in the order in which they are due, and reordered ones in theirs.
    in_order: VecDeque<Travelling>,
    late: VecDeque<Travelling>,
}

impl Line {
    pub(super) fn new(link: BadLink, lottery: Lottery) -> Self {
        Self {
            lottery,
            delay_ns: link.delay_ns,
            counters: Arc::default(),
            bytes: vec![0; FRAMES * ROOM].into(),
            lens: vec![0; FRAMES].into(),
            free: (0..FRAMES as u16).rev().collect(),
            in_order: VecDeque::with_capacity(FRAMES),
            late: VecDeque::with_capacity(FRAMES),
        }
    }

    /// Returns how many frames may enter without overflow.
    pub(super) fn room(&self) -> usize {
        self.free.len() / ADDED
    }

    /// Returns the number of frames on their way.
    pub(super) fn used(&self) -> usize {
        self.in_order.len() + self.late.len()
    }

    /// Has `write` write a frame, and decides what happens to it.
    pub(super) fn enter(&mut self, now: u64, write: impl FnOnce(&mut [u8]) -> usize) {
        let Some(place) = self.free.pop() else {
            return self.counters.count(Fault::Overflowed);
        };
        let begin = usize::from(place) * ROOM;
        let frame = &mut self.bytes[begin..begin + ROOM];
        let len = write(frame);
        self.lens[usize::from(place)] = len as u16;
        let due_ns = now + self.delay_ns;
        let arriving = Travelling { due_ns, place };
        let impairment = match is_ip(&frame[..len]) {
            true => self.lottery.draw(),
            false => Impairment::None,
        };
        match impairment {
            Impairment::None => self.in_order.push_back(arriving),
            Impairment::Lost => {
                self.counters.count(Fault::Lost);
                self.free.push(place);
            }
            Impairment::Duplicated => {
                self.in_order.push_back(arriving);
                self.copy(place, due_ns);
            }
            Impairment::Reordered => {
                self.counters.count(Fault::Reordered);
                self.late.push_back(Travelling { due_ns: due_ns + LATE_NS, place });
            }
            Impairment::Damaged => {
                self.counters.count(Fault::Damaged);
                // The FCS of a wire would show a damaged Ethernet header.
                let bits = 8 * (len - Ethernet::LEN) as u64;
                let bit = (self.lottery.random() % bits) as usize;
                frame[Ethernet::LEN + bit / 8] ^= 1 << (bit % 8);
                self.in_order.push_back(arriving);
            }
        }
    }

    fn copy(&mut self, place: u16, due_ns: u64) {
        let Some(copy) = self.free.pop() else {
            return self.counters.count(Fault::Overflowed);
        };
        self.counters.count(Fault::Duplicated);
        let len = self.lens[usize::from(place)];
        let (from, to) = (usize::from(place) * ROOM, usize::from(copy) * ROOM);
        self.bytes.copy_within(from..from + usize::from(len), to);
        self.lens[usize::from(copy)] = len;
        self.in_order.push_back(Travelling { due_ns, place: copy });
    }

    /// Takes the next frame that is due; returns its place, which must be freed.
    pub(super) fn leave(&mut self, now: u64) -> Option<u16> {
        let is_due = |line: &&mut VecDeque<Travelling>| {
            line.front().is_some_and(|first| first.due_ns <= now)
        };
        let line = [&mut self.late, &mut self.in_order].into_iter().find(is_due)?;
        line.pop_front().map(|it| it.place)
    }

    /// Returns the frame at a place.
    pub(super) fn frame(&self, place: u16) -> &[u8] {
        let begin = usize::from(place) * ROOM;
        &self.bytes[begin..begin + usize::from(self.lens[usize::from(place)])]
    }

    /// Frees a place.
    pub(super) fn free(&mut self, place: u16) {
        self.free.push(place);
    }

    /// Drops all frames.
    pub(super) fn clear(&mut self) {
        let all = self.in_order.drain(..).chain(self.late.drain(..));
        self.free.extend(all.map(|it| it.place));
    }
}

/// True if the frame has an IP packet.
fn is_ip(frame: &[u8]) -> bool {
    Ethernet::new(frame).is_some_and(|it| {
        matches!(it.ether_type(), ether_type::IPV4 | ether_type::IPV6)
            && frame.len() > Ethernet::LEN
    })
}
