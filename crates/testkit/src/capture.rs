// SPDX-License-Identifier: BSD-3-Clause
//! Captures: files of frames for ports that read some, and files byte by byte, without the
//! library of the readers: every format, byte order and time unit, and every fault.

use crate::host::skip;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use traffic::PcapWriter;

/// Writes a pcap file of `frames`, each a second after the one before.
pub fn write_pcap(path: impl AsRef<Path>, frames: &[Vec<u8>]) {
    let file = BufWriter::new(File::create(path).expect("a new file"));
    let mut writer = PcapWriter::new(file).expect("a header");
    for (second, frame) in frames.iter().enumerate() {
        writer.write(second as u64 * 1_000_000_000, frame).expect("a record");
    }
    writer.finish().expect("all of it");
}

/// Returns a folder of real captures, `below` the one that `MILLRACE_CAPTURES` names or that lies
/// beside the checkout. Skips and returns `None` where there is none.
pub fn real_captures(below: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/captures");
    let folder = std::env::var_os("MILLRACE_CAPTURES").map_or_else(beside, PathBuf::from);
    let folder = folder.join(below);
    if !folder.is_dir() {
        skip(&format!("no captures in {} (set MILLRACE_CAPTURES)", folder.display()));
        return None;
    }
    Some(folder)
}

/// Link type of Ethernet.
pub const ETHERNET: u16 = 1;

/// Byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    /// Returns the bytes of a number in this order.
    pub fn u16(self, value: u16) -> [u8; 2] {
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
pub struct Packet {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// What the capture holds of it.
    pub bytes: Vec<u8>,
    /// Bytes that it had on the wire.
    pub original_len: u32,
}

impl Packet {
    /// Returns a packet that the capture holds in full.
    pub fn new(time_ns: u64, bytes: Vec<u8>) -> Self {
        Self { time_ns, original_len: bytes.len() as u32, bytes }
    }
}

/// The form of a pcap file.
#[derive(Clone, Copy, Debug)]
pub struct Pcap {
    /// Byte order of all numbers.
    pub order: Order,
    /// Times are in nanoseconds instead of microseconds.
    pub nanoseconds: bool,
    /// The link-type field; the link type is a part of it.
    pub network: u32,
}

impl Pcap {
    /// Returns a file that is little-endian, in microseconds, with Ethernet.
    pub fn plain() -> Self {
        Self { order: Order::Little, nanoseconds: false, network: u32::from(ETHERNET) }
    }

    /// Returns the header of the file.
    pub fn header(&self) -> Vec<u8> {
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

    /// Returns the record of a packet.
    pub fn record(&self, packet: &Packet) -> Vec<u8> {
        let fraction = (packet.time_ns % 1_000_000_000) as u32;
        let words = [
            (packet.time_ns / 1_000_000_000) as u32,
            if self.nanoseconds { fraction } else { fraction / 1000 },
            packet.bytes.len() as u32,
            packet.original_len,
        ];
        [words.map(|word| self.order.u32(word)).concat(), packet.bytes.clone()].concat()
    }

    /// Returns a whole file.
    pub fn file(&self, packets: &[Packet]) -> Vec<u8> {
        let records: Vec<u8> = packets.iter().flat_map(|packet| self.record(packet)).collect();
        [self.header(), records].concat()
    }
}

/// A pcapng file being built: blocks in the order of the calls.
#[derive(Clone, Debug)]
pub struct Pcapng {
    /// Byte order of the section that the next block belongs to.
    pub order: Order,
    /// The file so far.
    pub bytes: Vec<u8>,
}

impl Pcapng {
    /// Begins a file with one section header.
    pub fn new(order: Order) -> Self {
        Self { order, bytes: Vec::new() }.section(order)
    }

    /// Begins another section, which has its own interfaces and may have another byte order.
    pub fn section(mut self, order: Order) -> Self {
        self.order = order;
        let mark = order.u32(0x1a2b_3c4d);
        let version = [order.u16(1), order.u16(0)].concat();
        self.block(0x0a0d_0d0a, &[&mark[..], &version, &order.u64(u64::MAX)].concat())
    }

    /// Adds an interface with options: code and value.
    pub fn interface(self, link_type: u16, snaplen: u32, options: &[(u16, &[u8])]) -> Self {
        let order = self.order;
        let mut body = [&order.u16(link_type)[..], &[0; 2], &order.u32(snaplen)].concat();
        body.extend(options_bytes(order, options));
        self.block(1, &body)
    }

    /// Adds an interface whose clock counts in units of `resolution` from `offset_s` on. Units are
    /// 10^-n or, with the top bit, 2^-n seconds.
    pub fn clock(self, resolution: u8, offset_s: i64) -> Self {
        let offset = self.order.u64(offset_s as u64);
        self.interface(ETHERNET, 0, &[(9, &[resolution]), (14, &offset)])
    }

    /// Adds an Enhanced Packet Block with a comment.
    pub fn enhanced(self, interface: u32, ticks: u64, packet: &Packet) -> Self {
        self.enhanced_with(interface, ticks, packet, &[(1, b"a comment")])
    }

    /// Adds an Enhanced Packet Block with options: code and value.
    pub fn enhanced_with(
        self,
        interface: u32,
        ticks: u64,
        packet: &Packet,
        options: &[(u16, &[u8])],
    ) -> Self {
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
        body.extend(options_bytes(order, options));
        self.block(6, &body)
    }

    /// Adds a Simple Packet Block.
    pub fn simple(self, packet: &Packet) -> Self {
        let length = self.order.u32(packet.original_len);
        self.block(3, &[&length[..], &padded(&packet.bytes)].concat())
    }

    /// Adds an obsolete Packet Block.
    pub fn obsolete(self, interface: u16, ticks: u64, packet: &Packet) -> Self {
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
    pub fn block(mut self, kind: u32, body: &[u8]) -> Self {
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
#[cfg(feature = "gzip")]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
