// SPDX-License-Identifier: BSD-3-Clause
//! Frames of a stream at speed: headers are built once, then copied, and varying fields written.
//!
//! The sums of everything that does not vary are taken once too, so a checksum costs a few
//! additions however long the packet is.

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

/// Bytes that the head of a template has: as many as the longest headers, or more.
pub(crate) const HEAD: usize = 3 * LINE;
/// Bytes that are copied at once.
const LINE: usize = 64;
/// Bytes of the common header of SCTP and of that of a DATA chunk (RFC 9260 sections 3.1, 3.3.1).
const SCTP_HEADERS: usize = 12 + 16;
const ECHO_ID: u16 = 0x6d72;

/// What follows the headers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload {
    /// The same bytes in every packet.
    Fixed,
    /// A stamp, and bytes that only this packet has.
    Stamped(Stamp, StampKey),
    /// As dpdk-project makes it.
    DpdkProject { seed: u64, index: u64, sent_ns: u64 },
}

impl Payload {
    /// The payload of packet `index` of a lane: a stream, and a sender of it.
    #[inline(always)]
    pub(crate) fn verified(format: PayloadFormat, lane: u16, index: u64, sent_ns: u64) -> Self {
        match format {
            PayloadFormat::Stamped(key) => {
                Self::Stamped(Stamp { lane, index: index as u32, sent_ns }, key)
            }
            PayloadFormat::DpdkProject { seed, senders } => {
                let index = index * u64::from(senders) + u64::from(lane);
                Self::DpdkProject { seed, index, sent_ns }
            }
        }
    }
}

/// Headers of a stream, with every field that varies at zero.
#[derive(Debug)]
pub(crate) struct Template {
    head: [u8; HEAD],
    head_len: usize,
    /// Bytes of the head that are copied to the begin of every frame: its headers, and more.
    copied: usize,
    tunnel: Option<Tunnel>,
    network_at: usize,
    transport_at: usize,
    is_ipv6: bool,
    protocol: u8,
    is_bare: bool,
    /// Of the IPv4 header, without its length.
    network_sum: Sum,
    /// Of pseudo header and transport header, without lengths.
    transport_sum: Sum,
}

/// Where a value goes into the headers: bits `shift..` of it, put left by `left`, beside `others`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: usize,
    /// 2, 4 or 8, at an even distance from the begin of its header.
    width: usize,
    shift: u32,
    left: u32,
    others: u64,
    in_network_sum: bool,
    in_transport_sum: bool,
}

/// A field that varies, and where it goes.
#[derive(Debug)]
pub(crate) struct Varying {
    pub(crate) values: Values,
    pub(crate) places: Vec<Place>,
}

/// Sums of the values that were written to a frame.
#[derive(Clone, Copy, Default)]
pub(crate) struct ValueSums {
    network: Sum,
    transport: Sum,
}

impl Template {
    /// Builds the headers; returns them and the fields that vary, the fastest first. `macs` are
    /// those of sender and receiver where the stream names none.
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
        for place in varying.iter().flat_map(|field| &field.places) {
            frame[place.at..place.at + place.width].fill(0);
        }
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
            protocol: spec.protocol,
            is_bare: spec.is_bare,
            network_sum: Sum::default().add_bytes(network),
            transport_sum: if has_pseudo(spec) { pseudo + transport_sum } else { transport_sum },
        };
        (template, varying)
    }

    /// Refuses frames of `shortest` bytes without FCS that have no room for headers and stamp.
    pub(crate) fn check_room(&self, shortest: usize, is_stamped: bool) -> Result<(), SpecError> {
        let least = self.head_len + if is_stamped { Stamp::LEN } else { 0 };
        if shortest >= least {
            return Ok(());
        }
        let fault = ValueFault::TooShort { size: shortest + super::FCS, least: least + super::FCS };
        Err(SpecError::Value { key: "size", fault })
    }

    /// Writes the begin of a frame of `len` bytes; the values that vary come next. The room must be
    /// [`HEAD`] bytes at least.
    #[inline(always)]
    pub(crate) fn write_head(&self, room: &mut [u8], len: usize) {
        // A frame of one cache line touches no second one.
        let (line, rest) = room[..HEAD].split_at_mut(LINE);
        line.copy_from_slice(&self.head[..LINE]);
        if len > LINE {
            rest[..LINE].copy_from_slice(&self.head[LINE..2 * LINE]);
        }
        if self.copied > 2 * LINE {
            rest[LINE..].copy_from_slice(&self.head[2 * LINE..]);
        }
    }

    /// Returns the frame of `len` bytes of a packet in which nothing varies.
    pub(crate) fn fixed_frame(&self, len: usize, filler: &Filler) -> Box<[u8]> {
        let mut room = vec![0; crate::ROOM];
        self.write_head(&mut room, len);
        self.finish(&mut room[..len], ValueSums::default(), Payload::Fixed, filler);
        room.truncate(len);
        room.into()
    }

    /// Writes payload, lengths and checksums, behind the values that vary.
    #[inline(always)]
    pub(crate) fn finish(
        &self,
        frame: &mut [u8],
        values: ValueSums,
        payload: Payload,
        filler: &Filler,
    ) {
        if self.protocol == proto::SCTP && !self.is_bare {
            // A packet of chunks has a multiple of 4 bytes (RFC 9260 section 3.2).
            let len = frame.len() - (frame.len() - self.transport_at) % 4;
            let (packet, trailer) = frame.split_at_mut(len);
            trailer.fill(0);
            return self.finish_packet(packet, values, payload, filler);
        }
        self.finish_packet(frame, values, payload, filler);
    }

    #[inline(always)]
    fn finish_packet(
        &self,
        frame: &mut [u8],
        values: ValueSums,
        payload: Payload,
        filler: &Filler,
    ) {
        let len = frame.len();
        let payload_len = len - self.head_len;
        let payload_sum = self.write_payload(&mut frame[self.head_len..], payload, filler);
        if self.is_ipv6 {
            put16(frame, self.network_at + 4, (len - self.network_at - Ipv6::LEN) as u16);
        } else {
            let total = (len - self.network_at) as u16;
            put16(frame, self.network_at + 2, total);
            let sum = (self.network_sum + values.network).add_u16(total);
            put16(frame, self.network_at + 10, sum.finish());
        }
        let sum = self.transport_sum + values.transport + payload_sum;
        self.finish_transport(frame, sum, payload_len);
        if let Some(tunnel) = &self.tunnel {
            tunnel.finish(frame, [self.addresses(), self.ports()]);
        }
    }

    fn addresses(&self) -> Range<usize> {
        let at = self.network_at;
        if self.is_ipv6 { at + 8..at + 40 } else { at + 12..at + 20 }
    }

    fn ports(&self) -> Range<usize> {
        let len = if self.protocol == proto::ICMP { 0 } else { 4 };
        self.transport_at..self.transport_at + len
    }

    /// Writes the payload; returns its sum.
    #[inline(always)]
    fn write_payload(&self, to: &mut [u8], payload: Payload, filler: &Filler) -> Sum {
        match payload {
            Payload::Fixed => {
                // The begin came with the head.
                if to.len() > self.copied - self.head_len {
                    to.copy_from_slice(filler.bytes(Window::FIRST, to.len()));
                }
                filler.sum(Window::FIRST, to.len())
            }
            Payload::Stamped(stamp, key) => {
                let (place, rest) = to.split_first_chunk_mut().expect("room was checked");
                stamp.write(place, key);
                let window = Window::of(stamp.lane, stamp.index);
                rest.copy_from_slice(filler.bytes(window, rest.len()));
                stamp.sum(key) + filler.sum(window, rest.len())
            }
            Payload::DpdkProject { seed, index, sent_ns } => {
                dpdk_project::write(to, seed, index, sent_ns);
                Sum::default().add_bytes(to)
            }
        }
    }

    #[inline(always)]
    fn finish_transport(&self, frame: &mut [u8], sum: Sum, payload_len: usize) {
        let at = self.transport_at;
        let len = (frame.len() - at) as u16;
        match self.protocol {
            proto::UDP => {
                put16(frame, at + 4, len);
                let checksum = sum.add_u16(len).add_u16(len).finish();
                // RFC 768: 0 would say that there is no checksum.
                put16(frame, at + 6, if checksum == 0 { 0xffff } else { checksum });
            }
            proto::TCP => put16(frame, at + 16, sum.add_u16(len).finish()),
            proto::SCTP => {
                if !self.is_bare {
                    put16(frame, at + 14, (16 + payload_len) as u16);
                }
                let crc = Crc32c::default().add_bytes(&frame[at..]).finish();
                frame[at + 8..at + 12].copy_from_slice(&crc.to_le_bytes());
            }
            _ if self.is_ipv6 => put16(frame, at + 2, sum.add_u16(len).finish()),
            _ => put16(frame, at + 2, sum.finish()),
        }
    }
}

impl Place {
    /// A value as it is, in no sum.
    pub(crate) fn plain(at: usize, width: usize) -> Self {
        Self {
            at,
            width,
            shift: 0,
            left: 0,
            others: 0,
            in_network_sum: false,
            in_transport_sum: false,
        }
    }

    /// An IPv6 address, in no sum.
    pub(crate) fn ipv6(at: usize) -> [Self; 2] {
        [Self { shift: 64, ..Self::plain(at, 8) }, Self::plain(at + 8, 8)]
    }

    /// Writes the value this many bits further left.
    pub(crate) fn left(self, left: u32) -> Self {
        Self { left, ..self }
    }

    /// Writes a value; adds it to the sums.
    #[inline(always)]
    pub(crate) fn write(&self, frame: &mut [u8], value: u128, sums: &mut ValueSums) {
        let value = ((value >> self.shift) as u64) << self.left | self.others;
        let bytes = value.to_be_bytes();
        let sum = match self.width {
            2 => {
                frame[self.at..self.at + 2].copy_from_slice(&bytes[6..]);
                Sum::default().add_u16(value as u16)
            }
            4 => {
                frame[self.at..self.at + 4].copy_from_slice(&bytes[4..]);
                Sum::default().add_u32(value as u32)
            }
            _ => {
                frame[self.at..self.at + 8].copy_from_slice(&bytes);
                Sum::default().add_u32((value >> 32) as u32).add_u32(value as u32)
            }
        };
        if self.in_network_sum {
            sums.network = sums.network + sum;
        }
        if self.in_transport_sum {
            sums.transport = sums.transport + sum;
        }
    }
}

/// The first packet without payload, outside of any tunnel.
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
                // A DATA chunk with all of a message: flags B and E.
                false => sctp.payload([0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            }
        }
        _ => frame.icmp_echo(ECHO_ID, 0),
    };
    packet.checksum(0)
}

/// The headers of the first frame, with lengths and checksums of zero.
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

/// True if a pseudo header of addresses is part of the checksum.
fn has_pseudo(spec: &PacketSpec) -> bool {
    spec.is_ipv6 || spec.protocol != proto::ICMP
}

fn protocol_number(spec: &PacketSpec) -> u8 {
    if spec.is_ipv6 && spec.protocol == proto::ICMP { proto::ICMPV6 } else { spec.protocol }
}

fn mac_bytes(bits: u128) -> [u8; 6] {
    let [_, _, mac @ ..] = (bits as u64).to_be_bytes();
    mac
}

/// The fields with several values, the fastest first.
fn varying_fields(
    spec: &PacketSpec,
    link_len: usize,
    network_at: usize,
    transport_at: usize,
) -> Vec<Varying> {
    let place = Place::plain;
    let in_transport = |at, width| vec![Place { in_transport_sum: true, ..place(at, width) }];
    let in_network = |at, width| Place { in_network_sum: true, ..place(at, width) };
    let mac = |at| vec![Place { shift: 32, ..place(at, 2) }, place(at + 2, 4)];
    let address = |at, at_ipv6| match spec.is_ipv6 {
        false => {
            vec![Place { in_transport_sum: has_pseudo(spec), ..in_network(network_at + at, 4) }]
        }
        true => {
            let halves = Place::ipv6(network_at + at_ipv6);
            halves.map(|half| Place { in_transport_sum: true, ..half }).into()
        }
    };
    let (tos, ttl) = match spec.is_ipv6 {
        false => {
            let protocol = u64::from(spec.protocol);
            let tos = Place { others: 0x4500, ..in_network(network_at, 2) };
            (tos, Place { left: 8, others: protocol, ..in_network(network_at + 8, 2) })
        }
        true => {
            let next = u64::from(protocol_number(spec));
            let tos = Place { left: 4, others: 0x6000, ..place(network_at, 2) };
            // Next header comes first there.
            (tos, Place { others: next << 8, ..place(network_at + 6, 2) })
        }
    };
    let tag = |number: usize| vec![place(Ethernet::LEN + 4 * number, 2)];
    let inner = usize::from(spec.outer_vlan.is_some());
    let candidates = [
        (Some(&spec.sport), in_transport(transport_at, 2)),
        (Some(&spec.src), address(12, 8)),
        (Some(&spec.dst), address(16, 24)),
        (Some(&spec.dport), in_transport(transport_at + 2, 2)),
        (spec.vlan.as_ref(), tag(inner)),
        (spec.outer_vlan.as_ref(), tag(0)),
        (spec.src_mac.as_ref(), mac(6)),
        (spec.dst_mac.as_ref(), mac(0)),
        (Some(&spec.tos), vec![tos]),
        (Some(&spec.ttl), vec![ttl]),
        (Some(&spec.seq), in_transport(transport_at + 4, 4)),
        (Some(&spec.ack), in_transport(transport_at + 8, 4)),
        (Some(&spec.window), in_transport(transport_at + 14, 2)),
    ];
    let of_tunnel = spec.tunnel.iter().flat_map(|tunnel| tunnel.fields(link_len));
    let several = candidates.into_iter().chain(of_tunnel).filter_map(|(values, places)| {
        let values = values.filter(|values| values.count() > 1)?;
        Some(Varying { values: values.clone(), places })
    });
    several.collect()
}

#[inline(always)]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

const _: () = assert!(LINK + Ipv6::LEN + SCTP_HEADERS < 2 * LINE);
const _: () = assert!(LINK + Ipv6::LEN + Udp::LEN + HEADER + INSIDE < HEAD);
/// Bytes of the headers before IP, and of those inside a tunnel.
const LINK: usize = Ethernet::LEN + 8;
const INSIDE: usize = Ethernet::LEN + Ipv6::LEN + SCTP_HEADERS;
const _: () = assert!(Tcp::LEN < SCTP_HEADERS && Udp::LEN == Icmp::LEN);
