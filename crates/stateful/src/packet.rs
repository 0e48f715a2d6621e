// SPDX-License-Identifier: BSD-3-Clause
//! Reads the headers of received frames. Checksums are verified here.

use crate::ends::Ends;
use crate::frame::{Path, Segment, add_segment, pseudo, write_tcp};
use crate::profile::{is_ipv4, number_of, number_of_v4};
use std::net::IpAddr;
use std::ops::Range;
use wire::checksum::{Sum, internet};
use wire::ethernet::{Ethernet, ether_type};
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::proto;
use wire::tcp::{ACK, FIN, RST, SYN, Tcp};
use wire::udp::Udp;

/// Headers of a TCP segment or UDP datagram.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Headers {
    pub(crate) src: u128,
    pub(crate) dst: u128,
    pub(crate) sport: u16,
    pub(crate) dport: u16,
    pub(crate) is_udp: bool,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// Value of the MSS option; 0 without it.
    pub(crate) mss: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// Place of the payload in the frame.
    pub(crate) payload_at: u16,
    pub(crate) payload_len: u16,
}

impl Headers {
    /// Returns both ends, the receiver first.
    #[inline(always)]
    pub(crate) fn ends(&self) -> Ends {
        let Self { src, dst, sport, dport, is_udp, .. } = *self;
        Ends { addresses: [dst, src], ports: [dport, sport], is_udp }
    }

    /// Returns the place of the payload in the frame.
    #[inline(always)]
    pub(crate) fn payload(&self) -> Range<usize> {
        let begin = usize::from(self.payload_at);
        begin..begin + usize::from(self.payload_len)
    }

    /// Returns the number of sequence numbers that payload and FIN take.
    #[inline(always)]
    pub(crate) fn sequence_len(&self) -> u32 {
        u32::from(self.payload_len) + u32::from(self.flags & FIN != 0)
    }
}

impl Headers {
    /// Writes the answer to a segment that belongs to no connection: an acknowledgement of its FIN,
    /// or a RST (RFC 9293 section 3.10.7.1). `macs` are the destination and the source. Returns the
    /// length of the frame.
    pub(crate) fn write_answer(&self, room: &mut [u8], macs: [[u8; 6]; 2], is_fin: bool) -> usize {
        let [dst_mac, src_mac] = macs;
        let path = Path {
            dst_mac,
            src_mac,
            src: self.dst,
            dst: self.src,
            sport: self.dport,
            dport: self.sport,
        };
        let syn_or_fin = u32::from(self.flags & (SYN | FIN) != 0);
        let after = self.seq.wrapping_add(u32::from(self.payload_len) + syn_or_fin);
        let has_ack = self.flags & ACK != 0;
        let segment = match (is_fin, has_ack) {
            (true, _) => {
                Segment { seq: self.ack, ack: after, flags: ACK, window: u16::MAX, mss: 0 }
            }
            (false, true) => Segment { seq: self.ack, ack: 0, flags: RST, window: 0, mss: 0 },
            (false, false) => Segment { seq: 0, ack: after, flags: RST | ACK, window: 0, mss: 0 },
        };
        write_tcp(room, &path, &segment, (0, |_: &mut [u8]| {}))
    }
}

/// Why a frame is no TCP segment or UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRead {
    /// Another protocol.
    Foreign,
    /// A fragment, or headers that are cut off or contradict each other.
    Malformed,
    /// A wrong checksum.
    BadChecksum,
}

/// IP payload of a frame, and where it is.
struct Transport<'a> {
    src: u128,
    dst: u128,
    protocol: u8,
    bytes: &'a [u8],
    at: usize,
}

impl Transport<'_> {
    /// Returns the sum of the pseudo header.
    #[inline(always)]
    fn pseudo(&self) -> Sum {
        pseudo(self.src, self.dst, self.protocol, self.bytes.len())
    }
}

/// Reads a frame.
#[inline(always)]
pub(crate) fn read(frame: &[u8]) -> Result<Headers, NotRead> {
    let ethernet = Ethernet::new(frame).ok_or(NotRead::Malformed)?;
    let transport = match ethernet.ether_type() {
        ether_type::IPV4 => read_ipv4(ethernet.payload(), Ethernet::LEN)?,
        ether_type::IPV6 => read_ipv6(ethernet.payload(), Ethernet::LEN)?,
        _ => return Err(NotRead::Foreign),
    };
    match transport.protocol {
        proto::TCP => read_tcp(&transport),
        proto::UDP => read_udp(&transport),
        _ => Err(NotRead::Foreign),
    }
}

#[inline(always)]
fn read_ipv4(packet: &[u8], at: usize) -> Result<Transport<'_>, NotRead> {
    let ip = Ipv4::new(packet).ok_or(NotRead::Malformed)?;
    let (header, total) = (ip.header_len(), usize::from(ip.total_len()));
    if ip.version() != 4 || total < header || total > packet.len() {
        return Err(NotRead::Malformed);
    }
    if ip.more_fragments() || ip.fragment_offset() > 0 {
        return Err(NotRead::Malformed);
    }
    let is_right = match packet[..header].try_into() {
        Ok(plain) => Sum::default().add_header(plain).is_zero(),
        Err(_) => internet(&packet[..header]) == 0,
    };
    if !is_right {
        return Err(NotRead::BadChecksum);
    }
    Ok(Transport {
        src: number_of_v4(ip.src()),
        dst: number_of_v4(ip.dst()),
        protocol: ip.protocol(),
        bytes: &packet[header..total],
        at: at + header,
    })
}

fn read_ipv6(packet: &[u8], at: usize) -> Result<Transport<'_>, NotRead> {
    let ip = Ipv6::new(packet).ok_or(NotRead::Malformed)?;
    let end = Ipv6::LEN + usize::from(ip.payload_len());
    if ip.version() != 6 || end > packet.len() {
        return Err(NotRead::Malformed);
    }
    let (src, dst) = (number_of(IpAddr::V6(ip.src())), number_of(IpAddr::V6(ip.dst())));
    // Addresses that stand for those of IPv4 are ours, and on no wire (RFC 4291 section 2.5.5.2).
    if is_ipv4(src) || is_ipv4(dst) {
        return Err(NotRead::Malformed);
    }
    Ok(Transport {
        src,
        dst,
        protocol: ip.next_header(),
        bytes: &packet[Ipv6::LEN..end],
        at: at + Ipv6::LEN,
    })
}

#[inline(always)]
fn read_tcp(transport: &Transport<'_>) -> Result<Headers, NotRead> {
    let tcp = Tcp::new(transport.bytes).ok_or(NotRead::Malformed)?;
    if !add_segment(transport.pseudo(), transport.bytes).is_zero() {
        return Err(NotRead::BadChecksum);
    }
    Ok(Headers {
        src: transport.src,
        dst: transport.dst,
        sport: tcp.sport(),
        dport: tcp.dport(),
        is_udp: false,
        flags: tcp.flags(),
        window: tcp.window(),
        mss: if tcp.options().is_empty() { 0 } else { mss_of(tcp.options()) },
        seq: tcp.seq(),
        ack: tcp.ack(),
        payload_at: (transport.at + tcp.header_len()) as u16,
        payload_len: tcp.payload().len() as u16,
    })
}

#[inline(always)]
fn read_udp(transport: &Transport<'_>) -> Result<Headers, NotRead> {
    let udp = Udp::new(transport.bytes).ok_or(NotRead::Malformed)?;
    let len = usize::from(udp.len_field());
    if len < Udp::LEN || len > transport.bytes.len() {
        return Err(NotRead::Malformed);
    }
    // A checksum of 0 says that there is none (RFC 768).
    if udp.checksum() != 0 {
        let sum = pseudo(transport.src, transport.dst, proto::UDP, len);
        if !sum.add_bytes(&transport.bytes[..len]).is_zero() {
            return Err(NotRead::BadChecksum);
        }
    }
    Ok(Headers {
        src: transport.src,
        dst: transport.dst,
        sport: udp.sport(),
        dport: udp.dport(),
        is_udp: true,
        payload_at: (transport.at + Udp::LEN) as u16,
        payload_len: (len - Udp::LEN) as u16,
        ..Headers::default()
    })
}

/// Returns the value of the MSS option (RFC 9293 section 3.2); 0 without it.
fn mss_of(mut options: &[u8]) -> u16 {
    while let [kind, rest @ ..] = options {
        match (*kind, rest) {
            (0, _) => return 0,
            (1, _) => options = rest,
            (2, [4, a, b, ..]) => return u16::from_be_bytes([*a, *b]),
            (_, [len, ..]) if *len >= 2 && usize::from(*len) <= options.len() => {
                options = &options[usize::from(*len)..];
            }
            _ => return 0,
        }
    }
    0
}
