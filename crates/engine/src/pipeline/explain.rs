// SPDX-License-Identifier: BSD-3-Clause
//! Reads a packet, and what access lists have decided about its connection, for whoever explains
//! decisions. Not part of the path of a packet: it allocates.

use super::Pipeline;
use super::admission::candidate::Candidate;
use crate::api::{AccessSource, AccessTrace, CtState, DirectionAccess, FrameTrace, Side};
use crate::packet::parse::{SubBurst, ethernet_fields};
use crate::packet::{Batch, Batches, IcmpHeader, Key, KeyParts};
use crate::policy::NO_RULE;
use crate::tracker::{Tracker, Trackers};
use acl::Packet;

impl Pipeline {
    /// Returns the fields of a packet and the stored decision about it. `None` if it has no key.
    pub(crate) fn stored_access(
        &self,
        trackers: &Trackers,
        packet: &impl wire::Packet,
    ) -> Option<AccessTrace> {
        let (mut batches, zone_rules) = (Batches::new(), &self.intake.zone_rules);
        let packets = std::slice::from_ref(packet);
        let part = SubBurst { packets, first: 0, zone: zone_rules.from, simd: self.intake.simd };
        part.parse(&mut batches, &mut |_, _| ());
        zone_rules.apply(&mut batches, (0, 0));
        of_batch(&batches.v4, &trackers.v4, packet.head())
            .or_else(|| of_batch(&batches.v6, &trackers.v6, packet.head()))
    }

    /// Returns what the lists for frames that are not IP say about a packet that arrives at this
    /// side; `None` if it is IP, or none judges it.
    pub(crate) fn frame_trace(&self, side: Side, packet: &impl wire::Packet) -> Option<FrameTrace> {
        let lists = self.access.as_ref().filter(|lists| lists.judges_frames(side))?;
        let frame = ethernet_fields(packet, self.intake.zone_rules.from)?;
        let judgement = lists.judge_frame(side, &frame, &mut |_| ());
        Some(FrameTrace { frame, rules: rule_numbers(judgement.rules) })
    }
}

/// Returns the trace of the first packet of a batch.
fn of_batch<const W: usize>(
    batch: &Batch<W>,
    tracker: &Tracker<W>,
    frame: &[u8],
) -> Option<AccessTrace> {
    if batch.len() == 0 {
        return None;
    }
    let (key, meta, info) = (Key::from_words(&batch.keys, 0), batch.metas[0], &batch.headers[0]);
    let candidate = Candidate { meta, info, is_fragment: batch.is_fragment(0), mark: 0 };
    let mut trace = AccessTrace {
        packet: candidate.fields(&key, (CtState::NEW, 0)),
        rules: [None; 2],
        source: AccessSource::NotAsked,
    };
    let fragment = batch.fragment(0).filter(|_| info.is_later_fragment());
    if let Some(fragment) = fragment {
        // Its own key is meaningless.
        let KeyParts { low, high, proto, zone, .. } = fragment.header.datagram_key.parts();
        let fragment = acl::Fragment::Later;
        trace.packet = Packet { src: low, dst: high, proto, zone, fragment, ..Packet::EMPTY };
        return Some(trace);
    }
    let record = tracker.table.find(tracker.table.hasher.hash_one(&key.0), &key);
    let access = record.map(|record| (tracker.access(record), tracker.direction(record, meta)));
    if info.quoted().is_some() {
        // The key is that of the packet that it quotes.
        let IcmpHeader { src, dst, icmp, .. } = IcmpHeader::of_frame(frame)?;
        let (proto, icmp, zone) = (Key::<W>::ICMP, Some(icmp), key.zone());
        trace.packet = Packet { src, dst, proto, icmp, zone, ..Packet::EMPTY };
        if let Some((access, _)) = access.filter(|(access, _)| access.reflects) {
            (trace.rules, trace.source) = (rule_numbers(access.rules[0]), AccessSource::Stored);
        }
        return Some(trace);
    }
    if let Some((access, direction)) = access {
        let is_stored = match access.decisions[direction] {
            DirectionAccess::Permitted | DirectionAccess::Denied | DirectionAccess::Rejected => {
                true
            }
            DirectionAccess::Undecided | DirectionAccess::Varies => false,
        };
        let rules = rule_numbers(access.rules[direction]);
        if is_stored && rules != [None; 2] {
            (trace.rules, trace.source) = (rules, AccessSource::Stored);
        }
    }
    Some(trace)
}

/// Returns the counters of rules that there are.
pub(crate) fn rule_numbers(rules: [u32; 2]) -> [Option<u32>; 2] {
    rules.map(|rule| (rule != NO_RULE).then_some(rule))
}
