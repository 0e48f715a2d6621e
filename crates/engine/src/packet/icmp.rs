// SPDX-License-Identifier: BSD-3-Clause
//! Classifies messages of ICMP (RFC 792, RFC 950) and ICMPv6 (RFC 4443) by type.
//!
//! There are errors, and exchanges of a request and its reply, which have an identifier.

use super::key::{Key, L4Id};
use crate::api::{PROTO_ICMP, PROTO_ICMPV6};

/// True if a message is an error about a packet that it quotes (RFC 792, RFC 4443).
pub(crate) fn is_error(proto: u8, kind: u8) -> bool {
    match proto {
        PROTO_ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
        _ => proto == PROTO_ICMPV6 && (1..=4).contains(&kind),
    }
}

/// True if a message is of neighbour discovery (types 133 to 137, RFC 4861) or of multicast
/// listener discovery (130 to 132, RFC 2710; 143, RFC 3810).
///
/// Linux leaves the same untracked, except redirects, which it calls invalid (`noct_valid_new` in
/// nf_conntrack_proto_icmpv6.c).
pub(crate) fn is_neighbour_discovery(proto: u8, kind: u8) -> bool {
    proto == PROTO_ICMPV6 && matches!(kind, 130..=137 | 143)
}

/// Returns the type of the reply to a request, or of the request to a reply.
fn counterpart(proto: u8, kind: u8) -> Option<u8> {
    match (proto, kind) {
        (PROTO_ICMP, 8) => Some(0),
        (PROTO_ICMP, 0) => Some(8),
        (PROTO_ICMP, 13 | 15 | 17) => Some(kind + 1),
        (PROTO_ICMP, 14 | 16 | 18) => Some(kind - 1),
        (PROTO_ICMPV6, 128) => Some(129),
        (PROTO_ICMPV6, 129) => Some(128),
        _ => None,
    }
}

/// True if a message is the reply to a request.
pub(crate) fn is_reply(proto: u8, kind: u8) -> bool {
    matches!((proto, kind), (PROTO_ICMP, 0 | 14 | 16 | 18) | (PROTO_ICMPV6, 129))
}

/// True if a message has an identifier.
pub(crate) fn has_identifier(proto: u8, kind: u8) -> bool {
    counterpart(proto, kind).is_some()
}

impl<const W: usize> Key<W> {
    /// Returns type and code of ICMP in what one end sends: the second end if `swapped` is 1.
    pub(crate) fn icmp(&self, swapped: u8) -> [u8; 2] {
        let [kind, code] = self.parts().high_port.to_be_bytes();
        match swapped {
            0 => [kind, code],
            _ => [counterpart(self.proto(), kind).unwrap_or(kind), code],
        }
    }
}

/// Returns what takes the place of ports in the key.
///
/// Each end of an exchange has the type that it sends. So if both ends send requests with one
/// identifier, these are two connections.
pub(crate) fn icmp_ports(proto: u8, [kind, code]: [u8; 2], [high, low]: [u8; 2]) -> L4Id {
    match counterpart(proto, kind) {
        Some(other) => L4Id::Exchange([high, low, kind, code], [high, low, other, code]),
        None => L4Id::Common([0, 0, kind, code]),
    }
}
