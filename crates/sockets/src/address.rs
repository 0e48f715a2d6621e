// SPDX-License-Identifier: BSD-3-Clause
//! Finds the addresses, ports and payload of a UDP frame.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use wire::ethernet::{Ethernet, ether_type};
use wire::{ipv4::Ipv4, ipv6::Ipv6, proto, udp::Udp};

/// Returns the bytes of the headers of a frame without tags, options and extensions.
pub(crate) const fn header_bytes(is_ipv6: bool) -> usize {
    Ethernet::LEN + if is_ipv6 { Ipv6::LEN } else { Ipv4::LEN } + Udp::LEN
}

/// A UDP datagram in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// Place of the payload in the frame.
    pub(crate) payload: Range<usize>,
}

impl Datagram {
    /// Finds the UDP datagram of a frame without VLAN tags and IPv6 extensions; `None` if there is
    /// none.
    #[inline(always)]
    pub(crate) fn find(frame: &[u8]) -> Option<Self> {
        let ethernet = Ethernet::new(frame)?;
        let (source, destination, protocol, at): (IpAddr, IpAddr, u8, usize);
        match ethernet.ether_type() {
            ether_type::IPV4 => {
                let ip = Ipv4::new(ethernet.payload())?;
                (source, destination) = (ip.src().into(), ip.dst().into());
                (protocol, at) = (ip.protocol(), Ethernet::LEN + ip.header_len());
            }
            ether_type::IPV6 => {
                let ip = Ipv6::new(ethernet.payload())?;
                (source, destination) = (ip.src().into(), ip.dst().into());
                (protocol, at) = (ip.next_header(), Ethernet::LEN + Ipv6::LEN);
            }
            _ => return None,
        }
        let udp = Udp::new(frame.get(at..)?).filter(|_| protocol == proto::UDP)?;
        let end = at + usize::from(udp.len_field());
        (at + Udp::LEN <= end && end <= frame.len()).then_some(Self {
            source: SocketAddr::new(source, udp.sport()),
            destination: SocketAddr::new(destination, udp.dport()),
            payload: at + Udp::LEN..end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::FrameBuilder;

    #[test]
    fn a_datagram_is_found_without_the_padding_behind_it() {
        let v4 = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(5, 7).payload(*b"ab");
        let frame = v4.pad().build();
        let found = Datagram::find(&frame).unwrap();
        assert_eq!(found.source, "10.0.0.1:5".parse().unwrap());
        assert_eq!(found.destination, "10.0.0.2:7".parse().unwrap());
        assert_eq!(&frame[found.payload], b"ab");
        let v6 = FrameBuilder::ipv6([1; 16], [2; 16]).udp(5, 7).payload(*b"abc").build();
        let found = Datagram::find(&v6).unwrap();
        assert_eq!((&v6[found.payload.clone()], found.payload.start), (&b"abc"[..], 62));
        assert_eq!(header_bytes(true), 62);
    }

    #[test]
    fn a_frame_of_another_kind_is_none() {
        let tcp = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(5, 7).build();
        for frame in [&tcp[..], &[], &[0; 60]] {
            assert_eq!(Datagram::find(frame), None);
        }
    }
}
