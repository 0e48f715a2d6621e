// SPDX-License-Identifier: BSD-3-Clause
//! Makes the loads of the FlowTable article, as rounds of frames that are sent repeatedly.
//!
//! [`imix`] is the load that TRex sends with `imix_fast_1g.yaml`. It has three frame sizes over
//! 1194 UDP connections, and one SCTP connection by which TRex measures latency. [`imix_up`] has
//! nothing but SCTP in the other direction. [`small_tcp`] repeats one SYN and one SYN+ACK.
//!
//! Three loads are not in the article: the connections of [`tcp_connections`] open, those of
//! [`long_tcp`] last, and [`many_flows`] do not fit into the caches.

use crate::Side;
use crate::endpoints::Endpoints;
use crate::flood::{self, Target};
use fastrand::Rng;
use wire::FrameBuilder;
use wire::ethernet::{Ethernet, MIN_FRAME};
use wire::tcp::{ACK, SYN, Tcp};
use wire::{ipv4::Ipv4, proto, udp::Udp};

/// Number of UDP connections of [`imix`], and of TCP connections of [`tcp_connections`] and
/// [`long_tcp`].
pub const CONNECTIONS: u32 = 1194;

/// Frame sizes of [`imix`] in bytes without FCS. With each, the frames that a connection of this
/// size sends each way in a round.
///
/// With FCS the sizes are 64, 594 and 1518 bytes. Each size has a third of the connections.
pub const IMIX: [(usize, u32); 3] = [(60, 7), (590, 5), (1514, 1)];

/// Frames that the SCTP connection sends each way in a round. If the load fills 10 Gb/s, that is
/// about a thousand a second.
pub const SCTP_FRAMES: u32 = 2;

/// Segments that each side of a [`tcp_connections`] connection sends in a round, after SYN and
/// SYN+ACK.
pub const ACKS: u32 = 15;

/// Connections of [`long_tcp`] that never open. Their SYN and SYN+ACK are a twentieth of the
/// frames.
pub const UNOPENED: u32 = 272;

/// Segments of each side in a round of [`small_tcp`], all of them equal.
pub const REPEATS: u32 = 1024;

/// Client and server port of the SCTP connection, and bytes of its frames without FCS.
const SCTP: ([u16; 2], usize) = ([0x8044, 0x0050], 62);

/// Passes one round of the mix to `sink`: 5176 frames each way, shuffled.
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
    let probe = probe(&Endpoints::ipv4(CONNECTIONS, rng));
    round.extend(std::iter::repeat_n(probe, SCTP_FRAMES as usize));
    rng.shuffle(&mut round);
    send(&round, &mut sink);
}

/// Passes one round of [`imix`] to `sink`, of whose frames down only those of SCTP are left.
pub fn imix_up(seed: u64, mut sink: impl FnMut(Side, &[u8])) {
    imix(seed, |side, frame| {
        let ip = Ipv4::new(&frame[Ethernet::LEN..]);
        if side == Side::A || ip.is_some_and(|ip| ip.protocol() == proto::SCTP) {
            sink(side, frame);
        }
    });
}

/// Passes one round of the article's small TCP to `sink`, 64 bytes each with FCS: the same SYN up
/// and the same SYN+ACK down, [`REPEATS`] times. The connection never opens.
pub fn small_tcp(seed: u64, mut sink: impl FnMut(Side, &[u8])) {
    let rng = &mut Rng::with_seed(seed);
    let ends = Endpoints::ipv4(0, rng);
    let [sport, dport] = ports(&ends);
    let [seq, reply_seq] = [rng.u32(..), rng.u32(..)];
    let there = between(&ends).tcp(sport, dport).pad_to(MIN_FRAME);
    let back = there.clone().reversed().flags(SYN | ACK).seq(reply_seq).ack(seq.wrapping_add(1));
    let both = [there.flags(SYN).seq(seq).build(), back.build()];
    for _ in 0..REPEATS {
        send(std::slice::from_ref(&both), &mut sink);
    }
}

/// Passes one round of `count` UDP flows up to `sink`, with a frame of 64 bytes each (with FCS),
/// and one SCTP frame down.
pub fn many_flows(seed: u64, count: u32, mut sink: impl FnMut(Side, &[u8])) {
    flood::packets(seed, Target::Random, count, &mut sink);
    sink(Side::B, &probe(&Endpoints::ipv4(0, &mut Rng::with_seed(seed)))[1]);
}

/// Passes one round of TCP segments to `sink`, 64 bytes each with FCS.
///
/// First come SYN and SYN+ACK of each connection, then [`ACKS`] segments of both sides. A
/// repeated round changes no connection.
pub fn tcp_connections(seed: u64, mut sink: impl FnMut(Side, &[u8])) {
    let rng = &mut Rng::with_seed(seed);
    let (mut begins, mut round) = (Vec::new(), Vec::new());
    for number in 0..CONNECTIONS {
        let ends = Endpoints::ipv4(number, rng);
        let [sport, dport] = ports(&ends);
        let [seq, reply_seq] = [rng.u32(..), rng.u32(..)];
        let [next, reply_next] = [seq, reply_seq].map(|number| number.wrapping_add(1));
        let there = between(&ends).tcp(sport, dport).pad_to(MIN_FRAME);
        let back = there.clone().reversed();
        let syn = there.clone().flags(SYN).seq(seq).build();
        begins.push([syn, back.clone().flags(SYN | ACK).seq(reply_seq).ack(next).build()]);
        let ack = there.flags(ACK).seq(next).ack(reply_next).build();
        let acks = [ack, back.flags(ACK).seq(reply_next).ack(next).build()];
        round.extend(std::iter::repeat_n(acks, ACKS as usize));
    }
    rng.shuffle(&mut begins);
    rng.shuffle(&mut round);
    send(&begins, &mut sink);
    send(&round, &mut sink);
}

/// Passes one round of TCP to `sink`, shuffled: the frame sizes of [`imix`] as segments of
/// connections that opened before, and SYN and SYN+ACK of [`UNOPENED`] others.
pub fn long_tcp(seed: u64, mut sink: impl FnMut(Side, &[u8])) {
    let rng = &mut Rng::with_seed(seed);
    let mut round = Vec::new();
    for number in 0..CONNECTIONS + UNOPENED {
        let ends = Endpoints::ipv4(number, rng);
        let [sport, dport] = ports(&ends);
        let [seq, reply_seq] = [rng.u32(..), rng.u32(..)];
        let there = between(&ends).tcp(sport, dport).seq(seq);
        if number >= CONNECTIONS {
            let there = there.pad_to(MIN_FRAME);
            let back = there.clone().reversed().seq(reply_seq).ack(seq.wrapping_add(1));
            round.push([there.flags(SYN).build(), back.flags(SYN | ACK).build()]);
            continue;
        }
        let (len, times) = IMIX[number as usize % IMIX.len()];
        let data = vec![0; len - Ethernet::LEN - Ipv4::LEN - Tcp::LEN];
        let there = there.flags(ACK).ack(reply_seq).payload(data);
        let back = there.clone().reversed().seq(reply_seq).ack(seq);
        round.extend(std::iter::repeat_n([there.build(), back.build()], times as usize));
    }
    rng.shuffle(&mut round);
    send(&round, &mut sink);
}

/// Returns the frames of the SCTP connection, up and down.
fn probe(ends: &Endpoints) -> [Vec<u8>; 2] {
    let ([sport, dport], len) = SCTP;
    let chunks = vec![0; len - Ethernet::LEN - Ipv4::LEN - wire::sctp::Sctp::LEN];
    both_ways(between(ends).sctp(sport, dport).payload(chunks))
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
