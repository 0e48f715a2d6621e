// SPDX-License-Identifier: BSD-3-Clause
//! Writes frames by templates: headers are built once, then copied and patched for each packet.
//!
//! The sums of constant parts are computed once too: of headers, of the addresses of a connection,
//! of payloads by length. So a checksum costs a few additions for any length of the packet.

use crate::endpoints::Endpoints;
use crate::{MAX_FRAME, Side};
use wire::checksum::{self, Sum};
use wire::ethernet::MIN_FRAME;
use wire::{FrameBuilder, icmp::Icmp, ipv4::Ipv4, ipv6::Ipv6, proto, tcp, udp::Udp};

/// One packet of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) side: Side,
    pub(crate) transport: Transport,
    pub(crate) payload_len: usize,
    /// IPv4 identification.
    pub(crate) id: u16,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    Tcp {
        flags: u8,
        seq: u32,
        ack: u32,
    },
    Udp,
    /// Echo request from side A, echo reply from side B.
    Icmp {
        seq: u16,
    },
}

/// Bytes of the longest headers: Ethernet, two tags, IPv6, TCP with the options of a SYN.
const MAX_HEADERS: usize = 14 + 2 * 4 + Ipv6::LEN + 20 + SYN_OPTIONS.len();

const _: () = assert!(MAX_HEADERS >= MIN_FRAME);

/// TCP options of a SYN: maximum segment size 1460, window scale 7.
const SYN_OPTIONS: [u8; 8] = [2, 4, 0x05, 0xb4, 1, 3, 3, 7];

/// The headers of one kind of frame. Addresses, ports, lengths and checksums are zero.
#[derive(Clone, Debug)]
struct Template {
    bytes: [u8; MAX_HEADERS],
    len: usize,
    network_at: usize,
    transport_at: usize,
    /// Sum of the IPv4 header.
    network_sum: Sum,
    /// Sum of the transport header, and of the protocol number if there is a pseudo header.
    transport_sum: Sum,
}

/// The templates of every kind of frame, and the payload.
#[derive(Debug)]
pub(crate) struct Templates {
    shapes: Vec<Template>,
    payload: Payload,
}

/// Kinds of transport header in `Templates::shapes`.
#[derive(Clone, Copy)]
enum Header {
    Syn,
    Tcp,
    Udp,
    Icmp,
}

impl Templates {
    pub(crate) fn new() -> Self {
        let mut shapes = Vec::new();
        for ipv6 in [false, true] {
            for tags in 0..3 {
                for header in [Header::Syn, Header::Tcp, Header::Udp, Header::Icmp] {
                    for side in [Side::A, Side::B] {
                        shapes.push(Template::new(ipv6, tags, header, side));
                    }
                }
            }
        }
        Self { shapes, payload: Payload::new() }
    }

    fn shape(&self, ends: &Endpoints, packet: &Packet) -> &Template {
        let header = match packet.transport {
            Transport::Tcp { flags, .. } if flags & tcp::SYN != 0 => Header::Syn,
            Transport::Tcp { .. } => Header::Tcp,
            Transport::Udp => Header::Udp,
            Transport::Icmp { .. } => Header::Icmp,
        };
        let index = usize::from(ends.ipv6) * 3 + usize::from(ends.tags);
        &self.shapes[(index * 4 + header as usize) * 2 + packet.side as usize]
    }

    /// Writes the frame of `packet` to the start of `buf`; returns its length.
    pub(crate) fn write(&self, buf: &mut [u8], ends: &Endpoints, packet: &Packet) -> usize {
        let buf: &mut [u8; MAX_FRAME] = buf.first_chunk_mut().expect("room for MAX_FRAME bytes");
        let template = self.shape(ends, packet);
        // This also writes the zeros of the padding: all templates have MAX_HEADERS bytes.
        buf[..MAX_HEADERS].copy_from_slice(&template.bytes);
        let end = template.len + packet.payload_len;
        buf[template.len..end].copy_from_slice(&self.payload.bytes[..packet.payload_len]);

        for (tag, id) in ends.vlans[..usize::from(ends.tags)].iter().enumerate() {
            put16(buf, 14 + tag * 4, *id);
        }
        let network = &mut buf[template.network_at..];
        if ends.ipv6 {
            patch_ipv6(network, ends, packet.side, end - template.network_at - Ipv6::LEN);
        } else {
            let len = end - template.network_at;
            patch_ipv4(network, ends, packet, len, template.network_sum);
        }
        let sum = template.transport_sum + self.payload.sum(packet.payload_len);
        patch_transport(&mut buf[template.transport_at..end], ends, packet, sum);
        end.max(MIN_FRAME)
    }
}

impl Template {
    fn new(ipv6: bool, tags: usize, header: Header, side: Side) -> Self {
        let ip = if ipv6 {
            FrameBuilder::ipv6([0u8; 16], [0u8; 16])
        } else {
            FrameBuilder::ipv4([0; 4], [0; 4]).ip_checksum(0)
        };
        let tagged = match tags {
            0 => ip,
            1 => ip.vlan(0),
            _ => ip.qinq(0).vlan(0),
        };
        let frame = match header {
            Header::Syn => tagged.tcp(0, 0).flags(0).tcp_options(&SYN_OPTIONS),
            Header::Tcp => tagged.tcp(0, 0).flags(0),
            Header::Udp => tagged.udp(0, 0).udp_len(0),
            Header::Icmp if side == Side::A => tagged.icmp_echo(0, 0),
            Header::Icmp => tagged.icmp_echo_reply(0, 0),
        };
        let (here, there) = ([2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb]);
        let (src, dst) = if side == Side::A { (here, there) } else { (there, here) };
        let frame = frame.macs(src, dst).ip_len(0).checksum(0).build();

        let network_at = 14 + tags * 4;
        let transport_at = network_at + if ipv6 { Ipv6::LEN } else { Ipv4::LEN };
        let (network, transport) = frame[network_at..].split_at(transport_at - network_at);
        let pseudo = match (header, ipv6) {
            (Header::Syn | Header::Tcp, _) => proto::TCP,
            (Header::Udp, _) => proto::UDP,
            (Header::Icmp, true) => proto::ICMPV6,
            (Header::Icmp, false) => 0,
        };
        let mut bytes = [0; MAX_HEADERS];
        bytes[..frame.len()].copy_from_slice(&frame);
        Self {
            bytes,
            len: frame.len(),
            network_at,
            transport_at,
            network_sum: Sum::default().add_bytes(network),
            transport_sum: Sum::default().add_bytes(transport).add_u16(pseudo.into()),
        }
    }
}

fn patch_ipv4(header: &mut [u8], ends: &Endpoints, packet: &Packet, len: usize, sum: Sum) {
    let sum = sum + ends.address_sum;
    put16(header, 2, len as u16);
    put16(header, 4, packet.id);
    put16(header, 10, sum.add_u16(len as u16).add_u16(packet.id).finish());
    header[12..16].copy_from_slice(&ends.address(packet.side)[..4]);
    header[16..20].copy_from_slice(&ends.address(packet.side.other())[..4]);
}

fn patch_ipv6(header: &mut [u8], ends: &Endpoints, side: Side, payload_len: usize) {
    put16(header, 4, payload_len as u16);
    header[8..24].copy_from_slice(ends.address(side));
    header[24..40].copy_from_slice(ends.address(side.other()));
}

/// Writes ports, lengths and the checksum. `sum` is the sum of template and payload.
fn patch_transport(segment: &mut [u8], ends: &Endpoints, packet: &Packet, sum: Sum) {
    let len = segment.len() as u16;
    let (sport, dport) = (ends.port(packet.side), ends.port(packet.side.other()));
    let with_pseudo = (sum + ends.address_sum).add_u16(len);
    match packet.transport {
        Transport::Tcp { flags, seq, ack } => {
            put16(segment, 0, sport);
            put16(segment, 2, dport);
            put32(segment, 4, seq);
            put32(segment, 8, ack);
            segment[13] = flags;
            let sum = with_pseudo.add_u16(sport).add_u16(dport).add_u32(seq).add_u32(ack);
            put16(segment, 16, sum.add_u16(flags.into()).finish());
        }
        Transport::Udp => {
            put16(segment, 0, sport);
            put16(segment, 2, dport);
            put16(segment, 4, len);
            let checksum = with_pseudo.add_u16(sport).add_u16(dport).add_u16(len).finish();
            // RFC 768: 0 would mean that there is no checksum.
            put16(segment, 6, if checksum == 0 { 0xffff } else { checksum });
        }
        Transport::Icmp { seq } => {
            let id = ends.port(Side::A);
            put16(segment, 4, id);
            put16(segment, 6, seq);
            let sum = if ends.ipv6 { with_pseudo } else { sum };
            put16(segment, 2, sum.add_u16(id).add_u16(seq).finish());
        }
    }
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The payload of which every packet carries the first bytes, and the checksum of every length.
#[derive(Debug)]
struct Payload {
    bytes: [u8; Payload::MAX],
    checksums: Vec<u16>,
}

impl Payload {
    /// Bytes of the longest payload: UDP in an IPv4 packet of 1500 bytes.
    const MAX: usize = 1500 - Ipv4::LEN - Udp::LEN;

    fn new() -> Self {
        // The alphabet, repeated, is easy to see in a dump.
        let bytes = std::array::from_fn(|i| b'a' + (i % 26) as u8);
        let checksums = (0..=Self::MAX).map(|len| checksum::internet(&bytes[..len])).collect();
        Self { bytes, checksums }
    }

    fn sum(&self, len: usize) -> Sum {
        Sum::default().add_u16(!self.checksums[len])
    }
}

const _: () = assert!(Icmp::LEN == Udp::LEN, "Payload::MAX is that of ICMP too");
