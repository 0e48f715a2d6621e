// SPDX-License-Identifier: BSD-3-Clause
//! Writes captures for tests byte by byte, without the reader's library: every format, byte order
//! and time unit, and every fault.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Link type of Ethernet.
pub(crate) const ETHERNET: u16 = 1;

/// Byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

impl Order {
    pub(crate) fn u16(self, value: u16) -> [u8; 2] {
        if self == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(self, value: u32) -> [u8; 4] {
        if self == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u64(self, value: u64) -> [u8; 8] {
        if self == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() }
    }
}

/// A packet to write.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) time_ns: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) original_len: u32,
}

impl Packet {
    pub(crate) fn new(time_ns: u64, bytes: Vec<u8>) -> Self {
        Self { time_ns, original_len: bytes.len() as u32, bytes }
    }
}

/// A pcap file.
pub(crate) struct Pcap {
    pub(crate) order: Order,
    pub(crate) nanoseconds: bool,
    /// The link-type field; the link type is a part of it.
    pub(crate) network: u32,
}

impl Pcap {
    /// Returns a file that is little-endian, in microseconds, with Ethernet.
    pub(crate) fn plain() -> Self {
        Self { order: Order::Little, nanoseconds: false, network: u32::from(ETHERNET) }
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        let magic = if self.nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
        [
            &self.order.u32(magic)[..],
            &self.order.u16(2),
            &self.order.u16(4),
            &[0; 8],
            &self.order.u32(65_535),
            &self.order.u32(self.network),
        ]
        .concat()
    }

    pub(crate) fn record(&self, packet: &Packet) -> Vec<u8> {
        let fraction = (packet.time_ns % 1_000_000_000) as u32;
        let words = [
            (packet.time_ns / 1_000_000_000) as u32,
            if self.nanoseconds { fraction } else { fraction / 1000 },
            packet.bytes.len() as u32,
            packet.original_len,
        ];
        [words.map(|word| self.order.u32(word)).concat(), packet.bytes.clone()].concat()
    }

    pub(crate) fn file(&self, packets: &[Packet]) -> Vec<u8> {
        let records: Vec<u8> = packets.iter().flat_map(|packet| self.record(packet)).collect();
        [self.header(), records].concat()
    }
}

/// A pcapng file being built: blocks in the order of the calls.
pub(crate) struct Pcapng {
    pub(crate) order: Order,
    pub(crate) bytes: Vec<u8>,
}

impl Pcapng {
    /// Begins a file with one section header.
    pub(crate) fn new(order: Order) -> Self {
        Self { order, bytes: Vec::new() }.section(order)
    }

    /// Begins another section, which has its own interfaces and may have another byte order.
    pub(crate) fn section(mut self, order: Order) -> Self {
        self.order = order;
        let mark = order.u32(0x1a2b_3c4d);
        let version = [order.u16(1), order.u16(0)].concat();
        self.block(0x0a0d_0d0a, &[&mark[..], &version, &order.u64(u64::MAX)].concat())
    }

    /// Adds an interface with options: code and value.
    pub(crate) fn interface(self, link_type: u16, snaplen: u32, options: &[(u16, &[u8])]) -> Self {
        let order = self.order;
        let mut body = [&order.u16(link_type)[..], &[0; 2], &order.u32(snaplen)].concat();
        body.extend(options_bytes(order, options));
        self.block(1, &body)
    }

    /// Adds an interface whose clock counts in units of `resolution` from `offset_s` on. Units are
    /// 10^-n or, with the top bit, 2^-n seconds.
    pub(crate) fn clock(self, resolution: u8, offset_s: i64) -> Self {
        let offset = self.order.u64(offset_s as u64);
        self.interface(ETHERNET, 0, &[(9, &[resolution]), (14, &offset)])
    }

    /// Adds an Enhanced Packet Block with a comment.
    pub(crate) fn enhanced(self, interface: u32, ticks: u64, packet: &Packet) -> Self {
        let order = self.order;
        let words = [
            interface,
            (ticks >> 32) as u32,
            ticks as u32,
            packet.bytes.len() as u32,
            packet.original_len,
        ];
        let mut body = words.map(|word| order.u32(word)).concat();
        body.extend(padded(&packet.bytes));
        body.extend(options_bytes(order, &[(1, b"a comment")]));
        self.block(6, &body)
    }

    /// Adds a Simple Packet Block.
    pub(crate) fn simple(self, packet: &Packet) -> Self {
        let length = self.order.u32(packet.original_len);
        self.block(3, &[&length[..], &padded(&packet.bytes)].concat())
    }

    /// Adds an obsolete Packet Block.
    pub(crate) fn obsolete(self, interface: u16, ticks: u64, packet: &Packet) -> Self {
        let order = self.order;
        let words =
            [(ticks >> 32) as u32, ticks as u32, packet.bytes.len() as u32, packet.original_len];
        let body = [
            [order.u16(interface), order.u16(0)].concat(),
            words.map(|word| order.u32(word)).concat(),
            padded(&packet.bytes),
        ];
        self.block(2, &body.concat())
    }

    /// Adds a block of any type; the body must be a multiple of 4 bytes.
    pub(crate) fn block(mut self, kind: u32, body: &[u8]) -> Self {
        let len = self.order.u32(body.len() as u32 + 12);
        self.bytes.extend([&self.order.u32(kind)[..], &len, body, &len].concat());
        self
    }
}

fn options_bytes(order: Order, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (code, value) in options {
        bytes.extend(order.u16(*code));
        bytes.extend(order.u16(value.len() as u16));
        bytes.extend(padded(value));
    }
    if !options.is_empty() {
        bytes.extend([0; 4]);
    }
    bytes
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    padded
}

/// Compresses `bytes` with gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
