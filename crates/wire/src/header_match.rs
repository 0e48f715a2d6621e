// SPDX-License-Identifier: BSD-3-Clause
//! Owns the fields of untagged IP packets that a device without connections can match.

use std::net::IpAddr;

/// A network: an address whose bits behind the prefix are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// Its first address.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix: u8,
}

impl Network {
    /// True if the address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = |a: u128, b: u128, bits: u32| {
            let behind = bits - u32::from(self.prefix);
            (a ^ b).checked_shr(behind).unwrap_or(0) != 0
        };
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                !differs(own.to_bits().into(), other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => !differs(own.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }

    /// True if the network has one address.
    pub fn is_host(&self) -> bool {
        self.prefix == if self.address.is_ipv4() { 32 } else { 128 }
    }
}

/// Bits that a port must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortMatch {
    /// Their values; 0 where the mask is.
    pub value: u16,
    /// Which bits count; 0 for any port.
    pub mask: u16,
}

impl PortMatch {
    /// Any port.
    pub const ANY: PortMatch = PortMatch { value: 0, mask: 0 };

    /// True if the port has the bits.
    pub fn contains(&self, port: u16) -> bool {
        port & self.mask == self.value
    }

    /// Returns matches for exactly the ports of a range, as few as possible.
    pub fn of_range([first, last]: [u16; 2]) -> Vec<PortMatch> {
        let (mut at, last) = (u32::from(first), u32::from(last));
        let mut matches = Vec::new();
        while at <= last {
            // The largest aligned block that begins here and ends in the range.
            let aligned = at.trailing_zeros().min(16);
            let fits = (last - at + 1).ilog2();
            let bits = aligned.min(fits);
            let mask = (u32::from(u16::MAX) << bits) as u16;
            matches.push(PortMatch { value: at as u16, mask });
            at += 1 << bits;
        }
        matches
    }
}

/// Fields of an IP packet without tags, extension headers and fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderMatch {
    /// Network of the source. Both networks have one IP version, which the packet must have.
    pub src: Network,
    /// Network of the destination.
    pub dst: Network,
    /// Protocol; `None` for any, and then any port.
    pub proto: Option<u8>,
    /// Source port.
    pub sport: PortMatch,
    /// Destination port.
    pub dport: PortMatch,
}

impl HeaderMatch {
    /// True if a packet with these fields matches.
    pub fn contains(&self, [src, dst]: [IpAddr; 2], proto: u8, [sport, dport]: [u16; 2]) -> bool {
        self.src.contains(src)
            && self.dst.contains(dst)
            && self.proto.is_none_or(|own| own == proto)
            && self.sport.contains(sport)
            && self.dport.contains(dport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_of_a_range_have_exactly_its_ports(a: u16, b: u16, port: u16) {
            let range = [a.min(b), a.max(b)];
            let matches = PortMatch::of_range(range);
            prop_assert!(matches.len() <= 30);
            let [first, last] = range;
            for port in [port, first, last, first.wrapping_sub(1), last.wrapping_add(1)] {
                let found = matches.iter().filter(|part| part.contains(port)).count();
                prop_assert_eq!(found, usize::from(range[0] <= port && port <= range[1]));
            }
        }

        #[test]
        fn a_network_has_the_addresses_with_its_prefix(
            bits: u128, other: u128, prefix in 0..=128_u8,
        ) {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            let of = |bits: u128| IpAddr::V6(bits.into());
            let network = Network { address: of(bits & mask), prefix };
            prop_assert!(network.contains(of(bits)));
            prop_assert_eq!(network.contains(of(other)), (bits ^ other) & mask == 0);
            let short = u32::from(prefix / 4);
            let mask = u32::MAX.checked_shl(32 - short).unwrap_or(0);
            let [bits, other] = [bits as u32, other as u32];
            let of = |bits: u32| IpAddr::V4(bits.into());
            let network = Network { address: of(bits & mask), prefix: short as u8 };
            prop_assert_eq!(network.contains(of(other)), (bits ^ other) & mask == 0);
            prop_assert!(!network.contains(IpAddr::V6(0.into())));
        }
    }
}
