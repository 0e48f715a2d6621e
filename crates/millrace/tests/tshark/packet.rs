// SPDX-License-Identifier: BSD-3-Clause
//! One packet as tshark sees it: the fields it printed, and the flow that follows from them.
//!
//! Only the outermost IP header counts. Of a field that occurs more than once the first value is
//! meant: what follows behind an ICMP error's header is a quote.

use crate::chain::Transport;
use crate::tally::{End, Icmp, Tuple, is_icmp, request_of};
use std::fmt;
use std::net::IpAddr;

/// What tshark is asked to print of every packet, in one line each.
pub(crate) const FIELDS: [&str; 57] = [
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
    "ip.id",
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
    "ipv6.fraghdr.ident",
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
    "data.data",
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

impl Packet {
    pub(crate) fn parse(line: &str) -> Self {
        let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        assert_eq!(fields.len(), FIELDS.len(), "tshark printed {line:?}");
        Self(fields)
    }

    /// Every value of a field, outermost first.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
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

    /// Bytes on the wire: those that the capture claims or, if these are more, those it holds.
    pub(crate) fn frame_len(&self) -> u64 {
        let claimed = self.number("frame.len").expect("every frame has a length");
        claimed.max(self.captured_len())
    }

    /// Whether the capture claims fewer bytes than it holds.
    pub(crate) fn claims_less(&self) -> bool {
        self.number("frame.len") < self.number("frame.cap_len")
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
    pub(crate) fn ip_protocols(&self) -> impl Iterator<Item = &str> {
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

    pub(crate) fn is_ipv4(&self) -> bool {
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

    /// Whether the length of an IPv6 packet is in its hop-by-hop header (RFC 2675).
    pub(crate) fn is_jumbogram(&self) -> bool {
        self.number("ipv6.plen") == Some(0) && self.number("ipv6.nxt") == Some(0)
    }

    /// The length that a flow counts: that of IP, or the frame's behind the link header where it is
    /// a jumbogram.
    pub(crate) fn ip_len(&self) -> Option<u64> {
        if self.is_ipv4() {
            self.number("ip.len")
        } else if self.is_jumbogram() {
            Some(self.frame_len() - self.link_len()?)
        } else {
            self.number("ipv6.plen").map(|len| 40 + len)
        }
    }

    /// Whether this is the first of several fragments, in which lengths may point beyond it.
    pub(crate) fn is_first_fragment(&self) -> bool {
        let more = if self.is_ipv4() { "ip.flags.mf" } else { "ipv6.fraghdr.more" };
        self.all(more).next().is_some_and(|more| ["1", "True"].contains(&more))
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

    /// Two bytes of what tshark was told not to look into: GRE, whose tunnels would be
    /// conversations as well, and ESP.
    fn payload_u16(&self, at: usize) -> Option<u16> {
        let hex = self.all("data.data").next()?.get(2 * at..2 * at + 4)?;
        u16::from_str_radix(hex, 16).ok()
    }

    /// Four of them.
    fn payload_u32(&self, at: usize) -> Option<u32> {
        Some(u32::from(self.payload_u16(at)?) << 16 | u32::from(self.payload_u16(at + 2)?))
    }

    /// Bytes of a GRE header up to the end of its key or, without one that tells tunnels apart (as
    /// in version 1), of what every one has.
    pub(crate) fn gre_len(&self) -> u64 {
        match self.payload_u16(0) {
            Some(flags) if flags & 0x2007 == 0x2000 && flags & 0xc000 == 0 => 8,
            Some(flags) if flags & 0x2007 == 0x2000 => 12,
            _ => 4,
        }
    }

    /// Whether it is an ICMP message that quotes a packet.
    pub(crate) fn is_icmp_error(&self) -> bool {
        let (field, kinds): (_, &[u64]) = if self.is_ipv4() {
            ("icmp.type", &[3, 4, 5, 11, 12])
        } else {
            ("icmpv6.type", &[1, 2, 3, 4])
        };
        self.is_icmp() && self.number(field).is_some_and(|kind| kinds.contains(&kind))
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
        tuple = match proto {
            47 if self.gre_len() == 4 => tuple.with_number(0),
            47 => tuple.with_number(self.payload_u32(self.gre_len() as usize - 4)?),
            50 => tuple.with_number(self.payload_u32(0)?),
            _ => tuple,
        };
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

    pub(crate) fn ports(&self, protocol: &str) -> Option<[u16; 2]> {
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

    pub(crate) fn zone(&self) -> u16 {
        let outermost = match self.link_protocols().find(|protocol| is_tag(protocol)) {
            Some("vlan") => self.number("vlan.id"),
            Some(_) => self.number("ieee8021ad.id"),
            None => None,
        };
        outermost.unwrap_or(0) as u16
    }
}

pub(crate) fn is_ip(protocol: &str) -> bool {
    ["ip", "ipv6"].contains(&protocol)
}

fn is_tag(protocol: &str) -> bool {
    ["vlan", "ieee8021ad"].contains(&protocol)
}

pub(crate) fn parse_number(text: &str) -> u64 {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("tshark printed {text:?} for a number"))
}
