// SPDX-License-Identifier: BSD-3-Clause
//! Finds the headers of a frame.
//!
//! The parser of a NIC stops without an error at the first header that it does not know. No rule
//! can match the bytes behind it. Every offset is inside the frame.

use crate::pattern::Proto;
use wire::ethernet::{Ethernet, ether_type};
use wire::proto;
use wire::vlan::Vlan;

/// Places where a header can be; each place has at most one header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) enum Slot {
    Ethernet,
    OuterVlan,
    InnerVlan,
    Network,
    /// The fragment header of IPv6.
    Fragment,
    Transport,
    Tunnel,
    TunnelEthernet,
    TunnelVlan,
    TunnelNetwork,
    TunnelTransport,
}

pub(crate) const SLOTS: usize = 11;

/// EtherType of Ethernet inside of GRE, RFC 7637.
const BRIDGING: u16 = 0x6558;
/// UDP ports, RFC 7348 and 3GPP TS 29.281.
const VXLAN_PORT: u16 = 4789;
const GTPU_PORT: u16 = 2152;

impl Slot {
    pub(crate) const ALL: [Self; SLOTS] = [
        Self::Ethernet,
        Self::OuterVlan,
        Self::InnerVlan,
        Self::Network,
        Self::Fragment,
        Self::Transport,
        Self::Tunnel,
        Self::TunnelEthernet,
        Self::TunnelVlan,
        Self::TunnelNetwork,
        Self::TunnelTransport,
    ];

    /// Returns the places where a protocol can be, the outermost first.
    pub(crate) fn places(proto: Proto) -> impl Iterator<Item = Self> {
        let places: &[Self] = match proto {
            Proto::Eth => &[Self::Ethernet, Self::TunnelEthernet],
            Proto::Vlan => &[Self::OuterVlan, Self::InnerVlan, Self::TunnelVlan],
            Proto::Ipv4 | Proto::Ipv6 => &[Self::Network, Self::TunnelNetwork],
            Proto::Ipv6Frag => &[Self::Fragment],
            Proto::Tcp | Proto::Udp | Proto::Sctp | Proto::Icmp | Proto::Icmp6 => {
                &[Self::Transport, Self::TunnelTransport]
            }
            Proto::Vxlan | Proto::Gtpu | Proto::Gre => &[Self::Tunnel],
        };
        places.iter().copied()
    }
}

/// Protocols at all places, one byte with the number for each, so that one comparison is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Protos(u128);

impl Protos {
    pub(crate) fn get(self, slot: Slot) -> Option<Proto> {
        Proto::of_number((self.0 >> (8 * slot as u32)) as u16 & 0xff)
    }

    pub(crate) fn put(&mut self, slot: Slot, proto: Proto) {
        self.0 |= (proto as u128) << (8 * slot as u32);
    }
}

/// Requirements of a rule: at some places a protocol, or no header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequiredHeaders {
    /// All bits of the places that matter.
    mask: Protos,
    protocols: Protos,
}

impl RequiredHeaders {
    pub(crate) fn protocols(&self) -> Protos {
        self.protocols
    }

    pub(crate) fn is_absent(&self, slot: Slot) -> bool {
        self.mask.0 & Self::all(slot) != 0 && self.protocols.get(slot).is_none()
    }

    pub(crate) fn put(&mut self, slot: Slot, proto: Proto) {
        self.mask.0 |= Self::all(slot);
        self.protocols.put(slot, proto);
    }

    pub(crate) fn put_nothing(&mut self, slot: Slot) {
        self.mask.0 |= Self::all(slot);
    }

    fn all(slot: Slot) -> u128 {
        0xff << (8 * slot as u32)
    }
}

/// The headers of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers {
    protos: Protos,
    offsets: [usize; SLOTS],
    is_fragment: bool,
}

impl Headers {
    /// Reads the headers of a frame, as far as they are whole.
    pub(crate) fn of(frame: &[u8]) -> Self {
        let mut headers = Self::default();
        // `None` only means that the walk ended early.
        let _ = headers.walk(frame);
        headers
    }

    /// Returns the protocol at `slot`.
    pub(crate) fn proto(&self, slot: Slot) -> Option<Proto> {
        self.protos.get(slot)
    }

    /// True if all required headers are present.
    pub(crate) fn has_all(&self, required: &RequiredHeaders) -> bool {
        self.protos.0 & required.mask.0 == required.protocols.0
    }

    /// Returns the offset of the header at `slot`; the frame's start if there is none.
    pub(crate) fn offset(&self, slot: Slot) -> usize {
        self.offsets[slot as usize]
    }

    /// True if the packet is a fragment, the first one included.
    pub(crate) fn is_fragment(&self) -> bool {
        self.is_fragment
    }

    fn put(&mut self, slot: Slot, proto: Proto, offset: usize) {
        self.protos.put(slot, proto);
        self.offsets[slot as usize] = offset;
    }

    fn walk(&mut self, frame: &[u8]) -> Option<()> {
        let (offset, ether_type) =
            self.ethernet(frame, 0, Slot::Ethernet, &[Slot::OuterVlan, Slot::InnerVlan])?;
        let (offset, protocol) = self.network(frame, offset, ether_type, Slot::Network)?;
        let (offset, ether_type) = match self.tunnel(frame, offset, protocol)? {
            (offset, BRIDGING) => {
                self.ethernet(frame, offset, Slot::TunnelEthernet, &[Slot::TunnelVlan])?
            }
            inside => inside,
        };
        let was_fragment = self.is_fragment;
        let inside = self.network(frame, offset, ether_type, Slot::TunnelNetwork);
        self.is_fragment = was_fragment;
        let (offset, protocol) = inside?;
        self.transport(frame, offset, protocol, Slot::TunnelTransport);
        Some(())
    }

    /// Reads Ethernet and its tags; returns where the next header begins, and its EtherType.
    fn ethernet(
        &mut self,
        frame: &[u8],
        offset: usize,
        slot: Slot,
        tags: &[Slot],
    ) -> Option<(usize, u16)> {
        let mut ether_type = Ethernet::new(frame.get(offset..)?)?.ether_type();
        self.put(slot, Proto::Eth, offset);
        let mut offset = offset + Ethernet::LEN;
        for &slot in tags {
            if wire::vlan::is_tag(ether_type) {
                ether_type = Vlan::new(frame.get(offset..)?)?.ether_type();
                self.put(slot, Proto::Vlan, offset);
                offset += Vlan::LEN;
            }
        }
        Some((offset, ether_type))
    }

    /// Reads a network header; returns where the next header begins, and its protocol. `None` if
    /// the next header is in another fragment.
    fn network(
        &mut self,
        frame: &[u8],
        offset: usize,
        ether_type: u16,
        slot: Slot,
    ) -> Option<(usize, u8)> {
        let packet = frame.get(offset..)?;
        match ether_type {
            ether_type::IPV4 => {
                let ip = wire::ipv4::Ipv4::new(packet).filter(|ip| ip.version() == 4)?;
                self.put(slot, Proto::Ipv4, offset);
                let is_later = ip.fragment_offset() != 0;
                self.is_fragment = is_later || ip.more_fragments();
                (!is_later).then(|| (offset + ip.header_len(), ip.protocol()))
            }
            ether_type::IPV6 => {
                let ip = wire::ipv6::Ipv6::new(packet).filter(|ip| ip.version() == 6)?;
                self.put(slot, Proto::Ipv6, offset);
                let offset = offset + wire::ipv6::Ipv6::LEN;
                self.is_fragment = ip.next_header() == proto::FRAGMENT;
                match self.is_fragment {
                    true => self.fragment(frame, offset, slot),
                    false => Some((offset, ip.next_header())),
                }
            }
            _ => None,
        }
    }

    /// Reads the fragment header of IPv6; returns where the next header begins, and its protocol.
    /// `None` if the next header is in another fragment.
    fn fragment(&mut self, frame: &[u8], offset: usize, slot: Slot) -> Option<(usize, u8)> {
        let header = frame.get(offset..offset + Proto::Ipv6Frag.header_len())?;
        if slot == Slot::Network {
            self.put(Slot::Fragment, Proto::Ipv6Frag, offset);
        }
        // Offset in units of eight bytes, above three bits of flags (RFC 8200 4.5).
        let is_later = u16::from_be_bytes([header[2], header[3]]) >> 3 != 0;
        (!is_later).then_some((offset + header.len(), header[0]))
    }

    fn transport(&mut self, frame: &[u8], offset: usize, protocol: u8, slot: Slot) {
        let rest = frame.len().saturating_sub(offset);
        if let Some(proto) = Proto::of_transport(protocol, rest) {
            self.put(slot, proto, offset);
        }
    }

    /// Reads a transport header and a tunnel header, or GRE; returns where the inner packet begins,
    /// and its EtherType.
    fn tunnel(&mut self, frame: &[u8], offset: usize, protocol: u8) -> Option<(usize, u16)> {
        if protocol == proto::GRE {
            return self.gre(frame, offset);
        }
        self.transport(frame, offset, protocol, Slot::Transport);
        if self.proto(Slot::Transport) != Some(Proto::Udp) {
            return None;
        }
        let port = u16::from_be_bytes([frame[offset + 2], frame[offset + 3]]);
        let offset = offset + Proto::Udp.header_len();
        let header = frame.get(offset..offset + 8)?;
        let inside = offset + header.len();
        match port {
            VXLAN_PORT => {
                self.put(Slot::Tunnel, Proto::Vxlan, offset);
                Some((inside, BRIDGING))
            }
            GTPU_PORT => {
                self.put(Slot::Tunnel, Proto::Gtpu, offset);
                let inside = gtpu_payload(frame, offset)?;
                Some((inside, version_of(*frame.get(inside)?)?))
            }
            _ => None,
        }
    }

    fn gre(&mut self, frame: &[u8], offset: usize) -> Option<(usize, u16)> {
        let header = frame.get(offset..offset + Proto::Gre.header_len())?;
        self.put(Slot::Tunnel, Proto::Gre, offset);
        // Checksum, key and sequence number, four bytes each, where their bits say so (RFC 2890).
        let options = 4 * (header[0] & 0xb0).count_ones() as usize;
        let ether_type = u16::from_be_bytes([header[2], header[3]]);
        Some((offset + header.len() + options, ether_type))
    }
}

/// Returns the EtherType of an IP packet, by its first byte.
fn version_of(byte: u8) -> Option<u16> {
    match byte >> 4 {
        4 => Some(ether_type::IPV4),
        6 => Some(ether_type::IPV6),
        _ => None,
    }
}

/// Returns where the packet inside of GTP-U begins; `None` if it carries none (TS 29.281 5.1, 5.2).
fn gtpu_payload(frame: &[u8], offset: usize) -> Option<usize> {
    const G_PDU: u8 = 255;
    let flags = *frame.get(offset)?;
    if *frame.get(offset + 1)? != G_PDU {
        return None;
    }
    let mut at = offset + Proto::Gtpu.header_len();
    if flags & 0x07 != 0 {
        let mut next_type = *frame.get(at + 3)?;
        at += 4;
        while flags & 0x04 != 0 && next_type != 0 {
            let len = 4 * usize::from(*frame.get(at)?);
            next_type = *frame.get((at + len).checked_sub(1)?)?;
            at += len.max(4);
        }
    }
    Some(at)
}
