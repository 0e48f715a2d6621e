// SPDX-License-Identifier: BSD-3-Clause
//! Owns the filter of connections by zone, protocol, ends, state, mark and label.
//!
//! Cheap criteria are checked first, addresses last.

use super::ct_mark::{CtMark, MaskedBits};
use super::flow_record::FlowRecord;
use super::ip_proto::has_ports;
use super::proto_state::ProtoState;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Criteria that a connection must meet. `None` matches everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Zone of the connection.
    pub zone: Option<u16>,
    /// IP protocol number.
    pub proto: Option<u8>,
    /// Protocol state.
    pub proto_state: Option<ProtoState>,
    /// Bits of the connection mark.
    pub mark: Option<MaskedBits>,
    /// Bits of the label.
    pub label: Option<MaskedBits>,
    /// Criteria for the originator.
    pub src: EndpointMatch,
    /// Criteria for the responder.
    pub dst: EndpointMatch,
    /// Criteria that one of the two ends must meet: address and port of the same end.
    pub either: EndpointMatch,
}

/// Criteria for one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointMatch {
    /// Prefix that contains the address.
    pub address: Option<Prefix>,
    /// Port. Numbers that ICMP, GRE and ESP have in the place of ports never match.
    pub port: Option<u16>,
}

/// A network: the addresses of one IP version that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// Error: the text is not a [`Prefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixError;

/// Address and port of one end; no port if the protocol has none.
type OneEnd = (IpAddr, Option<u16>);

impl Prefix {
    /// Returns the network of the first `len` bits of `address`; `None` if `len` exceeds the
    /// address.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        (len <= bits(address)).then_some(Self { address, len })
    }

    /// True for a network of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Returns the network address, and the mask of its fixed bits.
    pub(crate) fn bits(&self) -> (IpAddr, IpAddr) {
        let left = |all: u32| all.saturating_sub(self.len.into());
        match self.address {
            IpAddr::V4(of) => {
                let mask = u32::MAX.checked_shl(left(32)).unwrap_or(0);
                let octets = |bits: u32| IpAddr::from(bits.to_be_bytes());
                (octets(of.to_bits() & mask), octets(mask))
            }
            IpAddr::V6(of) => {
                let mask = u128::MAX.checked_shl(left(128)).unwrap_or(0);
                let octets = |bits: u128| IpAddr::from(bits.to_be_bytes());
                (octets(of.to_bits() & mask), octets(mask))
            }
        }
    }

    /// True if the network contains this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let len = u32::from(self.len);
        match (self.address, address) {
            (IpAddr::V4(of), IpAddr::V4(address)) => {
                let differ = of.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= len
            }
            (IpAddr::V6(of), IpAddr::V6(address)) => {
                let differ = of.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= len
            }
            _ => false,
        }
    }
}

/// Returns the number of bits of an address: 32 or 128.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        Self { address, len: bits(address) }
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let Some((address, len)) = text.split_once('/') else {
            return text.parse::<IpAddr>().map(Self::from).map_err(|_| PrefixError);
        };
        let is_number = !len.is_empty() && len.bytes().all(|byte| byte.is_ascii_digit());
        let len = len.parse().ok().filter(|_| is_number).ok_or(PrefixError)?;
        Self::new(address.parse().map_err(|_| PrefixError)?, len).ok_or(PrefixError)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self { address, len } = *self;
        if len == bits(address) { write!(f, "{address}") } else { write!(f, "{address}/{len}") }
    }
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("write ADDRESS or ADDRESS/LENGTH, of at most 32 bits (IPv6: 128)")
    }
}

impl std::error::Error for PrefixError {}

impl EndpointMatch {
    pub(crate) fn is_any(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn matches(&self, (address, port): OneEnd) -> bool {
        self.port.is_none_or(|expected| port == Some(expected))
            && self.address.is_none_or(|expected| expected.contains(address))
    }
}

impl Filter {
    /// True if the filter matches every connection.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// True if the filter matches the connection of this flow record. If it has ended, its protocol
    /// state is the last one.
    pub fn matches_record(&self, record: &FlowRecord) -> bool {
        let port = |port| has_ports(record.proto).then_some(port);
        self.matches_kind(record.zone, record.proto, Some(record.proto_state))
            && self.matches_mark(record.ct_mark)
            && self.matches_ends((record.src, port(record.sport)), (record.dst, port(record.dport)))
    }

    pub(crate) fn matches_kind(
        &self,
        zone: u16,
        proto: u8,
        proto_state: Option<ProtoState>,
    ) -> bool {
        self.zone.is_none_or(|expected| expected == zone)
            && self.proto.is_none_or(|expected| expected == proto)
            && (self.proto_state.is_none() || self.proto_state == proto_state)
    }

    pub(crate) fn matches_ends(&self, src: OneEnd, dst: OneEnd) -> bool {
        self.src.matches(src)
            && self.dst.matches(dst)
            && (self.either.matches(src) || self.either.matches(dst))
    }
}

impl Filter {
    /// True if the filter has criteria for the mark or the label.
    pub(crate) fn has_mark_criteria(&self) -> bool {
        self.mark.is_some() || self.label.is_some()
    }

    /// True if the filter matches this mark and label.
    pub(crate) fn matches_mark(&self, CtMark { mark, label }: CtMark) -> bool {
        self.mark.is_none_or(|bits| bits.matches(mark.into()))
            && self.label.is_none_or(|bits| bits.matches(label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_written() {
        for text in ["10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32", "::1", "::/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        assert_eq!("10.0.0.1/32".parse::<Prefix>().unwrap().to_string(), "10.0.0.1");
        assert_eq!("::1/128".parse::<Prefix>().unwrap().to_string(), "::1");
        for text in ["", "/8", "10.0.0.1/", "10.0.0.1/33", "::/129", "10.0.0/8", "1.2.3.4/+8"] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError), "{text}");
        }
    }

    #[test]
    fn a_prefix_has_the_addresses_with_its_bits() {
        let has = |prefix: &str, address: &str| {
            prefix.parse::<Prefix>().unwrap().contains(address.parse().unwrap())
        };
        assert!(has("10.1.2.3/8", "10.255.0.0") && !has("10.0.0.0/8", "11.0.0.0"));
        assert!(has("10.0.0.0/31", "10.0.0.1") && !has("10.0.0.0/31", "10.0.0.2"));
        assert!(has("0.0.0.0/0", "255.1.2.3") && !has("0.0.0.0/0", "::"));
        assert!(has("10.0.0.1", "10.0.0.1") && !has("10.0.0.1", "10.0.0.0"));
        assert!(has("2001:db8::/33", "2001:db8:7fff::1") && !has("::/0", "0.0.0.0"));
        assert!(!has("2001:db8::/33", "2001:db8:8000::"));
        assert!(has("::1", "::1") && !has("::1", "::2"));
    }
}
