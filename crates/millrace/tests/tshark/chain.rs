// SPDX-License-Identifier: BSD-3-Clause
//! From the IP header to the transport header by the values tshark prints, as far as `millrace`
//! follows.

use crate::packet::{Packet, parse_number};

/// A kind of IPv6 extension header. Its length is `unit` bytes times the value of a field, and 8.
struct Extension {
    proto: u8,
    /// Fields.
    next: &'static str,
    len: Option<&'static str>,
    unit: u64,
}

const EXTENSIONS: [Extension; 5] = [
    Extension { proto: 0, next: "ipv6.hopopts.nxt", len: Some("ipv6.hopopts.len"), unit: 8 },
    Extension { proto: 43, next: "ipv6.routing.nxt", len: Some("ipv6.routing.len"), unit: 8 },
    Extension { proto: 44, next: "ipv6.fraghdr.nxt", len: None, unit: 0 },
    Extension { proto: 51, next: "ah.next_header", len: Some("ah.length"), unit: 4 },
    Extension { proto: 60, next: "ipv6.dstopts.nxt", len: Some("ipv6.dstopts.len"), unit: 8 },
];
/// Most extension headers that `millrace` follows, and their bytes.
const EXTENSIONS_MAX: usize = 8;
const EXTENSION_BYTES_MAX: u64 = 256;
/// What `millrace` reads of an extension header, whatever its kind.
const EXTENSION_HEAD: u64 = 8;

/// Where the headers behind the IP header lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    /// To a transport header.
    Transport(Transport),
    /// To a fragment other than the first.
    Fragment,
    /// Further than `millrace` follows.
    TooLong,
    /// Beyond the IP packet.
    Truncated,
    /// Beyond what was captured.
    Cut,
    /// To a header that tshark does not take for one.
    Unseen,
}

/// What there is of the transport header and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transport {
    pub(crate) proto: u8,
    /// Bytes in the IP packet, and of these in the capture.
    pub(crate) len: u64,
    pub(crate) captured: u64,
}

impl Packet {
    /// Follows the headers behind IP, once both addresses are known to be there.
    pub(crate) fn chain(&self) -> Chain {
        if !self.is_ipv4() {
            return self.ipv6_chain().unwrap_or(Chain::Unseen);
        }
        let number = |name| self.number(name).unwrap_or(0);
        match number("ip.frag_offset") {
            0 => self.transport_behind(number("ip.proto") as u8, number("ip.hdr_len")),
            _ => Chain::Fragment,
        }
    }

    /// The transport header behind this many bytes of IP headers.
    fn transport_behind(&self, proto: u8, headers: u64) -> Chain {
        let len = self.ip_len().unwrap_or(0).saturating_sub(headers);
        let start = self.link_len().unwrap_or(0) + headers;
        let captured = self.captured_len().saturating_sub(start).min(len);
        Chain::Transport(Transport { proto, len, captured })
    }

    fn ipv6_chain(&self) -> Option<Chain> {
        let mut proto = self.number("ipv6.nxt")? as u8;
        let end = self.ip_len()?.saturating_sub(40);
        let captured = self.captured_len().saturating_sub(self.link_len()? + 40);
        let mut seen = [0; EXTENSIONS.len()];
        let (mut at, mut followed) = (0, 0);
        while let Some(kind) = EXTENSIONS.iter().position(|extension| extension.proto == proto) {
            let Extension { next, len, unit, .. } = EXTENSIONS[kind];
            if followed == EXTENSIONS_MAX {
                return Some(Chain::TooLong);
            }
            if at + EXTENSION_HEAD > end {
                return Some(Chain::Truncated);
            }
            if at + EXTENSION_HEAD > captured {
                return Some(Chain::Cut);
            }
            let value = |field| self.all(field).nth(seen[kind]).map(parse_number);
            let units = len.map_or(Some(0), value)?;
            if len.is_none() && value("ipv6.fraghdr.offset")? > 0 {
                return Some(Chain::Fragment);
            }
            proto = value(next)? as u8;
            at += units * unit + EXTENSION_HEAD;
            if at > end {
                return Some(Chain::Truncated);
            }
            if at > EXTENSION_BYTES_MAX {
                return Some(Chain::TooLong);
            }
            seen[kind] += 1;
            followed += 1;
        }
        Some(self.transport_behind(proto, 40 + at))
    }

    pub(crate) fn transport(&self) -> Option<Transport> {
        match self.chain() {
            Chain::Transport(transport) => Some(transport),
            _ => None,
        }
    }
}
