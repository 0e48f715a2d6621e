// SPDX-License-Identifier: BSD-3-Clause
//! Writes the frames of a stream by a template: headers are built once, then copied, and varying
//! fields are written.
//!
//! The sums of all constant bytes are computed once too. So a checksum costs a few additions for
//! any length of the packet.

use super::fields::Fields;
use super::places::{Place, Varying, varying_fields};
use super::spec::{PacketSpec, SpecError, ValueFault};
use super::tunnel::{HEADER, Tunnel, TunnelSpec};
use super::values::Values;
use crate::dpdk_project;
use crate::filler::{Filler, Window};
use crate::stamp::{PayloadFormat, Stamp, StampKey};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use wire::checksum::{Crc32c, Sum};
use wire::ethernet::Ethernet;
use wire::{FrameBuilder, icmp::Icmp, ipv4::Ipv4, ipv6::Ipv6, proto, tcp::Tcp, udp::Udp};

/// Bytes of the head of a template: not less than those of the longest headers.
pub(crate) const HEAD: usize = 3 * LINE;
/// Bytes of a cache line; heads are copied line by line.
const LINE: usize = 64;
/// Bytes of the common header of SCTP and the header of a DATA chunk (RFC 9260 sections 3.1,
/// 3.3.1).
const SCTP_HEADERS: usize = 12 + 16;
/// Identifier of ICMP echo requests.
const ECHO_ID: u16 = 0x6d72;

/// The payload of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    /// Bytes that are equal in every packet.
    Fixed(&'a Filler),
    /// A stamp, and pseudo-random bytes that depend on the packet's number.
    Stamped(Stamp, StampKey, &'a Filler),
    /// The payload of dpdk-project.
    DpdkProject { seed: u64, index: u64, sent_ns: u64 },
}

impl<'a> Payload<'a> {
    /// Returns the verified payload of packet `index` of a lane, in this format.
    #[inline(always)]
    pub(crate) fn verified(
        format: PayloadFormat,
        (lane, index): (u16, u64),
        sent_ns: u64,
        filler: &'a Filler,
    ) -> Self {
        match format {
            PayloadFormat::Stamped(key) => {
                Self::Stamped(Stamp { lane, index: index as u32, sent_ns }, key, filler)
            }
            PayloadFormat::DpdkProject { seed, senders } => {
                let index = index * u64::from(senders) + u64::from(lane);
                Self::DpdkProject { seed, index, sent_ns }
            }
        }
    }

    /// Returns the filler of a payload that is equal in every packet; `None` for others.
    #[inline(always)]
    pub(crate) fn fixed(self) -> Option<&'a Filler> {
        match self {
            Self::Fixed(filler) => Some(filler),
            Self::Stamped(..) | Self::DpdkProject { .. } => None,
        }
    }
}

/// Headers of a stream's frames, with zeros in every varying field.
#[derive(Debug)]
pub(crate) struct Template {
    /// The first bytes of every frame: its headers, and the begin of a fixed payload.
    head: [u8; HEAD],
    head_len: usize,
    /// Bytes of the head that are copied to long frames.
    copied: usize,
    tunnel: Option<Tunnel>,
    network_at: usize,
    transport_at: usize,
    is_ipv6: bool,
    has_ports: bool,
    checksum: Checksum,
    /// True if a varying field counts to the checksum of IPv4.
    has_varying_network: bool,
    /// The length of the transport packet is a multiple of this number of bytes.
    multiple: usize,
    /// The length fields of the headers.
    lengths: Vec<Length>,
    /// Sum of the IPv4 header without its length.
    network_sum: Sum,
    /// Sum of pseudo header and transport header without lengths.
    transport_sum: Sum,
    /// Number of times that the transport length counts to the checksum: once in the pseudo header,
    /// once in the header of UDP.
    counted_lengths: usize,
}

/// A length field of two bytes at `at`. Its value is the number of bytes from `from` to the end of
/// the packet.
#[derive(Clone, Copy, Debug)]
struct Length {
    at: usize,
    from: usize,
}

/// Kind and place of the transport checksum.
#[derive(Clone, Copy, Debug)]
enum Checksum {
    /// The internet checksum (RFC 1071), at `at`. If it is 0, `for_zero` is written.
    Internet { at: usize, for_zero: u16 },
    /// The CRC32c of a whole SCTP packet (RFC 9260 section 6.8).
    Crc32c,
}

/// The first bytes of the frames of one length, and the constant parts of their checksums.
#[derive(Debug)]
pub(crate) struct Head {
    bytes: [u8; HEAD],
    /// Bytes of the frame.
    len: usize,
    /// Bytes of the frame up to the end of its packet. The rest is zeros.
    packet_len: usize,
    /// Sum of the IPv4 header without varying fields.
    network_sum: Sum,
    /// Sum of pseudo header and transport header without varying fields, plus that of a fixed
    /// payload.
    transport_sum: Sum,
}

impl Template {
    /// Builds the headers. Returns them and the varying fields, the one that changes fastest first.
    ///
    /// `macs` are the MAC addresses of sender and receiver, for streams that name none.
    pub(crate) fn new(
        spec: &PacketSpec,
        macs: [[u8; 6]; 2],
        filler: &Filler,
    ) -> (Self, Vec<Varying>) {
        let tags = usize::from(spec.outer_vlan.is_some()) + usize::from(spec.vlan.is_some());
        let link_len = Ethernet::LEN + 4 * tags;
        let network_at = link_len + spec.tunnel.as_ref().map_or(0, TunnelSpec::len);
        let transport_at = network_at + if spec.is_ipv6 { Ipv6::LEN } else { Ipv4::LEN };
        let mut frame = first_frame(spec, macs);
        let varying = varying_fields(spec, link_len, network_at, transport_at);
        let places = || varying.iter().flat_map(|field| &field.places);
        places().for_each(|place| place.clear(&mut frame));
        let (network, transport) = frame[network_at..].split_at(transport_at - network_at);
        let addresses = if spec.is_ipv6 { &network[8..40] } else { &network[12..20] };
        let pseudo = Sum::default().add_bytes(addresses).add_u16(protocol_number(spec).into());
        let transport_sum = Sum::default().add_bytes(transport);
        let mut head = [0; HEAD];
        head[..frame.len()].copy_from_slice(&frame);
        let rest = filler.bytes(Window::FIRST, HEAD - frame.len());
        head[frame.len()..].copy_from_slice(rest);
        let template = Self {
            head,
            head_len: frame.len(),
            copied: if frame.len() > 2 * LINE { HEAD } else { 2 * LINE },
            tunnel: spec.tunnel.as_ref().map(|tunnel| tunnel.at(link_len)),
            network_at,
            transport_at,
            is_ipv6: spec.is_ipv6,
            has_ports: spec.protocol != proto::ICMP,
            checksum: Checksum::of(spec, transport_at),
            has_varying_network: places().any(Place::changes_network_sum),
            // A packet of chunks has a multiple of 4 bytes (RFC 9260 section 3.2).
            multiple: if spec.protocol == proto::SCTP && !spec.is_bare { 4 } else { 1 },
            lengths: lengths(spec, network_at, transport_at),
            network_sum: Sum::default().add_bytes(network),
            transport_sum: if has_pseudo(spec) { pseudo + transport_sum } else { transport_sum },
            counted_lengths: usize::from(has_pseudo(spec))
                + usize::from(spec.protocol == proto::UDP),
        };
        (template, varying)
    }

    /// Checks that frames of `shortest` bytes without FCS have room for headers and stamp.
    pub(crate) fn check_room(&self, shortest: usize, is_stamped: bool) -> Result<(), SpecError> {
        let least = self.head_len + if is_stamped { Stamp::LEN } else { 0 };
        if shortest >= least {
            return Ok(());
        }
        let fault = ValueFault::TooShort { size: shortest + super::FCS, least: least + super::FCS };
        Err(SpecError::Value { key: "size", fault })
    }

    /// Returns the head of frames of `len` bytes. `fixed` is the filler of a fixed payload; `None`
    /// if payloads differ from packet to packet.
    #[inline]
    pub(crate) fn head(&self, len: usize, fixed: Option<&Filler>) -> Head {
        let mut bytes = self.head;
        let packet_len = len - (len - self.transport_at) % self.multiple;
        let mut network_sum = self.network_sum;
        for length in &self.lengths {
            put16(&mut bytes, length.at, (packet_len - length.from) as u16);
        }
        if !self.is_ipv6 {
            network_sum = network_sum.add_u16((packet_len - self.network_at) as u16);
            put16(&mut bytes, self.network_at + 10, network_sum.finish());
        }
        let mut transport_sum = self.transport_sum;
        for _ in 0..self.counted_lengths {
            transport_sum = transport_sum.add_u16((packet_len - self.transport_at) as u16);
        }
        if let Some(filler) = fixed {
            transport_sum = transport_sum + filler.sum(Window::FIRST, packet_len - self.head_len);
        }
        Head { bytes, len, packet_len, network_sum, transport_sum }
    }

    /// Returns the frame of `len` bytes of a packet in which nothing varies.
    pub(crate) fn fixed_frame(&self, len: usize, filler: &Filler) -> Box<[u8]> {
        let mut room = vec![0; crate::ROOM];
        let head = self.head(len, Some(filler));
        self.write(&head, &mut room, &Fields::none(), Payload::Fixed(filler));
        room.truncate(len);
        room.into()
    }

    /// Writes a frame to the start of `room`. Returns its length. `room` must have at least
    /// [`HEAD`] bytes.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        head: &Head,
        room: &mut [u8],
        fields: &Fields,
        payload: Payload<'_>,
    ) -> usize {
        head.copy_to(room, self.copied);
        let sums = fields.write(room);
        let frame = &mut room[..head.packet_len];
        let payload_sum = self.write_payload(&mut frame[self.head_len..], payload);
        if self.has_varying_network {
            put16(frame, self.network_at + 10, (head.network_sum + sums.network).finish());
        }
        let sum = head.transport_sum + sums.transport + payload_sum;
        match self.checksum {
            Checksum::Internet { at, for_zero } => {
                let checksum = sum.finish();
                put16(frame, at, if checksum == 0 { for_zero } else { checksum });
            }
            Checksum::Crc32c => {
                let packet = &mut frame[self.transport_at..];
                let crc = Crc32c::default().add_bytes(packet).finish();
                packet[8..12].copy_from_slice(&crc.to_le_bytes());
                room[head.packet_len..head.len].fill(0);
            }
        }
        if let Some(tunnel) = &self.tunnel {
            tunnel.finish(&mut room[..head.len], [self.addresses(), self.ports()]);
        }
        head.len
    }

    fn addresses(&self) -> Range<usize> {
        let at = self.network_at;
        if self.is_ipv6 { at + 8..at + 40 } else { at + 12..at + 20 }
    }

    fn ports(&self) -> Range<usize> {
        let len = if self.has_ports { 4 } else { 0 };
        self.transport_at..self.transport_at + len
    }

    /// Writes the payload. Returns its sum, or 0 if the sum is part of the head.
    #[inline(always)]
    fn write_payload(&self, to: &mut [u8], payload: Payload<'_>) -> Sum {
        match payload {
            Payload::Fixed(filler) => {
                // The head has written its first bytes.
                if to.len() > self.copied - self.head_len {
                    to.copy_from_slice(filler.bytes(Window::FIRST, to.len()));
                }
                Sum::default()
            }
            Payload::Stamped(stamp, key, filler) => {
                let (place, rest) = to.split_first_chunk_mut().expect("room was checked");
                stamp.write(place, key);
                let window = Window::of(stamp.lane, stamp.index);
                filler.write(window, rest);
                stamp.sum(key) + filler.sum(window, rest.len())
            }
            Payload::DpdkProject { seed, index, sent_ns } => {
                dpdk_project::write(to, seed, index, sent_ns);
                Sum::default().add_bytes(to)
            }
        }
    }
}

impl Head {
    /// Copies the head to the start of `room`. More bytes than the frame has may be written.
    #[inline(always)]
    fn copy_to(&self, room: &mut [u8], copied: usize) {
        // A frame of one cache line touches no second one.
        let (line, rest) = room[..HEAD].split_at_mut(LINE);
        line.copy_from_slice(&self.bytes[..LINE]);
        if self.len > LINE {
            rest[..LINE].copy_from_slice(&self.bytes[LINE..2 * LINE]);
            if copied > 2 * LINE {
                rest[LINE..].copy_from_slice(&self.bytes[2 * LINE..]);
            }
        }
    }
}

impl Checksum {
    fn of(spec: &PacketSpec, transport_at: usize) -> Self {
        let internet = |at| Self::Internet { at: transport_at + at, for_zero: 0 };
        match spec.protocol {
            proto::SCTP => Self::Crc32c,
            proto::TCP => internet(16),
            // RFC 768: 0 would mean that there is no checksum.
            proto::UDP => Self::Internet { at: transport_at + 6, for_zero: 0xffff },
            _ => internet(2),
        }
    }
}

/// Returns the length fields of the headers, without those of a tunnel.
fn lengths(spec: &PacketSpec, network_at: usize, transport_at: usize) -> Vec<Length> {
    let network = match spec.is_ipv6 {
        true => Length { at: network_at + 4, from: transport_at },
        false => Length { at: network_at + 2, from: network_at },
    };
    let transport = match spec.protocol {
        proto::UDP => Some(Length { at: transport_at + 4, from: transport_at }),
        // The length of the chunk, which follows the common header.
        proto::SCTP if !spec.is_bare => {
            Some(Length { at: transport_at + 14, from: transport_at + 12 })
        }
        _ => None,
    };
    [Some(network), transport].into_iter().flatten().collect()
}

/// Returns the first packet without payload, outside of any tunnel.
fn first_packet(spec: &PacketSpec) -> FrameBuilder {
    let (src, dst) = (spec.src.first(), spec.dst.first());
    let ip = |bits: u128| match spec.is_ipv6 {
        true => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        false => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
    };
    let mut frame = FrameBuilder::ip(ip(src), ip(dst)).ttl(spec.ttl.first() as u8);
    frame = frame.tos(spec.tos.first() as u8).ip_len(0);
    if !spec.is_ipv6 {
        frame = frame.ip_checksum(0);
    }
    let (sport, dport) = (spec.sport.first() as u16, spec.dport.first() as u16);
    let packet = match spec.protocol {
        proto::UDP => frame.udp(sport, dport).udp_len(0),
        proto::TCP => {
            let [seq, ack] = [&spec.seq, &spec.ack].map(|values| values.first() as u32);
            let tcp = frame.tcp(sport, dport).flags(spec.tcp_flags).seq(seq).ack(ack);
            tcp.window(spec.window.first() as u16)
        }
        proto::SCTP => {
            let sctp = frame.sctp(sport, dport).verification_tag(1);
            match spec.is_bare {
                true => sctp,
                // A DATA chunk with a whole message: flags B and E.
                false => sctp.payload([0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            }
        }
        _ => frame.icmp_echo(ECHO_ID, 0),
    };
    packet.checksum(0)
}

/// Returns the headers of the first frame, with zero lengths and checksums.
fn first_frame(spec: &PacketSpec, macs: [[u8; 6]; 2]) -> Vec<u8> {
    let packet = first_packet(spec);
    let mut frame = match &spec.tunnel {
        Some(tunnel) => tunnel.wrap(packet),
        None => packet,
    };
    let given = |values: &Option<Values>, default: [u8; 6]| match values {
        Some(values) => mac_bytes(values.first()),
        None => default,
    };
    frame = frame.macs(given(&spec.src_mac, macs[0]), given(&spec.dst_mac, macs[1]));
    if let Some(vlan) = &spec.outer_vlan {
        frame = frame.qinq(vlan.first() as u16);
    }
    if let Some(vlan) = &spec.vlan {
        frame = frame.vlan(vlan.first() as u16);
    }
    frame.build()
}

/// True if the transport checksum covers a pseudo header with the addresses.
pub(crate) fn has_pseudo(spec: &PacketSpec) -> bool {
    spec.is_ipv6 || spec.protocol != proto::ICMP
}

pub(crate) fn protocol_number(spec: &PacketSpec) -> u8 {
    if spec.is_ipv6 && spec.protocol == proto::ICMP { proto::ICMPV6 } else { spec.protocol }
}

fn mac_bytes(bits: u128) -> [u8; 6] {
    let [_, _, mac @ ..] = (bits as u64).to_be_bytes();
    mac
}

#[inline(always)]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

const _: () = assert!(LINK + Ipv6::LEN + SCTP_HEADERS < 2 * LINE);
const _: () = assert!(LINK + Ipv6::LEN + Udp::LEN + HEADER + INSIDE < HEAD);
/// Maximum number of bytes of the headers before IP.
const LINK: usize = Ethernet::LEN + 8;
/// Maximum number of bytes of the headers inside a tunnel.
const INSIDE: usize = Ethernet::LEN + Ipv6::LEN + SCTP_HEADERS;
const _: () = assert!(Tcp::LEN < SCTP_HEADERS && Udp::LEN == Icmp::LEN);
