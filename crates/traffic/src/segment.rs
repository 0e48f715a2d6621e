// SPDX-License-Identifier: BSD-3-Clause
//! Finds the transport segment of a received frame, and verifies its checksums.

use crate::link::{be16, find_packet};
use std::ops::Range;
use wire::checksum::{Crc32c, Sum};
use wire::ethernet::ether_type;
use wire::{icmp::Icmp, ipv4::Ipv4, ipv6::Ipv6, proto, sctp::Sctp, tcp::Tcp, udp::Udp};

/// Bytes of the header of a DATA chunk (RFC 9260 section 3.3.1).
const DATA_CHUNK: usize = 16;

/// UDP port of VXLAN (RFC 7348).
pub(crate) const VXLAN_PORT: u16 = 4789;
/// UDP port of GTP-U (3GPP TS 29.281).
pub(crate) const GTPU_PORT: u16 = 2152;

/// Flag of a VXLAN header: its VNI is valid (RFC 7348 section 5).
pub(crate) const VXLAN_FLAGS: u8 = 0x08;
/// Flags and message type of a GTP-U header: version 1, GTP and not GTP', no optional fields;
/// message G-PDU (TS 29.281 section 5.1).
pub(crate) const GTPU_FLAGS: [u8; 2] = [0x30, 0xff];

/// A transport segment of a received frame.
pub(crate) struct Segment<'a> {
    /// Transport header and payload.
    pub(crate) bytes: &'a [u8],
    pub(crate) header_len: usize,
    pub(crate) protocol: u8,
    /// Sum of the pseudo header; 0 if the protocol has none.
    pseudo: Sum,
    /// True if the IP header is right and the packet is complete.
    pub(crate) is_ip_right: bool,
    /// True if the packet was truncated on the way.
    pub(crate) is_cut: bool,
    /// True if a UDP checksum of 0 is allowed: it means that there is none.
    may_lack_checksum: bool,
}

impl<'a> Segment<'a> {
    /// Finds the segment of a frame. Returns `None` if the protocol is unknown, or if the segment
    /// is not complete.
    #[inline]
    pub(crate) fn find(frame: &'a [u8]) -> Option<Self> {
        Self::find_as::<false>(frame)
    }

    /// Finds the segment of a truncated frame that still has the transport header.
    #[cold]
    pub(crate) fn find_cut(frame: &'a [u8]) -> Option<Self> {
        Self::find_as::<true>(frame)
    }

    #[inline(always)]
    fn find_as<const IS_CUT: bool>(frame: &'a [u8]) -> Option<Self> {
        let (kind, at) = find_packet(frame)?;
        let packet = frame.get(at..)?;
        match kind {
            ether_type::IPV4 => Self::in_ipv4::<IS_CUT>(packet),
            ether_type::IPV6 => Self::in_ipv6::<IS_CUT>(packet),
            _ => None,
        }
    }

    #[inline]
    fn in_ipv4<const IS_CUT: bool>(packet: &'a [u8]) -> Option<Self> {
        let ip = Ipv4::new(packet)?;
        if ip.more_fragments() || ip.fragment_offset() > 0 {
            return None;
        }
        let (header_len, total) = (ip.header_len(), usize::from(ip.total_len()));
        let bytes = arrived::<IS_CUT>(packet, header_len..total)?;
        let header = &packet[..header_len];
        let is_header_right = match header.first_chunk() {
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
        let segment = Self::with_header::<IS_CUT>(bytes, ip.protocol(), pseudo)?;
        let is_ip_right = is_header_right && !IS_CUT;
        Some(Self { is_ip_right, may_lack_checksum: true, ..segment })
    }

    #[inline]
    fn in_ipv6<const IS_CUT: bool>(packet: &'a [u8]) -> Option<Self> {
        let ip = Ipv6::new(packet).filter(|ip| ip.version() == 6)?;
        let end = Ipv6::LEN + usize::from(be16(packet, 4)?);
        let protocol = ip.next_header();
        let bytes = arrived::<IS_CUT>(packet, Ipv6::LEN..end)?;
        let addresses = Sum::default().add_bytes(&packet[8..40]);
        let pseudo = addresses.add_u16(protocol.into()).add_u16(bytes.len() as u16);
        Self::with_header::<IS_CUT>(bytes, protocol, pseudo)
    }

    #[inline(always)]
    fn with_header<const IS_CUT: bool>(bytes: &'a [u8], protocol: u8, pseudo: Sum) -> Option<Self> {
        let header_len = match protocol {
            proto::UDP => Udp::LEN,
            proto::TCP => usize::from(*bytes.get(12)? >> 4) * 4,
            proto::SCTP => Sctp::LEN,
            proto::ICMP | proto::ICMPV6 => Icmp::LEN,
            _ => return None,
        };
        let is_whole = header_len >= Udp::LEN && header_len <= bytes.len();
        is_whole.then_some(Self {
            bytes,
            header_len,
            protocol,
            pseudo,
            is_ip_right: !IS_CUT,
            is_cut: IS_CUT,
            may_lack_checksum: false,
        })
    }

    /// Returns the data of an SCTP packet whose only chunk is DATA (type 0).
    ///
    /// The chunk is padded to a multiple of 4 bytes. Its length does not count the padding (RFC
    /// 9260 section 3.2).
    pub(crate) fn sctp_data(&self) -> Option<&'a [u8]> {
        let len = usize::from(be16(self.bytes, Sctp::LEN + 2)?);
        let padded_end = Sctp::LEN + len.next_multiple_of(4);
        let is_only = match self.is_cut {
            false => padded_end == self.bytes.len(),
            true => padded_end > self.bytes.len(),
        };
        let end = self.bytes.len().min(Sctp::LEN + len);
        let data = self.bytes.get(Sctp::LEN + DATA_CHUNK..end)?;
        (self.bytes[Sctp::LEN] == 0 && is_only).then_some(data)
    }

    /// Returns the segment inside a VXLAN or GTP-U tunnel, and true if everything around it is
    /// right.
    ///
    /// Returns `None` if this is no tunnel. All bytes around are summed, which takes longer than to
    /// verify a segment whose payload has a known sum.
    #[cold]
    pub(crate) fn open_tunnel(&self) -> Option<(Self, bool)> {
        if self.protocol != proto::UDP {
            return None;
        }
        // A reflector exchanges the ports.
        let ports = [be16(self.bytes, 0)?, be16(self.bytes, 2)?];
        let (header, inside) = self.bytes[Udp::LEN..].split_first_chunk::<8>()?;
        let (segment, is_header_right) = if ports.contains(&VXLAN_PORT) {
            let segment = Self::find(inside).or_else(|| Self::find_cut(inside));
            (segment?, header[0] & VXLAN_FLAGS != 0)
        } else if ports.contains(&GTPU_PORT) {
            let is_whole = usize::from(be16(header, 2)?) == inside.len();
            let segment = match inside.first()? >> 4 {
                4 => Self::in_ipv4::<false>(inside).or_else(|| Self::in_ipv4::<true>(inside)),
                _ => Self::in_ipv6::<false>(inside).or_else(|| Self::in_ipv6::<true>(inside)),
            };
            (segment?, header[..2] == GTPU_FLAGS && is_whole)
        } else {
            return None;
        };
        let is_len_right = be16(self.bytes, 4).map(usize::from) == Some(self.bytes.len());
        let sum = || Sum::default().add_bytes(self.bytes);
        let is_around_right = self.is_ip_right && is_len_right && self.is_right(sum);
        Some((segment, is_header_right && is_around_right))
    }

    /// True if the transport checksum is right. `sum` returns the sum of all bytes of the segment.
    #[inline]
    pub(crate) fn is_right(&self, sum: impl FnOnce() -> Sum) -> bool {
        let field = |at: usize| [self.bytes[at], self.bytes[at + 1]];
        match self.protocol {
            proto::SCTP => {
                let (before, crc) = self.bytes[..Sctp::LEN].split_at(8);
                let zeros = Crc32c::default().add_bytes(before).add_bytes(&[0; 4]);
                zeros.add_bytes(&self.bytes[Sctp::LEN..]).finish().to_le_bytes() == *crc
            }
            // No checksum: IPv4 allows that (RFC 768).
            proto::UDP if field(6) == [0, 0] => self.may_lack_checksum,
            _ => (self.pseudo + sum()).is_zero(),
        }
    }
}

/// Returns the bytes of a packet in `range`, or of a truncated packet those that are there.
///
/// Returns `None` if the packet is truncated and `IS_CUT` is false, or the reverse.
#[inline(always)]
fn arrived<const IS_CUT: bool>(packet: &[u8], range: Range<usize>) -> Option<&[u8]> {
    match IS_CUT {
        false => packet.get(range),
        true => packet.get(range.start..).filter(|_| range.end > packet.len()),
    }
}

const _: () = assert!(Tcp::LEN >= Udp::LEN);
