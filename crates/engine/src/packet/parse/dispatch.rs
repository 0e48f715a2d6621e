// SPDX-License-Identifier: BSD-3-Clause
//! Chooses the parser: SIMD for runs of plain packets, the fast one for other plain packets, the
//! general one for the rest.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::lengths::Lengths;
use super::sub_burst::{GROUP, SubBurst, SubBurstOrder, below, inner_ethertype, next};
use super::{fast, general};
use crate::api::{UntrackedReason, ZoneSource};
use crate::packet::{Batches, ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use wire::Packet;

/// Appends a packet to its batch.
///
/// # Errors
/// [`UntrackedReason`] of a packet that has no key.
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
    /// Appends each packet to its batch. For a packet without a key, `without_key` is called with
    /// its position in the burst and the reason.
    #[inline(always)]
    pub(crate) fn parse(
        self,
        batches: &mut Batches,
        without_key: &mut impl FnMut(usize, UntrackedReason),
    ) {
        let all = below(self.packets.len());
        // Usually all packets are of one kind.
        let rest = self.side_by_side(all, batches);
        match rest.count_ones() as usize {
            0 => {}
            // Too few packets are left to gather them.
            1..GROUP => self.parse_in_order(rest, batches, without_key),
            _ => self.parse_mixed(rest, batches, without_key),
        }
    }

    /// Gathers packets of one IP version, up to the next packet of neither version.
    #[inline(never)]
    fn parse_mixed(
        self,
        mut rest: SubBurstOrder,
        batches: &mut Batches,
        without_key: &mut impl FnMut(usize, UntrackedReason),
    ) {
        let (mut v4, mut v6) = (0, 0);
        // Without a branch: the version of the next packet is unpredictable.
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

    /// Parses these packets in order, side by side where possible.
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

    /// Parses the first of these packets side by side, while they are plain and of one kind.
    /// Returns the others.
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
            let _ = (batches, self.simd);
            places
        };
        rest
    }
}
