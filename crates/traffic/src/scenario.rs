// SPDX-License-Identifier: BSD-3-Clause
//! Makes the frames of the benchmarks and passes them to a callback one by one.
//!
//! Frames are small (60 to 76 bytes), because the benchmarks measure the cost per packet.

use crate::endpoints::Endpoints;
use crate::template::{Packet, Templates, Transport};
use crate::{MAX_FRAME, Side};
use fastrand::Rng;
use wire::tcp::{ACK, FIN, PSH, SYN};
use wire::{ethernet, ipv4::Ipv4, tcp::Tcp, udp::Udp};

/// Transport protocol of [`established`] connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Data segments with ACK, without a handshake before them.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Number of packets of a connection of [`short_tcp`].
pub const SHORT_TCP_PACKETS: u32 = 8;

/// Number of connections of [`short_tcp`] that are open at the same time.
pub const SHORT_TCP_INTERLEAVE: u32 = 64;

/// Passes one packet of each direction of `flows` distinct IPv4 connections to `sink`, shuffled.
pub fn established(seed: u64, flows: u32, protocol: Protocol, mut sink: impl FnMut(Side, &[u8])) {
    let mut rng = Rng::with_seed(seed);
    let mut frames = FrameWriter::new();
    let mut order: Vec<u32> = (0..2 * flows).collect();
    rng.shuffle(&mut order);
    for direction in order {
        let number = direction / 2;
        let side = if direction % 2 == 0 { Side::A } else { Side::B };
        // Both directions draw the same addresses and numbers.
        let mut of_flow = Rng::with_seed(seed ^ u64::from(number) << 20);
        let ends = Endpoints::ipv4(number, &mut of_flow);
        let next = [of_flow.u32(..), of_flow.u32(..)];
        let (transport, header_len) = match protocol {
            Protocol::Udp => (Transport::Udp, Udp::LEN),
            Protocol::Tcp => {
                let (seq, ack) = (next[side as usize], next[side.other() as usize]);
                (Transport::Tcp { flags: PSH | ACK, seq, ack }, Tcp::LEN)
            }
        };
        let headers = ethernet::Ethernet::LEN + Ipv4::LEN + header_len;
        let payload_len = rng.usize(ethernet::MIN_FRAME..=76) - headers;
        let packet = Packet { side, transport, payload_len, id: number as u16 };
        sink(side, frames.write(&ends, &packet));
    }
}

/// Passes the packets of `connections` distinct and complete IPv4 connections to `sink`.
///
/// Each has [`SHORT_TCP_PACKETS`] packets: SYN, SYN+ACK, ACK, request, response, FIN, FIN, ACK.
/// [`SHORT_TCP_INTERLEAVE`] connections are open at the same time; a random one sends next.
pub fn short_tcp(seed: u64, connections: u32, mut sink: impl FnMut(Side, &[u8])) {
    let mut rng = Rng::with_seed(seed);
    let mut frames = FrameWriter::new();
    let mut opened = 0;
    let mut open: Vec<ShortConnection> = Vec::new();
    loop {
        while opened < connections && open.len() < SHORT_TCP_INTERLEAVE as usize {
            open.push(ShortConnection::new(opened, &mut rng));
            opened += 1;
        }
        if open.is_empty() {
            return;
        }
        let index = rng.usize(..open.len());
        let packet = open[index].packet();
        sink(packet.side, frames.write(&open[index].ends, &packet));
        if open[index].sent == SHORT_TCP_PACKETS {
            open.swap_remove(index);
        }
    }
}

struct ShortConnection {
    ends: Endpoints,
    next: [u32; 2],
    sent: u32,
}

impl ShortConnection {
    const SCRIPT: [(Side, u8, usize); SHORT_TCP_PACKETS as usize] = [
        (Side::A, SYN, 0),
        (Side::B, SYN | ACK, 0),
        (Side::A, ACK, 0),
        (Side::A, PSH | ACK, 16),
        (Side::B, PSH | ACK, 22),
        (Side::A, FIN | ACK, 0),
        (Side::B, FIN | ACK, 0),
        (Side::A, ACK, 0),
    ];

    fn new(number: u32, rng: &mut Rng) -> Self {
        let ends = Endpoints::ipv4(number, rng);
        Self { ends, next: [rng.u32(..), rng.u32(..)], sent: 0 }
    }

    fn packet(&mut self) -> Packet {
        let (side, flags, payload_len) = Self::SCRIPT[self.sent as usize];
        let seq = self.next[side as usize];
        let ack = if flags & ACK != 0 { self.next[side.other() as usize] } else { 0 };
        let phantom = usize::from(flags & (SYN | FIN) != 0);
        self.next[side as usize] = seq.wrapping_add((payload_len + phantom) as u32);
        self.sent += 1;
        let transport = Transport::Tcp { flags, seq, ack };
        Packet { side, transport, payload_len, id: self.sent as u16 }
    }
}

/// Writes frames by templates into its own buffer.
pub(crate) struct FrameWriter {
    templates: Templates,
    buf: [u8; MAX_FRAME],
}

impl FrameWriter {
    pub(crate) fn new() -> Self {
        Self { templates: Templates::new(), buf: [0; MAX_FRAME] }
    }

    pub(crate) fn write(&mut self, ends: &Endpoints, packet: &Packet) -> &[u8] {
        let len = self.templates.write(&mut self.buf, ends, packet);
        &self.buf[..len]
    }
}
