// SPDX-License-Identifier: BSD-3-Clause
//! Builds frames for tests and generators: valid by default, malformed on request.
//!
//! Start with [`FrameBuilder::ipv4`], [`ipv6`](FrameBuilder::ipv6) or
//! [`ethernet`](FrameBuilder::ethernet), add headers and payload, and
//! [`build`](FrameBuilder::build) the frame. Lengths, checksums and next-header fields are computed
//! unless they are set. A method that does not apply to the frame panics: the calling test is
//! wrong.
//!
//! ```
//! use wire::FrameBuilder;
//! let query = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).vlan(5).udp(4000, 53);
//! let answer = query.clone().reversed().payload(b"answer").build();
//! ```

mod emit;
mod ip;
mod transport;

use crate::ethernet::{MIN_FRAME, ether_type};
use crate::proto;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Description of a frame, from which its bytes are built.
#[derive(Clone, Debug)]
pub struct FrameBuilder {
    src_mac: [u8; 6],
    dst_mac: [u8; 6],
    /// VLAN tags, outermost first: the EtherType that announces the tag, and its control
    /// information.
    tags: Vec<(u16, u16)>,
    network: Network,
    ip: IpFields,
    transport: Transport,
    /// Overrides the transport checksum.
    checksum: Option<u32>,
    payload: Vec<u8>,
    min_len: usize,
}

#[derive(Clone, Copy, Debug)]
enum Network {
    /// No IP header; `None` is an IEEE 802.3 frame.
    Link(Option<u16>),
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

#[derive(Clone, Debug, Default)]
struct IpFields {
    tos: u8,
    flow_label: u32,
    id: u32,
    ttl: u8,
    dont_fragment: bool,
    /// Offset in bytes, and whether more fragments follow. For IPv6, the header is in `extensions`.
    fragment: (usize, bool),
    options: Vec<u8>,
    /// Extension headers: number, and the bytes behind next header and length.
    extensions: Vec<(u8, Vec<u8>)>,
    version: Option<u8>,
    header_words: Option<u8>,
    len: Option<u16>,
    checksum: Option<u16>,
}

#[derive(Clone, Debug)]
enum Transport {
    Raw(u8),
    /// A protocol number, and the bytes of its header.
    Plain(u8, Vec<u8>),
    Tcp(TcpFields),
    Udp {
        sport: u16,
        dport: u16,
        len: Option<u16>,
    },
    Sctp {
        sport: u16,
        dport: u16,
        tag: u32,
    },
    Icmp {
        kind: IcmpKind,
        rest: [u8; 4],
    },
}

#[derive(Clone, Debug)]
struct TcpFields {
    sport: u16,
    dport: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    offset_words: Option<u8>,
}

/// Kind of an ICMP message. Echo has other type numbers in ICMPv6.
#[derive(Clone, Copy, Debug)]
enum IcmpKind {
    EchoRequest,
    EchoReply,
    Other { kind: u8, code: u8 },
}

impl FrameBuilder {
    /// Starts an IPv4 packet.
    pub fn ipv4(src: impl Into<Ipv4Addr>, dst: impl Into<Ipv4Addr>) -> Self {
        Self::with(Network::V4(src.into(), dst.into()))
    }

    /// Starts an IPv6 packet.
    pub fn ipv6(src: impl Into<Ipv6Addr>, dst: impl Into<Ipv6Addr>) -> Self {
        Self::with(Network::V6(src.into(), dst.into()))
    }

    /// Starts an IP packet of the addresses' version.
    ///
    /// # Panics
    /// If the addresses have different versions.
    pub fn ip(src: IpAddr, dst: IpAddr) -> Self {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Self::ipv4(src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Self::ipv6(src, dst),
            _ => panic!("{src} and {dst} are of different IP versions"),
        }
    }

    /// Starts a frame with this EtherType; the payload follows the Ethernet header.
    pub fn ethernet(ether_type: u16) -> Self {
        Self::with(Network::Link(Some(ether_type)))
    }

    /// Starts an IEEE 802.3 frame, which has a length in place of the EtherType. The payload starts
    /// with LLC.
    pub fn ieee_802_3() -> Self {
        Self::with(Network::Link(None))
    }

    fn with(network: Network) -> Self {
        Self {
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
            tags: Vec::new(),
            network,
            ip: IpFields { ttl: 64, ..IpFields::default() },
            transport: Transport::Raw(proto::EXPERIMENT),
            checksum: None,
            payload: Vec::new(),
            min_len: 0,
        }
    }

    /// Sets the Ethernet addresses.
    pub fn macs(mut self, src: [u8; 6], dst: [u8; 6]) -> Self {
        (self.src_mac, self.dst_mac) = (src, dst);
        self
    }

    /// Adds an 802.1Q tag with this identifier inside the tags so far.
    pub fn vlan(self, id: u16) -> Self {
        self.tag(ether_type::VLAN, id)
    }

    /// Adds an 802.1ad service tag with this identifier inside the tags so far.
    pub fn qinq(self, id: u16) -> Self {
        self.tag(ether_type::QINQ, id)
    }

    /// Adds any tag: the EtherType that announces it, and its 16 bits of control information.
    pub fn tag(mut self, ether_type: u16, control: u16) -> Self {
        self.tags.push((ether_type, control));
        self
    }

    /// Sets the payload behind the last header.
    pub fn payload(mut self, payload: impl AsRef<[u8]>) -> Self {
        self.payload = payload.as_ref().to_vec();
        self
    }

    /// Pads the frame with zeros to 60 bytes, the shortest Ethernet frame.
    pub fn pad(self) -> Self {
        self.pad_to(MIN_FRAME)
    }

    /// Pads the frame with zeros to `len` bytes.
    pub fn pad_to(mut self, len: usize) -> Self {
        self.min_len = len;
        self
    }

    /// Returns the frame in the other direction: with addresses and ports exchanged.
    ///
    /// An echo request becomes a reply, and a reply a request. Sequence numbers, flags and payload
    /// do not change.
    pub fn reversed(mut self) -> Self {
        std::mem::swap(&mut self.src_mac, &mut self.dst_mac);
        match &mut self.network {
            Network::Link(_) => {}
            Network::V4(src, dst) => std::mem::swap(src, dst),
            Network::V6(src, dst) => std::mem::swap(src, dst),
        }
        match &mut self.transport {
            Transport::Raw(_) | Transport::Plain(..) => {}
            Transport::Tcp(TcpFields { sport, dport, .. })
            | Transport::Udp { sport, dport, .. }
            | Transport::Sctp { sport, dport, .. } => std::mem::swap(sport, dport),
            Transport::Icmp { kind, .. } => {
                *kind = match *kind {
                    IcmpKind::EchoRequest => IcmpKind::EchoReply,
                    IcmpKind::EchoReply => IcmpKind::EchoRequest,
                    other => other,
                }
            }
        }
        self
    }
}

#[cfg(test)]
mod tests;
