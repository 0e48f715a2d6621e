// SPDX-License-Identifier: BSD-3-Clause
//! Part of a burst: packets of one IP version are brought together, four of a kind to be parsed
//! side by side.
//!
//! In a lane packets keep their order. Nothing else depends on it.

use super::general::ETHERTYPE_IPV6;
use super::short::ETHERTYPE_VLAN;
use super::{ETHERNET, ETHERTYPE_IPV4, Lanes, VLAN_TAG, avx2, parse};
use crate::api::{Reason, ZoneFrom};
use crate::base::SimdLevel;
use wire::Packet;

/// Most packets of a part.
pub(crate) const PART: usize = 32;

/// Packets that are parsed side by side.
pub(super) const GROUP: usize = 4;

/// At most [`PART`] packets, and what they are parsed with.
pub(crate) struct Part<'a, P> {
    pub(crate) packets: &'a [P],
    /// Position of the first one in the burst.
    pub(crate) first: u8,
    pub(crate) zone: ZoneFrom,
    pub(crate) vectors: SimdLevel,
}

impl<P> Clone for Part<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Part<'_, P> {}

/// Packets of a part: bit `i` for packet `i`.
pub(super) type Places = u32;

const _: () = assert!(PART as u32 <= Places::BITS);

impl<P: Packet> Part<'_, P> {
    /// Puts key and metadata of each packet into its lane. Of one that has none, `without_key` is
    /// told the position in the burst and the reason.
    #[inline(always)]
    pub(crate) fn parse(self, lanes: &mut Lanes, without_key: &mut impl FnMut(usize, Reason)) {
        let all = below(self.packets.len());
        // Most often one kind of packet is all there is.
        let rest = self.side_by_side(all, lanes);
        match rest.count_ones() as usize {
            0 => {}
            // The last ones: too few to be brought together.
            1..GROUP => self.parse_in_order(rest, lanes, without_key),
            _ => self.parse_mixed(rest, lanes, without_key),
        }
    }

    /// Brings packets of one IP version together, up to the next one that is of neither.
    #[inline(never)]
    fn parse_mixed(
        self,
        mut rest: Places,
        lanes: &mut Lanes,
        without_key: &mut impl FnMut(usize, Reason),
    ) {
        let (mut v4, mut v6) = (0, 0);
        // Without a branch: which version comes next is anyone's guess.
        for (packet, place) in self.packets.iter().zip(0..) {
            let ethertype = inner_ethertype(packet.head());
            v4 |= Places::from(ethertype == ETHERTYPE_IPV4) << place;
            v6 |= Places::from(ethertype == ETHERTYPE_IPV6) << place;
        }
        while rest != 0 {
            let other = (rest & !(v4 | v6)).trailing_zeros() as usize;
            let before = rest & below(other);
            self.parse_in_order(before & v4, lanes, without_key);
            self.parse_in_order(before & v6, lanes, without_key);
            self.parse_in_order(rest & below(other + 1) & !before, lanes, without_key);
            rest &= !below(other + 1);
        }
    }

    /// Side by side where possible.
    #[inline(never)]
    fn parse_in_order(
        self,
        mut places: Places,
        lanes: &mut Lanes,
        without_key: &mut impl FnMut(usize, Reason),
    ) {
        while places != 0 {
            places = self.side_by_side(places, lanes);
            for _ in 0..GROUP.min(places.count_ones() as usize) {
                let place = next(&mut places);
                let position = usize::from(self.first) + place;
                let parsed = parse(&self.packets[place], position as u8, self.zone, lanes);
                if let Err(reason) = parsed {
                    without_key(position, reason);
                }
            }
        }
    }

    /// Parses the first of these, as long as they are plain and all of one kind; gives the others.
    #[inline(always)]
    pub(super) fn side_by_side(self, places: Places, lanes: &mut Lanes) -> Places {
        #[cfg(target_arch = "x86_64")]
        let rest = avx2::parse(self, places, lanes);
        #[cfg(not(target_arch = "x86_64"))]
        let rest = {
            let _ = (lanes, self.vectors);
            places
        };
        rest
    }
}

/// The first `count` places.
#[inline(always)]
pub(super) fn below(count: usize) -> Places {
    ((1_u64 << count.min(PART)) - 1) as Places
}

/// Takes out the first place; [`Places::BITS`] if there is none.
#[inline(always)]
pub(super) fn next(places: &mut Places) -> usize {
    let first = places.trailing_zeros();
    *places &= places.wrapping_sub(1);
    first as usize
}

/// EtherType behind at most one VLAN tag; 0 for a frame too short for the shortest IP packet.
#[inline(always)]
fn inner_ethertype(head: &[u8]) -> u16 {
    let Some(&[.., a, b, _, _, c, d]) = head.first_chunk::<{ ETHERNET + VLAN_TAG }>() else {
        return 0;
    };
    let (outer, inner) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    if outer == ETHERTYPE_VLAN { inner } else { outer }
}
