// SPDX-License-Identifier: BSD-3-Clause
//! Computes a number for the five-tuple of a packet or of an exact rule. An exact rule matches only
//! packets with its number.
//!
//! A packet without readable ports, or with ports only inside of a tunnel, has no tuple. No exact
//! rule can match it, so nothing is lost.

use crate::headers::{Headers, Slot};
use crate::pattern::{Item, Proto, Shape, load};
use crate::table::hash;
use std::ops::Range;

/// A hash of protocols, addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple(u64);

/// Packets whose verdicts may have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AffectedPackets {
    /// No packet.
    #[default]
    Nothing,
    /// Packets of a tuple.
    Packets(Tuple),
    /// Any packet.
    Everything,
}

impl Tuple {
    /// Returns the tuple of a frame.
    pub(crate) fn of_frame(frame: &[u8], headers: &Headers) -> Option<Self> {
        let header = |slot| Some((headers.proto(slot)?, &frame[headers.offset(slot)..]));
        Self::of(header(Slot::Network)?, header(Slot::Transport)?)
    }

    /// Returns the parts of the tuple of a frame with these headers: addresses, and ports.
    pub(crate) fn ends<'a>(frame: &'a [u8], headers: &Headers) -> [Option<&'a [u8]>; 2] {
        [Slot::Network, Slot::Transport].map(|slot| {
            let bytes = fields(headers.proto(slot)?)?;
            frame[headers.offset(slot)..].get(bytes)
        })
    }

    /// Returns the tuple of a rule; `None` if it may match packets of several tuples.
    pub(crate) fn of_rule(shape: &Shape, key: &[u64]) -> Option<Self> {
        let exact = |slot| {
            let item = shape.item(key, slot)?;
            let bytes = fields(item.proto)?;
            item.mask[bytes].iter().all(|&byte| byte == 0xff).then_some(item)
        };
        let (network, transport) = (exact(Slot::Network)?, exact(Slot::Transport)?);
        let header = |item: &Item| (item.proto, item.spec);
        let ((network, addresses), (transport, ports)) = (header(&network), header(&transport));
        Self::of((network, &addresses), (transport, &ports))
    }

    fn of(network: (Proto, &[u8]), transport: (Proto, &[u8])) -> Option<Self> {
        let addresses = &network.1[fields(network.0)?];
        let ports = &transport.1[fields(transport.0)?];
        // Protocols, four words of addresses, ports.
        let mut words = [0; 6];
        words[0] = (network.0 as u64) << 32 | transport.0 as u64;
        let parts = addresses.chunks_exact(8).chain([ports]);
        words[1..].iter_mut().zip(parts).for_each(|(word, part)| *word = load(part, 0));
        Some(Self(hash(&words)))
    }

    /// Returns one of `count` places, for a table by tuples.
    pub(crate) fn place(self, count: usize) -> usize {
        ((u128::from(self.0) * count as u128) >> 64) as usize
    }

    /// Returns bits that are nearly independent of the place.
    pub(crate) fn low(self) -> u32 {
        self.0 as u32
    }
}

/// True if rules of a shape match only properties that alike packets share. These are the tuple,
/// the bytes ahead of the network header, the headers, and whether the packet is a fragment.
pub(crate) fn sees_only_tuples(shape: &Shape) -> bool {
    shape.bytes().all(|(slot, byte, mask)| match slot {
        Slot::Ethernet | Slot::OuterVlan | Slot::InnerVlan => true,
        Slot::Network | Slot::Transport => shape.proto(slot).is_some_and(|proto| {
            fields(proto).is_some_and(|bytes| bytes.contains(&byte))
                || proto == Proto::Ipv4 && mask & !fragment_bits(byte) == 0
        }),
        _ => false,
    })
}

/// Returns the bits of an IPv4 byte for "more fragments" and the fragment offset. Alike packets
/// share them: if ports follow, the offset is 0, and only a fragment has more.
fn fragment_bits(byte: usize) -> u8 {
    match byte {
        6 => 0x3f,
        7 => 0xff,
        _ => 0,
    }
}

impl AffectedPackets {
    /// Returns the packets of both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, one) | (one, Self::Nothing) => one,
            (one, other) if one == other => one,
            _ => Self::Everything,
        }
    }
}

/// Returns the bytes of a header that are part of a tuple.
fn fields(proto: Proto) -> Option<Range<usize>> {
    match proto {
        Proto::Ipv4 => Some(12..20),
        Proto::Ipv6 => Some(8..40),
        Proto::Tcp | Proto::Udp | Proto::Sctp => Some(0..4),
        _ => None,
    }
}
