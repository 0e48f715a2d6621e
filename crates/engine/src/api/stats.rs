// SPDX-License-Identifier: BSD-3-Clause
//! Owns the counters of an engine: packets, stages, marks and NIC rules.
//!
//! They are plain numbers with one writer; to share them, copy them.

use super::anomaly::Anomaly;
use super::flow_record::EndReason;
use super::offload::{BypassCount, MarkChoiceStatus};
use super::untracked_reason::UntrackedReason;
use crate::base::Nanos;

/// Counters of an engine since its start.
///
/// Every packet given to [`Engine::process`](crate::Engine::process) is in exactly one of
/// `tracked`, `passed[..]`, `dropped[..]`, `held`, `handed`. So is every packet taken over from
/// another engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frame bytes of all packets, without FCS.
    pub bytes: u64,
    /// Packets counted to a connection.
    pub tracked: u64,
    /// Packets forwarded without a connection, by [`UntrackedReason`].
    pub passed: [u64; UntrackedReason::ALL.len()],
    /// Packets to drop, by [`UntrackedReason`].
    pub dropped: [u64; UntrackedReason::ALL.len()],
    /// Fragments kept until the first fragment of their datagram arrives.
    pub held: u64,
    /// Packets handed to the engines that have their connections.
    pub handed: u64,
    /// Packets taken over from other engines.
    pub taken: u64,
    /// Packets that do not fit their connection, by [`Anomaly`]. They changed no state. Those that
    /// were not dropped are also counted to their connection.
    pub anomalies: [u64; Anomaly::ALL.len()],
    /// Connections created.
    pub created: u64,
    /// Connections restored from a snapshot of another engine.
    pub restored: u64,
    /// Connections ended, by [`EndReason`].
    pub ended: [u64; EndReason::ALL.len()],
    /// Packets that access lists logged.
    pub logged: u64,
    /// Packets that they did not log, because too many came at once.
    pub logs_suppressed: u64,
    /// Flow records overwritten before the caller took them.
    pub records_lost: u64,
    /// Cycles per [`Stage`] over the sampled bursts, without stages longer than [`STALL_CYCLES`].
    pub stage_cycles: [u64; Stage::ALL.len()],
    /// Number of readings of the cycle counter in these cycles, by [`Stage`]. Each reading costs
    /// some cycles.
    pub stage_readings: [u64; Stage::ALL.len()],
    /// Packets in the sampled bursts.
    pub sampled_packets: u64,
}

impl Stats {
    /// Returns the number of packets given to the engine or taken over.
    pub fn packets(&self) -> u64 {
        let untracked = self.passed.iter().chain(&self.dropped).sum::<u64>();
        self.tracked + untracked + self.held + self.handed
    }

    /// Returns the number of connections in the table.
    pub fn active(&self) -> u64 {
        self.created + self.restored - self.ended.iter().sum::<u64>()
    }
}

/// Stages longer than this, about half a millisecond, are not counted.
///
/// Only an interrupted worker takes so long, and the time of the interruption belongs to no stage.
pub const STALL_CYCLES: u64 = 1 << 21;

/// A step of packet processing in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Packets counted by their marks.
    Mark,
    /// Parsing of headers into key and direction.
    Parse,
    /// Hash, bucket of the index, candidate record.
    Lookup,
    /// Comparison of keys, state, counters.
    Track,
    /// New connections: second lookup, insert, timer.
    Miss,
}

impl Stage {
    /// Every stage, in packet order.
    pub const ALL: [Stage; 5] =
        [Stage::Mark, Stage::Parse, Stage::Lookup, Stage::Track, Stage::Miss];

    /// Returns the name in `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Mark => "mark",
            Stage::Parse => "parse",
            Stage::Lookup => "lookup",
            Stage::Track => "track",
            Stage::Miss => "miss",
        }
    }
}

/// Counters of packets with a mark other than 0. Each packet is in exactly one counter but
/// `checked`.
///
/// All but the `counted` packets are then processed like packets without a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkStats {
    /// Counted to a connection by the mark alone.
    pub counted: u64,
    /// Packets that need full processing: headers that are not plain, TCP's SYN, FIN and RST, first
    /// answers.
    ///
    /// With [`MarkVerification::Always`](crate::MarkVerification::Always), or when connections may
    /// be evicted, also packets that would otherwise be counted before an earlier packet.
    pub unusual: u64,
    /// The mark names no record of this worker.
    pub foreign: u64,
    /// The mark has another generation than the record.
    pub stale: u64,
    /// The packet has another key than the record.
    pub mismatched: u64,
    /// Marked packets that were processed in software, because that costs less.
    pub ignored: u64,
    /// Packets whose key was compared. They are also in one of the other counters.
    pub checked: u64,
}

/// Counters of NIC rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadStats {
    /// Rules whose installation was requested.
    pub requested: u64,
    /// Rules that the NIC installed.
    pub installed: u64,
    /// Rules whose mark at least one packet carried.
    pub effective: u64,
    /// Requests that failed because the NIC had no room.
    pub full: u64,
    /// Requests that failed because the port had trouble.
    pub postponed: u64,
    /// Requests that the NIC refused because it does not support such a rule.
    pub refused: u64,
    /// Rules removed on request.
    pub removed: u64,
    /// Rules whose removal was requested to make room for busier connections, or because they
    /// became too slow.
    pub evicted: u64,
    /// Rules that were installed and never had an effect.
    pub ineffective: u64,
    /// Rules that had an effect and lost it.
    pub lost_effect: u64,
    /// Candidates that better ones displaced.
    pub crowded_out: u64,
    /// Candidates that found no free slot.
    pub no_slot: u64,
    /// Candidates whose zone had reached its maximum number of rules.
    pub zone_full: u64,
    /// Bypass rules that the NIC installed.
    pub bypasses: u64,
    /// Packets and bytes that bypass rules forwarded and that were counted to connections.
    pub passed: BypassCount,
    /// Bypass rules whose removal was not confirmed when their connection ended.
    pub unsettled: u64,
}

impl OffloadStats {
    /// Returns the sum of the counters of two tables.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            requested: self.requested + other.requested,
            installed: self.installed + other.installed,
            effective: self.effective + other.effective,
            full: self.full + other.full,
            postponed: self.postponed + other.postponed,
            refused: self.refused + other.refused,
            removed: self.removed + other.removed,
            evicted: self.evicted + other.evicted,
            ineffective: self.ineffective + other.ineffective,
            lost_effect: self.lost_effect + other.lost_effect,
            crowded_out: self.crowded_out + other.crowded_out,
            no_slot: self.no_slot + other.no_slot,
            zone_full: self.zone_full + other.zone_full,
            bypasses: self.bypasses + other.bypasses,
            passed: BypassCount {
                packets: self.passed.packets + other.passed.packets,
                bytes: self.passed.bytes + other.passed.bytes,
            },
            unsettled: self.unsettled + other.unsettled,
        }
    }
}

/// Status of the NIC rules of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OffloadStatus {
    /// Rules that are installed or requested.
    pub live: u32,
    /// Estimated number of rules that the NIC has room for.
    pub room: u32,
    /// Current threshold for a rule, in packets per second.
    pub threshold: f64,
    /// Time in which a rule should pay for itself.
    pub horizon_ns: Nanos,
    /// Number of rule kinds (by IP version and protocol) that are not requested because they had no
    /// effect.
    pub kinds_aside: u32,
    /// What the worker does with marks, and the figures that led to it.
    pub marks: MarkChoiceStatus,
    /// Number of packets that pay for a rule by which the NIC forwards a direction; a guess until
    /// rules and packets have been measured.
    pub payback_packets: u32,
    /// Time that a packet takes in the worker, in nanoseconds, without the port's part; 0 if not
    /// known.
    pub packet_ns: f64,
}
