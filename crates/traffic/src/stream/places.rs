// SPDX-License-Identifier: BSD-3-Clause
//! Locates the varying fields in the headers of a frame, and writes their values.

use super::spec::PacketSpec;
use super::template::{has_pseudo, protocol_number};
use super::values::Values;
use wire::checksum::Sum;
use wire::ethernet::Ethernet;

/// Place of a value in the headers.
///
/// The upper or lower 64 bits of the value are shifted right by `right`, then left by `left`, and
/// combined with the bits of `others`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    at: usize,
    /// Bytes of the place: 2, 4 or 8, at an even offset in its header.
    width: usize,
    is_upper: bool,
    right: u32,
    left: u32,
    others: u64,
    /// Mask of the bits that count to the checksum of IPv4: all bits of `width`, or none.
    in_network_sum: u64,
    /// Mask of the bits that count to the transport checksum: all bits of `width`, or none.
    in_transport_sum: u64,
}

/// A field that varies: its values, and their places in the headers.
#[derive(Debug)]
pub(crate) struct Varying {
    pub(crate) values: Values,
    pub(crate) places: Vec<Place>,
}

/// Sums of the values that were written to a frame.
#[derive(Clone, Copy, Default)]
pub(crate) struct ValueSums {
    pub(crate) network: Sum,
    pub(crate) transport: Sum,
}

impl Place {
    /// Makes the place of an unshifted value that counts to no checksum.
    pub(crate) fn plain(at: usize, width: usize) -> Self {
        Self {
            at,
            width,
            is_upper: false,
            right: 0,
            left: 0,
            others: 0,
            in_network_sum: 0,
            in_transport_sum: 0,
        }
    }

    /// Makes the two places of an IPv6 address that counts to no checksum.
    pub(crate) fn ipv6(at: usize) -> [Self; 2] {
        [Self { is_upper: true, ..Self::plain(at, 8) }, Self::plain(at + 8, 8)]
    }

    /// Returns the place with its value shifted left by this many bits.
    pub(crate) fn left(self, left: u32) -> Self {
        Self { left, ..self }
    }

    fn bits(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.width)
    }

    /// Returns the place as one that counts to the checksum of IPv4.
    fn in_network_sum(self) -> Self {
        Self { in_network_sum: self.bits(), ..self }
    }

    /// Returns the place as one that counts to the transport checksum.
    fn in_transport_sum(self) -> Self {
        Self { in_transport_sum: self.bits(), ..self }
    }

    /// True if the value counts to the checksum of IPv4.
    pub(crate) fn changes_network_sum(&self) -> bool {
        self.in_network_sum > 0
    }

    /// Writes zeros to the place.
    pub(crate) fn clear(&self, frame: &mut [u8]) {
        frame[self.at..self.at + self.width].fill(0);
    }

    /// Writes a value to the place, and adds it to the sums.
    #[inline(always)]
    pub(crate) fn write(&self, frame: &mut [u8], value: u128, sums: &mut ValueSums) {
        let half = if self.is_upper { (value >> 64) as u64 } else { value as u64 };
        let value = (half >> self.right) << self.left | self.others;
        let to = &mut frame[self.at..self.at + self.width];
        match self.width {
            2 => to.copy_from_slice(&(value as u16).to_be_bytes()),
            4 => to.copy_from_slice(&(value as u32).to_be_bytes()),
            _ => to.copy_from_slice(&value.to_be_bytes()),
        }
        sums.network = sums.network.add_u64(value & self.in_network_sum);
        sums.transport = sums.transport.add_u64(value & self.in_transport_sum);
    }
}

/// Returns the fields that have several values; the one that changes fastest is first.
pub(crate) fn varying_fields(
    spec: &PacketSpec,
    link_len: usize,
    network_at: usize,
    transport_at: usize,
) -> Vec<Varying> {
    let place = Place::plain;
    let in_transport = |at, width| vec![place(at, width).in_transport_sum()];
    let in_network = |at, width| place(at, width).in_network_sum();
    let mac = |at| vec![Place { right: 32, ..place(at, 2) }, place(at + 2, 4)];
    let address = |at, at_ipv6| match spec.is_ipv6 {
        false if has_pseudo(spec) => vec![in_network(network_at + at, 4).in_transport_sum()],
        false => vec![in_network(network_at + at, 4)],
        true => {
            let halves = Place::ipv6(network_at + at_ipv6);
            halves.map(Place::in_transport_sum).into()
        }
    };
    let (tos, ttl) = match spec.is_ipv6 {
        false => {
            let protocol = u64::from(spec.protocol);
            let tos = Place { others: 0x4500, ..in_network(network_at, 2) };
            (tos, Place { left: 8, others: protocol, ..in_network(network_at + 8, 2) })
        }
        true => {
            let next = u64::from(protocol_number(spec));
            let tos = Place { left: 4, others: 0x6000, ..place(network_at, 2) };
            // The two bytes are next header and hop limit.
            (tos, Place { others: next << 8, ..place(network_at + 6, 2) })
        }
    };
    let tag = |number: usize| vec![place(Ethernet::LEN + 4 * number, 2)];
    let inner = usize::from(spec.outer_vlan.is_some());
    let candidates = [
        (Some(&spec.sport), in_transport(transport_at, 2)),
        (Some(&spec.src), address(12, 8)),
        (Some(&spec.dst), address(16, 24)),
        (Some(&spec.dport), in_transport(transport_at + 2, 2)),
        (spec.vlan.as_ref(), tag(inner)),
        (spec.outer_vlan.as_ref(), tag(0)),
        (spec.src_mac.as_ref(), mac(6)),
        (spec.dst_mac.as_ref(), mac(0)),
        (Some(&spec.tos), vec![tos]),
        (Some(&spec.ttl), vec![ttl]),
        (Some(&spec.seq), in_transport(transport_at + 4, 4)),
        (Some(&spec.ack), in_transport(transport_at + 8, 4)),
        (Some(&spec.window), in_transport(transport_at + 14, 2)),
    ];
    let of_tunnel = spec.tunnel.iter().flat_map(|tunnel| tunnel.fields(link_len));
    let several = candidates.into_iter().chain(of_tunnel).filter_map(|(values, places)| {
        let values = values.filter(|values| values.count() > 1)?;
        Some(Varying { values: values.clone(), places })
    });
    several.collect()
}
