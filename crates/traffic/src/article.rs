// SPDX-License-Identifier: BSD-3-Clause
//! The loads of the article on FlowTable, as rounds of frames that are sent repeatedly.
//!
//! [`imix`] is what TRex sends by `imix_fast_1g.yaml`: a mix of three sizes over 1194 UDP flows
//! each way, and one SCTP flow each way, by which it measures latency. [`small_tcp`] is segments of
//! 64 bytes of as many TCP connections. The tuples of the two ways are mirrored, so two flows are
//! one connection.
//!
//! The article's small TCP is SYN one way and SYN+ACK the other, repeatedly. That opens no
//! connection, so a connection tracker has none that is worth a rule. Here connections open.

use crate::Side;
use crate::endpoints::Endpoints;
use fastrand::Rng;
use wire::FrameBuilder;
use wire::ethernet::{Ethernet, MIN_FRAME};
use wire::tcp::{ACK, SYN};
use wire::{ipv4::Ipv4, udp::Udp};

/// UDP connections of [`imix`], and TCP connections of [`small_tcp`].
pub const CONNECTIONS: u32 = 1194;

/// Bytes of a frame of [`imix`] without FCS, and how many each of its flows sends in a round: 64,
/// 594 and 1518 bytes with it, in 7:5:1. A third of the flows each.
pub const IMIX: [(usize, u32); 3] = [(60, 7), (590, 5), (1514, 1)];

/// Frames of the SCTP flow in a round: where the others fill 10 Gb/s, about a thousand a second.
pub const SCTP_FRAMES: u32 = 2;

/// Segments of each side of a connection of [`small_tcp`] in a round, behind those that begin it.
pub const ACKS: u32 = 15;

/// Ports of the SCTP flow, client and server, and the length of its frames.
const SCTP: ([u16; 2], usize) = ([0x8044, 0x0050], 62);

/// One round of the mix: 5176 frames each way, shuffled.
pub fn imix(seed: u64, mut sink: impl FnMut(Side, &[u8])) {
    let rng = &mut Rng::with_seed(seed);
    let mut round = Vec::new();
    for number in 0..CONNECTIONS {
        let ends = Endpoints::ipv4(number, rng);
        let (len, times) = IMIX[number as usize % IMIX.len()];
        let payload = vec![0; len - Ethernet::LEN - Ipv4::LEN - Udp::LEN];
        let [sport, dport] = ports(&ends);
        let frame = between(&ends).udp(sport, dport).payload(payload);
        round.extend(std::iter::repeat_n(both_ways(frame), times as usize));
    }
    let ([sport, dport], len) = SCTP;
    let probe = between(&Endpoints::ipv4(CONNECTIONS, rng)).sctp(sport, dport);
    let chunks = vec![0; len - Ethernet::LEN - Ipv4::LEN - wire::sctp::Sctp::LEN];
    let probe = both_ways(probe.payload(chunks));
    round.extend(std::iter::repeat_n(probe, SCTP_FRAMES as usize));
    rng.shuffle(&mut round);
    send(&round, &mut sink);
}

/// One round of a SYN of each connection and its SYN+ACK, then of [`ACKS`] of both sides: 64 bytes
/// each, with FCS. The next round repeats them, and changes no connection.
pub fn small_tcp(seed: u64, mut sink: impl FnMut(Side, &[u8])) {
    let rng = &mut Rng::with_seed(seed);
    let (mut begins, mut round) = (Vec::new(), Vec::new());
    for number in 0..CONNECTIONS {
        let ends = Endpoints::ipv4(number, rng);
        let [sport, dport] = ports(&ends);
        let [seq, answer] = [rng.u32(..), rng.u32(..)];
        let [next, wanted] = [seq, answer].map(|number| number.wrapping_add(1));
        let there = between(&ends).tcp(sport, dport).pad_to(MIN_FRAME);
        let back = there.clone().reversed();
        let syn = there.clone().flags(SYN).seq(seq).build();
        begins.push([syn, back.clone().flags(SYN | ACK).seq(answer).ack(next).build()]);
        let ack = there.flags(ACK).seq(next).ack(wanted).build();
        let acks = [ack, back.flags(ACK).seq(wanted).ack(next).build()];
        round.extend(std::iter::repeat_n(acks, ACKS as usize));
    }
    rng.shuffle(&mut begins);
    rng.shuffle(&mut round);
    send(&begins, &mut sink);
    send(&round, &mut sink);
}

fn between(ends: &Endpoints) -> FrameBuilder {
    let [client, server] = [Side::A, Side::B].map(|side| {
        let [a, b, c, d, ..] = *ends.address(side);
        [a, b, c, d]
    });
    FrameBuilder::ipv4(client, server).macs([2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb])
}

fn ports(ends: &Endpoints) -> [u16; 2] {
    [Side::A, Side::B].map(|side| ends.port(side))
}

fn both_ways(frame: FrameBuilder) -> [Vec<u8>; 2] {
    [frame.build(), frame.reversed().build()]
}

fn send(round: &[[Vec<u8>; 2]], sink: &mut impl FnMut(Side, &[u8])) {
    for [up, down] in round {
        sink(Side::A, up);
        sink(Side::B, down);
    }
}
