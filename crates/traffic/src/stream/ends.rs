// SPDX-License-Identifier: BSD-3-Clause
//! Addresses and ports of a stream's packets, for those who open sockets for them.

use super::spec::{PacketSpec, StreamSpec};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::proto;

impl StreamSpec {
    /// True if its packets are UDP.
    pub fn is_udp(&self) -> bool {
        self.packet.protocol == proto::UDP
    }

    /// True if its packets are IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.packet.is_ipv6
    }

    /// Returns address and port that its packets go to; `None` if they go to several.
    pub fn destination(&self) -> Option<SocketAddr> {
        let PacketSpec { dst, dport, .. } = &self.packet;
        let is_one = dst.count() == 1 && dport.count() == 1;
        is_one.then(|| SocketAddr::new(self.packet.address(dst.first()), dport.first() as u16))
    }

    /// Returns the addresses that its packets come from; `None` if there are more than `max`.
    pub fn source_addresses(&self, max: usize) -> Option<Vec<IpAddr>> {
        let values = &self.packet.src;
        let is_few = values.count() <= max as u64;
        is_few.then(|| (0..values.count()).map(|at| self.packet.address(values.at(at))).collect())
    }

    /// Returns the ports that its packets come from; `None` if there are more than `max`.
    pub fn source_ports(&self, max: usize) -> Option<Vec<u16>> {
        let values = &self.packet.sport;
        let is_few = values.count() <= max as u64;
        is_few.then(|| (0..values.count()).map(|at| values.at(at) as u16).collect())
    }
}

impl PacketSpec {
    fn address(&self, value: u128) -> IpAddr {
        match self.is_ipv6 {
            true => Ipv6Addr::from_bits(value).into(),
            false => Ipv4Addr::from_bits(value as u32).into(),
        }
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
