// SPDX-License-Identifier: BSD-3-Clause
//! Makes frames for ports that read captures, and the flow records that must result.

use crate::records::{Conversations, Tally};
use std::net::IpAddr;
use testkit::capture::write_pcap;
use wire::FrameBuilder;
use wire::ethernet::ether_type;

/// Frames for both sides of a bump, and the conversations they belong to.
#[derive(Default)]
pub(crate) struct Talk {
    /// Frames that side A sends, and frames that side B sends.
    pub(crate) frames: [Vec<Vec<u8>>; 2],
    pub(crate) conversations: Conversations,
}

impl Talk {
    /// Makes `count` conversations of five kinds, some of them one-sided. `net` distinguishes the
    /// addresses of several talks.
    pub(crate) fn new(net: u8, count: u16) -> Self {
        let mut talk = Self::default();
        for i in 0..count {
            talk.converse(net, i);
        }
        talk
    }

    fn converse(&mut self, net: u8, i: u16) {
        let [high, low] = i.to_be_bytes();
        let v4 = [[10, net, high, low], [10, net, 255, 255]].map(IpAddr::from);
        let v6 = [0xa, 0xb].map(|side| [0x2001, 0xdb8, side, net.into(), 0, 0, 0, i].into());
        let client = 1024 + i;
        let ip = |[a, b]: [IpAddr; 2]| FrameBuilder::ip(a, b);
        let (there, proto, [a, b], [a_port, b_port], tags) = match i % 5 {
            0 => (ip(v4).udp(client, 53), 17, v4, [client, 53], ""),
            1 => (ip(v6).tcp(client, 443), 6, v6, [client, 443], ""),
            2 => (ip(v4).vlan(5).udp(client, 53), 17, v4, [client, 53], "5"),
            3 => (ip(v4).icmp_echo(i, 1), 1, v4, [i, i], ""),
            _ => (ip(v6).qinq(100).vlan(7).tcp(client, 80), 6, v6, [client, 80], "100/7"),
        };
        let key = format!("{proto} {a} {a_port} {b} {b_port} [{tags}]");

        let link_len = 14 + 4 * tags.split_terminator('/').count() as u64;
        let mut tallies = [Tally::default(); 2];
        let frames = [there.clone(), there.reversed()];
        // The order in which ports are read is not defined, and a reply must not arrive before its
        // request.
        let answers = if proto == 1 { 0 } else { i % 3 };
        for (side, packets) in [1 + i % 4, answers].into_iter().enumerate() {
            for packet in 0..packets {
                let payload = usize::from(i % 200 * 7 + packet);
                let frame = frames[side].clone().payload(vec![side as u8; payload]).build();
                let bytes = frame.len() as u64;
                tallies[side].add(Tally { packets: 1, bytes, ip_bytes: bytes - link_len });
                self.frames[side].push(frame);
            }
        }
        self.conversations.insert(key, tallies);
    }

    /// Writes a capture for each side.
    pub(crate) fn write(&self, a: &str, b: &str) {
        write_pcap(a, &self.frames[0]);
        write_pcap(b, &self.frames[1]);
    }
}

/// True for an address of side A, with or without a port.
pub(crate) fn is_a(address: &str) -> bool {
    let last = address.split(' ').next().unwrap_or_default();
    address.starts_with("2001:db8:a:") || address.starts_with("10.") && !last.ends_with(".255.255")
}

/// Returns a frame that is not IP.
pub(crate) fn arp() -> Vec<u8> {
    FrameBuilder::ethernet(ether_type::ARP).payload([1; 46]).build()
}

/// Returns a frame with a truncated IP header.
pub(crate) fn truncated() -> Vec<u8> {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 255, 255]).udp(1, 2).build()[..20].to_vec()
}

/// Returns a datagram in a jumbo frame, which does not fit into one mbuf.
pub(crate) fn jumbo() -> Vec<u8> {
    let payload: Vec<u8> = (0..8900_u16).map(|i| i as u8).collect();
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 255, 255]).udp(9000, 9000).payload(payload).build()
}

/// Returns the frames of a capture in this machine's byte order.
pub(crate) fn read_pcap(path: &str) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let mut frames = Vec::new();
    let mut rest = &bytes[FILE_HEADER.min(bytes.len())..];
    while !rest.is_empty() {
        let len = u32::from_ne_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[RECORD_HEADER..RECORD_HEADER + len].to_vec());
        rest = &rest[RECORD_HEADER + len..];
    }
    frames
}

/// True if the capture exists and has the length of one with `frames`.
pub(crate) fn is_complete(path: &str, frames: &[Vec<u8>]) -> bool {
    let bytes: usize = frames.iter().map(|frame| RECORD_HEADER + frame.len()).sum();
    std::fs::metadata(path).is_ok_and(|file| file.len() == (FILE_HEADER + bytes) as u64)
}

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
