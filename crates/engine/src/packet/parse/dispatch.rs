// SPDX-License-Identifier: BSD-3-Clause
//! Chooses the parser: SIMD for runs of plain packets, the fast one for others, the general one for
//! the rest.

use super::lengths::Lengths;
use super::sub_burst::{GROUP, SubBurst, SubBurstOrder, below, inner_ethertype, next};
use super::{avx2, fast, general};
use crate::api::{UntrackedReason, ZoneSource};
use crate::packet::{Batches, ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use wire::Packet;

/// Puts key and metadata of a packet into its batch, or says why it has none.
#[inline(always)]
pub(crate) fn parse<P: Packet>(
    packet: &P,
    position: u8,
    zone: ZoneSource,
    batches: &mut Batches,
) -> Result<(), UntrackedReason> {
    let lengths = Lengths { frame: packet.frame_len(), bytes: packet.wire_len() };
    match fast::parse(packet.head(), lengths, position, zone, batches) {
        true => Ok(()),
        false => general::parse(packet, position, zone, batches),
    }
}

impl<P: Packet> SubBurst<'_, P> {
    /// Puts key and metadata of each packet into its batch. Of one that has none, `without_key` is
    /// told the position in the burst and the reason.
    #[inline(always)]
    pub(crate) fn parse(
        self,
        batches: &mut Batches,
        without_key: &mut impl FnMut(usize, UntrackedReason),
    ) {
        let all = below(self.packets.len());
        // Most often one kind of packet is all there is.
        let rest = self.side_by_side(all, batches);
        match rest.count_ones() as usize {
            0 => {}
            // The last ones: too few to be brought together.
            1..GROUP => self.parse_in_order(rest, batches, without_key),
            _ => self.parse_mixed(rest, batches, without_key),
        }
    }

    /// Brings packets of one IP version together, up to the next one that is of neither.
    #[inline(never)]
    fn parse_mixed(
        self,
        mut rest: SubBurstOrder,
        batches: &mut Batches,
        without_key: &mut impl FnMut(usize, UntrackedReason),
    ) {
        let (mut v4, mut v6) = (0, 0);
        // Without a branch: which version comes next is anyone's guess.
        for (packet, place) in self.packets.iter().zip(0..) {
            let ethertype = inner_ethertype(packet.head());
            v4 |= SubBurstOrder::from(ethertype == ETHERTYPE_IPV4) << place;
            v6 |= SubBurstOrder::from(ethertype == ETHERTYPE_IPV6) << place;
        }
        while rest != 0 {
            let other = (rest & !(v4 | v6)).trailing_zeros() as usize;
            let before = rest & below(other);
            self.parse_in_order(before & v4, batches, without_key);
            self.parse_in_order(before & v6, batches, without_key);
            self.parse_in_order(rest & below(other + 1) & !before, batches, without_key);
            rest &= !below(other + 1);
        }
    }

    /// Side by side where possible.
    #[inline(never)]
    fn parse_in_order(
        self,
        mut places: SubBurstOrder,
        batches: &mut Batches,
        without_key: &mut impl FnMut(usize, UntrackedReason),
    ) {
        while places != 0 {
            places = self.side_by_side(places, batches);
            for _ in 0..GROUP.min(places.count_ones() as usize) {
                let place = next(&mut places);
                let position = usize::from(self.first) + place;
                let parsed = parse(&self.packets[place], position as u8, self.zone, batches);
                if let Err(reason) = parsed {
                    without_key(position, reason);
                }
            }
        }
    }

    /// Parses the first of these, as long as they are plain and all of one kind; gives the others.
    #[inline(always)]
    pub(super) fn side_by_side(
        self,
        places: SubBurstOrder,
        batches: &mut Batches,
    ) -> SubBurstOrder {
        #[cfg(target_arch = "x86_64")]
        let rest = avx2::parse(self, places, batches);
        #[cfg(not(target_arch = "x86_64"))]
        let rest = {
            let _ = (batches, self.vectors);
            places
        };
        rest
    }
}
