// SPDX-License-Identifier: BSD-3-Clause
//! The addresses that a stream sends from, for neighbours that look for them.

use super::spec::{PacketSpec, StreamSpec};
use super::tunnel::TunnelSpec;
use super::values::Values;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl StreamSpec {
    /// True if the stream has packets from this address.
    pub fn sends_from(&self, address: IpAddr) -> bool {
        let (is_ipv6, number) = match address {
            IpAddr::V4(address) => (false, address.to_bits().into()),
            IpAddr::V6(address) => (true, address.to_bits()),
        };
        let (of_ipv6, src) = self.packet.outer_source();
        self.playback.is_none() && of_ipv6 == is_ipv6 && src.contains(number)
    }

    /// Returns the source address of the first packet.
    pub fn first_source(&self) -> IpAddr {
        let (is_ipv6, src) = self.packet.outer_source();
        let number = src.first();
        match is_ipv6 {
            true => Ipv6Addr::from_bits(number).into(),
            false => Ipv4Addr::from_bits(number as u32).into(),
        }
    }

    /// Returns the VLAN tags of the first packet, from the first TPID on.
    pub fn first_tags(&self) -> Vec<u8> {
        let tag =
            |(tpid, id): (u16, &Values)| [tpid.to_be_bytes(), (id.first() as u16).to_be_bytes()];
        let outer = self.packet.outer_vlan.iter().map(|id| (wire::ethernet::ether_type::QINQ, id));
        let inner = self.packet.vlan.iter().map(|id| (wire::ethernet::ether_type::VLAN, id));
        outer.chain(inner).flat_map(tag).flatten().collect()
    }
}

impl PacketSpec {
    /// The source addresses that neighbours see, those of the tunnel if there is one: true for
    /// IPv6.
    fn outer_source(&self) -> (bool, &Values) {
        let of_tunnel = self.tunnel.as_ref().map(TunnelSpec::source);
        of_tunnel.unwrap_or((self.is_ipv6, &self.src))
    }
}
