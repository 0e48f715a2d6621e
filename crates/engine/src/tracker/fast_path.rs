// SPDX-License-Identifier: BSD-3-Clause
//! Segments that lead a connection of TCP where they nearly always do.

use super::Tracker;
use crate::api::Reason;
use crate::base::Nanos;
use crate::conn::{Event, Phase};
use crate::packet::{Arrival, Evidence, Header, Meta, Opening, is_plain_tcp_right};
use crate::pipeline::Outcome;
use wire::Packet;

/// A packet as it was parsed.
pub(crate) struct Seen<'a, P> {
    pub(crate) packet: &'a P,
    pub(crate) meta: Meta,
    pub(crate) opening: &'a Opening,
    pub(crate) now: Nanos,
}

impl<P: Packet> Seen<'_, P> {
    /// Its TCP header, if all of its bytes lie in one place.
    #[inline(always)]
    fn header(&self) -> Option<Header<'_>> {
        let bytes = self.packet.head();
        let is_whole = bytes.len() == self.packet.frame_len();
        is_whole.then(|| Header::of_whole(bytes, self.opening)).flatten()
    }

    /// Whether it came as it was sent, if anybody asks. False as well if that is not easily said.
    #[inline(always)]
    fn is_intact<const W: usize>(&self, verifies: bool) -> bool {
        !verifies
            || self.packet.is_verified()
            || is_plain_tcp_right(self.packet.head(), self.opening, W > 2)
    }
}

impl<const W: usize> Tracker<W> {
    /// Takes a packet of the flow in `record` if it is one of its usual life. False: nothing has
    /// changed, and it may be anything.
    #[inline(always)]
    pub(crate) fn track_usual<P: Packet>(
        &mut self,
        record: u32,
        seen: &Seen<P>,
        outcome: &mut impl Outcome,
    ) -> bool {
        let &Seen { meta, opening, now, .. } = seen;
        let hot = &self.table.hot[record as usize];
        let before = hot.phase();
        let Some(next) = hot.usually_leads_to(meta) else { return false };
        let Some(header) = seen.header() else { return false };
        let is_new = next == Phase::TcpSynSent;
        if is_new {
            if !seen.is_intact::<W>(self.verifies) {
                return false;
            }
            if let Err(reason) = self.begin_again(record, seen, header, outcome) {
                let zone = self.table.hot[record as usize].key.zone();
                outcome.full(opening.position, zone, reason);
                return true;
            }
        } else {
            let (verifies, segment) = (self.verifies, header.read(meta, opening));
            let hot = &mut self.table.hot[record as usize];
            if !hot.goes_on(next, (meta, segment), || seen.is_intact::<W>(verifies)) {
                return false;
            }
            self.entered(record);
        }
        self.settle(record, (meta, opening, now), (Some(before), is_new), outcome);
        true
    }

    /// The flow in `record` is over, and another begins with its ports.
    fn begin_again<P: Packet>(
        &mut self,
        record: u32,
        seen: &Seen<P>,
        header: Header,
        outcome: &mut impl Outcome,
    ) -> Result<(), Reason> {
        let &Seen { meta, opening, now, .. } = seen;
        let (header, evidence) = (Some(header), Evidence::Trusted);
        let packet =
            Arrival { meta, opening, now, side: self.side, header, chunks: None, evidence };
        self.replace(record, &packet, Event::Reuse, outcome)
    }
}
