// SPDX-License-Identifier: BSD-3-Clause
//! The flow key: sorted addresses and ports, protocol and zone as 64-bit words.
//!
//! Both directions of a connection have the same key: the endpoint with the smaller (address,
//! port) comes first, and a bit beside the key says whether a packet came from the other one. Equal
//! addresses are thereby ordered by port. One key of whole words is compared and hashed without a
//! branch; IPv4 and IPv6 differ only in the number of words.

use crate::BURST_MAX;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A flow key of `W` words: 2 for IPv4, 5 for IPv6. The last word is ports, zone and protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Key<const W: usize>(pub(crate) [u64; W]);

/// The keys of a burst, word by word: what the vector units read is contiguous.
pub(crate) type KeyWords<const W: usize> = [[u64; BURST_MAX]; W];

pub(crate) type Key4 = Key<2>;
pub(crate) type Key6 = Key<5>;

const _: () = assert!(size_of::<Key4>() == 16 && size_of::<Key6>() == 40);

/// What the two ends of a packet have beside their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// TCP, UDP, SCTP: source and destination port.
    Pair(u16, u16),
    /// ICMP: identifier, and type * 256 + code with replies folded onto their request. They belong
    /// to the packet, not to its ends, so they are not sorted.
    Icmp(u16, u16),
}

impl Ports {
    /// What takes part in the order of the ends.
    #[inline(always)]
    fn sortable(self) -> (u16, u16) {
        match self {
            Ports::Pair(src, dst) => (src, dst),
            Ports::Icmp(..) => (0, 0),
        }
    }
}

/// Zone and protocol in their place in the last word.
#[inline(always)]
pub(crate) fn zone_proto(zone: u16, proto: u8) -> u64 {
    u64::from(zone) << 32 | u64::from(proto) << 48
}

/// Key of a packet, and whether its source is the second end of the key.
#[inline(always)]
pub(crate) fn key4(src: u32, dst: u32, ports: Ports, zone_proto: u64) -> (Key4, bool) {
    let (sport, dport) = ports.sortable();
    let (a, b) = (u64::from(src) << 16 | u64::from(sport), u64::from(dst) << 16 | u64::from(dport));
    let swapped = a > b;
    let (low, high) = (a.min(b), a.max(b));
    let pair = match ports {
        Ports::Pair(..) => low & 0xffff | (high & 0xffff) << 16,
        Ports::Icmp(id, kind) => u64::from(id) | u64::from(kind) << 16,
    };
    (Key([low >> 16 | high >> 16 << 32, pair | zone_proto]), swapped)
}

/// Key of a packet, and whether its source is the second end of the key.
#[inline(always)]
pub(crate) fn key6(src: u128, dst: u128, ports: Ports, zone_proto: u64) -> (Key6, bool) {
    let (sport, dport) = ports.sortable();
    let swapped = (src, sport) > (dst, dport);
    let (low, high) = if swapped { (dst, src) } else { (src, dst) };
    let (low_port, high_port) = match ports {
        Ports::Pair(..) if swapped => (dport, sport),
        Ports::Pair(..) => (sport, dport),
        Ports::Icmp(id, kind) => (id, kind),
    };
    let last = u64::from(low_port) | u64::from(high_port) << 16 | zone_proto;
    (Key([(low >> 64) as u64, low as u64, (high >> 64) as u64, high as u64, last]), swapped)
}

/// The parts of a key, for flow records.
pub(crate) struct KeyParts {
    pub(crate) low: IpAddr,
    pub(crate) high: IpAddr,
    /// Port of `low`, or the ICMP identifier.
    pub(crate) low_port: u16,
    /// Port of `high`, or the ICMP type * 256 + code of the request.
    pub(crate) high_port: u16,
    pub(crate) zone: u16,
    pub(crate) proto: u8,
}

impl<const W: usize> Key<W> {
    /// Key `i` of a burst.
    #[inline(always)]
    pub(crate) fn from_words(words: &KeyWords<W>, i: usize) -> Self {
        Key(std::array::from_fn(|word| words[word][i]))
    }

    /// Makes it key `i` of a burst.
    #[inline(always)]
    pub(crate) fn to_words(self, words: &mut KeyWords<W>, i: usize) {
        for (column, word) in words.iter_mut().zip(self.0) {
            column[i] = word;
        }
    }

    /// IP protocol number.
    #[inline(always)]
    pub(crate) fn proto(&self) -> u8 {
        (self.0[W - 1] >> 48) as u8
    }

    pub(crate) fn parts(&self) -> KeyParts {
        let words = &self.0;
        let v6 = |i: usize| {
            let value = u128::from(words[i]) << 64 | u128::from(words[i + 1]);
            IpAddr::V6(Ipv6Addr::from_bits(value))
        };
        let v4 = |bits: u64| IpAddr::V4(Ipv4Addr::from_bits(bits as u32));
        let (low, high) = if W == 5 { (v6(0), v6(2)) } else { (v4(words[0]), v4(words[0] >> 32)) };
        let last = words[W - 1];
        KeyParts {
            low,
            high,
            low_port: last as u16,
            high_port: (last >> 16) as u16,
            zone: (last >> 32) as u16,
            proto: self.proto(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_addresses_are_ordered_by_port() {
        let forth = key4(7, 7, Ports::Pair(1, 2), 0);
        let back = key4(7, 7, Ports::Pair(2, 1), 0);
        assert_eq!(forth.0, back.0);
        assert_eq!((forth.1, back.1), (false, true));
        let same = key4(7, 7, Ports::Pair(1, 1), 0);
        assert!(!same.1);
    }

    #[test]
    fn icmp_identifier_is_not_sorted() {
        let forth = key4(1, 2, Ports::Icmp(99, 0x0800), 0);
        let back = key4(2, 1, Ports::Icmp(99, 0x0800), 0);
        assert_eq!(forth.0, back.0);
        assert_ne!(forth.1, back.1);
        assert_eq!(forth.0.parts().low_port, 99);
        assert_eq!(forth.0.parts().high_port, 0x0800);
    }

    proptest! {
        #[test]
        fn both_directions_share_a_key_and_parts_come_back(
            src: u128, dst: u128, sport: u16, dport: u16, zone: u16, proto: u8,
        ) {
            let last = zone_proto(zone, proto);
            let (forth, swapped) = key6(src, dst, Ports::Pair(sport, dport), last);
            let (back, other) = key6(dst, src, Ports::Pair(dport, sport), last);
            prop_assert_eq!(forth, back);
            prop_assert!(swapped != other || (src, sport) == (dst, dport));
            let parts = forth.parts();
            let low = (IpAddr::V6(Ipv6Addr::from_bits(src)), sport);
            let high = (IpAddr::V6(Ipv6Addr::from_bits(dst)), dport);
            let (low, high) = if swapped { (high, low) } else { (low, high) };
            prop_assert_eq!((parts.low, parts.low_port), low);
            prop_assert_eq!((parts.high, parts.high_port), high);
            prop_assert_eq!((parts.zone, parts.proto), (zone, proto));

            let (src, dst) = (src as u32, dst as u32);
            let (forth, swapped) = key4(src, dst, Ports::Pair(sport, dport), last);
            let (back, _) = key4(dst, src, Ports::Pair(dport, sport), last);
            prop_assert_eq!(forth, back);
            let parts = forth.parts();
            let low = (IpAddr::V4(Ipv4Addr::from_bits(src)), sport);
            let high = (IpAddr::V4(Ipv4Addr::from_bits(dst)), dport);
            let (low, high) = if swapped { (high, low) } else { (low, high) };
            prop_assert_eq!((parts.low, parts.low_port), low);
            prop_assert_eq!((parts.high, parts.high_port), high);
            prop_assert_eq!((parts.zone, parts.proto), (zone, proto));
        }
    }
}
