// SPDX-License-Identifier: BSD-3-Clause
//! Prepares captured frames, and writes them with the addresses and ports of a flow.
//!
//! A prepared frame holds the captured bytes, with zeros in the addresses, the client port and the
//! checksums. The sums of the constant bytes are computed once. So writing a frame costs the copy
//! and a dozen additions, for any length.

use super::error::CaptureProblem;
use super::packet::{Packet, Transport};
use super::pool::Tuple;
use super::profile::{MacOverride, Settings};
use crate::Side;
use wire::checksum::Sum;
use wire::ethernet::{MIN_FRAME, ether_type};
use wire::{ipv4::Ipv4, ipv6::Ipv6, proto};

/// Bytes of the longest frame that a profile may send: the maximum of the X710 (i40e).
pub const MAX_FRAME: usize = 9728;

const MACS_LEN: usize = 12;
/// Offset of the VLAN identifier in the outermost tag.
const VLAN_AT: usize = MACS_LEN + 2;

/// Link-layer settings of all frames of a replay.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// MAC addresses of the ports of side A and side B.
    pub(super) macs: [[u8; 6]; 2],
    pub(super) mac_override: MacOverride,
    pub(super) vlans: Option<[u16; 2]>,
}

/// A captured frame that is prepared to be written with any tuple.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    bytes: Box<[u8]>,
    pub(super) is_from_client: bool,
    /// Offsets of the low 32 bits of source and destination address.
    src_at: usize,
    dst_at: usize,
    /// Offset of the IPv4 header checksum, and the sum of the header; `None` for IPv6.
    ipv4: Option<(usize, Sum)>,
    /// Offset of the client port; `None` if the port of the capture is kept, or if there is none.
    client_port_at: Option<usize>,
    checksum: Option<TransportChecksum>,
}

#[derive(Clone, Copy, Debug)]
struct TransportChecksum {
    at: usize,
    /// Sum of the segment and the constant part of the pseudo header.
    sum: Sum,
    /// True for UDP, whose checksum is never 0.
    is_udp: bool,
}

impl Frame {
    /// Prepares `packet`. With `keeps_ports`, the client port of the capture is kept.
    pub(super) fn new(
        packet: &Packet<'_>,
        is_from_client: bool,
        keeps_ports: bool,
        settings: &Settings,
    ) -> Result<Self, CaptureProblem> {
        let mut bytes = vec![0; MACS_LEN];
        if settings.vlans.is_some() {
            bytes.extend(ether_type::VLAN.to_be_bytes());
            bytes.extend([0; 2]);
        }
        bytes.extend(&packet.bytes[MACS_LEN..packet.network_at]);
        let network_at = bytes.len();
        let header = NetworkHeader::new(packet, is_from_client, settings)?;
        if header.is_ipv6 {
            bytes[network_at - 2..].copy_from_slice(&ether_type::IPV6.to_be_bytes());
        }
        bytes.extend(&header.bytes);
        let transport_at = bytes.len();
        bytes.extend(&packet.bytes[packet.transport_at..]);
        bytes.resize(bytes.len().max(MIN_FRAME), 0);
        if bytes.len() > MAX_FRAME {
            return Err(CaptureProblem::TooLong);
        }
        let has_ports = packet.transport != Transport::Icmp;
        let client_port_at = transport_at + if is_from_client { 0 } else { 2 };
        let client_port_at = (has_ports && !keeps_ports).then_some(client_port_at);
        if let Some(at) = client_port_at {
            bytes[at..at + 2].fill(0);
        }
        let segment_end = transport_at + packet.segment_end - packet.transport_at;
        let checksum =
            clear_checksum(packet, &mut bytes[transport_at..segment_end], header.is_ipv6).map(
                |(at, is_udp)| {
                    let segment = Sum::default().add_bytes(&bytes[transport_at..segment_end]);
                    let len = (segment_end - transport_at) as u16;
                    let number = if is_udp { proto::UDP } else { proto::TCP };
                    let sum = segment.add_u16(len).add_u16(number.into()) + header.address_sum();
                    TransportChecksum { at: transport_at + at, sum, is_udp }
                },
            );
        Ok(Self {
            is_from_client,
            src_at: network_at + header.src_at,
            dst_at: network_at + header.dst_at,
            ipv4: header.ipv4_sum().map(|sum| (network_at + 10, sum)),
            client_port_at,
            checksum,
            bytes: bytes.into(),
        })
    }

    /// Returns the bytes of the frame, without FCS.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the frame with the addresses and the port of `tuple`, and the MAC addresses of the
    /// port `side`. Returns its length.
    ///
    /// # Panics
    /// If `buf` is shorter than the frame.
    #[inline]
    pub(super) fn write(&self, buf: &mut [u8], tuple: &Tuple, side: Side, link: &Link) -> usize {
        let buf = &mut buf[..self.bytes.len()];
        buf.copy_from_slice(&self.bytes);
        let (src, dst) = if self.is_from_client {
            (tuple.client, tuple.server)
        } else {
            (tuple.server, tuple.client)
        };
        self.write_macs(buf, [src, dst], side, link);
        if let Some(vlans) = link.vlans {
            // As in TRex, the client address selects the tag: even or odd.
            put16(buf, VLAN_AT, vlans[(tuple.client & 1) as usize]);
        }
        put32(buf, self.src_at, src);
        put32(buf, self.dst_at, dst);
        let addresses = Sum::default().add_u32(src).add_u32(dst);
        if let Some((at, sum)) = self.ipv4 {
            put16(buf, at, (sum + addresses).finish());
        }
        let mut sum = addresses;
        if let Some(at) = self.client_port_at {
            put16(buf, at, tuple.client_port);
            sum = sum.add_u16(tuple.client_port);
        }
        if let Some(checksum) = self.checksum {
            let value = (sum + checksum.sum).finish();
            // RFC 768: 0 would mean that there is no checksum.
            put16(buf, checksum.at, if checksum.is_udp && value == 0 { 0xffff } else { value });
        }
        buf.len()
    }

    #[inline]
    fn write_macs(&self, buf: &mut [u8], [src, dst]: [u32; 2], side: Side, link: &Link) {
        buf[0..6].copy_from_slice(&link.macs[side.other() as usize]);
        buf[6..12].copy_from_slice(&link.macs[side as usize]);
        match link.mac_override {
            MacOverride::None => {}
            MacOverride::Client if !self.is_from_client => {}
            MacOverride::Client => put32(buf, 8, src),
            MacOverride::All => {
                put32(buf, 2, dst);
                put32(buf, 8, src);
            }
        }
    }
}

/// An IP header with zeros in its checksum and in the low 32 bits of its addresses.
struct NetworkHeader {
    bytes: Vec<u8>,
    is_ipv6: bool,
    src_at: usize,
    dst_at: usize,
}

impl NetworkHeader {
    fn new(
        packet: &Packet<'_>,
        is_from_client: bool,
        settings: &Settings,
    ) -> Result<Self, CaptureProblem> {
        let captured = &packet.bytes[packet.network_at..packet.transport_at];
        let was_ipv6 = packet.src.0.is_ipv6();
        let is_ipv6 = was_ipv6 || settings.ipv6.is_some();
        if !is_ipv6 {
            let mut bytes = captured.to_vec();
            bytes[10..20].fill(0);
            return Ok(Self { bytes, is_ipv6, src_at: 12, dst_at: 16 });
        }
        let mut bytes = if was_ipv6 { captured.to_vec() } else { to_ipv6(packet, captured)? };
        if let Some([client, server]) = settings.ipv6 {
            let (src, dst) = if is_from_client { (client, server) } else { (server, client) };
            bytes[8..20].copy_from_slice(&src);
            bytes[24..36].copy_from_slice(&dst);
        }
        bytes[20..24].fill(0);
        bytes[36..40].fill(0);
        Ok(Self { bytes, is_ipv6, src_at: 20, dst_at: 36 })
    }

    fn ipv4_sum(&self) -> Option<Sum> {
        (!self.is_ipv6).then(|| Sum::default().add_bytes(&self.bytes))
    }

    /// Returns the sum of the constant bits of the addresses.
    fn address_sum(&self) -> Sum {
        let addresses = self.src_at - if self.is_ipv6 { 12 } else { 0 };
        Sum::default().add_bytes(&self.bytes[addresses..self.dst_at + 4])
    }
}

/// Converts an IPv4 header to an IPv6 header, without addresses. Options are left out.
fn to_ipv6(packet: &Packet<'_>, captured: &[u8]) -> Result<Vec<u8>, CaptureProblem> {
    let ip = Ipv4::new(captured).ok_or(CaptureProblem::Truncated)?;
    if packet.transport == Transport::Icmp {
        return Err(CaptureProblem::Icmp);
    }
    let (traffic_class, payload_len) = (captured[1], ip.total_len() - ip.header_len() as u16);
    let mut bytes = vec![0; Ipv6::LEN];
    put32(&mut bytes, 0, 6 << 28 | u32::from(traffic_class) << 20);
    put16(&mut bytes, 4, payload_len);
    bytes[6] = ip.protocol();
    bytes[7] = ip.ttl();
    Ok(bytes)
}

/// Clears the checksum of a segment. Returns its offset, and true for UDP.
///
/// Returns `None` if the checksum stays as captured: for ICMP, and for UDP over IPv4 without a
/// checksum.
fn clear_checksum(packet: &Packet<'_>, segment: &mut [u8], is_ipv6: bool) -> Option<(usize, bool)> {
    let (at, is_udp) = match packet.transport {
        Transport::Tcp => (16, false),
        Transport::Udp => (6, true),
        Transport::Icmp => return None,
    };
    if is_udp && !is_ipv6 && segment[at..at + 2] == [0, 0] {
        return None;
    }
    segment[at..at + 2].fill(0);
    Some((at, is_udp))
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}
