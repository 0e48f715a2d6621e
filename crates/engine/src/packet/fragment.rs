// SPDX-License-Identifier: BSD-3-Clause
//! What the header of an IP fragment says.

use super::descriptor::TcpHead;
use super::key::Key;

/// A fragment of a datagram, as the parser found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentHeader<const W: usize> {
    /// What the fragments of a datagram share: the addresses as they lie in the header; then the
    /// number of the datagram in place of the ports, the zone, and for IPv4 the protocol. Those of
    /// IPv6 need not agree on that (RFC 8200 section 4.5).
    pub(crate) name: Key<W>,
    pub(crate) span: FragmentRange,
    /// Of a first one of TCP: what it says of its segment.
    pub(crate) front: TcpHead,
}

impl<const W: usize> FragmentHeader<W> {
    /// Whether it is the one with the ports.
    pub(crate) fn is_first(&self) -> bool {
        self.span.start == 0
    }

    pub(crate) fn source(&self) -> SourceKey {
        let zone = self.name.zone().into();
        match W {
            // The address that comes first in memory.
            2 => {
                let [a, b, c, d, ..] = self.name.0[0].to_ne_bytes();
                Key([u32::from_ne_bytes([a, b, c, d]).into(), zone])
            }
            _ => Key([self.name.0[0], zone]),
        }
    }
}

/// Key of the connection with the addresses of a datagram.
pub(crate) fn key_of<const W: usize>(name: &Key<W>, last_word: u64, swapped: u8) -> Key<W> {
    let mut words = name.0;
    words[W - 1] = last_word;
    match (swapped, W) {
        (0, _) => {}
        (_, 2) => words[0] = words[0].rotate_left(32),
        _ => words[..W - 1].rotate_left(W / 2),
    }
    Key(words)
}

/// Address of a sender, or for IPv6 the network of 64 bits that it is free to choose addresses of;
/// and its zone.
pub(crate) type SourceKey = Key<2>;

/// Fragments begin at multiples of this (RFC 791 section 3.1).
pub(crate) const UNIT: u16 = 8;

/// The part of a datagram that a fragment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentRange {
    /// Its first byte, a multiple of [`UNIT`].
    pub(crate) start: u16,
    /// Behind its last byte; beyond `start`. A multiple of [`UNIT`] if there are more.
    pub(crate) end: u16,
    /// The last bytes of the datagram are not in it.
    pub(crate) has_more: bool,
}
