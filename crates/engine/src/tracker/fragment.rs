// SPDX-License-Identifier: BSD-3-Clause
//! Counts later fragments to the connection of their datagram.

use super::Tracker;
use super::marked::Evidence;
use super::step::Step;
use crate::account::Accounts;
use crate::api::{PROTO_SCTP, PROTO_TCP};
use crate::base::Nanos;
use crate::conn::NoSampling;
use crate::packet::{HeaderInfo, Key, LaterFragment, PacketView};

impl<const W: usize> Tracker<W> {
    /// Counts a later fragment to the connection in `record`.
    pub(crate) fn track_later_fragment(
        &mut self,
        record: u32,
        LaterFragment { meta, position, reach }: LaterFragment,
        now: Nanos,
        accounts: &mut Accounts,
    ) -> Step {
        let hot = &mut self.table.hot[record as usize];
        // TCP and SCTP packets are checked by their header, which only the first fragment has. So a
        // later fragment of them is only counted.
        if !matches!(hot.key.proto(), PROTO_TCP | PROTO_SCTP) {
            let info = HeaderInfo::later_fragment(position);
            let packet = PacketView::of_fragment(meta.without_flags(), &info, now);
            return self.track(record, &packet, accounts);
        }
        if hot.count_later_fragment(meta, reach, NoSampling) {
            self.handle_rare(record, meta.swapped(), Evidence::None);
        }
        Step::Tracked
    }

    /// Counts a fragment that has waited for the first of its datagram. `None`: its connection is
    /// not in this table.
    #[must_use]
    pub(crate) fn track_held(
        &mut self,
        key: &Key<W>,
        fragment: LaterFragment,
        now: Nanos,
        accounts: &mut Accounts,
    ) -> Option<Step> {
        let record = self.table.find(self.table.hasher.hash_one(&key.0), key)?;
        Some(self.track_later_fragment(record, fragment, now, accounts))
    }
}
