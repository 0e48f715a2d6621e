// SPDX-License-Identifier: BSD-3-Clause
//! Explains a packet that may arrive: its connection, and what access lists would say about it.

use crate::api::{
    ConnExplanation, ConnSnapshot, CtMark, DirectionCounters, PacketExplanation, PacketQuestion,
    Side, SnapshotState, VlanTags,
};
use crate::engine::Engine;
use crate::packet::Key;
use crate::pipeline::explain;
use crate::tracker::Tracker;

impl Engine {
    /// Returns what would happen to a packet if it arrived now. Changes nothing.
    ///
    /// The answer is exact for a packet that fits its connection: sequence numbers, checksums,
    /// limits and room are not known or not considered. `None`: its addresses are of two IP
    /// versions.
    pub fn explain(&self, question: &PacketQuestion) -> Option<PacketExplanation> {
        let mut flow = first_packet(question);
        flow.zone = question.zone.unwrap_or_else(|| self.pipeline.zone_rules().of_saved(&flow));
        match (Key::of_saved_v4(&flow), Key::of_saved_v6(&flow)) {
            (Some(key), _) => Some(self.explain_in(&self.trackers.v4, key, question)),
            (_, Some(key)) => Some(self.explain_in(&self.trackers.v6, key, question)),
            (None, None) => None,
        }
    }

    fn explain_in<const W: usize>(
        &self,
        tracker: &Tracker<W>,
        (key, swapped): (Key<W>, bool),
        question: &PacketQuestion,
    ) -> PacketExplanation {
        let lists = self.pipeline.access();
        let (trace, relation, record) = explain(tracker, (&key, swapped), lists, question);
        let sides = Side::BOTH.map(|side| self.side_status(side));
        let conn = record.map(|record| {
            let access = tracker.access(record);
            let is_swapped = tracker.table.hot[record as usize].originator() == 1;
            ConnExplanation {
                view: tracker.live_flow(record, (Some(&sides), self.now)),
                direction: usize::from(swapped != is_swapped),
                decisions: access.decisions,
                reflects: access.reflects,
                is_open: tracker.stored_decisions(record).is_none(),
                side: access.side,
            }
        });
        PacketExplanation { trace, relation, conn }
    }
}

/// Returns the connection of which this would be the first packet: it has the same key.
fn first_packet(question: &PacketQuestion) -> ConnSnapshot {
    let packet = &question.packet;
    let [sport, dport] = packet.ports.unwrap_or(question.numbers);
    ConnSnapshot {
        src: packet.src,
        dst: packet.dst,
        proto: packet.proto,
        sport,
        dport,
        icmp: packet.icmp.map_or(0, u16::from_be_bytes),
        zone: 0,
        vlan: VlanTags::NONE,
        start: 0,
        last_seen: 0,
        orig: DirectionCounters::default(),
        reply: DirectionCounters::default(),
        state: SnapshotState::Other,
        scales: None,
        tags: [0; 2],
        ct_mark: CtMark::default(),
    }
}
