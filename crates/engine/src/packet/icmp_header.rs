// SPDX-License-Identifier: BSD-3-Clause
//! Reads the addresses and the type of an ICMP message from its frame.
//!
//! The batch has an ICMP error under the key of the packet that it quotes, without its own
//! addresses. They are read here if access lists need them, which is rare.

use super::headers::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_TAGS};
use crate::api::{PROTO_ICMP, PROTO_ICMPV6};
use std::net::IpAddr;
use wire::ethernet::Ethernet;
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::vlan::Vlan;

/// Addresses, type and code of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcmpHeader {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    /// Type and code.
    pub(crate) icmp: [u8; 2],
}

impl IcmpHeader {
    /// Reads the header of the ICMP message in this frame, with any number of VLAN tags. `None` if
    /// the frame has none, or is cut.
    pub(crate) fn of_frame(frame: &[u8]) -> Option<Self> {
        let ethernet = Ethernet::new(frame)?;
        let (mut ether_type, mut packet) = (ethernet.ether_type(), ethernet.payload());
        while ETHERTYPE_TAGS.contains(&ether_type) {
            let tag = Vlan::new(packet)?;
            (ether_type, packet) = (tag.ether_type(), tag.payload());
        }
        let (src, dst, proto, message): (IpAddr, IpAddr, u8, &[u8]) = match ether_type {
            ETHERTYPE_IPV4 => {
                let ip = Ipv4::new(packet)?;
                (ip.src().into(), ip.dst().into(), ip.protocol(), ip.payload())
            }
            ETHERTYPE_IPV6 => {
                let ip = Ipv6::new(packet)?;
                let mut extensions = ip.extensions();
                extensions.by_ref().for_each(drop);
                let (proto, message) = (extensions.next_header(), extensions.payload());
                (ip.src().into(), ip.dst().into(), proto, message)
            }
            _ => return None,
        };
        let icmp = *message.first_chunk().filter(|_| matches!(proto, PROTO_ICMP | PROTO_ICMPV6))?;
        Some(Self { src, dst, icmp })
    }
}
