// SPDX-License-Identifier: BSD-3-Clause
//! From the IP header to the transport header by the values tshark prints, as far as `millrace`
//! follows.

use crate::datagrams::Part;
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

/// Fragments begin at multiples of this.
const UNIT: u64 = 8;
/// No datagram is longer.
const DATAGRAM_MAX: u64 = 65_535;
const TCP: u8 = 6;

/// Whether no fragment is so long, behind so many bytes of headers.
fn is_odd(part: Part, before: u64) -> bool {
    let Part { start, end, has_more, .. } = part;
    start == end || has_more && end % UNIT != 0 || before + end > DATAGRAM_MAX
}

/// Where the headers behind the IP header lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chain {
    /// To a transport header.
    Transport(Transport),
    /// To a fragment other than the first.
    Fragment,
    /// To a fragment of a length that none can have.
    FragmentLength,
    /// Beyond the first fragment, or to one that would overwrite headers in it.
    FragmentTiny,
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
        let (proto, header_len) = (number("ip.proto") as u8, number("ip.hdr_len"));
        match self.part() {
            // RFC 3128.
            Some(Part { start: UNIT, .. }) if proto == TCP => Chain::FragmentTiny,
            Some(part) if is_odd(part, header_len) => Chain::FragmentLength,
            Some(part) if part.start > 0 => Chain::Fragment,
            _ => self.transport_behind(proto, header_len),
        }
    }

    /// The part that a fragment has of its datagram; of IPv6, if headers up to there are not too
    /// many. `None` for a packet that is whole.
    pub(crate) fn part(&self) -> Option<Part> {
        if !self.is_ipv4() {
            return self.follow_ipv6()?.1.map(|(part, _)| part);
        }
        let id = self.number("ip.id")?;
        let (start, has_more) = (self.number("ip.frag_offset")? * UNIT, self.is_first_fragment());
        let len = self.ip_len()?.saturating_sub(self.number("ip.hdr_len")?);
        let part = Part { id, start, end: start + len, has_more };
        (start > 0 || has_more).then_some(part)
    }

    /// The transport header behind this many bytes of IP headers.
    fn transport_behind(&self, proto: u8, headers: u64) -> Chain {
        let len = self.ip_len().unwrap_or(0).saturating_sub(headers);
        let start = self.link_len().unwrap_or(0) + headers;
        let captured = self.captured_len().saturating_sub(start).min(len);
        Chain::Transport(Transport { proto, len, captured })
    }

    /// Where the headers of IPv6 lead to.
    fn ipv6_chain(&self) -> Option<Chain> {
        let (chain, part) = self.follow_ipv6()?;
        let is_short = |chain| matches!(chain, Chain::Truncated);
        Some(match part {
            // RFC 2675.
            Some((part, before)) if is_odd(part, before) => Chain::FragmentLength,
            Some(_) if is_short(chain) => Chain::FragmentTiny,
            Some(_) if self.is_jumbogram() => Chain::FragmentLength,
            Some((part, _)) if part.start > 0 => Chain::Fragment,
            _ => chain,
        })
    }

    /// The same, and what part a fragment is, behind so many bytes of headers.
    fn follow_ipv6(&self) -> Option<(Chain, Option<(Part, u64)>)> {
        let mut part = None;
        let chain = self.follow_extensions(&mut part)?;
        Some((chain, part))
    }

    fn follow_extensions(&self, part: &mut Option<(Part, u64)>) -> Option<Chain> {
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
            if len.is_none() {
                if part.is_some() {
                    return Some(Chain::Truncated);
                }
                let (start, id) =
                    (value("ipv6.fraghdr.offset")? * UNIT, value("ipv6.fraghdr.ident")?);
                let has_more = self.all("ipv6.fraghdr.more").nth(seen[kind])?;
                let has_more = ["1", "True"].contains(&has_more);
                let end = start + end.saturating_sub(at + EXTENSION_HEAD);
                if start > 0 || has_more {
                    *part = Some((Part { id, start, end, has_more }, at));
                }
                if start > 0 {
                    return Some(Chain::Fragment);
                }
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

    /// The transport header that tshark looks at, also in fragments that cannot be.
    pub(crate) fn dissected(&self) -> Option<Transport> {
        let number = |name| self.number(name).unwrap_or(0);
        let chain = match self.is_ipv4() {
            true if number("ip.frag_offset") > 0 => Chain::Fragment,
            true => self.transport_behind(number("ip.proto") as u8, number("ip.hdr_len")),
            false => self.follow_ipv6()?.0,
        };
        match chain {
            Chain::Transport(transport) => Some(transport),
            _ => None,
        }
    }

    pub(crate) fn transport(&self) -> Option<Transport> {
        match self.chain() {
            Chain::Transport(transport) => Some(transport),
            _ => None,
        }
    }
}
