// SPDX-License-Identifier: BSD-3-Clause
//! One packet as tshark sees it: the fields it printed, and the flow that follows from them.
//!
//! Only the outermost IP header counts. Of a field that occurs more than once the first value is
//! meant: what follows behind an ICMP error's header is a quote.

use crate::tally::{End, Icmp, Tuple, is_icmp, request_of};
use std::fmt;
use std::net::IpAddr;

/// What tshark is asked to print of every packet, in one line each.
pub(crate) const FIELDS: [&str; 54] = [
    "frame.number",
    "frame.len",
    "frame.cap_len",
    "frame.encap_type",
    "frame.protocols",
    "_ws.malformed",
    "_ws.short",
    "ppp.address",
    "eth.len",
    "eth.invalid_lentype",
    "ieee8021ad.id",
    "vlan.id",
    "vlan.len",
    "ip.bogus_ip_version",
    "ip.hdr_len",
    "ip.len",
    "ip.flags.mf",
    "ip.frag_offset",
    "ip.proto",
    "ip.src",
    "ip.dst",
    "ipv6.bogus_ipv6_version",
    "ipv6.plen",
    "ipv6.nxt",
    "ipv6.src",
    "ipv6.dst",
    "ipv6.hopopts.nxt",
    "ipv6.hopopts.len",
    "ipv6.routing.nxt",
    "ipv6.routing.len",
    "ipv6.routing.segleft",
    "ipv6.routing.src.addr",
    "ipv6.routing.srh.addr",
    "ipv6.dstopts.nxt",
    "ipv6.dstopts.len",
    "ipv6.fraghdr.nxt",
    "ipv6.fraghdr.offset",
    "ipv6.fraghdr.more",
    "ah.next_header",
    "ah.length",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.hdr_len",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "sctp.srcport",
    "sctp.dstport",
    "icmp.type",
    "icmp.code",
    "icmp.ident",
    "icmpv6.type",
    "icmpv6.code",
    "icmpv6.echo.identifier",
];

/// Link types that `millrace` reads: Wireshark's number for each (`WTAP_ENCAP_`), and the length of
/// the header.
const LINKS: [(u64, u64); 10] = [
    (ETHERNET, 14),
    (PPP, 2), // without the address that may be in front
    (RAW_IP, 0),
    (15, 4),   // BSD loopback
    (25, 16),  // Linux cooked
    (28, 4),   // Cisco HDLC
    (129, 0),  // raw IPv4
    (130, 0),  // raw IPv6
    (174, 4),  // OpenBSD loopback
    (210, 20), // Linux cooked v2
];
const ETHERNET: u64 = 1;
const PPP: u64 = 4;
const RAW_IP: u64 = 7;

/// The IPv6 Mobility header (RFC 6275).
const MOBILITY: u8 = 135;

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
/// How tshark calls them where it runs out of bytes in one.
const EXTENSION_NAMES: [&str; 5] =
    ["AH", "IPv6 Destination", "IPv6 Fragment", "IPv6 Hop-by-Hop", "IPv6 Routing"];
/// Most extension headers that `millrace` follows, and their bytes.
const EXTENSIONS_MAX: usize = 8;
const EXTENSION_BYTES_MAX: u64 = 256;
/// What `millrace` reads of an extension header, whatever its kind.
const EXTENSION_HEAD: u64 = 8;

/// A packet's fields, in the order of [`FIELDS`]; the values of one are joined with commas.
#[derive(Clone)]
pub(crate) struct Packet(Vec<String>);

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = FIELDS.iter().zip(&self.0).filter(|(_, values)| !values.is_empty());
        f.debug_map().entries(fields).finish()
    }
}

/// The flow that tshark's fields give.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) tuple: Tuple,
    pub(crate) from: End,
}

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
    pub(crate) fn parse(line: &str) -> Self {
        let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        assert_eq!(fields.len(), FIELDS.len(), "tshark printed {line:?}");
        Self(fields)
    }

    /// Every value of a field, outermost first.
    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let index = FIELDS.iter().position(|field| *field == name).expect("a field of the list");
        self.0[index].split(',').filter(|value| !value.is_empty())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// The first value of a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.all(name).next().map(parse_number)
    }

    /// Bytes on the wire.
    pub(crate) fn frame_len(&self) -> u64 {
        self.number("frame.len").expect("every frame has a length")
    }

    /// Bytes in the capture.
    pub(crate) fn captured_len(&self) -> u64 {
        self.number("frame.cap_len").expect("every frame has a length")
    }

    fn protocols(&self) -> impl Iterator<Item = &str> {
        self.all("frame.protocols").flat_map(|protocols| protocols.split(':'))
    }

    /// What tshark found in front of the outermost IP header, or at all.
    fn link_protocols(&self) -> impl Iterator<Item = &str> {
        self.protocols().take_while(|protocol| !is_ip(protocol))
    }

    /// What tshark found from the outermost IP header on.
    fn ip_protocols(&self) -> impl Iterator<Item = &str> {
        self.protocols().skip_while(|protocol| !is_ip(protocol))
    }

    /// Bytes in front of the IP header; `None` for a link type that `millrace` does not read.
    pub(crate) fn link_len(&self) -> Option<u64> {
        let encapsulation = self.number("frame.encap_type")?;
        let (_, len) = LINKS.iter().find(|(number, _)| *number == encapsulation)?;
        let address = if self.has("ppp.address") { 2 } else { 0 };
        Some(len + address + 4 * self.tags() as u64)
    }

    /// VLAN tags in front of the IP header.
    pub(crate) fn tags(&self) -> usize {
        self.link_protocols().filter(|protocol| is_tag(protocol)).count()
    }

    /// Whether the link layer says LLC, by its own dissector or by a length instead of a type.
    pub(crate) fn is_llc(&self) -> bool {
        let lengths = ["eth.len", "eth.invalid_lentype", "vlan.len"];
        self.link_protocols().any(|protocol| protocol == "llc")
            || lengths.iter().any(|field| self.has(field))
    }

    /// The IP header that tshark found, however bad. One of the other version than its EtherType
    /// says is handed over to the dissector of that version.
    fn ip(&self) -> Option<&str> {
        let mut protocols = self.ip_protocols();
        let first = protocols.next();
        protocols.next().filter(|second| is_ip(second)).or(first)
    }

    pub(crate) fn has_ip(&self) -> bool {
        self.ip().is_some()
    }

    fn is_ipv4(&self) -> bool {
        self.ip() == Some("ip")
    }

    /// Whether the version of IP is not the one that the link header says.
    pub(crate) fn has_wrong_version(&self) -> bool {
        let is_handed_over = self.ip_protocols().nth(1).is_some_and(is_ip);
        let is_unknown = self.number("frame.encap_type") == Some(RAW_IP) && !self.has_ip();
        let flags = ["ip.bogus_ip_version", "ipv6.bogus_ipv6_version"];
        // tshark goes no further if it does not know the version; a flag with addresses is about
        // the packet that an ICMP error quotes.
        let has_flag = flags.iter().any(|flag| self.has(flag));
        is_handed_over || is_unknown || has_flag && self.addresses().is_none()
    }

    /// Where the IP header that the link header announces ends, options apart. Raw IP of neither
    /// version counts as IPv4.
    pub(crate) fn ip_end(&self) -> Option<u64> {
        let announced = self.ip_protocols().next();
        let raw = self.number("frame.encap_type") == Some(RAW_IP);
        let len = match announced {
            Some("ip") => 20,
            Some(_) => 40,
            None if self.has("ipv6.bogus_ipv6_version") => 40,
            None if self.has("ip.bogus_ip_version") || raw => 20,
            None => return None,
        };
        Some(self.link_len()? + len)
    }

    /// Source and destination of the IP header, if tshark got that far.
    pub(crate) fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        let fields = if self.is_ipv4() { ["ip.src", "ip.dst"] } else { ["ipv6.src", "ipv6.dst"] };
        let [src, dst] = fields.map(|field| self.all(field).next().map(str::parse));
        Some((src?.expect("an address"), dst?.expect("an address")))
    }

    /// The length that a flow counts: that of IP, or the frame's behind the link header where a
    /// jumbogram has none (RFC 2675).
    pub(crate) fn ip_len(&self) -> Option<u64> {
        if self.is_ipv4() {
            return self.number("ip.len");
        }
        match (self.number("ipv6.plen")?, self.number("ipv6.nxt")?) {
            (0, 0) => Some(self.frame_len() - self.link_len()?),
            (len, _) => Some(40 + len),
        }
    }

    /// Whether this is the first of several fragments, in which lengths may point beyond it.
    pub(crate) fn is_first_fragment(&self) -> bool {
        let more = if self.is_ipv4() { "ip.flags.mf" } else { "ipv6.fraghdr.more" };
        self.all(more).next().is_some_and(|more| ["1", "True"].contains(&more))
    }

    /// The ends of the IP packet as tshark's conversations of IP have them.
    pub(crate) fn ip_conversation(&self) -> Option<[End; 2]> {
        let (src, dst) = self.addresses()?;
        let is_counted = if self.is_ipv4() {
            let end = self.link_len()? + self.number("ip.hdr_len")?;
            self.captured_len() >= end
        } else {
            let chain = self.chain();
            // Which tshark takes for an extension header, and forgets the conversation over it.
            let is_mobility = matches!(chain, Chain::Transport(t) if t.proto == MOBILITY);
            !is_mobility && chain != Chain::Fragment && !self.gives_up_in(&EXTENSION_NAMES)
        };
        is_counted.then_some([(src, 0), (dst, 0)])
    }

    /// The transport protocol and its ends as tshark's conversations have them.
    pub(crate) fn transport_conversation(&self) -> Option<(u8, [End; 2])> {
        let (src, dst) = (self.addresses()?.0, self.final_destination()?);
        let mut behind = self.ip_protocols().filter(|protocol| !is_ip(protocol));
        let (proto, name) =
            match behind.find(|protocol| !protocol.starts_with("ipv6.") && *protocol != "ah")? {
                "tcp" if self.number("tcp.hdr_len")? >= 20 => (6, "tcp"),
                // IPv6 has datagrams of length 0, jumbograms.
                "udp" if self.number("udp.length")? >= 8 => (17, "udp"),
                "udp" if self.number("udp.length")? == 0 && !self.is_ipv4() => (17, "udp"),
                "sctp" => (132, "sctp"),
                _ => return None,
            };
        // A header that ends too early.
        if self.transport().is_some_and(|transport| match proto {
            17 => transport.captured < 8,
            132 => transport.captured <= 12 || self.gives_up_in(&["SCTP"]),
            _ => false,
        }) {
            return None;
        }
        let [sport, dport] = self.ports(name)?;
        Some((proto, [(src, sport), (dst, dport)]))
    }

    /// Whether TCP options go beyond the packet or its capture.
    pub(crate) fn ends_in_tcp_options(&self) -> bool {
        self.transport().is_some_and(|transport| {
            let header_len = self.number("tcp.hdr_len");
            transport.proto == 6 && header_len.is_some_and(|len| len > transport.captured)
        })
    }

    /// Whether tshark ran out of bytes in one of these headers.
    fn gives_up_in(&self, names: &[&str]) -> bool {
        let marks = self.all("_ws.malformed").chain(self.all("_ws.short"));
        let mut places = marks.filter_map(|mark| mark.split_once(": "));
        places.any(|(_, place)| names.iter().any(|name| place.starts_with(name)))
    }

    /// The last address of a routing header that is not used up (RFC 8200 section 4.4, RFC 8754);
    /// tshark's conversations of transport protocols go there.
    fn final_destination(&self) -> Option<IpAddr> {
        let (_, dst) = self.addresses()?;
        let last = match self.number("ipv6.routing.segleft") {
            None | Some(0) => None,
            Some(_) => {
                let segments = self.all("ipv6.routing.srh.addr").next();
                segments.or(self.all("ipv6.routing.src.addr").last())
            }
        };
        Some(last.map_or(dst, |address| address.parse().expect("an address")))
    }

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

    /// Whether the transport protocol is the ICMP of the IP version.
    pub(crate) fn is_icmp(&self) -> bool {
        let Some((src, _)) = self.addresses() else { return false };
        self.transport().is_some_and(|transport| is_icmp(transport.proto, src))
    }

    /// The type of an ICMP message, if it is one that has an identifier.
    pub(crate) fn has_icmp_identifier(&self) -> bool {
        let (field, proto) = if self.is_ipv4() { ("icmp.type", 1) } else { ("icmpv6.type", 58) };
        self.number(field).is_some_and(|kind| request_of(proto, kind as u8).is_some())
    }

    /// The flow, if tshark found both addresses and what tells flows of this protocol apart.
    pub(crate) fn flow(&self) -> Option<Flow> {
        let (src, dst) = self.addresses()?;
        let Transport { proto, .. } = self.transport()?;
        let [sport, dport] = match proto {
            6 => self.ports("tcp")?,
            17 => self.ports("udp")?,
            132 => self.ports("sctp")?,
            _ => [0, 0],
        };
        let (from, to) = ((src, sport), (dst, dport));
        let mut tuple = Tuple::new(proto, self.zone(), from, to);
        if is_icmp(proto, src) {
            tuple = tuple.with_icmp(self.icmp(proto)?);
        }
        Some(Flow { tuple, from })
    }

    /// The flow between the packet's addresses with this protocol and these ports, or type and code
    /// of an ICMP message without identifier.
    pub(crate) fn flow_with(&self, proto: u8, ports: [u16; 2]) -> Flow {
        let (src, dst) = self.addresses().expect("an IP packet has addresses");
        if is_icmp(proto, src) {
            let [kind, code] = ports.map(|value| value as u8);
            let tuple = Tuple::new(proto, self.zone(), (src, 0), (dst, 0));
            let tuple = tuple.with_icmp(Icmp { kind, code, identifier: 0 });
            return Flow { tuple, from: (src, 0) };
        }
        let (from, to) = ((src, ports[0]), (dst, ports[1]));
        Flow { tuple: Tuple::new(proto, self.zone(), from, to), from }
    }

    fn ports(&self, protocol: &str) -> Option<[u16; 2]> {
        let number = |end| self.number(&format!("{protocol}.{end}")).map(|port| port as u16);
        Some([number("srcport")?, number("dstport")?])
    }

    fn icmp(&self, proto: u8) -> Option<Icmp> {
        let [kind, code, identifier] = match proto {
            1 => ["icmp.type", "icmp.code", "icmp.ident"],
            _ => ["icmpv6.type", "icmpv6.code", "icmpv6.echo.identifier"],
        };
        let (kind, code) = (self.number(kind)? as u8, self.number(code)? as u8);
        let identifier =
            if self.has_icmp_identifier() { self.number(identifier)? as u16 } else { 0 };
        Some(Icmp { kind, code, identifier })
    }

    fn zone(&self) -> u16 {
        let outermost = match self.link_protocols().find(|protocol| is_tag(protocol)) {
            Some("vlan") => self.number("vlan.id"),
            Some(_) => self.number("ieee8021ad.id"),
            None => None,
        };
        outermost.unwrap_or(0) as u16
    }
}

fn is_ip(protocol: &str) -> bool {
    ["ip", "ipv6"].contains(&protocol)
}

fn is_tag(protocol: &str) -> bool {
    ["vlan", "ieee8021ad"].contains(&protocol)
}

fn parse_number(text: &str) -> u64 {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("tshark printed {text:?} for a number"))
}
