// SPDX-License-Identifier: BSD-3-Clause
//! Explains what access lists decide about each packet.

use super::Engine;
use crate::api::{AccessSource, AccessTrace, FrameTrace, Side, Verdict};
use crate::base::Nanos;
use crate::pipeline::rule_numbers;
use wire::Packet;

impl Engine {
    /// Tracks one packet that arrived at this side, as [`process_from`](Self::process_from) does.
    /// Returns its verdict, and what the lists have said about it; `None` if it has no key.
    pub fn process_traced<P: Packet>(
        &mut self,
        side: Side,
        now: Nanos,
        packet: &P,
    ) -> (Verdict, Option<AccessTrace>) {
        let before = self.searches();
        let mut verdict = [Verdict::Forward];
        self.process_from(side, now, std::slice::from_ref(packet), &mut verdict);
        let trace = self.pipeline.stored_access(&self.trackers, packet);
        let trace = trace.map(|trace| self.with_search(trace, before));
        (verdict[0], trace)
    }

    /// Returns what the lists say about a packet that arrives at this side, if it is not IP and
    /// such lists judge it.
    pub fn trace_frame<P: Packet>(&self, side: Side, packet: &P) -> Option<FrameTrace> {
        self.pipeline.frame_trace(side, packet)
    }

    /// Returns how many packets were compared with the lists, by IP version.
    fn searches(&self) -> [u64; 2] {
        let columns = [&self.trackers.v4.table.access, &self.trackers.v6.table.access];
        columns.map(|column| column.as_ref().map_or(0, |column| column.searched.packets))
    }

    /// Returns the trace of a packet; with the rules that it was compared with, if it was.
    fn with_search(&self, trace: AccessTrace, before: [u64; 2]) -> AccessTrace {
        let columns = [&self.trackers.v4.table.access, &self.trackers.v6.table.access];
        let searched = columns.map(|column| column.as_ref().map(|column| column.searched));
        let mut searched = searched.into_iter().flatten().zip(before);
        match searched.find(|(searched, before)| searched.packets > *before) {
            Some((searched, _)) => AccessTrace {
                packet: acl::Packet { ct: searched.ct, ..trace.packet },
                rules: rule_numbers(searched.rules),
                source: AccessSource::Search,
            },
            None => trace,
        }
    }
}
