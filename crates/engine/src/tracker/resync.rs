// SPDX-License-Identifier: BSD-3-Clause
//! Resynchronises TCP connections whose ends use other numbers than the table has, because the
//! table missed a packet that all later ones acknowledge.
//!
//! Two segments bring such a connection back: one that does not fit, and the answer of the other
//! side. The answer must have exactly the numbers that the first one asks for, and must come before
//! anything that fits. If a FIN or an RST of each side does not fit, the connection is most likely
//! over. It then lives for at most `OUT_OF_SYNC_TIMEOUT` (300 s), as in Linux since 6.1
//! (`nf_tcp_handle_invalid`).
//!
//! An attacker at one side can do neither, because the packets of the two ends must arrive at
//! different ports. Records have no room for this state, so they share places beside the table.

use super::Tracker;
use super::misfits::{Misfits, PacketSender};
use crate::api::Anomaly;
use crate::base::{Micros, Nanos};
use crate::conn::{Segment, State, Transition};
use crate::packet::{FIN, PacketView, RST, SYN};

impl<const W: usize> Tracker<W> {
    /// Returns an earlier segment that did not fit the connection, if this packet, which does not
    /// fit either, comes from the other side and answers it.
    pub(super) fn answered_misfit(
        &self,
        record: u32,
        packet: &PacketView,
        reason: Anomaly,
    ) -> Option<Segment> {
        let hot = &self.table.hot[record as usize];
        let flags = packet.meta.tcp_flags();
        let is_candidate = is_misfit(reason) && flags & (SYN | RST) == 0;
        let segment = packet.segment().filter(|_| is_candidate)?;
        let misfits = self.misfits.of(record).filter(|one| one.last_seen == hot.last_micros())?;
        let sender = PacketSender { direction: hot.direction(packet.meta), side: self.side };
        let (from, earlier) = misfits.segment?;
        let is_answered = hot.state().can_be_out_of_sync()
            && from.is_across(sender)
            && earlier.is_answered_by(segment.numbers);
        (is_answered && packet.is_intact(&hot.key)).then_some(earlier)
    }

    /// Returns the effect of a packet that does not fit its connection, if it answers another
    /// packet that does not fit either.
    ///
    /// # Errors
    /// `reason`, the anomaly of the packet, if it does not.
    pub(super) fn resync(
        &mut self,
        record: u32,
        packet: &PacketView,
        reason: Anomaly,
    ) -> Result<Transition, Anomaly> {
        let earlier = self.answered_misfit(record, packet, reason);
        let hot = &mut self.table.hot[record as usize];
        let flags = packet.meta.tcp_flags();
        let segment = packet.segment().filter(|_| is_misfit(reason) && flags & SYN == 0);
        let Some(segment) = segment.filter(|_| hot.state().can_be_out_of_sync()) else {
            return Err(reason);
        };
        let current = Segment { flags, numbers: segment.numbers };
        let sender = PacketSender { direction: hot.direction(packet.meta), side: self.side };
        let last_seen = hot.last_micros();
        let before = self.misfits.of(record).filter(|one| one.last_seen == last_seen);
        let mut after =
            before.unwrap_or(Misfits { record, last_seen, segment: None, closer: None });
        if let Some(earlier) = earlier {
            self.misfits.end(record);
            return Ok(hot.resync(sender.direction, earlier, current));
        }
        if flags & RST == 0 {
            after.segment = Some((sender, current));
        }
        let closes = flags & (FIN | RST) != 0 && packet.is_intact(&hot.key);
        let is_closed = closes && after.closer.is_some_and(|closer| closer.is_across(sender));
        if closes {
            after.closer = Some(sender);
        }
        self.misfits.keep(after);
        if is_closed {
            self.shorten(record, packet.now);
        }
        Err(reason)
    }

    /// Shortens the timeout of a connection that both sides have ended with numbers that do not
    /// fit.
    fn shorten(&mut self, record: u32, now: Nanos) {
        let (hot, cold) = self.table.parts(record);
        let deadline = now.saturating_add(self.timeouts.of_state(hot, State::TcpOutOfSync));
        if hot.state() != State::TcpEstablished || self.deadline(hot, cold) <= deadline {
            return;
        }
        self.misfits.end(record);
        self.table.hot[record as usize].lose_sync(Micros::of(now));
        self.entered(record);
        self.rearm_earlier(record, deadline);
    }
}

/// True if the anomaly means numbers that do not fit.
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
