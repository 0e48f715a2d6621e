// SPDX-License-Identifier: BSD-3-Clause
//! Receive-side scaling: chooses the queue of a packet by the Toeplitz hash of addresses and ports.
//!
//! The hash is that of Microsoft's "RSS hash functions", over source address, destination address,
//! source port and destination port. If it is sorted, the smaller address and the smaller port come
//! first. A table over the hash (RETA) gives the queue.

use crate::headers::{Headers, Slot};
use crate::pattern::Proto;

/// Bytes of a hash key.
pub const KEY_LEN: usize = 40;
/// Two IPv6 addresses and two ports.
const INPUT_MAX: usize = 36;

/// Bits for the packets that are hashed, with their fields, and for sorting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssTypes(pub u32);

/// All IPv4 packets, over the addresses.
pub const IP: u32 = 1;
/// IPv4 fragments, over the addresses.
pub const FRAGMENT: u32 = 1 << 1;
/// IPv4 with any transport except those below, over the addresses.
pub const OTHER: u32 = 1 << 2;
/// TCP over IPv4, over addresses and ports.
pub const TCP: u32 = 1 << 3;
/// UDP over IPv4, over addresses and ports.
pub const UDP: u32 = 1 << 4;
/// SCTP over IPv4, over addresses and ports.
pub const SCTP: u32 = 1 << 5;
/// The bits above for IPv6 are shifted left by this number.
pub const IPV6_SHIFT: u32 = 8;
/// The smaller address and the smaller port come first, so both directions have one hash.
pub const SORTED: u32 = 1 << 16;

/// The RSS configuration of a port.
pub struct Rss {
    types: RssTypes,
    /// The hash of each byte value at each place; the hash of an input is the XOR over its bytes.
    tables: Box<[[u32; 256]; INPUT_MAX]>,
    /// Queues by the low part of the hash.
    reta: Vec<u16>,
}

impl Default for Rss {
    /// Returns a configuration that delivers every packet to queue 0.
    fn default() -> Self {
        Self { types: RssTypes::default(), tables: Box::new([[0; 256]; INPUT_MAX]), reta: vec![0] }
    }
}

impl Rss {
    /// Makes the tables. `reta` has at least one queue.
    pub fn new(types: RssTypes, key: &[u8; KEY_LEN], reta: Vec<u16>) -> Self {
        assert!(!reta.is_empty(), "a table without queues");
        let mut tables = Box::new([[0; 256]; INPUT_MAX]);
        for (place, table) in tables.iter_mut().enumerate() {
            for (value, hash) in table.iter_mut().enumerate() {
                let bits = (0..8).filter(|bit| value & 0x80 >> bit != 0);
                *hash = bits.fold(0, |hash, bit| hash ^ window(key, 8 * place + bit));
            }
        }
        Self { types, tables, reta }
    }

    /// Returns the hash of a frame by the types of the port; `None` if the frame is of no type that
    /// is hashed.
    pub(crate) fn hash(&self, frame: &[u8], headers: &Headers) -> Option<u32> {
        self.hash_of(self.types, frame, headers)
    }

    /// Returns the hash of a frame by `types`, or by the types of the port if `types` has none.
    /// `None` if the frame is of no type that is hashed.
    pub(crate) fn hash_of(&self, types: RssTypes, frame: &[u8], headers: &Headers) -> Option<u32> {
        let is_own = types.0 & !SORTED != 0;
        let types = if is_own { types.0 } else { types.0 | self.types.0 };
        if types & !SORTED == 0 {
            return None;
        }
        let is_sorted = types & SORTED != 0;
        let (shift, addresses) = match headers.proto(Slot::Network)? {
            Proto::Ipv4 => (0, 12..20),
            Proto::Ipv6 => (IPV6_SHIFT, 8..40),
            _ => return None,
        };
        let types = types >> shift;
        let network = &frame[headers.offset(Slot::Network)..];
        let addresses = pair(&network[addresses], is_sorted);
        let kind = match headers.proto(Slot::Transport) {
            _ if headers.is_fragment() => FRAGMENT,
            Some(Proto::Tcp) => TCP,
            Some(Proto::Udp) => UDP,
            Some(Proto::Sctp) => SCTP,
            _ => OTHER,
        };
        let has_ports = kind & (TCP | UDP | SCTP) != 0;
        if types & kind != 0 && has_ports {
            let ports = pair(&frame[headers.offset(Slot::Transport)..][..4], is_sorted);
            return Some(self.toeplitz(addresses.chain(ports)));
        }
        (types & (kind | IP) != 0).then(|| self.toeplitz(addresses))
    }

    /// Returns the queue of a packet with this hash.
    pub(crate) fn queue(&self, hash: u32) -> u16 {
        // Not a mask: tables may have any length, and a 32-bit division is cheap.
        self.reta[(hash % self.reta.len() as u32) as usize]
    }

    fn toeplitz<'a>(&self, input: impl Iterator<Item = &'a u8>) -> u32 {
        let bytes = self.tables.iter().zip(input);
        bytes.fold(0, |hash, (table, &byte)| hash ^ table[usize::from(byte)])
    }
}

/// Returns the bytes of source and destination, which have one length; the smaller comes first if
/// they are sorted.
fn pair(both: &[u8], is_sorted: bool) -> impl Iterator<Item = &u8> {
    let (src, dst) = both.split_at(both.len() / 2);
    let (first, second) = if is_sorted && src > dst { (dst, src) } else { (src, dst) };
    first.iter().chain(second)
}

/// Returns the 32 bits of the key from `bit` on.
fn window(key: &[u8; KEY_LEN], bit: usize) -> u32 {
    let byte = |i: usize| u64::from(key.get(bit / 8 + i).copied().unwrap_or(0));
    let word = (0..5).fold(0, |word, i| word << 8 | byte(i));
    (word >> (8 - bit % 8)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::FrameBuilder;

    /// The key of Microsoft's "Verifying the RSS Hash Calculation".
    const KEY: [u8; KEY_LEN] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn hash(types: u32, frame: &[u8]) -> Option<u32> {
        Rss::new(RssTypes(types), &KEY, vec![0]).hash(frame, &Headers::of(frame))
    }

    #[test]
    fn hashes_are_those_of_the_verification_suite() {
        let v4 = FrameBuilder::ipv4([66, 9, 149, 187], [161, 142, 100, 80]);
        let frame = v4.clone().tcp(2794, 1766).build();
        assert_eq!(hash(TCP, &frame), Some(0x51cc_c178));
        assert_eq!(hash(IP, &frame), Some(0x323e_8fc2));
        assert_eq!(hash(UDP | SCTP | OTHER | FRAGMENT, &frame), None);
        assert_eq!(hash(TCP, &v4.clone().vlan(5).tcp(2794, 1766).build()), Some(0x51cc_c178));
        let fragment = v4.clone().fragment(0, true).udp(2794, 1766).payload([0; 16]).build();
        assert_eq!(hash(UDP, &fragment), None);
        assert_eq!(hash(UDP | FRAGMENT, &fragment), Some(0x323e_8fc2));
        let src = [0x3ffe, 0x2501, 0x200, 0x1fff, 0, 0, 0, 7];
        let dst = [0x3ffe, 0x2501, 0x200, 3, 0, 0, 0, 1];
        let frame = FrameBuilder::ipv6(src, dst).tcp(2794, 1766).build();
        assert_eq!(hash(TCP << IPV6_SHIFT, &frame), Some(0x4020_7d3d));
        assert_eq!(hash(IP << IPV6_SHIFT, &frame), Some(0x2cc1_8cd5));
        assert_eq!(hash(TCP | IP, &frame), None);
    }

    #[test]
    fn sorted_both_directions_have_one_hash() {
        // In neither packet does the smaller port belong to the smaller address.
        let v4 = FrameBuilder::ipv4([66, 9, 149, 187], [161, 142, 100, 80]).tcp(2794, 1766);
        let v6 = FrameBuilder::ipv6([0x20; 16], [0x21; 16]).udp(1000, 53);
        for (types, there) in [(TCP | SORTED, v4), (UDP << IPV6_SHIFT | SORTED, v6)] {
            let back = there.clone().reversed();
            let [sorted, back] = [&there, &back].map(|frame| hash(types, &frame.build()));
            assert!(sorted.is_some() && sorted == back);
            assert_ne!(sorted, hash(types & !SORTED, &there.build()));
        }
        let there = FrameBuilder::ipv4([1, 0, 0, 1], [2, 0, 0, 1]).tcp(1, 2).build();
        assert_eq!(hash(TCP | SORTED, &there), hash(TCP, &there));
    }

    #[test]
    fn the_table_chooses_by_the_low_part() {
        let rss = Rss::new(RssTypes(TCP), &KEY, (0..128).map(|entry| entry % 3).collect());
        assert_eq!(rss.queue(0x51cc_c178), 0x78 % 3);
        assert_eq!(Rss::default().queue(0x51cc_c178), 0);
    }
}
