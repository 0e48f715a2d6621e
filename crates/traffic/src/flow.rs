// SPDX-License-Identifier: BSD-3-Clause
//! Plays the script of one connection of the workload, turn by turn.
//!
//! In a turn, one side sends some packets back to back. Then both sides are silent until the
//! connection's next turn, as they are for a round trip on a real network.

use crate::Side;
use crate::endpoints::Endpoints;
use crate::profile::Profile;
use crate::template::{Packet, Transport};
use fastrand::Rng;
use wire::proto;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};

/// The packets that one side sends in one turn: `count` packets, of which the last may differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    side: Side,
    pub(crate) count: u32,
    /// Payload bytes of all but the last packet.
    body: u16,
    /// Payload bytes of the last packet.
    last: u16,
    /// TCP flags of the last packet; the others have only ACK.
    last_flags: u8,
}

impl Message {
    /// The message without packets.
    pub(crate) const OVER: Message =
        Message { side: Side::A, count: 0, body: 0, last: 0, last_flags: 0 };

    /// Returns a message of one TCP segment without payload.
    fn bare(side: Side, flags: u8) -> Self {
        Message { side, count: 1, body: 0, last: 0, last_flags: flags }
    }
}

/// One connection: its two ends, and its script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) ends: Endpoints,
    script: Script,
}

#[derive(Clone, Copy, Debug)]
enum Script {
    Tcp(Tcp),
    Udp(Dialogue),
    Icmp(Dialogue),
}

impl Flow {
    /// Makes a connection of client number `number`.
    pub(crate) fn new(number: u32, profile: &Profile, rng: &mut Rng) -> Self {
        let ipv6 = rng.u32(..100) < profile.ipv6_percent;
        let mut ends =
            if ipv6 { Endpoints::ipv6(number, rng) } else { Endpoints::ipv4(number, rng) };
        let tags = rng.u32(..100);
        if tags < profile.qinq_percent {
            ends.push_vlan(rng.u16(100..110));
        }
        if tags < profile.qinq_percent + profile.vlan_percent {
            ends.push_vlan(rng.u16(1..50));
        }
        let mut kind = rng.u32(..100);
        let mut is = |percent: u32| {
            let hit = kind < percent;
            kind = kind.wrapping_sub(percent);
            hit
        };
        let script = if is(profile.lookup_percent) {
            ends.set_server_port(53);
            Script::Udp(Dialogue::lookup(rng))
        } else if is(profile.stream_percent) {
            ends.set_server_port(rng.u16(8192..16384) * 2);
            Script::Udp(Dialogue::stream(rng))
        } else if is(profile.ping_percent) {
            Script::Icmp(Dialogue::ping(rng))
        } else {
            Script::Tcp(Tcp::new(ipv6, rng))
        };
        Self { ends, script }
    }

    /// Returns the IP protocol number.
    pub(crate) fn protocol(&self) -> u8 {
        match self.script {
            Script::Tcp(_) => proto::TCP,
            Script::Udp(_) => proto::UDP,
            Script::Icmp(_) if self.ends.ipv6 => proto::ICMPV6,
            Script::Icmp(_) => proto::ICMP,
        }
    }

    /// Returns the packets of the next turn. Must not be called if the connection
    /// [is over](Self::is_over).
    pub(crate) fn turn(&mut self, rng: &mut Rng) -> Message {
        match &mut self.script {
            Script::Tcp(tcp) => tcp.turn(rng),
            Script::Udp(exchange) | Script::Icmp(exchange) => exchange.turn(),
        }
    }

    /// True once the last turn has begun.
    pub(crate) fn is_over(&self) -> bool {
        match &self.script {
            Script::Tcp(tcp) => tcp.step == Step::Over,
            Script::Udp(exchange) | Script::Icmp(exchange) => exchange.played == exchange.turns,
        }
    }

    /// Takes the next packet from `turn`, which must have one left.
    pub(crate) fn packet(&mut self, turn: &mut Message, id: u16) -> Packet {
        turn.count -= 1;
        let (payload_len, flags) =
            if turn.count == 0 { (turn.last, turn.last_flags) } else { (turn.body, ACK) };
        let transport = match &mut self.script {
            Script::Tcp(tcp) => tcp.segment(turn.side, flags, payload_len),
            Script::Udp(_) => Transport::Udp,
            Script::Icmp(exchange) => Transport::Icmp { seq: ((exchange.played - 1) / 2) as u16 },
        };
        Packet { side: turn.side, transport, payload_len: payload_len.into(), id }
    }
}

/// A script of turns in which side A sends a request and side B answers, alternately.
#[derive(Clone, Copy, Debug)]
struct Dialogue {
    played: u32,
    turns: u32,
    /// Packets in one answer.
    burst: u32,
    question_len: u16,
    answer_len: u16,
}

impl Dialogue {
    fn lookup(rng: &mut Rng) -> Self {
        let (question_len, answer_len) = (rng.u16(28..60), rng.u16(60..450));
        Self { played: 0, turns: 2, burst: 1, question_len, answer_len }
    }

    /// Makes a voice call with equal packets both ways, or a video with an occasional report back.
    fn stream(rng: &mut Rng) -> Self {
        const VOICE: u16 = 172;
        let (turns, octave) = heavy_tailed(rng, 20, 10);
        if rng.bool() {
            return Self { played: 0, turns, burst: 1, question_len: VOICE, answer_len: VOICE };
        }
        let (question_len, answer_len) = (rng.u16(40..80), rng.u16(500..1200));
        Self { played: 0, turns: turns / 2, burst: 2 + octave, question_len, answer_len }
    }

    fn ping(rng: &mut Rng) -> Self {
        const LEN: u16 = 56;
        let turns = 2 * rng.u32(1..10);
        Self { played: 0, turns, burst: 1, question_len: LEN, answer_len: LEN }
    }

    fn turn(&mut self) -> Message {
        self.played += 1;
        let (side, count, len) = if self.played % 2 == 1 {
            (Side::A, 1, self.question_len)
        } else {
            (Side::B, self.burst, self.answer_len)
        };
        Message { side, count, body: len, last: len, last_flags: 0 }
    }
}

/// A TCP connection: handshake, requests that are answered in segments, and an end.
#[derive(Clone, Copy, Debug)]
struct Tcp {
    step: Step,
    /// Side that sends the data: mostly the server (download), else the client (upload).
    answers: Side,
    /// Next sequence number of each side.
    next: [u32; 2],
    /// Highest sequence number of the other side that each side has acknowledged.
    acked: [u32; 2],
    /// Segments of the answers that have not been requested yet.
    left: u32,
    /// Segments of the current answer that have not been sent yet.
    answer_left: u32,
    /// Segments that have not been acknowledged yet.
    unacked: u32,
    /// Maximum number of segments in one turn. Large transfers have large windows.
    burst: u32,
    segment_len: u16,
}

/// The turn that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Syn,
    Refuse,
    SynAck,
    Handshake,
    Ask,
    Answer,
    Acknowledge,
    Reset,
    Fin,
    FinBack,
    LastAck,
    Over,
}

impl Tcp {
    fn new(ipv6: bool, rng: &mut Rng) -> Self {
        let (left, octave) = heavy_tailed(rng, 3, 14);
        let full = if ipv6 { 1440 } else { 1460 };
        let segment_len = match rng.u32(..10) {
            0..2 => full,
            2..6 => 536,
            _ => rng.u16(20..120),
        };
        let initial = [rng.u32(..), rng.u32(..)];
        Self {
            step: Step::Syn,
            answers: if rng.u32(..100) < 85 { Side::B } else { Side::A },
            next: initial,
            acked: [initial[1], initial[0]],
            left,
            answer_left: 0,
            unacked: 0,
            burst: 2 + octave,
            segment_len,
        }
    }

    fn turn(&mut self, rng: &mut Rng) -> Message {
        let asks = self.answers.other();
        let (turn, step) = match self.step {
            Step::Syn if one_in(rng, 60) => (Message::bare(Side::A, SYN), Step::Refuse),
            Step::Syn => (Message::bare(Side::A, SYN), Step::SynAck),
            Step::Refuse => (Message::bare(Side::B, RST | ACK), Step::Over),
            Step::SynAck => (Message::bare(Side::B, SYN | ACK), Step::Handshake),
            Step::Handshake => (Message::bare(Side::A, ACK), Step::Ask),
            Step::Ask => (self.ask(rng), Step::Answer),
            Step::Answer => self.answer(rng),
            Step::Acknowledge => (self.acknowledge(asks, ACK), Step::Answer),
            Step::Reset => (Message::bare(asks, RST | ACK), Step::Over),
            Step::Fin => (self.acknowledge(asks, FIN | ACK), Step::FinBack),
            Step::FinBack => (Message::bare(self.answers, FIN | ACK), Step::LastAck),
            Step::LastAck => (Message::bare(asks, ACK), Step::Over),
            Step::Over => unreachable!("no turn after the last"),
        };
        self.step = step;
        turn
    }

    /// Acknowledges the received segments and requests the next answer.
    fn ask(&mut self, rng: &mut Rng) -> Message {
        self.answer_left = self.left.min(rng.u32(1..=32));
        self.left -= self.answer_left;
        let acks = self.acknowledge(self.answers.other(), ACK).count;
        let side = self.answers.other();
        let last = rng.u16(40..400);
        Message { side, count: acks + 1, body: 0, last, last_flags: PSH | ACK }
    }

    /// Sends the part of the answer that fits in a turn.
    fn answer(&mut self, rng: &mut Rng) -> (Message, Step) {
        let count = self.answer_left.min(self.burst);
        self.answer_left -= count;
        self.unacked = count;
        let (last, step) = match (self.answer_left, self.left) {
            (0, 0) if one_in(rng, 30) => (rng.u16(1..=self.segment_len), Step::Reset),
            (0, 0) => (rng.u16(1..=self.segment_len), Step::Fin),
            (0, _) => (rng.u16(1..=self.segment_len), Step::Ask),
            _ => (self.segment_len, Step::Acknowledge),
        };
        let body = self.segment_len;
        (Message { side: self.answers, count, body, last, last_flags: PSH | ACK }, step)
    }

    /// Sends one acknowledgement for two segments (RFC 9293 section 3.8.6.3).
    fn acknowledge(&mut self, side: Side, last_flags: u8) -> Message {
        let count = self.unacked.div_ceil(2);
        self.unacked = 0;
        Message { side, count, body: 0, last: 0, last_flags }
    }

    fn segment(&mut self, side: Side, flags: u8, payload_len: u16) -> Transport {
        let (here, there) = (side as usize, side.other() as usize);
        let seq = self.next[here];
        let phantom = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        self.next[here] = seq.wrapping_add(u32::from(payload_len) + phantom);

        let outstanding = self.next[there].wrapping_sub(self.acked[here]);
        let bare = flags == ACK && payload_len == 0;
        let two_segments = 2 * u32::from(self.segment_len);
        let step = if bare { outstanding.min(two_segments) } else { outstanding };
        let ack = self.acked[here].wrapping_add(step);
        if flags & ACK == 0 {
            return Transport::Tcp { flags, seq, ack: 0 };
        }
        self.acked[here] = ack;
        Transport::Tcp { flags, seq, ack }
    }
}

fn one_in(rng: &mut Rng, n: u32) -> bool {
    rng.u32(..n) == 0
}

/// Draws from a bounded Pareto distribution with exponent 1. Returns the value and its octave.
///
/// Every octave is half as probable as the one below it. Within an octave all values are equally
/// probable.
fn heavy_tailed(rng: &mut Rng, smallest: u32, octaves: u32) -> (u32, u32) {
    let octave = rng.u64(..).trailing_zeros().min(octaves - 1);
    let low = smallest << octave;
    (rng.u32(low..2 * low), octave)
}
