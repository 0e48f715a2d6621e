// SPDX-License-Identifier: BSD-3-Clause
//! TCP connections whose ends go on with other numbers than the table has: a packet was not seen,
//! and everything behind it acknowledges that.
//!
//! Two segments bring such a connection back: one that does not fit, and the other side's answer
//! to it, with just the numbers that the first one asks for, before anything that fits. And where
//! a FIN or an RST of each side does not fit, the connection is most likely over and lives
//! [`OUT_OF_SYNC_TIMEOUT`] from there on, as in Linux since 6.1 (`nf_tcp_handle_invalid`).
//!
//! A stranger at one side can do neither: what two sides say has to come in at different ports.
//! Records have no room for it, so there are a few places beside the table, which records share.
//!
//! [`OUT_OF_SYNC_TIMEOUT`]: crate::flow::OUT_OF_SYNC_TIMEOUT

use super::Tracker;
use super::misfits::{Misfits, Speaker};
use crate::api::Anomaly;
use crate::base::{Micros, Nanos};
use crate::conn::{Segment, State, Transition};
use crate::packet::{FIN, PacketView, RST, SYN};

impl<const W: usize> Tracker<W> {
    /// Returns what a packet does that does not fit for this reason: nothing, unless it answers
    /// another one that does not fit either.
    pub(super) fn resync(
        &mut self,
        record: u32,
        packet: &PacketView,
        reason: Anomaly,
    ) -> Result<Transition, Anomaly> {
        let hot = &mut self.table.hot[record as usize];
        let flags = packet.meta.tcp_flags();
        let segment = packet.segment().filter(|_| is_misfit(reason) && flags & SYN == 0);
        let Some(segment) = segment.filter(|_| hot.phase().can_be_out_of_sync()) else {
            return Err(reason);
        };
        let said = Segment { flags, numbers: segment.numbers };
        let speaker = Speaker { direction: hot.direction(packet.meta), side: self.side };
        let last_seen = hot.last_micros();
        let before = self.misfits.of(record).filter(|one| one.last_seen == last_seen);
        let mut after =
            before.unwrap_or(Misfits { record, last_seen, segment: None, closer: None });
        if flags & RST == 0 {
            let asked = after.segment.filter(|(from, asked)| {
                from.is_across(speaker) && asked.is_answered_by(said.numbers)
            });
            if let Some((_, asked)) = asked.filter(|_| packet.is_intact(&hot.key)) {
                self.misfits.end(record);
                return Ok(hot.resync(speaker.direction, asked, said));
            }
            after.segment = Some((speaker, said));
        }
        let closes = flags & (FIN | RST) != 0 && packet.is_intact(&hot.key);
        let is_closed = closes && after.closer.is_some_and(|closer| closer.is_across(speaker));
        if closes {
            after.closer = Some(speaker);
        }
        self.misfits.keep(after);
        if is_closed {
            self.shorten(record, packet.now);
        }
        Err(reason)
    }

    /// Both sides have ended the connection in `record` with numbers that do not fit.
    fn shorten(&mut self, record: u32, now: Nanos) {
        let (hot, cold) = self.table.parts(record);
        let deadline = now.saturating_add(self.timeouts.of_phase(hot, State::TcpOutOfSync));
        if hot.phase() != State::TcpEstablished || self.deadline(hot, cold) <= deadline {
            return;
        }
        self.misfits.end(record);
        self.table.hot[record as usize].lose_sync(Micros::of(now));
        self.entered(record);
        self.rearm_earlier(record, deadline);
    }
}

/// Whether these are numbers that do not fit.
fn is_misfit(reason: Anomaly) -> bool {
    matches!(
        reason,
        Anomaly::TcpBeyondWindow
            | Anomaly::TcpAckBeyond
            | Anomaly::TcpOld
            | Anomaly::TcpAckOld
            | Anomaly::TcpRst
            | Anomaly::TcpRstInWindow
    )
}
