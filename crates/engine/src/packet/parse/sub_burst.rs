// SPDX-License-Identifier: BSD-3-Clause
//! Owns a part of a burst, in which packets of one IP version are gathered to be parsed four at a
//! time.
//!
//! Packets keep their order in each batch. Nothing else depends on it.

use super::lengths::ETHERTYPE_VLAN;
use crate::api::ZoneSource;
use crate::base::SimdLevel;
use crate::packet::{ETHERNET, VLAN_TAG};

/// Maximum number of packets of a part.
pub(crate) const PART: usize = 32;

/// Number of packets that are parsed side by side.
pub(super) const GROUP: usize = 4;

/// At most [`PART`] packets, and the parameters for parsing them.
pub(crate) struct SubBurst<'a, P> {
    pub(crate) packets: &'a [P],
    /// Position of the first packet in the burst.
    pub(crate) first: u8,
    pub(crate) zone: ZoneSource,
    pub(crate) simd: SimdLevel,
}

impl<P> Clone for SubBurst<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for SubBurst<'_, P> {}

/// Packets of a part: bit `i` for packet `i`.
pub(super) type SubBurstOrder = u32;

const _: () = assert!(PART as u32 <= SubBurstOrder::BITS);

/// Returns the set of the first `count` packets.
#[inline(always)]
pub(super) fn below(count: usize) -> SubBurstOrder {
    ((1_u64 << count.min(PART)) - 1) as SubBurstOrder
}

/// Removes and returns the first packet of a set; [`u32::BITS`] if it is empty.
#[inline(always)]
pub(super) fn next(places: &mut SubBurstOrder) -> usize {
    let first = places.trailing_zeros();
    *places &= places.wrapping_sub(1);
    first as usize
}

/// Returns the EtherType behind at most one VLAN tag; 0 if the frame is too short for an IP packet.
#[inline(always)]
pub(super) fn inner_ethertype(head: &[u8]) -> u16 {
    let Some(&[.., a, b, _, _, c, d]) = head.first_chunk::<{ ETHERNET + VLAN_TAG }>() else {
        return 0;
    };
    let (outer, inner) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    if outer == ETHERTYPE_VLAN { inner } else { outer }
}
