// SPDX-License-Identifier: BSD-3-Clause
//! Generates TCP sessions as a tracker between the ends sees them: two correct ends, and a network
//! that loses, repeats and reorders segments before and behind the tracker.

use fastrand::Rng;
use wire::FrameBuilder;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};

/// A segment of the originator (0) or the responder (1).
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) from: usize,
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) data: usize,
    /// Window scale option of a SYN.
    pub(crate) scale: Option<u8>,
}

impl Segment {
    /// Returns the frame of the segment between these ends.
    pub(crate) fn frame(&self, ends: &FrameBuilder) -> FrameBuilder {
        let frame = if self.from == 0 { ends.clone() } else { ends.clone().reversed() };
        let frame = frame.flags(self.flags).seq(self.seq).ack(self.ack).window(self.window);
        let frame = match self.scale {
            Some(scale) => frame.tcp_options(&[1, 3, 3, scale]),
            None => frame,
        };
        frame.payload(vec![0x5a; self.data])
    }
}

/// One end of a conversation.
#[derive(Clone, Debug)]
struct End {
    /// Next sequence number to send.
    next: u32,
    /// Oldest sequence number that is not acknowledged.
    una: u32,
    /// Next sequence number to receive.
    expected: u32,
    /// End of the peer's window: this side may send up to here.
    edge: u32,
    /// Size of the own window: the peer may send this much beyond `expected`.
    room: u32,
    scale: Option<u8>,
    has_fin: bool,
    is_fin_received: bool,
}

/// Two ends, and the segments that the tracker has seen so far.
struct Talk {
    rng: Rng,
    ends: [End; 2],
    is_scaled: bool,
    seen: Vec<Segment>,
}

/// Returns a session of some tens of segments, which depends on the seed only.
pub(crate) fn session(seed: u64) -> Vec<Segment> {
    let mut rng = Rng::with_seed(seed);
    let offers = [0, 1].map(|_| rng.bool().then(|| rng.u8(0..10)));
    let is_scaled = offers.iter().all(Option::is_some);
    let ends = offers.map(|scale| {
        let next = if rng.u8(..) < 64 { u32::MAX - rng.u32(0..3000) } else { rng.u32(..) };
        let room = rng.u32(2000..60_000) << if is_scaled { scale.unwrap_or(0) } else { 0 };
        let (expected, edge) = (0, 0);
        let (has_fin, is_fin_received) = (false, false);
        End { next, una: next, expected, edge, room, scale, has_fin, is_fin_received }
    });
    let mut talk = Talk { rng, ends, is_scaled, seen: Vec::new() };
    talk.begin();
    let steps = talk.rng.usize(5..80);
    for _ in 0..steps {
        talk.step();
    }
    talk.end();
    talk.seen
}

impl Talk {
    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(0..n) == 0
    }

    /// Sends the handshake. The tracker misses one in eight.
    fn begin(&mut self) {
        let is_unseen = self.one_in(8);
        for (from, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
            let (own, peer) = (self.ends[from].clone(), self.ends[1 - from].next);
            let is_syn = flags & SYN != 0;
            self.ends[from].expected = peer;
            let mut segment = self.segment(from, flags, own.next, 0);
            if is_syn {
                segment.window = own.room.min(65_535) as u16;
                // A SYN+ACK has a window scale only if the SYN had one.
                let is_offered = from == 0 || self.ends[0].scale.is_some();
                segment.scale = own.scale.filter(|_| is_offered);
                self.ends[from].next = own.next.wrapping_add(1);
            }
            if flags == SYN {
                segment.ack = 0;
            }
            if !is_unseen {
                self.seen.push(segment.clone());
                while self.one_in(8) {
                    self.seen.push(segment.clone());
                }
            }
        }
        for from in 0..2 {
            let peer = self.ends[1 - from].clone();
            self.ends[from].una = self.ends[from].next;
            self.ends[from].expected = peer.next;
            self.ends[from].edge = self.ends[from].next.wrapping_add(peer.room.min(65_535));
        }
    }

    fn step(&mut self) {
        let from = self.rng.usize(0..2);
        match self.rng.u32(0..32) {
            0..=13 => self.send_data(from),
            14..=20 => self.acknowledge(from),
            21..=23 => self.repeat(from),
            24 | 25 => self.late(),
            26 => self.keep_alive(from),
            27 => self.finish(from),
            28 => self.grow(from),
            _ => self.send_data(from),
        }
    }

    fn end(&mut self) {
        if self.one_in(3) {
            let from = self.rng.usize(0..2);
            let seq = self.ends[from].next;
            let flags = if self.rng.bool() { RST } else { RST | ACK };
            let segment = self.segment(from, flags, seq, 0);
            self.seen.push(segment);
        } else {
            for from in [0, 1, 0, 1] {
                self.finish(from);
                self.acknowledge(1 - from);
            }
        }
        for _ in 0..self.rng.u32(0..4) {
            let from = self.rng.usize(0..2);
            self.acknowledge(from);
        }
    }

    fn segment(&self, from: usize, flags: u8, seq: u32, data: usize) -> Segment {
        let end = &self.ends[from];
        let shift = if self.is_scaled { end.scale.unwrap_or(0) } else { 0 };
        let window = (end.room >> shift).min(65_535) as u16;
        let ack = if flags & ACK != 0 { end.expected } else { 0 };
        Segment { from, flags, seq, ack, window, data, scale: None }
    }

    /// Sends a segment. The tracker may miss it, or see it twice; the peer may not receive it.
    fn put(&mut self, segment: Segment) {
        if self.one_in(24) {
            return;
        }
        self.seen.push(segment.clone());
        if self.one_in(24) {
            self.seen.push(segment.clone());
        }
        if self.one_in(12) {
            return;
        }
        let len = segment.data as u32 + u32::from(segment.flags & FIN != 0);
        let peer = &mut self.ends[1 - segment.from];
        if segment.seq == peer.expected {
            peer.expected = peer.expected.wrapping_add(len);
            peer.is_fin_received |= segment.flags & FIN != 0;
        }
        let is_news = |old: u32, new: u32| new.wrapping_sub(old) as i32 > 0;
        if segment.flags & ACK != 0 && !is_news(peer.next, segment.ack) {
            if is_news(peer.una, segment.ack) {
                peer.una = segment.ack;
            }
            let shift = if self.is_scaled { self.ends[segment.from].scale } else { None };
            let room = u32::from(segment.window) << shift.unwrap_or(0);
            let (edge, peer) = (segment.ack.wrapping_add(room), &mut self.ends[1 - segment.from]);
            if is_news(peer.edge, edge) {
                peer.edge = edge;
            }
        }
    }

    fn send_data(&mut self, from: usize) {
        let end = self.ends[from].clone();
        let allowed = end.edge.wrapping_sub(end.next) as i32;
        let data = self.rng.i32(0..1400).min(allowed);
        if end.has_fin || data < 1 {
            return self.acknowledge(from);
        }
        let segment = self.segment(from, PSH | ACK, end.next, data as usize);
        self.ends[from].next = end.next.wrapping_add(data as u32);
        self.put(segment);
    }

    fn acknowledge(&mut self, from: usize) {
        let segment = self.segment(from, ACK, self.ends[from].next, 0);
        self.put(segment);
    }

    /// Sends the data again that is not acknowledged, or a part of it.
    fn repeat(&mut self, from: usize) {
        let end = self.ends[from].clone();
        let sent = end.next.wrapping_sub(end.una).wrapping_sub(u32::from(end.has_fin));
        if sent == 0 || sent > 100_000 {
            return self.acknowledge(from);
        }
        let segment = self.segment(from, ACK, end.una, sent.min(1400) as usize);
        self.put(segment);
    }

    /// Repeats an earlier segment, or delivers it late.
    fn late(&mut self) {
        let Some(last) = self.seen.len().checked_sub(1) else { return };
        let back = self.rng.usize(0..=last.min(12));
        let segment = self.seen[last - back].clone();
        self.seen.push(segment);
    }

    fn keep_alive(&mut self, from: usize) {
        let seq = self.ends[from].next.wrapping_sub(1);
        let segment = self.segment(from, ACK, seq, 0);
        self.put(segment);
    }

    fn finish(&mut self, from: usize) {
        let end = self.ends[from].clone();
        // A FIN takes a sequence number, for which the window must have room.
        if !end.has_fin && end.edge.wrapping_sub(end.next) as i32 <= 0 {
            return self.acknowledge(from);
        }
        let seq = if end.has_fin { end.next.wrapping_sub(1) } else { end.next };
        let segment = self.segment(from, FIN | ACK, seq, 0);
        self.ends[from].has_fin = true;
        self.ends[from].next = seq.wrapping_add(1);
        self.put(segment);
    }

    /// Increases the window, which never shrinks.
    fn grow(&mut self, from: usize) {
        let more = self.rng.u32(0..4000);
        self.ends[from].room += more;
        self.acknowledge(from);
    }
}
