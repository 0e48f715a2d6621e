// SPDX-License-Identifier: BSD-3-Clause
//! Converts the fields of a [`FrameBuilder`] to bytes.
//!
//! It begins with the innermost header, because lengths and checksums depend on the inner ones.

use super::{FrameBuilder, IcmpKind, Network, TcpFields, Transport};
use crate::checksum::{self, Sum};
use crate::ethernet::ether_type;
use crate::{icmp, ipv4::Ipv4, proto, sctp::Sctp, tcp::Tcp, udp::Udp};

impl FrameBuilder {
    /// Returns the bytes of the frame, without FCS.
    pub fn build(&self) -> Vec<u8> {
        let packet = self.build_packet();
        let mut frame = [self.dst_mac, self.src_mac].concat();
        for (announced_by, control) in &self.tags {
            frame.extend(announced_by.to_be_bytes());
            frame.extend(control.to_be_bytes());
        }
        let ether_type = match self.network {
            Network::Link(Some(ether_type)) => ether_type,
            Network::Link(None) => packet.len() as u16,
            Network::V4(..) => ether_type::IPV4,
            Network::V6(..) => ether_type::IPV6,
        };
        frame.extend(ether_type.to_be_bytes());
        frame.extend(packet);
        frame.resize(frame.len().max(self.min_len), 0);
        frame
    }

    /// Returns fragments of the datagram, each with at most `len` bytes of it.
    ///
    /// In IPv6, each fragment also has the extension headers added so far.
    ///
    /// # Panics
    /// If `len` is 0 or not a multiple of 8, or if the frame is a fragment already.
    #[track_caller]
    pub fn fragments(&self, len: usize) -> Vec<FrameBuilder> {
        assert!(len > 0 && len % 8 == 0, "fragments of {len} bytes");
        let segment = self.segment();
        let number = self.protocol_number();
        let cut = |(which, part): (usize, &[u8])| {
            let (offset, end) = (which * len, which * len + part.len());
            let piece = Self { transport: Transport::Raw(number), ..self.clone() };
            piece.payload(part).fragment(offset, end < segment.len())
        };
        segment.chunks(len).enumerate().map(cut).collect()
    }

    /// Returns the bytes of the packet behind the Ethernet header, never padded. An ICMP error can
    /// quote them.
    pub fn build_packet(&self) -> Vec<u8> {
        match self.network {
            Network::Link(_) => self.payload.clone(),
            Network::V4(..) => self.ipv4_packet(),
            Network::V6(..) => self.ipv6_packet(),
        }
    }

    fn ipv4_packet(&self) -> Vec<u8> {
        let Network::V4(src, dst) = self.network else { unreachable!("only called for IPv4") };
        let mut options = self.ip.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        let segment = self.segment();
        let header_len = Ipv4::LEN + options.len();
        let words = self.ip.header_words.unwrap_or((header_len / 4) as u8);
        let len = self.ip.len.unwrap_or((header_len + segment.len()) as u16);
        let (offset, more) = self.ip.fragment;
        let flags = u16::from(self.ip.dont_fragment) << 14 | u16::from(more) << 13;

        let mut packet = vec![self.ip.version.unwrap_or(4) << 4 | words & 15, self.ip.tos];
        packet.extend(len.to_be_bytes());
        packet.extend((self.ip.id as u16).to_be_bytes());
        packet.extend((flags | (offset / 8) as u16).to_be_bytes());
        packet.extend([self.ip.ttl, self.protocol_number(), 0, 0]);
        packet.extend(src.octets());
        packet.extend(dst.octets());
        packet.extend(options);
        let checksum = self.ip.checksum.unwrap_or(checksum::internet(&packet));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(segment);
        packet
    }

    fn ipv6_packet(&self) -> Vec<u8> {
        let Network::V6(src, dst) = self.network else { unreachable!("only called for IPv6") };
        let mut payload = self.segment();
        let mut next = self.protocol_number();
        for (number, body) in self.ip.extensions.iter().rev() {
            payload = [self.extension_header(*number, next, body), payload].concat();
            next = *number;
        }
        let version = u32::from(self.ip.version.unwrap_or(6));
        let first = version << 28 | u32::from(self.ip.tos) << 20 | self.ip.flow_label;
        let len = self.ip.len.unwrap_or(payload.len() as u16);

        let mut packet = first.to_be_bytes().to_vec();
        packet.extend(len.to_be_bytes());
        packet.extend([next, self.ip.ttl]);
        packet.extend(src.octets());
        packet.extend(dst.octets());
        packet.extend(payload);
        packet
    }

    fn extension_header(&self, number: u8, next: u8, body: &[u8]) -> Vec<u8> {
        let mut header = vec![next, 0];
        if number == proto::FRAGMENT {
            let (offset, more) = self.ip.fragment;
            header.extend((offset as u16 | u16::from(more)).to_be_bytes());
            header.extend(self.ip.id.to_be_bytes());
            return header;
        }
        header.extend(body);
        header.resize(header.len().next_multiple_of(8), 0);
        header[1] = match number {
            proto::AUTH => header.len() / 4 - 2,
            _ => header.len() / 8 - 1,
        } as u8;
        header
    }

    fn protocol_number(&self) -> u8 {
        match (&self.transport, self.network) {
            (Transport::Raw(number) | Transport::Plain(number, _), _) => *number,
            (Transport::Tcp(_), _) => proto::TCP,
            (Transport::Udp { .. }, _) => proto::UDP,
            (Transport::Sctp { .. }, _) => proto::SCTP,
            (Transport::Icmp { .. }, Network::V6(..)) => proto::ICMPV6,
            (Transport::Icmp { .. }, _) => proto::ICMP,
        }
    }

    /// Returns the transport header and payload, with checksum.
    fn segment(&self) -> Vec<u8> {
        let (header, checksum_at) = match &self.transport {
            Transport::Raw(_) => return self.payload.clone(),
            Transport::Plain(_, header) => return [&header[..], &self.payload].concat(),
            Transport::Tcp(fields) => (tcp_header(fields), 16),
            Transport::Udp { sport, dport, len } => {
                let len = len.unwrap_or((Udp::LEN + self.payload.len()) as u16);
                (be16s(&[*sport, *dport, len, 0]), 6)
            }
            Transport::Sctp { sport, dport, tag } => {
                let tag = [(tag >> 16) as u16, *tag as u16];
                (be16s(&[*sport, *dport, tag[0], tag[1], 0, 0]), Sctp::LEN - 4)
            }
            Transport::Icmp { kind, rest } => (self.icmp_header(*kind, *rest), 2),
        };
        let mut segment = [&header[..], &self.payload].concat();
        let checksum = if matches!(self.transport, Transport::Sctp { .. }) {
            self.checksum.unwrap_or_else(|| checksum::crc32c(&segment)).to_le_bytes().to_vec()
        } else {
            let checksum = self.checksum.map(|c| c as u16);
            checksum.unwrap_or_else(|| self.internet_checksum(&segment)).to_be_bytes().to_vec()
        };
        segment[checksum_at..checksum_at + checksum.len()].copy_from_slice(&checksum);
        segment
    }

    fn icmp_header(&self, kind: IcmpKind, rest: [u8; 4]) -> Vec<u8> {
        let (kind, code) = match (kind, self.network) {
            (IcmpKind::EchoRequest, Network::V6(..)) => (icmp::v6::ECHO_REQUEST, 0),
            (IcmpKind::EchoReply, Network::V6(..)) => (icmp::v6::ECHO_REPLY, 0),
            (IcmpKind::EchoRequest, _) => (icmp::v4::ECHO_REQUEST, 0),
            (IcmpKind::EchoReply, _) => (icmp::v4::ECHO_REPLY, 0),
            (IcmpKind::Other { kind, code }, _) => (kind, code),
        };
        [&[kind, code, 0, 0][..], &rest].concat()
    }

    fn internet_checksum(&self, segment: &[u8]) -> u16 {
        let protocol = self.protocol_number();
        let pseudo = match self.network {
            _ if protocol == proto::ICMP => Sum::default(),
            Network::Link(_) => Sum::default(),
            Network::V4(src, dst) => checksum::pseudo_v4(src, dst, protocol, segment.len() as u16),
            Network::V6(src, dst) => checksum::pseudo_v6(src, dst, protocol, segment.len() as u32),
        };
        match pseudo.add_bytes(segment).finish() {
            // RFC 768: 0 would mean that there is no checksum.
            0 if protocol == proto::UDP => 0xffff,
            checksum => checksum,
        }
    }
}

fn tcp_header(fields: &TcpFields) -> Vec<u8> {
    let mut options = fields.options.clone();
    options.resize(options.len().next_multiple_of(4), 0);
    let words = fields.offset_words.unwrap_or(((Tcp::LEN + options.len()) / 4) as u8);
    let mut header = be16s(&[fields.sport, fields.dport]);
    header.extend(fields.seq.to_be_bytes());
    header.extend(fields.ack.to_be_bytes());
    header.extend([words << 4, fields.flags]);
    header.extend(be16s(&[fields.window, 0, 0]));
    header.extend(options);
    header
}

fn be16s(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}
