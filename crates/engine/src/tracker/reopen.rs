// SPDX-License-Identifier: BSD-3-Clause
//! Begins a connection in the place of another one with the same key, which the same packet ends.

use super::Tracker;
use super::step::{ReopenCause, Step};
use super::track::StateChange;
use crate::account::Accounts;
use crate::api::{EndReason, MarkChange};
use crate::conn::ConnCold;
use crate::packet::PacketView;

impl<const W: usize> Tracker<W> {
    /// Returns the originators of the connection in `record` and of the one that would replace it:
    /// the end of the key that sent the first packet.
    pub(crate) fn originators(
        &self,
        record: u32,
        packet: &PacketView,
        cause: ReopenCause,
    ) -> [u8; 2] {
        let swapped = packet.meta.swapped();
        let next = if cause == ReopenCause::AgreedSyn { swapped ^ 1 } else { swapped };
        [self.table.hot[record as usize].originator(), next]
    }

    /// Ends the connection in `record`, begins another there, and counts the packet to it. The
    /// caller has checked that it may begin.
    pub(crate) fn reopen(
        &mut self,
        (record, cause): (u32, ReopenCause),
        packet: &PacketView,
        marks: MarkChange,
        accounts: &mut Accounts,
    ) -> Step {
        let PacketView { meta, header_info: info, now, .. } = *packet;
        let hot = &self.table.hot[record as usize];
        let before = hot.state();
        let (key, orig) = (&hot.key, hot.originator());
        match accounts.keeps_records() {
            true => accounts.end(self.record(record, EndReason::Reuse)),
            false => accounts.count_end(EndReason::Reuse, key.zone(), || key.end(orig)),
        }
        self.end_access(record);
        if let Some(oldest) = self.make_room_for_reuse(record) {
            accounts.end(oldest);
        }
        self.restart(record, packet, cause);
        self.write_marks_of_rules(record, marks);
        let hot = &self.table.hot[record as usize];
        accounts.count_reopened((&hot.key, hot.originator()), now);
        self.finish(record, (meta, info, now), Some(StateChange::New(before)), accounts);
        Step::Tracked
    }

    /// Begins a new connection in the record.
    fn restart(&mut self, record: u32, packet: &PacketView, cause: ReopenCause) {
        let hot = &mut self.table.hot[record as usize];
        let is_bypassed = match &mut self.rules {
            Some(rules) if hot.was_evaluated() => rules.reopen(record, packet.now),
            _ => false,
        };
        self.pending_eval = self.pending_eval.filter(|due| !due.is_of(record));
        let pending = match cause {
            ReopenCause::AgreedSyn => self.pending_syns.of(record),
            ReopenCause::PortReuse => None,
        };
        self.pending_syns.end(record);
        self.misfits.end(record);
        self.table.unlink_embryonic(record);
        let hot = &mut self.table.hot[record as usize];
        let cold = &mut self.table.cold.0[record as usize];
        match pending {
            Some(pending) => hot.begin_answered(pending.syn, packet),
            None => hot.begin(hot.key, packet),
        }
        if is_bypassed {
            hot.set_evaluated();
            hot.pause_window_check();
        }
        *cold = ConnCold::begin(packet.header_info, packet.now, cold.link);
        self.table.link_embryonic(record);
        self.write_marks_of_new(record);
    }
}
