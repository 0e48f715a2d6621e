// SPDX-License-Identifier: BSD-3-Clause
//! Recognises a SYN on a connection that both ends have forgotten, and the SYN+ACK that answers it.
//! The two begin another connection in its place.

use super::Tracker;
use super::pending_syn::PendingSyn;
use crate::api::Anomaly;
use crate::packet::{ACK, PacketView, SYN};

impl<const W: usize> Tracker<W> {
    /// Keeps a packet that does not fit its connection, if it is a SYN: an answer may come.
    pub(super) fn store_pending_syn(&mut self, record: u32, packet: &PacketView) {
        let hot = &self.table.hot[record as usize];
        let is_syn = packet.meta.tcp_flags() & (SYN | ACK) == SYN;
        let Some(syn) = packet.segment().filter(|_| is_syn && packet.is_intact(&hot.key)) else {
            return;
        };
        let (direction, side) = (hot.direction(packet.meta), self.side);
        let last_seen = hot.last_seen(&self.table.cold.0[record as usize]);
        self.pending_syns.keep(PendingSyn { record, direction, side, syn, last_seen });
    }

    /// True if this packet, an anomaly for its connection, answers a SYN that did not fit either.
    /// Then both ends have forgotten the connection and begin another.
    pub(super) fn answers_pending_syn(
        &self,
        record: u32,
        packet: &PacketView,
        anomaly: Anomaly,
    ) -> bool {
        let is_syn_ack = packet.meta.tcp_flags() & (SYN | ACK) == SYN | ACK;
        if !is_syn_ack || !matches!(anomaly, Anomaly::TcpSyn | Anomaly::TcpSynOfOther) {
            return false;
        }
        let hot = &self.table.hot[record as usize];
        let pending = self.pending_syns.of(record);
        let (Some(answer), Some(pending)) = (packet.segment(), pending) else { return false };
        let (from, now) = (hot.direction(packet.meta), self.side);
        // Since the SYN, no end has sent anything that fits the old connection, except to close it.
        let is_silent = hot.last_seen(&self.table.cold.0[record as usize]) == pending.last_seen
            || hot.state().is_closing();
        // An answer comes from the side to which the SYN went.
        let is_opposite = pending.direction != from && (now.is_none() || pending.side != now);
        let is_agreed = is_silent && is_opposite && pending.syn.is_answered_by(answer);
        is_agreed && packet.is_intact(&hot.key)
    }
}
