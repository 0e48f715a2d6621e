// SPDX-License-Identifier: BSD-3-Clause
//! Puts the packets of a stream into tunnels: VXLAN (RFC 7348) and GTP-U (3GPP TS 29.281).

use super::places::Place;
use super::spec::{Reader, SpecError, addresses, word};
use super::template::put16;
use super::values::{Kind, Values};
use crate::segment::{GTPU_FLAGS, GTPU_PORT, VXLAN_FLAGS, VXLAN_PORT};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use wire::checksum::Sum;
use wire::ethernet::Ethernet;
use wire::{FrameBuilder, ipv4::Ipv4, ipv6::Ipv6, proto, udp::Udp};

/// Bytes of a VXLAN header, and also of a GTP-U header without optional fields.
pub(crate) const HEADER: usize = 8;
/// Source and destination MAC address of the frames inside VXLAN.
const INNER_MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 1, 2]];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TunnelKind {
    Vxlan,
    Gtpu,
}

/// A tunnel as the user writes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TunnelSpec {
    kind: TunnelKind,
    is_ipv6: bool,
    /// VNI or TEID.
    id: Values,
    src: Values,
    dst: Values,
    /// UDP source port of the tunnel; `None` if it is derived from the connection inside.
    sport: Option<Values>,
}

impl TunnelSpec {
    pub(super) fn read(reader: &mut Reader) -> Result<Option<Self>, SpecError> {
        let kinds = [("vxlan", TunnelKind::Vxlan), ("gtpu", TunnelKind::Gtpu)];
        let kind = reader.optional("tunnel", |text| word(text, "vxlan, gtpu", &kinds))?;
        let Some(kind) = kind else { return Ok(None) };
        let id = match kind {
            TunnelKind::Vxlan => reader.field("vni", "1", (1 << 24) - 1)?,
            TunnelKind::Gtpu => reader.field("teid", "1", u64::from(u32::MAX))?,
        };
        let (is_ipv6, [src, dst]) = addresses(reader, ["tunnel_src", "tunnel_dst"])?;
        let port = |text: &str| Values::parse(text, Kind::Number(65_535));
        let sport = match (reader.optional("tunnel_sport", port)?, kind) {
            (None, TunnelKind::Gtpu) => port(&GTPU_PORT.to_string()).ok(),
            (sport, _) => sport,
        };
        Ok(Some(Self { kind, is_ipv6, id, src, dst, sport }))
    }

    /// Returns the packets that lack the field of `key`, in words for an error; `None` if `key` is
    /// not one of tunnels.
    pub(super) fn without(key: &str) -> Option<&'static str> {
        match key {
            "vni" => Some("without tunnel=vxlan"),
            "teid" => Some("without tunnel=gtpu"),
            "tunnel_src" | "tunnel_dst" | "tunnel_sport" => Some("without a tunnel"),
            _ => None,
        }
    }

    /// Returns the source addresses of the tunnel, and true for IPv6.
    pub(crate) fn source(&self) -> (bool, &Values) {
        (self.is_ipv6, &self.src)
    }

    fn ip_len(&self) -> usize {
        if self.is_ipv6 { Ipv6::LEN } else { Ipv4::LEN }
    }

    /// Returns the number of bytes from the IP header of the tunnel to the IP header inside.
    pub(crate) fn len(&self) -> usize {
        let link = if self.kind == TunnelKind::Vxlan { Ethernet::LEN } else { 0 };
        self.ip_len() + Udp::LEN + HEADER + link
    }

    /// Puts a packet into the tunnel. The tunnel's lengths and checksums are 0.
    pub(crate) fn wrap(&self, packet: FrameBuilder) -> FrameBuilder {
        let ip = |values: &Values| match self.is_ipv6 {
            true => IpAddr::V6(Ipv6Addr::from_bits(values.first())),
            false => IpAddr::V4(Ipv4Addr::from_bits(values.first() as u32)),
        };
        let id = self.id.first() as u32;
        let (dport, header, inside) = match self.kind {
            TunnelKind::Vxlan => {
                let header = [u32::from(VXLAN_FLAGS) << 24, id << 8].map(u32::to_be_bytes);
                let inside = packet.macs(INNER_MACS[0], INNER_MACS[1]).build();
                (VXLAN_PORT, header, inside)
            }
            TunnelKind::Gtpu => {
                let [flags, message] = GTPU_FLAGS;
                let header = [[flags, message, 0, 0], id.to_be_bytes()];
                (GTPU_PORT, header, packet.build_packet())
            }
        };
        let sport = self.sport.as_ref().map_or(0, |sport| sport.first() as u16);
        let mut frame = FrameBuilder::ip(ip(&self.src), ip(&self.dst)).ip_len(0);
        if !self.is_ipv6 {
            frame = frame.ip_checksum(0);
        }
        let payload = [header.as_flattened(), &inside].concat();
        frame.udp(sport, dport).udp_len(0).checksum(0).payload(payload)
    }

    /// Returns the fields of the tunnel, and their places if its IP header is at `at`.
    pub(crate) fn fields(&self, at: usize) -> [(Option<&Values>, Vec<Place>); 4] {
        let (udp_at, header_at) = (at + self.ip_len(), at + self.ip_len() + Udp::LEN);
        let left = if self.kind == TunnelKind::Vxlan { 8 } else { 0 };
        let id = Place::plain(header_at + 4, 4).left(left);
        let address = |in_ipv4: usize, in_ipv6: usize| match self.is_ipv6 {
            false => vec![Place::plain(at + in_ipv4, 4)],
            true => Place::ipv6(at + in_ipv6).into(),
        };
        [
            (Some(&self.id), vec![id]),
            (Some(&self.src), address(12, 8)),
            (Some(&self.dst), address(16, 24)),
            (self.sport.as_ref(), vec![Place::plain(udp_at, 2)]),
        ]
    }

    /// Returns the tunnel for a template whose frames have the tunnel's IP header at `at`.
    pub(crate) fn at(&self, at: usize) -> Tunnel {
        Tunnel {
            at,
            udp_at: at + self.ip_len(),
            is_ipv6: self.is_ipv6,
            kind: self.kind,
            has_derived_sport: self.sport.is_none(),
        }
    }
}

/// Tunnel of a template: finishes the tunnel's headers in each frame.
#[derive(Debug)]
pub(crate) struct Tunnel {
    at: usize,
    udp_at: usize,
    is_ipv6: bool,
    kind: TunnelKind,
    has_derived_sport: bool,
}

impl Tunnel {
    /// Writes source port, lengths and checksums of the tunnel, which are 0 before.
    ///
    /// All other bytes of the frame must be written. `flow` has the places of the addresses and of
    /// the ports inside.
    #[inline(never)]
    pub(crate) fn finish(&self, frame: &mut [u8], flow: [Range<usize>; 2]) {
        let (at, udp_at) = (self.at, self.udp_at);
        if self.has_derived_sport {
            put16(frame, udp_at, derive_port(frame, flow));
        }
        if self.kind == TunnelKind::Gtpu {
            put16(frame, udp_at + Udp::LEN + 2, (frame.len() - udp_at - Udp::LEN - HEADER) as u16);
        }
        let udp_len = (frame.len() - udp_at) as u16;
        put16(frame, udp_at + 4, udp_len);
        if self.is_ipv6 {
            put16(frame, at + 4, udp_len);
        } else {
            put16(frame, at + 2, (frame.len() - at) as u16);
            let sum = Sum::default().add_bytes(&frame[at..at + Ipv4::LEN]);
            put16(frame, at + 10, sum.finish());
            // RFC 7348 section 5: the checksum should be 0. Over IPv6, RFC 8200 demands one.
            if self.kind == TunnelKind::Vxlan {
                return;
            }
        }
        let addresses = if self.is_ipv6 { at + 8..at + 40 } else { at + 12..at + 20 };
        let pseudo = Sum::default().add_bytes(&frame[addresses]).add_u16(proto::UDP.into());
        let sum = pseudo.add_u16(udp_len).add_bytes(&frame[udp_at..]);
        let checksum = sum.finish();
        put16(frame, udp_at + 6, if checksum == 0 { 0xffff } else { checksum });
    }
}

/// Derives a dynamic source port from the connection inside, as RFC 7348 section 5 recommends.
/// Routers use it to spread connections over several paths.
#[inline]
fn derive_port(frame: &[u8], flow: [Range<usize>; 2]) -> u16 {
    let words = flow.into_iter().flat_map(|range| frame[range].chunks_exact(4));
    let hash = words.fold(0, |hash: u64, word| {
        let word = word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    });
    0xc000 | (hash & 0x3fff) as u16
}
