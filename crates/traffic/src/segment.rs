// SPDX-License-Identifier: BSD-3-Clause
//! The transport segment of a frame that arrived, and whether its checksums are right.

use wire::checksum::{Crc32c, Sum};
use wire::ethernet::{Ethernet, ether_type};
use wire::{icmp::Icmp, ipv4::Ipv4, ipv6::Ipv6, proto, sctp::Sctp, tcp::Tcp, udp::Udp, vlan};

/// Bytes of the header of a DATA chunk (RFC 9260 section 3.3.1).
const DATA_CHUNK: usize = 16;

/// A transport segment with its place in the frame.
pub(crate) struct Segment<'a> {
    /// Transport header and payload.
    pub(crate) bytes: &'a [u8],
    pub(crate) header_len: usize,
    pub(crate) protocol: u8,
    /// Of the pseudo header, where the protocol has one.
    pseudo: Sum,
    pub(crate) is_ip_header_right: bool,
    /// Whether a UDP checksum of 0 says that there is none.
    may_lack_checksum: bool,
}

impl<'a> Segment<'a> {
    #[inline]
    /// Finds the segment of a frame; `None` if it has none of a known protocol, or not all of it.
    pub(crate) fn find(frame: &'a [u8]) -> Option<Self> {
        let mut at = Ethernet::LEN;
        let mut kind = be16(frame, 12)?;
        while vlan::is_tag(kind) {
            kind = be16(frame, at + 2)?;
            at += 4;
        }
        let packet = frame.get(at..)?;
        match kind {
            ether_type::IPV4 => Self::in_ipv4(packet),
            ether_type::IPV6 => Self::in_ipv6(packet),
            _ => None,
        }
    }

    #[inline]
    fn in_ipv4(packet: &'a [u8]) -> Option<Self> {
        let ip = Ipv4::new(packet)?;
        if ip.more_fragments() || ip.fragment_offset() > 0 {
            return None;
        }
        let (header_len, total) = (ip.header_len(), usize::from(ip.total_len()));
        let bytes = packet.get(header_len..total)?;
        let header = &packet[..header_len];
        let is_ip_header_right = match header.first_chunk() {
            Some(header) if header_len == Ipv4::LEN => Sum::default().add_header(header).is_zero(),
            _ => Sum::default().add_bytes(header).is_zero(),
        };
        let pseudo = match ip.protocol() {
            proto::ICMP => Sum::default(),
            protocol => {
                let addresses = Sum::default().add_bytes(&header[12..20]);
                addresses.add_u16(protocol.into()).add_u16(bytes.len() as u16)
            }
        };
        let segment = Self::with_header(bytes, ip.protocol(), pseudo, is_ip_header_right)?;
        Some(Self { may_lack_checksum: true, ..segment })
    }

    #[inline]
    fn in_ipv6(packet: &'a [u8]) -> Option<Self> {
        let ip = Ipv6::new(packet).filter(|ip| ip.version() == 6)?;
        let end = Ipv6::LEN + usize::from(be16(packet, 4)?);
        let bytes = packet.get(Ipv6::LEN..end)?;
        let protocol = ip.next_header();
        let addresses = Sum::default().add_bytes(&packet[8..40]);
        let pseudo = addresses.add_u16(protocol.into()).add_u16(bytes.len() as u16);
        Self::with_header(bytes, protocol, pseudo, true)
    }

    #[inline]
    fn with_header(
        bytes: &'a [u8],
        protocol: u8,
        pseudo: Sum,
        is_ip_header_right: bool,
    ) -> Option<Self> {
        let header_len = match protocol {
            proto::UDP => Udp::LEN,
            proto::TCP => usize::from(*bytes.get(12)? >> 4) * 4,
            proto::SCTP if has_data_chunk(bytes) => Sctp::LEN + DATA_CHUNK,
            // Probes as those of TRex have none.
            proto::SCTP => Sctp::LEN,
            proto::ICMP | proto::ICMPV6 => Icmp::LEN,
            _ => return None,
        };
        let least = if protocol == proto::SCTP { Sctp::LEN } else { header_len };
        let is_whole = header_len >= Udp::LEN && least <= bytes.len();
        is_whole.then_some(Self {
            bytes,
            header_len,
            protocol,
            pseudo,
            is_ip_header_right,
            may_lack_checksum: false,
        })
    }

    /// True if the checksum of the transport is right. `sum` is that of all its bytes.
    #[inline]
    pub(crate) fn is_right(&self, sum: impl FnOnce() -> Sum) -> bool {
        let field = |at: usize| [self.bytes[at], self.bytes[at + 1]];
        match self.protocol {
            proto::SCTP => {
                let (before, crc) = self.bytes[..Sctp::LEN].split_at(8);
                let zeros = Crc32c::default().add_bytes(before).add_bytes(&[0; 4]);
                zeros.add_bytes(&self.bytes[Sctp::LEN..]).finish().to_le_bytes() == *crc
            }
            // There is none, which IPv4 allows (RFC 768).
            proto::UDP if field(6) == [0, 0] => self.may_lack_checksum,
            _ => (self.pseudo + sum()).is_zero(),
        }
    }
}

/// True if all of the packet is one DATA chunk, whose type is 0.
#[inline]
fn has_data_chunk(packet: &[u8]) -> bool {
    let len = be16(packet, Sctp::LEN + 2).map(usize::from);
    packet.get(Sctp::LEN) == Some(&0) && len == Some(packet.len() - Sctp::LEN)
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

const _: () = assert!(Tcp::LEN >= Udp::LEN);
