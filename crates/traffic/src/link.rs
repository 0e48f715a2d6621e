// SPDX-License-Identifier: BSD-3-Clause
//! Reads the Ethernet header and the VLAN tags of a received frame.

use wire::ethernet::Ethernet;
use wire::vlan;

/// Maximum number of tags that are read.
const TAGS_MAX: usize = 8;

/// Returns the EtherType behind the VLAN tags, and the offset of its payload. Returns `None` if the
/// frame ends before.
#[inline(always)]
pub(crate) fn find_packet(frame: &[u8]) -> Option<(u16, usize)> {
    let mut at = Ethernet::LEN;
    let mut kind = be16(frame, at - 2)?;
    while vlan::is_tag(kind) && at < Ethernet::LEN + TAGS_MAX * vlan::Vlan::LEN {
        at += vlan::Vlan::LEN;
        kind = be16(frame, at - 2)?;
    }
    Some((kind, at))
}

/// Reads the 16-bit number at offset `at`, in network byte order. Returns `None` if the bytes end
/// before.
#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}
