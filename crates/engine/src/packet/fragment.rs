// SPDX-License-Identifier: BSD-3-Clause
//! Owns the parsed header of an IP fragment.

use super::descriptor::TcpHead;
use super::key::Key;

/// The header of a fragment, as the parser found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentHeader<const W: usize> {
    /// Key that all fragments of a datagram share.
    ///
    /// It holds the addresses in header order, the datagram's identification in place of the ports,
    /// the zone, and for IPv4 the protocol. Fragments of IPv6 need not agree on the protocol (RFC
    /// 8200 section 4.5).
    pub(crate) datagram_key: Key<W>,
    pub(crate) span: FragmentRange,
    /// For a first fragment of TCP, the start of its segment.
    pub(crate) front: TcpHead,
}

impl<const W: usize> FragmentHeader<W> {
    /// True for the first fragment, which has the ports.
    pub(crate) fn is_first(&self) -> bool {
        self.span.start == 0
    }

    pub(crate) fn source(&self) -> SourceKey {
        let zone = self.datagram_key.zone().into();
        match W {
            // The address that comes first in memory.
            2 => {
                let [a, b, c, d, ..] = self.datagram_key.0[0].to_ne_bytes();
                Key([u32::from_ne_bytes([a, b, c, d]).into(), zone])
            }
            _ => Key([self.datagram_key.0[0], zone]),
        }
    }
}

/// Returns the key of a connection between the addresses of a datagram.
///
/// `last_word` is the last word of the key: ports, zone and protocol. `swapped` is 1 if the sender
/// is the second end.
pub(crate) fn key_of<const W: usize>(datagram_key: &Key<W>, last_word: u64, swapped: u8) -> Key<W> {
    let mut words = datagram_key.0;
    words[W - 1] = last_word;
    match (swapped, W) {
        (0, _) => {}
        (_, 2) => words[0] = words[0].rotate_left(32),
        _ => words[..W - 1].rotate_left(W / 2),
    }
    Key(words)
}

/// Key of a sender: its address, or for IPv6 its /64, from which it can choose addresses; and its
/// zone.
pub(crate) type SourceKey = Key<2>;

/// Unit of fragment offsets in bytes (RFC 791 section 3.1).
pub(crate) const UNIT: u16 = 8;

/// Part of a datagram that a fragment carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentRange {
    /// Offset of its first byte, a multiple of [`UNIT`].
    pub(crate) start: u16,
    /// Offset behind its last byte, larger than `start`. A multiple of [`UNIT`] if `has_more`.
    pub(crate) end: u16,
    /// True if another fragment carries the end of the datagram.
    pub(crate) has_more: bool,
}
