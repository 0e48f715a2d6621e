// SPDX-License-Identifier: BSD-3-Clause
//! IP protocol numbers (IANA).

/// Whether ends have ports, and not something else in their place.
pub(crate) fn has_ports(proto: u8) -> bool {
    !matches!(proto, PROTO_ICMP | PROTO_ICMPV6 | PROTO_GRE | PROTO_ESP)
}

/// IP protocol numbers with a life cycle of their own.
pub(crate) const PROTO_ICMP: u8 = 1;

pub(crate) const PROTO_TCP: u8 = 6;

pub(crate) const PROTO_UDP: u8 = 17;

pub(crate) const PROTO_SCTP: u8 = 132;

/// Those with a number of their own in the place of ports.
pub(crate) const PROTO_GRE: u8 = 47;

pub(crate) const PROTO_ESP: u8 = 50;

pub(crate) const PROTO_ICMPV6: u8 = 58;
