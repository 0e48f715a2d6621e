// SPDX-License-Identifier: BSD-3-Clause
//! Reads the TCP segments and UDP datagrams of captured frames. Checksums are not verified: a host
//! captures what it sends before its NIC computes them.

use crate::profile::Transport;
use std::net::IpAddr;
use wire::ethernet::{Ethernet, ether_type};
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::proto;
use wire::tcp::Tcp;
use wire::udp::Udp;
use wire::vlan::{Vlan, is_tag};

/// Address and port of an end.
pub(super) type End = (IpAddr, u16);

/// A captured TCP segment or UDP datagram.
pub(super) struct Packet<'a> {
    /// Number in the capture, from 1.
    pub(super) number: u64,
    pub(super) time_ns: u64,
    pub(super) src: End,
    pub(super) dst: End,
    pub(super) transport: Transport,
    /// 0 for UDP, as the numbers are.
    pub(super) flags: u8,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) payload: &'a [u8],
    /// Why the payload is not whole.
    pub(super) fault: Option<&'static str>,
}

/// An IP packet: its addresses, its protocol, and its payload.
struct Ip<'a> {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    payload: &'a [u8],
    fault: Option<&'static str>,
}

const CUT: &str = "was cut when it was captured";
const FRAGMENT: &str = "is a fragment: fragments are not put together";

impl<'a> Packet<'a> {
    /// Reads a frame; `None` if it is neither TCP nor UDP, or ends inside its headers.
    pub(super) fn read(frame: &'a [u8], number: u64, time_ns: u64) -> Option<Self> {
        let Ip { src, dst, protocol, payload, fault } = read_ip(frame)?;
        if protocol == proto::UDP {
            let udp = Udp::new(payload)?;
            return Some(Self {
                number,
                time_ns,
                src: (src, udp.sport()),
                dst: (dst, udp.dport()),
                transport: Transport::Udp,
                flags: 0,
                seq: 0,
                ack: 0,
                payload: udp.payload(),
                fault,
            });
        }
        let tcp = Tcp::new(payload).filter(|_| protocol == proto::TCP)?;
        Some(Self {
            number,
            time_ns,
            src: (src, tcp.sport()),
            dst: (dst, tcp.dport()),
            transport: Transport::Tcp,
            flags: tcp.flags(),
            seq: tcp.seq(),
            ack: tcp.ack(),
            payload: tcp.payload(),
            fault,
        })
    }

    /// True if the segment has exactly these of the flags `among`.
    pub(super) fn has(&self, flags: u8, among: u8) -> bool {
        self.flags & among == flags
    }
}

fn read_ip(frame: &[u8]) -> Option<Ip<'_>> {
    let ethernet = Ethernet::new(frame)?;
    let (mut ether_type, mut packet) = (ethernet.ether_type(), ethernet.payload());
    while is_tag(ether_type) {
        let tag = Vlan::new(packet)?;
        (ether_type, packet) = (tag.ether_type(), tag.payload());
    }
    match ether_type {
        ether_type::IPV4 => read_ipv4(packet),
        ether_type::IPV6 => read_ipv6(packet),
        _ => None,
    }
}

fn read_ipv4(packet: &[u8]) -> Option<Ip<'_>> {
    let ip = Ipv4::new(packet)?;
    // A host that leaves the segmentation to its NIC captures packets with a length of 0.
    let total = if ip.total_len() == 0 { packet.len() } else { ip.total_len().into() };
    let end = total.min(packet.len());
    let fault = match () {
        () if ip.fragment_offset() > 0 => return None,
        () if ip.more_fragments() => Some(FRAGMENT),
        () if end < total => Some(CUT),
        () => None,
    };
    Some(Ip {
        src: ip.src().into(),
        dst: ip.dst().into(),
        protocol: ip.protocol(),
        payload: packet.get(ip.header_len()..end)?,
        fault,
    })
}

fn read_ipv6(packet: &[u8]) -> Option<Ip<'_>> {
    let ip = Ipv6::new(packet)?;
    let total = Ipv6::LEN + usize::from(ip.payload_len());
    let end = total.min(packet.len());
    let mut fault = (end < total).then_some(CUT);
    let mut extensions = Ipv6::new(&packet[..end])?.extensions();
    for extension in extensions.by_ref() {
        match extension.fragment() {
            Some((0, true)) => fault = Some(FRAGMENT),
            Some((1.., _)) => return None,
            _ => {}
        }
    }
    Some(Ip {
        src: ip.src().into(),
        dst: ip.dst().into(),
        protocol: extensions.next_header(),
        payload: extensions.payload(),
        fault,
    })
}
