// SPDX-License-Identifier: BSD-3-Clause
//! Returns addresses, ports and tags of a stream's packets, for ARP and neighbour discovery and for
//! sockets.

use super::spec::{PacketSpec, StreamSpec};
use super::tunnel::TunnelSpec;
use super::values::Values;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::ethernet::ether_type;
use wire::proto;

impl StreamSpec {
    /// True if the packets are UDP.
    pub fn is_udp(&self) -> bool {
        self.packet.protocol == proto::UDP
    }

    /// True if the packets are IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.packet.is_ipv6
    }

    /// Returns the destination address and port of the packets; `None` if there are several.
    pub fn destination(&self) -> Option<SocketAddr> {
        let PacketSpec { dst, dport, .. } = &self.packet;
        let is_one = dst.count() == 1 && dport.count() == 1;
        is_one.then(|| SocketAddr::new(self.packet.address(dst.first()), dport.first() as u16))
    }

    /// Returns `dst` or `dport` if its values contain 0, an address or port that no receiver can
    /// have; else `None`.
    pub fn key_without_receiver(&self) -> Option<&'static str> {
        let PacketSpec { dst, dport, .. } = &self.packet;
        let keys = [("dst", dst.contains(0)), ("dport", dport.contains(0))];
        keys.into_iter().find_map(|(key, has_zero)| has_zero.then_some(key))
    }

    /// Returns the source addresses of the packets; `None` if there are more than `max`.
    pub fn source_addresses(&self, max: usize) -> Option<Vec<IpAddr>> {
        let values = &self.packet.src;
        let is_few = values.count() <= max as u64;
        is_few.then(|| (0..values.count()).map(|at| self.packet.address(values.at(at))).collect())
    }

    /// Returns the source ports of the packets; `None` if there are more than `max`.
    pub fn source_ports(&self, max: usize) -> Option<Vec<u16>> {
        let values = &self.packet.sport;
        let is_few = values.count() <= max as u64;
        is_few.then(|| (0..values.count()).map(|at| values.at(at) as u16).collect())
    }

    /// True if the stream sends packets with this source address: that of the tunnel, if there is
    /// one. False for a stream that sends a capture.
    pub fn sends_from(&self, address: IpAddr) -> bool {
        let (is_ipv6, number) = match address {
            IpAddr::V4(address) => (false, address.to_bits().into()),
            IpAddr::V6(address) => (true, address.to_bits()),
        };
        let (of_ipv6, src) = self.packet.outer_source();
        self.playback.is_none() && of_ipv6 == is_ipv6 && src.contains(number)
    }

    /// True if the packets are neither from a capture nor in a tunnel.
    pub fn is_plain(&self) -> bool {
        self.playback.is_none() && self.packet.tunnel.is_none()
    }

    /// Returns the source address of the first packet: that of the tunnel, if there is one.
    pub fn first_source(&self) -> IpAddr {
        let (is_ipv6, src) = self.packet.outer_source();
        address(is_ipv6, src.first())
    }

    /// Returns source and destination of the first packet, inside of a tunnel if there is one.
    /// Ports are 0 if the protocol has none.
    pub fn first_ends(&self) -> [SocketAddr; 2] {
        let PacketSpec { src, dst, sport, dport, .. } = &self.packet;
        [(src, sport), (dst, dport)].map(|(address, port)| {
            SocketAddr::new(self.packet.address(address.first()), port.first() as u16)
        })
    }

    /// Returns the bytes of the first packet's VLAN tags, from the first TPID on.
    pub fn first_tags(&self) -> Vec<u8> {
        let tag =
            |(tpid, id): (u16, &Values)| [tpid.to_be_bytes(), (id.first() as u16).to_be_bytes()];
        let outer = self.packet.outer_vlan.iter().map(|id| (ether_type::QINQ, id));
        let inner = self.packet.vlan.iter().map(|id| (ether_type::VLAN, id));
        outer.chain(inner).flat_map(tag).flatten().collect()
    }
}

impl PacketSpec {
    fn address(&self, value: u128) -> IpAddr {
        address(self.is_ipv6, value)
    }

    /// Returns the outermost source addresses: those of the tunnel, if there is one. True for IPv6.
    fn outer_source(&self) -> (bool, &Values) {
        let of_tunnel = self.tunnel.as_ref().map(TunnelSpec::source);
        of_tunnel.unwrap_or((self.is_ipv6, &self.src))
    }
}

fn address(is_ipv6: bool, value: u128) -> IpAddr {
    match is_ipv6 {
        true => Ipv6Addr::from_bits(value).into(),
        false => Ipv4Addr::from_bits(value as u32).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> StreamSpec {
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        StreamSpec::from_pairs(0, pairs).unwrap()
    }

    #[test]
    fn the_ends_are_those_of_the_keys() {
        let one = spec("dst=127.0.0.1 dport=7000 src=127.0.0.2-127.0.0.4 sport=5,7");
        assert_eq!(one.destination(), Some("127.0.0.1:7000".parse().unwrap()));
        let sources = ["127.0.0.2", "127.0.0.3", "127.0.0.4"].map(|it| it.parse().unwrap());
        assert_eq!(one.source_addresses(3), Some(sources.to_vec()));
        assert_eq!(one.source_addresses(2), None);
        assert_eq!((one.source_ports(2), one.source_ports(1)), (Some(vec![5, 7]), None));
        assert!(one.is_udp() && !one.is_ipv6());
        let six = spec("dst=::1 src=::1 dport=9");
        assert_eq!(six.destination(), Some("[::1]:9".parse().unwrap()));
        assert!(six.is_ipv6() && !spec("proto=tcp").is_udp());
        assert_eq!(spec("dport=1-2").destination(), None);
    }
}
