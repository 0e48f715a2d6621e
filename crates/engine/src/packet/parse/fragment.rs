// SPDX-License-Identifier: BSD-3-Clause
//! Parses the fragment fields of IP headers: which datagram a packet is a part of, and which part.

use crate::api::{PROTO_TCP, UntrackedReason};
use crate::packet::{FragmentRange, IPV4_MIN, Key, Key6, UNIT, zone_proto};

/// Maximum length of a datagram in bytes (RFC 8200 section 4.5, RFC 791 section 3.1).
const DATAGRAM_MAX: usize = u16::MAX as usize;

/// Datagram of a fragment, and its place there.
#[derive(Clone, Copy)]
pub(super) struct Fragment {
    pub(super) span: FragmentRange,
    /// Identification of the datagram, unique for its addresses.
    pub(super) id: u32,
}

impl Fragment {
    /// Creates a fragment of the frame's bytes from `at` to `end`.
    ///
    /// It begins at byte `offset` of the datagram; the IP headers before it take `headers` bytes.
    ///
    /// # Errors
    /// [`UntrackedReason::FragmentLength`] if no correct sender makes a fragment of this length.
    fn new(
        id: u32,
        (offset, has_more): (usize, bool),
        (at, end): (usize, usize),
        headers: usize,
    ) -> Result<Self, UntrackedReason> {
        let len = end.saturating_sub(at);
        // The receiver refuses it (RFC 8200 section 4.5), or should.
        let is_odd = len == 0 || has_more && len % usize::from(UNIT) != 0;
        let behind = offset + len;
        if is_odd || headers + behind > DATAGRAM_MAX {
            return Err(UntrackedReason::FragmentLength);
        }
        let span = FragmentRange { start: offset as u16, end: behind as u16, has_more };
        Ok(Fragment { span, id })
    }

    pub(super) fn is_first(&self) -> bool {
        self.span.start == 0
    }
}

/// Parses the fragment fields of an IPv4 header of `header_len` bytes.
///
/// `part` is the range of the payload in the frame. `None`: the packet is no fragment.
///
/// # Errors
/// [`UntrackedReason::FragmentTiny`] or [`UntrackedReason::FragmentLength`].
pub(super) fn fragment4(
    header: &[u8; IPV4_MIN],
    part: (usize, usize),
    header_len: usize,
) -> Result<Option<Fragment>, UntrackedReason> {
    let field = u16::from_be_bytes([header[6], header[7]]);
    let (offset, has_more) = (field << 3, field & 0x2000 != 0);
    if offset == 0 && !has_more {
        return Ok(None);
    }
    // RFC 3128 section 3: it would overwrite the flags in the first fragment.
    if offset == UNIT && header[9] == PROTO_TCP {
        return Err(UntrackedReason::FragmentTiny);
    }
    let id = u16::from_be_bytes([header[4], header[5]]).into();
    Fragment::new(id, (offset.into(), has_more), part, header_len).map(Some)
}

/// Parses a fragment header (RFC 8200 section 4.5) that follows `before` bytes of other headers.
///
/// `None`: the packet is whole despite the header (RFC 6946).
///
/// # Errors
/// [`UntrackedReason::FragmentLength`].
pub(super) fn fragment6(
    header: [u8; 8],
    part: (usize, usize),
    before: usize,
) -> Result<Option<Fragment>, UntrackedReason> {
    let [_, _, a, b, id @ ..] = header;
    let field = u16::from_be_bytes([a, b]);
    let (offset, has_more) = (field & !7, field & 1 != 0);
    if offset == 0 && !has_more {
        return Ok(None);
    }
    let id = u32::from_be_bytes(id);
    Fragment::new(id, (offset.into(), has_more), part, before).map(Some)
}

/// Returns the key that all fragments of an IPv6 datagram share.
pub(super) fn datagram6(addresses: &[u8; 32], id: u32, zone: u16) -> Key6 {
    let mut words = [0; 5];
    for (word, bytes) in words.iter_mut().zip(addresses.chunks_exact(8)) {
        *word = bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    }
    words[4] = u64::from(id) | zone_proto(zone, 0);
    Key(words)
}
