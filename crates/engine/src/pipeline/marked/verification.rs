// SPDX-License-Identifier: BSD-3-Clause
//! Compares keys of marked packets with those of the records that their marks name.
//!
//! Marks of a rule are trusted after the keys of its first marked packets were compared, which
//! costs more than a lookup. So new rules are verified also while their marks are ignored.
//! Otherwise, a trial would measure little but these comparisons, and marks would seem to cost more
//! than they do.

use super::{BurstMask, MarkedBatch};
use crate::api::MarkVerification;
use crate::packet::parse::parse;
use crate::packet::{Batches, FamilyBatch, Key, PacketMeta};
use crate::policy::ZoneClassifier;
use crate::tracker::Tracker;
use wire::Packet;

/// Bursts from one verification to the next. Each takes two or three cache misses.
const VERIFY_EVERY: u32 = 4;

/// Spreads the turns over all places of a burst, whatever the number of bursts after which packets
/// repeat: 2^32 by the golden ratio.
const SPREAD: u32 = 0x9e37_79b9;

impl MarkedBatch {
    /// Verifies the rule of one of the marked packets of a burst, if it is new, in one of
    /// [`VERIFY_EVERY`] bursts. Call it before the packets are tracked: they may end connections.
    #[inline(never)]
    pub(crate) fn verify_one<P: Packet>(
        &mut self,
        (packets, marked): (&[P], BurstMask),
        (v4, v6): (&mut Tracker<2>, &mut Tracker<5>),
        zoning: &ZoneClassifier,
    ) {
        self.turn = self.turn.wrapping_add(1);
        if self.turn % VERIFY_EVERY != 0 || self.check == MarkVerification::Always {
            return;
        }
        let turn = self.turn.wrapping_mul(SPREAD) >> (u32::BITS - BurstMask::BITS.ilog2());
        let place = (marked.rotate_right(turn).trailing_zeros() + turn) % BurstMask::BITS;
        let Some(packet) = packets.get(place as usize) else { return };
        let mark = packet.mark_or_zero();
        let slot = self.slot_of()(mark);
        if let Some(record) = v4.slot_index().by(slot) {
            self.verify(packet, (record, mark), v4, zoning);
        } else if let Some(record) =
            v6.slot_index().by(slot.wrapping_sub(self.v6_slot_offset as usize))
        {
            self.verify(packet, (record, mark), v6, zoning);
        }
    }

    fn verify<P: Packet, const W: usize>(
        &mut self,
        packet: &P,
        (record, mark): (u32, u32),
        tracker: &mut Tracker<W>,
        zoning: &ZoneClassifier,
    ) where
        Batches: FamilyBatch<W>,
    {
        let rule = self.layout.decode(mark);
        if !tracker.is_unverified(record, (mark, rule)) {
            return;
        }
        self.stats.checked += 1;
        if self.has_key(packet, zoning, (record, rule.direction), tracker) {
            tracker.confirm_mark(record, rule.direction);
        }
    }

    /// True if a packet has the key of a record, and this direction.
    pub(super) fn has_key<P: Packet, const W: usize>(
        &mut self,
        packet: &P,
        zoning: &ZoneClassifier,
        (record, direction): (u32, u8),
        tracker: &Tracker<W>,
    ) -> bool
    where
        Batches: FamilyBatch<W>,
    {
        self.batches.clear();
        let parsed = parse(packet, 0, zoning.from, &mut self.batches);
        zoning.apply(&mut self.batches, (0, 0));
        let first = parsed.ok().and_then(|()| self.batches.batch().first());
        first.is_some_and(|(key, read): (Key<W>, PacketMeta)| {
            tracker.table.holds(record, &key) && read.swapped() == direction
        })
    }

    /// Returns which of the next `len` packets have their keys compared for the sample.
    #[inline(always)]
    pub(super) fn sample(&mut self, len: usize) -> BurstMask {
        let MarkVerification::Sampled { one_in, .. } = self.check else { return 0 };
        let mut sampled = 0;
        while (self.until_check as usize) < len {
            sampled |= 1 << self.until_check;
            self.until_check = self.until_check.saturating_add(one_in.max(1));
        }
        self.until_check -= len as u32;
        sampled
    }
}
