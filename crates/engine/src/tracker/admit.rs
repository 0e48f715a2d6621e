// SPDX-License-Identifier: BSD-3-Clause
//! Makes a record for a new connection.

use super::Tracker;
use super::marked::Evidence;
use super::step::Step;
use crate::account::Accounts;
use crate::api::{Tracking, UntrackedReason};
use crate::base::{Micros, TimerLink};
use crate::conn::{ConnCold, Sampler};
use crate::packet::{Key, PacketView};
use crate::policy::Judgement;

impl<const W: usize> Tracker<W> {
    /// Makes a record for a new connection, counts its first packet and emits its event. Notes the
    /// judgement of access lists, if there are any. If there is no room, the oldest embryonic
    /// connection ends first, if the configuration says so.
    pub(crate) fn admit(
        &mut self,
        (hash, key): (u64, Key<W>),
        packet: &PacketView,
        judgement: Option<&Judgement>,
        accounts: &mut Accounts,
    ) -> Step {
        if let Some(evicted) = self.make_room() {
            accounts.end(evicted);
        }
        let Some(record) = self.insert(hash, key, packet) else {
            return Step::NoRoom(UntrackedReason::TableFull);
        };
        if let Some(judgement) = judgement {
            self.begin_access(record, judgement, self.side);
            self.write_marks_of_rules(record, judgement.marks);
        }
        accounts.count_new((&key, packet.meta.swapped()), packet.now);
        self.emit_new(record, accounts);
        Step::Tracked
    }

    fn insert(&mut self, hash: u64, key: Key<W>, packet: &PacketView) -> Option<u32> {
        let PacketView { meta, header_info: info, now, .. } = *packet;
        if !self.table.can_start() {
            return None;
        }
        let record = self.table.alloc_record(hash)?;
        let tracking = self.tracking(key.zone());
        let hot = &mut self.table.hot[record as usize];
        match tracking {
            Tracking::Connections => hot.begin(key, packet),
            Tracking::Off | Tracking::Flows => hot.begin_flow(key, meta),
        }
        let is_rare = hot.count(meta, Micros::of(now), self.eval_interval.of(record));
        let cold = &mut self.table.cold.0[record as usize];
        *cold = ConnCold::begin(info, now, TimerLink::UNLINKED);
        let deadline = now.saturating_add(self.timeouts.of(hot));
        self.table.wheel.catch_up(now);
        self.table.wheel.arm(&mut self.table.cold, record, deadline);
        self.table.link_embryonic(record);
        self.write_marks_of_new(record);
        self.table.live += 1;
        if is_rare {
            self.handle_rare(record, meta.swapped(), Evidence::Unmarked);
        }
        Some(record)
    }
}
