// SPDX-License-Identifier: BSD-3-Clause
//! Owns IP protocol numbers (IANA), as in the IPv4 protocol and the IPv6 next header fields.

/// IPv6 hop-by-hop options, RFC 8200 4.3.
pub const HOP_BY_HOP: u8 = 0;
/// ICMP, RFC 792.
pub const ICMP: u8 = 1;
/// TCP, RFC 9293.
pub const TCP: u8 = 6;
/// UDP, RFC 768.
pub const UDP: u8 = 17;
/// IPv6 routing header, RFC 8200 4.4.
pub const ROUTING: u8 = 43;
/// IPv6 fragment header, RFC 8200 4.5.
pub const FRAGMENT: u8 = 44;
/// GRE, RFC 2784.
pub const GRE: u8 = 47;
/// Encapsulating security payload, RFC 4303.
pub const ESP: u8 = 50;
/// Authentication header, RFC 4302.
pub const AUTH: u8 = 51;
/// ICMPv6, RFC 4443.
pub const ICMPV6: u8 = 58;
/// No next header, RFC 8200 4.7.
pub const NO_NEXT: u8 = 59;
/// IPv6 destination options, RFC 8200 4.6.
pub const DEST_OPTIONS: u8 = 60;
/// SCTP, RFC 9260.
pub const SCTP: u8 = 132;
/// For experiments, RFC 3692.
pub const EXPERIMENT: u8 = 253;
