// SPDX-License-Identifier: BSD-3-Clause
//! Owns the flow key: sorted addresses and ports, protocol and zone, in 64-bit words.
//!
//! Both directions of a connection have the same key: the end with the smaller (address, port)
//! comes first. A bit beside the key says whether the other end sent a packet. Equal addresses are
//! ordered by port. "Smaller" refers to words in the processor's byte order; any order would do,
//! and this one needs no byte swapping. Keys of whole words are compared and hashed without a
//! branch. IPv4 and IPv6 differ only in the number of words.

use crate::api::{FiveTuple, PROTO_ICMP, PROTO_ICMPV6};
use crate::base::Columns;
use std::net::IpAddr;

/// A flow key of `W` words: 2 for IPv4, 5 for IPv6. The last word holds ports, zone and protocol.
#[derive(Clone, Copy, Debug, Eq)]
#[repr(transparent)]
pub(crate) struct Key<const W: usize>(pub(crate) [u64; W]);

pub(crate) type Key4 = Key<2>;

pub(crate) type Key6 = Key<5>;

const _: () = assert!(size_of::<Key4>() == 16 && size_of::<Key6>() == 40);

/// Identifier of the two ends of a packet beside their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum L4Id {
    /// TCP, UDP, SCTP: source and destination port in header order.
    Pair([u8; 4]),
    /// A number of both ends, which is not sorted. GRE: the key. ESP: the SPI. ICMP without an
    /// identifier: 0, then type and code.
    Common([u8; 4]),
    /// ICMP: identifier, type and code, as the source and as the destination send them.
    Exchange([u8; 4], [u8; 4]),
}

impl L4Id {
    /// Returns the value as seen from the source, and as seen from the destination.
    #[inline(always)]
    fn both_ways(self) -> (u32, u32) {
        match self {
            L4Id::Pair(bytes) => {
                let forth = u32::from_ne_bytes(bytes);
                (forth, forth.rotate_left(16))
            }
            L4Id::Common(bytes) => (u32::from_ne_bytes(bytes), u32::from_ne_bytes(bytes)),
            L4Id::Exchange(forth, back) => (u32::from_ne_bytes(forth), u32::from_ne_bytes(back)),
        }
    }
}

/// Returns zone and protocol at their bits in the last word.
#[inline(always)]
pub(crate) fn zone_proto(zone: u16, proto: u8) -> u64 {
    u64::from(zone) << 32 | u64::from(proto) << 48
}

/// Returns the key of an IPv4 packet, and whether its source is the second end of the key.
///
/// `addresses` are source and destination in header order.
#[inline(always)]
pub(crate) fn key4(addresses: [u8; 8], ports: L4Id, zone_proto: u64) -> (Key4, bool) {
    let forth = u64::from_ne_bytes(addresses);
    let back = forth.rotate_left(32);
    let (ports_forth, ports_back) = ports.both_ways();
    let swapped = if forth == back { ports_forth > ports_back } else { forth > back };
    let pair = if swapped { ports_back } else { ports_forth };
    (Key([forth.min(back), u64::from(pair) | zone_proto]), swapped)
}

/// Returns the key of an IPv6 packet, and whether its source is the second end of the key.
///
/// `addresses` are source and destination in header order.
#[inline(always)]
pub(crate) fn key6(addresses: &[u8; 32], ports: L4Id, zone_proto: u64) -> (Key6, bool) {
    // Read byte by byte, each word would be assembled in vectors, shuffle by shuffle.
    let word = |at: usize| {
        let bytes = addresses[at..].first_chunk().expect("8 bytes of 32");
        u64::from_ne_bytes(*bytes)
    };
    let (src, dst) = ([word(0), word(8)], [word(16), word(24)]);
    let (ports_forth, ports_back) = ports.both_ways();
    // The order of the ends is unpredictable, so no branch depends on it.
    let by_port = ports_forth > ports_back;
    let by_low_half = (src[1] > dst[1]) | (src[1] == dst[1]) & by_port;
    let swapped = (src[0] > dst[0]) | (src[0] == dst[0]) & by_low_half;
    let mask = u64::from(swapped).wrapping_neg();
    let high = (src[0] ^ dst[0]) & mask;
    let low = (src[1] ^ dst[1]) & mask;
    let pair = u64::from(ports_forth ^ ports_back) & mask ^ u64::from(ports_forth);
    (Key([src[0] ^ high, src[1] ^ low, dst[0] ^ high, dst[1] ^ low, pair | zone_proto]), swapped)
}

/// The parts of a key.
pub(crate) struct KeyParts {
    pub(crate) low: IpAddr,
    pub(crate) high: IpAddr,
    /// Port of `low`, the ICMP identifier, or the upper half of a GRE key or an SPI.
    pub(crate) low_port: u16,
    /// Port of `high`, the ICMP type * 256 + code of what `low` sends, or the lower half.
    pub(crate) high_port: u16,
    pub(crate) zone: u16,
    pub(crate) proto: u8,
}

/// Compares without a branch or a call; the derived comparison of five words has both.
impl<const W: usize> PartialEq for Key<W> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

impl<const W: usize> Key<W> {
    /// Returns key `i` of a burst.
    #[inline(always)]
    pub(crate) fn from_words(words: &Columns<W>, i: usize) -> Self {
        Key(std::array::from_fn(|word| words[word][i]))
    }

    /// Stores the key as key `i` of a burst.
    #[inline(always)]
    pub(crate) fn to_words(self, words: &mut Columns<W>, i: usize) {
        for (column, word) in words.iter_mut().zip(self.0) {
            column[i] = word;
        }
    }

    /// Returns the words of two ends in this order, each an address and a port, with zone and
    /// protocol.
    ///
    /// The result is a key only if the smaller end is first.
    pub(crate) fn laid_out(ends: [(&[u8], u16); 2], zone_proto: u64) -> Self {
        let mut words = [0; W];
        let addresses = ends.map(|(address, _)| address).concat();
        for (word, bytes) in words.iter_mut().zip(addresses.chunks_exact(8)) {
            *word = u64::from_ne_bytes(std::array::from_fn(|i| bytes[i]));
        }
        let [[a, b], [c, d]] = ends.map(|(_, port)| port.to_be_bytes());
        words[W - 1] = u64::from(u32::from_ne_bytes([a, b, c, d])) | zone_proto;
        Key(words)
    }

    /// Returns the key in another zone.
    #[inline(always)]
    pub(crate) fn in_zone(mut self, zone: u16) -> Self {
        let last = &mut self.0[W - 1];
        *last = *last & !zone_proto(u16::MAX, 0) | zone_proto(zone, 0);
        self
    }

    /// IP protocol number of this IP version's ICMP. The other version's ICMP is a protocol like
    /// any other.
    pub(crate) const ICMP: u8 = if W > 2 { PROTO_ICMPV6 } else { PROTO_ICMP };

    /// Returns the IP protocol number.
    #[inline(always)]
    pub(crate) fn proto(&self) -> u8 {
        (self.0[W - 1] >> 48) as u8
    }

    /// Returns the zone.
    #[inline(always)]
    pub(crate) fn zone(&self) -> u16 {
        (self.0[W - 1] >> 32) as u16
    }

    /// Returns the address of one end: the second end if `swapped` is 1.
    pub(crate) fn end(&self, swapped: u8) -> IpAddr {
        let KeyParts { low, high, .. } = self.parts();
        if swapped == 1 { high } else { low }
    }

    /// Returns the five-tuple of one direction of TCP or UDP; the sender is the second end if
    /// `swapped`.
    pub(crate) fn tuple(&self, swapped: bool) -> FiveTuple {
        let KeyParts { low, high, low_port, high_port, zone, proto } = self.parts();
        let (low, high) = ((low, low_port), (high, high_port));
        let ((src, sport), (dst, dport)) = if swapped { (high, low) } else { (low, high) };
        FiveTuple { src, dst, proto, sport, dport, zone }
    }

    pub(crate) fn parts(&self) -> KeyParts {
        let words = &self.0;
        let v6 = |i: usize| {
            let halves = [words[i].to_ne_bytes(), words[i + 1].to_ne_bytes()];
            let bytes: [u8; 16] = std::array::from_fn(|byte| halves[byte / 8][byte % 8]);
            IpAddr::from(bytes)
        };
        let (low, high) = if W == 5 {
            (v6(0), v6(2))
        } else {
            let [a, b, c, d, e, f, g, h] = words[0].to_ne_bytes();
            (IpAddr::from([a, b, c, d]), IpAddr::from([e, f, g, h]))
        };
        let last = words[W - 1];
        let [a, b, c, d] = (last as u32).to_ne_bytes();
        KeyParts {
            low,
            high,
            low_port: u16::from_be_bytes([a, b]),
            high_port: u16::from_be_bytes([c, d]),
            zone: (last >> 32) as u16,
            proto: self.proto(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(sport: u16, dport: u16) -> L4Id {
        let ([a, b], [c, d]) = (sport.to_be_bytes(), dport.to_be_bytes());
        L4Id::Pair([a, b, c, d])
    }

    /// Two addresses side by side, as in a header.
    fn ends<const N: usize, const N2: usize>(src: [u8; N], dst: [u8; N]) -> [u8; N2] {
        std::array::from_fn(|i| if i < N { src[i] } else { dst[i - N] })
    }

    #[test]
    fn equal_addresses_are_ordered_by_port() {
        let address: [u8; 8] = ends([7; 4], [7; 4]);
        let forth = key4(address, pair(1, 2), 0);
        let back = key4(address, pair(2, 1), 0);
        assert_eq!(forth.0, back.0);
        assert_ne!(forth.1, back.1);
        assert!(!key4(address, pair(1, 1), 0).1);
    }

    #[test]
    fn icmp_identifier_is_not_sorted() {
        let (request, reply) = ([0, 99, 8, 0], [0, 99, 0, 0]);
        for [a, b] in [[[1; 4], [2; 4]], [[2; 4], [1; 4]], [[1; 4], [1; 4]]] {
            let forth = key4(ends(a, b), L4Id::Exchange(request, reply), 0);
            let back = key4(ends(b, a), L4Id::Exchange(reply, request), 0);
            assert_eq!(forth.0, back.0);
            assert_ne!(forth.1, back.1);
            assert_eq!(forth.0.parts().low_port, 99);
            let of_low = if forth.1 { reply } else { request };
            assert_eq!(forth.0.parts().high_port, u16::from_be_bytes([of_low[2], of_low[3]]));
            let other = key4(ends(b, a), L4Id::Exchange(request, reply), 0);
            assert_eq!(other.0 == forth.0, a == b, "both may ask");
        }
    }

    /// Checks that the parts of a key are the two ends, in the order that `swapped` says.
    fn check<const W: usize, A: Into<IpAddr> + Copy>(
        (forth, swapped): (Key<W>, bool),
        (back, other): (Key<W>, bool),
        ends: [(A, u16); 2],
    ) {
        assert_eq!(forth, back);
        let [src, dst] = ends.map(|(address, port)| (address.into(), port));
        assert!(swapped != other || src == dst);
        let parts = forth.parts();
        let (low, high) = if swapped { (dst, src) } else { (src, dst) };
        assert_eq!((parts.low, parts.low_port), low);
        assert_eq!((parts.high, parts.high_port), high);
    }

    proptest! {
        #[test]
        fn both_directions_share_a_key_and_parts_come_back(
            src: [u8; 16], dst: [u8; 16], sport: u16, dport: u16, zone: u16, proto: u8,
            shared in 0..=16_usize,
        ) {
            let mut dst = dst;
            dst[..shared].copy_from_slice(&src[..shared]);
            let last = zone_proto(zone, proto);
            let forth = key6(&ends(src, dst), pair(sport, dport), last);
            let back = key6(&ends(dst, src), pair(dport, sport), last);
            check(forth, back, [(src, sport), (dst, dport)]);
            let parts = forth.0.parts();
            prop_assert_eq!((parts.zone, parts.proto), (zone, proto));

            let [src, dst] = [src, dst].map(|a| [a[0], a[1], a[2], a[3]]);
            let forth = key4(ends(src, dst), pair(sport, dport), last);
            let back = key4(ends(dst, src), pair(dport, sport), last);
            check(forth, back, [(src, sport), (dst, dport)]);
            let parts = forth.0.parts();
            prop_assert_eq!((parts.zone, parts.proto), (zone, proto));
        }
    }
}
