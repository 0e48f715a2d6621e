// SPDX-License-Identifier: BSD-3-Clause
//! Owns the IP protocol numbers that the engine distinguishes (IANA).

/// True if the protocol has ports, and not another number in their place.
pub(crate) fn has_ports(proto: u8) -> bool {
    !matches!(proto, PROTO_ICMP | PROTO_ICMPV6 | PROTO_GRE | PROTO_ESP)
}

/// Protocols with states of their own.
pub(crate) const PROTO_ICMP: u8 = 1;

pub(crate) const PROTO_TCP: u8 = 6;

pub(crate) const PROTO_UDP: u8 = 17;

pub(crate) const PROTO_SCTP: u8 = 132;

/// Protocols with another number in the place of ports.
pub(crate) const PROTO_GRE: u8 = 47;

pub(crate) const PROTO_ESP: u8 = 50;

pub(crate) const PROTO_ICMPV6: u8 = 58;
