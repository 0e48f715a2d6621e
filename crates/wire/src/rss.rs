// SPDX-License-Identifier: BSD-3-Clause
//! Computes the queue that a port with symmetric receive-side scaling chooses for a packet.

use crate::proto;
use std::net::IpAddr;

/// Fields that are hashed for an IP version. A packet without any of them gets the first queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssFields {
    /// Addresses and ports of TCP.
    pub tcp: bool,
    /// Addresses and ports of UDP.
    pub udp: bool,
    /// Addresses and ports of SCTP.
    pub sctp: bool,
    /// Addresses of all other packets.
    pub addresses: bool,
}

/// Distribution of a port's packets over its queues. Both directions of a connection get one queue.
///
/// The hash is Toeplitz. Either the key makes the order of source and destination irrelevant, or
/// the smaller address and the smaller port are hashed first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssSpread {
    hash: Toeplitz,
    /// Queue for each remainder of the hash.
    queues: Vec<u16>,
    /// Hashed fields of IPv4, and of IPv6.
    pub hashed: [RssFields; 2],
}

impl RssSpread {
    /// Returns the distribution by this key, and a queue for each remainder of the hash.
    pub fn new(key: &[u8], queues: Vec<u16>, hashed: [RssFields; 2]) -> Self {
        Self { hash: Toeplitz::new(key), queues, hashed }
    }

    /// Returns the queues by the remainder of the hash.
    pub fn queues(&self) -> &[u16] {
        &self.queues
    }

    /// Returns the queue of the packets between these addresses, of one IP version, and ports. The
    /// ports matter only for TCP, UDP and SCTP. Fragments may get another queue.
    pub fn queue(&self, proto: u8, addresses: [IpAddr; 2], ports: [u16; 2]) -> u16 {
        let [a, b] = addresses;
        let hashed = self.hashed[usize::from(a.is_ipv6())];
        let has_ports = match proto {
            proto::TCP => hashed.tcp,
            proto::UDP => hashed.udp,
            proto::SCTP => hashed.sctp,
            _ => false,
        };
        if !has_ports && !hashed.addresses {
            return self.queues.first().copied().unwrap_or(0);
        }
        let mut hash = Running { tables: &*self.hash.tables, hash: 0 };
        for address in [a.min(b), a.max(b)] {
            match address {
                IpAddr::V4(address) => hash.add(&address.octets()),
                IpAddr::V6(address) => hash.add(&address.octets()),
            }
        }
        if has_ports {
            let [p, q] = ports;
            hash.add(&p.min(q).to_be_bytes());
            hash.add(&p.max(q).to_be_bytes());
        }
        let entry = hash.hash as usize % self.queues.len().max(1);
        self.queues.get(entry).copied().unwrap_or(0)
    }
}

/// Bytes of two IPv6 addresses and two ports.
const INPUT_MAX: usize = 36;

/// What half a byte at a place of the input adds to the hash, by its value.
type HalfByte = [u32; 16];

/// The Toeplitz hash of Microsoft's "RSS hashing functions": for each input bit that is set, it
/// XORs the 32 bits of the key from that place on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Toeplitz {
    /// By half byte of the input, the upper half first.
    tables: Box<[HalfByte; 2 * INPUT_MAX]>,
}

impl Toeplitz {
    fn new(key: &[u8]) -> Self {
        let bit = |at: usize| key.get(at / 8).map_or(0, |byte| u32::from(byte >> (7 - at % 8) & 1));
        let window = |at: usize| (at..at + 32).fold(0, |window, at| window << 1 | bit(at));
        let mut tables = Box::new([[0; 16]; 2 * INPUT_MAX]);
        for (half, table) in tables.iter_mut().enumerate() {
            for (value, hash) in table.iter_mut().enumerate() {
                let set = (0..4).filter(|place| value & 8 >> place != 0);
                *hash = set.fold(0, |hash, place| hash ^ window(4 * half + place));
            }
        }
        Self { tables }
    }
}

/// The hash of a part of the input.
struct Running<'a> {
    /// Those of the bytes that are still to come.
    tables: &'a [HalfByte],
    hash: u32,
}

impl Running<'_> {
    fn add(&mut self, bytes: &[u8]) {
        let (own, rest) = self.tables.split_at(2 * bytes.len());
        for (tables, byte) in own.chunks_exact(2).zip(bytes) {
            self.hash ^= tables[0][usize::from(byte >> 4)] ^ tables[1][usize::from(byte & 15)];
        }
        self.tables = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Of Microsoft's "Verifying the RSS Hash Calculation".
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    const V4: [u8; 8] = [66, 9, 149, 187, 161, 142, 100, 80];
    const PORTS: [u8; 4] = [10, 234, 6, 230];

    fn hash(input: &[u8]) -> u32 {
        let toeplitz = Toeplitz::new(&KEY);
        let mut running = Running { tables: &*toeplitz.tables, hash: 0 };
        running.add(input);
        running.hash
    }

    fn ends() -> ([IpAddr; 2], [u16; 2]) {
        let address =
            |at: usize| Ipv4Addr::from_octets([V4[at], V4[at + 1], V4[at + 2], V4[at + 3]]);
        let port = |at: usize| u16::from_be_bytes([PORTS[at], PORTS[at + 1]]);
        ([address(0).into(), address(4).into()], [port(0), port(2)])
    }

    #[test]
    fn hashes_are_those_of_the_verification_suite() {
        assert_eq!(hash(&V4), 0x323e_8fc2);
        assert_eq!(hash(&[&V4[..], &PORTS].concat()), 0x51cc_c178);
    }

    #[test]
    fn what_is_not_hashed_gets_the_first_queue() {
        let none = RssFields::default();
        let mut spread = RssSpread::new(&KEY, (7..18).collect(), [none; 2]);
        let of = |spread: &RssSpread, proto| spread.queue(proto, ends().0, ends().1);
        assert_eq!([6, 17, 132, 47].map(|proto| of(&spread, proto)), [7; 4]);
        spread.hashed[0].addresses = true;
        let by_address = 7 + (0x323e_8fc2_u32 % 11) as u16;
        assert_eq!([6, 17, 132, 47].map(|proto| of(&spread, proto)), [by_address; 4]);
        spread.hashed[0] = RssFields { tcp: true, ..none };
        // The smaller port first.
        let sorted = hash(&[&V4[..], &[6, 230, 10, 234]].concat());
        assert_eq!(of(&spread, 6), 7 + (sorted % 11) as u16);
        assert_eq!([17, 132, 47].map(|proto| of(&spread, proto)), [7; 3]);
        spread.hashed[0] = RssFields { udp: true, sctp: true, ..none };
        assert_eq!([6, 47].map(|proto| of(&spread, proto)), [7; 2]);
        assert_ne!([17, 132].map(|proto| of(&spread, proto)), [7; 2]);
    }

    #[test]
    fn both_directions_of_ipv6_get_one_queue() {
        let hashed = RssFields { tcp: true, udp: true, sctp: true, addresses: true };
        let spread = RssSpread::new(&KEY, (0..128).collect(), [RssFields::default(), hashed]);
        let address = |seed: u8| Ipv6Addr::from_octets(std::array::from_fn(|i| i as u8 * 7 + seed));
        let [a, b]: [IpAddr; 2] = [address(0).into(), address(112).into()];
        let [p, q] = ends().1;
        let there = spread.queue(proto::UDP, [a, b], [p, q]);
        assert_eq!(there, spread.queue(proto::UDP, [b, a], [q, p]));
        assert_ne!(there, 0);
    }
}
