// SPDX-License-Identifier: BSD-3-Clause
//! Chooses the two ends of a connection: addresses, ports and VLANs.
//!
//! Clients are numbered. No two numbers give the same client address and port. So connections
//! differ, and no table of earlier ones is needed.

use crate::Side;
use fastrand::Rng;
use std::net::Ipv4Addr;
use wire::checksum::Sum;

/// The two ends of a connection, indexed by [`Side`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoints {
    /// IPv4 addresses are in the first four bytes.
    addresses: [[u8; 16]; 2],
    /// For ICMP the identifier is the port of side A.
    ports: [u16; 2],
    pub(crate) ipv6: bool,
    /// VLAN identifiers, outermost first.
    pub(crate) vlans: [u16; 2],
    /// Number of tags: only that many entries of `vlans` are used.
    pub(crate) tags: u8,
    /// Sum of both addresses. It is equal in both directions.
    pub(crate) address_sum: Sum,
}

/// Server ports. Popular ports are listed several times, so they are drawn more often.
const TCP_SERVICES: [u16; 8] = [443, 443, 443, 80, 80, 22, 25, 8080];

impl Endpoints {
    /// Returns the IPv4 ends of client number `number` and a random server, untagged.
    pub(crate) fn ipv4(number: u32, rng: &mut Rng) -> Self {
        let (host, port) = scatter(number);
        let [_, high, middle, low] = host.to_be_bytes();
        let network = 16 + (rng.u8(..16) << 1 | high);
        let server = busy_server(rng).to_be_bytes();
        Self::new(
            false,
            [
                padded(&[10, network, middle, low]),
                padded(&[198, 18 + (server[0] & 1), server[0], server[1]]),
            ],
            [port, TCP_SERVICES[rng.usize(..TCP_SERVICES.len())]],
        )
    }

    /// Returns the IPv6 ends of client number `number` and a random server, untagged.
    pub(crate) fn ipv6(number: u32, rng: &mut Rng) -> Self {
        let (host, port) = scatter(number);
        let mut client = [0x20, 0x01, 0x0d, 0xb8, 0, rng.u8(..16), 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        let mut server = [0x20, 0x01, 0x0d, 0xb8, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        client[12..].copy_from_slice(&host.to_be_bytes());
        server[14..].copy_from_slice(&busy_server(rng).to_be_bytes());
        Self::new(true, [client, server], [port, TCP_SERVICES[rng.usize(..TCP_SERVICES.len())]])
    }

    /// Returns the ends with these IPv4 addresses and ports, client first.
    pub(crate) fn exactly(addresses: [Ipv4Addr; 2], ports: [u16; 2]) -> Self {
        Self::new(false, addresses.map(|address| padded(&address.octets())), ports)
    }

    fn new(ipv6: bool, addresses: [[u8; 16]; 2], ports: [u16; 2]) -> Self {
        let address_sum = Sum::default().add_bytes(&addresses[0]).add_bytes(&addresses[1]);
        Self { addresses, ports, ipv6, vlans: [0; 2], tags: 0, address_sum }
    }

    /// Adds a VLAN tag inside the others. A connection has at most two.
    pub(crate) fn push_vlan(&mut self, id: u16) {
        self.vlans[usize::from(self.tags)] = id;
        self.tags += 1;
    }

    pub(crate) fn set_server_port(&mut self, port: u16) {
        self.ports[Side::B as usize] = port;
    }

    pub(crate) fn address(&self, side: Side) -> &[u8; 16] {
        &self.addresses[side as usize]
    }

    pub(crate) fn port(&self, side: Side) -> u16 {
        self.ports[side as usize]
    }
}

fn padded(address: &[u8; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(address);
    bytes
}

/// Returns 17 bits of a host address and a port from 32768 up.
///
/// The multiplier is odd, so every number has its own pair. It is 2^32 over the golden ratio, so
/// neighbouring numbers get distant hosts.
fn scatter(number: u32) -> (u32, u16) {
    let scattered = number.wrapping_mul(0x9e37_79b1);
    (scattered >> 15, 0x8000 | scattered as u16)
}

/// Draws a server. Low numbers are more probable: the number is a product of two uniform ones.
fn busy_server(rng: &mut Rng) -> u16 {
    ((rng.u32(..1 << 16) * rng.u32(..1 << 12)) >> 12) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_another_client() {
        let mut seen = std::collections::HashSet::new();
        let half = 1 << 31;
        for number in (0..300_000).chain(half..half + 300_000) {
            let (host, port) = scatter(number);
            assert!(host < 1 << 17 && port >= 32768);
            assert!(seen.insert((host, port)), "{number} is not distinct");
        }
    }

    #[test]
    fn the_network_does_not_make_two_clients_one() {
        // The random part of the address must not change the 17 bits of the host.
        let mut rng = Rng::with_seed(1);
        for number in 0..10_000 {
            let (host, _) = scatter(number);
            let client = *Endpoints::ipv4(number, &mut rng).address(Side::A);
            let low = u32::from_be_bytes([0, client[1] & 1, client[2], client[3]]);
            assert_eq!(low, host);
        }
    }
}
