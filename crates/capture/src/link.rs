// SPDX-License-Identifier: BSD-3-Clause
//! Converts captured packets of each link type to the Ethernet frames that the engine reads. It
//! replaces the link header by an Ethernet header with the same EtherType and zero addresses.

use super::CapturedPacket;
use std::fmt;

/// A link type number as in capture files (`LINKTYPE_` in libpcap).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub(super) u16);

/// Lengths of a packet that was appended as an Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes appended.
    pub captured_len: usize,
    /// Bytes of the Ethernet frame before the capture cut it.
    pub frame_len: usize,
    /// Bytes to count: those on the wire, with the packet's own link header.
    pub wire_len: usize,
}

/// The EtherType in a link header, and the offset of the payload.
#[derive(Debug, PartialEq, Eq)]
struct LinkHeader {
    len: usize,
    ether_type: u16,
}

const ETHERNET_HEADER_LEN: usize = 14;
/// The lowest EtherType; smaller values are lengths of IEEE 802.3.
const ETHER_TYPE_MIN: u16 = 0x600;
const ETHER_TYPE_IPV4: u16 = 0x0800;
const ETHER_TYPE_IPV6: u16 = 0x86dd;
/// EtherType for payloads without one: IEEE 802 local experimental, which is not IP.
const ETHER_TYPE_OTHER: u16 = 0x88b5;

impl LinkType {
    const NULL: Self = Self(0);
    const ETHERNET: Self = Self(1);
    const PPP: Self = Self(9);
    /// BSD systems write their own number for [`RAW`](Self::RAW).
    const RAW_FREEBSD: Self = Self(12);
    const RAW_OPENBSD: Self = Self(14);
    const PPP_HDLC: Self = Self(50);
    const RAW: Self = Self(101);
    const C_HDLC: Self = Self(104);
    const LOOP: Self = Self(108);
    const LINUX_SLL: Self = Self(113);
    const IPV4: Self = Self(228);
    const IPV6: Self = Self(229);
    const LINUX_SLL2: Self = Self(276);

    /// True if packets are Ethernet frames.
    pub fn is_ethernet(self) -> bool {
        self == Self::ETHERNET
    }

    fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "BSD loopback",
            1 => "Ethernet",
            6 => "Token Ring",
            7 | 129 => "ARCNET",
            8 => "SLIP",
            9 => "PPP",
            10 => "FDDI",
            12 | 14 | 101 => "raw IP",
            50 => "PPP in HDLC framing",
            51 => "PPPoE",
            100 | 106 | 123 => "ATM",
            104 => "Cisco HDLC",
            105 => "IEEE 802.11",
            107 => "Frame Relay",
            108 => "OpenBSD loopback",
            113 => "Linux cooked",
            117 => "pf log",
            119 => "IEEE 802.11 with Prism header",
            122 => "IP over Fibre Channel",
            127 => "IEEE 802.11 with radiotap header",
            130..=138 | 178..=181 | 183 | 194 | 200 => "Juniper",
            147..=162 => "private use",
            163 => "IEEE 802.11 with AVS header",
            187 | 201 => "Bluetooth HCI",
            189 | 220 | 249 => "USB",
            192 => "per-packet information",
            195 | 215 | 230 | 283 => "IEEE 802.15.4",
            224 => "Fibre Channel",
            226 => "Solaris ipnet",
            228 => "raw IPv4",
            229 => "raw IPv6",
            231 => "D-Bus",
            239 => "Linux netfilter log",
            242 => "IP over InfiniBand",
            253 => "Linux netlink",
            258 => "Apple pktap",
            271 => "vsock monitor",
            276 => "Linux cooked v2",
            281 | 282 | 284 | 285 => "Ethernet with switch tag",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{} ({name})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

impl CapturedPacket<'_> {
    /// Appends the packet to `arena` as an Ethernet frame. Returns `None`, and appends nothing, if
    /// the link type cannot be converted.
    pub fn append_ethernet(&self, arena: &mut Vec<u8>) -> Option<Frame> {
        let wire_len = self.original_len;
        if self.link_type == LinkType::ETHERNET {
            arena.extend_from_slice(self.bytes);
            return Some(Frame { captured_len: self.bytes.len(), frame_len: wire_len, wire_len });
        }
        let Some(LinkHeader { len, ether_type }) = self.link_header()? else {
            // The payload is missing: an empty frame, cut by the capture or by its sender.
            let cut = wire_len > self.bytes.len();
            let frame_len = if cut { wire_len } else { 0 };
            return Some(Frame { captured_len: 0, frame_len, wire_len });
        };
        let payload = &self.bytes[len..];
        arena.extend_from_slice(&[0; ETHERNET_HEADER_LEN - 2]);
        arena.extend_from_slice(&ether_type.to_be_bytes());
        arena.extend_from_slice(payload);
        Some(Frame {
            captured_len: ETHERNET_HEADER_LEN + payload.len(),
            frame_len: ETHERNET_HEADER_LEN + wire_len - len,
            wire_len,
        })
    }

    /// Parses the link header. `None` for an unsupported link type; `Some(None)` if the packet ends
    /// within its link header.
    fn link_header(&self) -> Option<Option<LinkHeader>> {
        let bytes = self.bytes;
        Some(match self.link_type {
            LinkType::RAW | LinkType::RAW_FREEBSD | LinkType::RAW_OPENBSD => raw_ip(bytes),
            LinkType::IPV4 => Some(LinkHeader { len: 0, ether_type: ETHER_TYPE_IPV4 }),
            LinkType::IPV6 => Some(LinkHeader { len: 0, ether_type: ETHER_TYPE_IPV6 }),
            LinkType::NULL | LinkType::LOOP => loopback(bytes),
            LinkType::LINUX_SLL => cooked(bytes, 14, 16),
            LinkType::LINUX_SLL2 => cooked(bytes, 0, 20),
            LinkType::C_HDLC => cooked(bytes, 2, 4),
            LinkType::PPP => ppp(bytes),
            // Address 0xff means PPP; any other means Cisco HDLC (RFC 1547, 4.3.1).
            LinkType::PPP_HDLC if bytes.first() == Some(&0xff) => ppp(bytes),
            LinkType::PPP_HDLC => cooked(bytes, 2, 4),
            _ => return None,
        })
    }
}

/// Parses a packet without link header: its first bits have the version of IP.
fn raw_ip(bytes: &[u8]) -> Option<LinkHeader> {
    let ether_type = if bytes.first()? >> 4 == 6 { ETHER_TYPE_IPV6 } else { ETHER_TYPE_IPV4 };
    Some(LinkHeader { len: 0, ether_type })
}

/// Parses a 32-bit address family in the byte order of the capturing system (in network order for
/// `LOOP`). Families fit 16 bits, which tells the order.
fn loopback(bytes: &[u8]) -> Option<LinkHeader> {
    let (family, _) = bytes.split_first_chunk::<4>()?;
    let family = u32::from_le_bytes(*family);
    let family = if family > 0xffff { family.swap_bytes() } else { family };
    let ether_type = match family {
        2 => ETHER_TYPE_IPV4,
        // Linux, NetBSD and OpenBSD, FreeBSD, macOS.
        10 | 24 | 28 | 30 => ETHER_TYPE_IPV6,
        _ => ETHER_TYPE_OTHER,
    };
    Some(LinkHeader { len: 4, ether_type })
}

/// Parses a header of fixed length with an EtherType in it.
fn cooked(bytes: &[u8], ether_type_at: usize, len: usize) -> Option<LinkHeader> {
    /// IEEE 802.2 LLC, one of the small numbers of Linux for frames without an EtherType.
    const LLC: u16 = 4;
    let header = bytes.get(..len)?;
    let ether_type = u16::from_be_bytes([header[ether_type_at], header[ether_type_at + 1]]);
    let known = ether_type >= ETHER_TYPE_MIN || ether_type == LLC;
    Some(LinkHeader { len, ether_type: if known { ether_type } else { ETHER_TYPE_OTHER } })
}

/// Parses PPP: address and control (which may be omitted), then a protocol of two bytes, or of one
/// byte if that byte is odd (RFC 1661, 2 and 6.5).
fn ppp(bytes: &[u8]) -> Option<LinkHeader> {
    let start = if bytes.starts_with(&[0xff, 0x03]) { 2 } else { 0 };
    let first = *bytes.get(start)?;
    let (protocol, len) = if first & 1 == 1 {
        (u16::from(first), start + 1)
    } else {
        (u16::from_be_bytes([first, *bytes.get(start + 1)?]), start + 2)
    };
    let ether_type = match protocol {
        0x0021 => ETHER_TYPE_IPV4,
        0x0057 => ETHER_TYPE_IPV6,
        _ => ETHER_TYPE_OTHER,
    };
    Some(LinkHeader { len, ether_type })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(link_type: u16, bytes: &[u8]) -> CapturedPacket<'_> {
        let link_type = LinkType(link_type);
        CapturedPacket { time_ns: 0, bytes, original_len: bytes.len(), link_type }
    }

    /// Returns EtherType and payload of the frame that `link` and a payload become.
    fn framed(link_type: u16, link: &[u8]) -> (u16, Vec<u8>) {
        let bytes = [link, &[0x45, 1, 2, 3]].concat();
        let mut arena = vec![9];
        let frame = packet(link_type, &bytes).append_ethernet(&mut arena).unwrap();
        assert_eq!(frame.captured_len, arena.len() - 1);
        assert_eq!(frame.frame_len, frame.captured_len);
        assert_eq!(frame.wire_len, bytes.len());
        (u16::from_be_bytes([arena[13], arena[14]]), arena[15..].to_vec())
    }

    #[test]
    fn every_link_header_gives_way_to_ethernet() {
        let payload = vec![0x45, 1, 2, 3];
        let mut sll = [0; 16];
        sll[14..].copy_from_slice(&[0x86, 0xdd]);
        let mut sll2 = [0; 20];
        sll2[..2].copy_from_slice(&[0x08, 0x00]);
        for (link_type, link, ether_type) in [
            (12, &[][..], 0x0800),
            (14, &[], 0x0800),
            (101, &[], 0x0800),
            (228, &[], 0x0800),
            (229, &[], 0x86dd),
            (0, &[2, 0, 0, 0], 0x0800),
            (0, &[0, 0, 0, 2], 0x0800),
            (0, &[30, 0, 0, 0], 0x86dd),
            (0, &[0, 0, 0, 24], 0x86dd),
            (0, &[7, 0, 0, 0], 0x88b5),
            (108, &[0, 0, 0, 28], 0x86dd),
            (113, &sll, 0x86dd),
            (276, &sll2, 0x0800),
            (104, &[0x0f, 0, 0x08, 0x00], 0x0800),
            (9, &[0xff, 0x03, 0x00, 0x21], 0x0800),
            (9, &[0x00, 0x57], 0x86dd),
            (9, &[0x21], 0x0800),
            (9, &[0xc0, 0x21], 0x88b5),
            (50, &[0xff, 0x03, 0x00, 0x21], 0x0800),
            (50, &[0x8f, 0, 0x86, 0xdd], 0x86dd),
        ] {
            assert_eq!(framed(link_type, link), (ether_type, payload.clone()), "{link_type}");
        }
    }

    #[test]
    fn small_protocol_numbers_are_not_taken_for_lengths_except_llc() {
        let mut sll = [0; 16];
        sll[15] = 4;
        assert_eq!(framed(113, &sll).0, 4);
        sll[15] = 1;
        assert_eq!(framed(113, &sll).0, ETHER_TYPE_OTHER);
    }

    #[test]
    fn a_packet_that_ends_in_its_link_header_becomes_an_empty_frame() {
        for (link_type, len) in [(101, 0), (0, 3), (113, 15), (276, 19), (104, 3), (9, 3), (50, 0)]
        {
            let bytes = &[0xff, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..len];
            let mut packet = packet(link_type, bytes);
            let mut arena = Vec::new();
            let frame = packet.append_ethernet(&mut arena);
            assert_eq!(frame, Some(Frame { captured_len: 0, frame_len: 0, wire_len: len }));
            packet.original_len = 100;
            let frame = packet.append_ethernet(&mut arena);
            assert_eq!(frame, Some(Frame { captured_len: 0, frame_len: 100, wire_len: 100 }));
            assert!(arena.is_empty());
        }
    }

    #[test]
    fn other_link_types_are_left_alone_and_named() {
        let mut arena = Vec::new();
        assert_eq!(packet(127, &[0; 60]).append_ethernet(&mut arena), None);
        assert!(arena.is_empty());
        assert_eq!(LinkType(127).to_string(), "127 (IEEE 802.11 with radiotap header)");
        assert_eq!(LinkType(999).to_string(), "999");
    }
}
