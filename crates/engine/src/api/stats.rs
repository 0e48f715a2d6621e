// SPDX-License-Identifier: BSD-3-Clause
//! Counters of one engine. Plain numbers with one writer; whoever shares them copies them out.

use super::anomaly::Anomaly;
use super::flow_record::EndReason;
use super::offload::BypassCount;
use super::untracked_reason::UntrackedReason;
use crate::base::Nanos;

/// What the engine did so far. Every packet given to [`Engine::process`](crate::Engine::process)
/// is in exactly one of `tracked`, `passed[..]`, `dropped[..]`, `held`, `handed`; so is every
/// packet that was taken over from another engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frame bytes of all packets, without FCS.
    pub bytes: u64,
    /// Packets counted to a flow.
    pub tracked: u64,
    /// Packets forwarded without a flow, by [`UntrackedReason`].
    pub passed: [u64; UntrackedReason::ALL.len()],
    /// Packets to drop, by [`UntrackedReason`].
    pub dropped: [u64; UntrackedReason::ALL.len()],
    /// Fragments that wait for the first of their datagram.
    pub held: u64,
    /// Packets given to other engines, which have their connections.
    pub handed: u64,
    /// Packets taken over from other engines.
    pub taken: u64,
    /// Packets that changed nothing, by [`Anomaly`]: forwarded and counted to a flow, but for
    /// those that are dropped.
    pub irregular: [u64; Anomaly::ALL.len()],
    /// Flows created.
    pub created: u64,
    /// Flows that another engine has saved.
    pub restored: u64,
    /// Flows ended, by [`EndReason`].
    pub ended: [u64; EndReason::ALL.len()],
    /// Flow records overwritten before anyone took them.
    pub records_lost: u64,
    /// Cycles per [`Stage`] over the sampled bursts, but for stages longer than [`STALL_CYCLES`].
    pub stage_cycles: [u64; Stage::ALL.len()],
    /// Readings of the cycle counter that these cycles contain, by [`Stage`]: each takes some.
    pub stage_readings: [u64; Stage::ALL.len()],
    /// Packets in the sampled bursts.
    pub sampled_packets: u64,
}

impl Stats {
    /// Packets given to the engine, or taken over.
    pub fn packets(&self) -> u64 {
        let untracked = self.passed.iter().chain(&self.dropped).sum::<u64>();
        self.tracked + untracked + self.held + self.handed
    }

    /// Flows in the table.
    pub fn active(&self) -> u64 {
        self.created + self.restored - self.ended.iter().sum::<u64>()
    }
}

/// No stage of a burst takes so long (half a millisecond and more) unless the worker was
/// interrupted: what others did with its cpu says nothing about the stage.
pub const STALL_CYCLES: u64 = 1 << 21;

/// The engine's part of a packet's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Packets that are counted by their marks.
    Mark,
    /// Headers to key and direction.
    Parse,
    /// Hash, bucket, candidate record.
    Lookup,
    /// Key compare, state, counters.
    Track,
    /// New flows: second lookup, insert, timer.
    Miss,
}

impl Stage {
    /// Every stage in packet order.
    pub const ALL: [Stage; 5] =
        [Stage::Mark, Stage::Parse, Stage::Lookup, Stage::Track, Stage::Miss];

    /// The name in `--json`.
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

/// What became of packets with a mark, of which 0 is none. Every one of them is in one of these;
/// all but the first are counted to their flow as if they had none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkStats {
    /// Counted by the mark.
    pub counted: u64,
    /// Not plain, or more than one more packet of its flow: TCP's SYN, FIN and RST, first answers.
    /// With [`MarkVerification::Always`](crate::MarkVerification::Always), and where there is
    /// little room for flows, also those in whose place one counted might come too early.
    pub unusual: u64,
    /// Names no record of this worker.
    pub foreign: u64,
    /// Of another generation than the record.
    pub stale: u64,
    /// The packet has another key than the record.
    pub mismatched: u64,
    /// Packets whose key was compared; not a part of the sum.
    pub checked: u64,
}

/// What became of rules, and how things stand with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadStats {
    /// Rules that the NIC was asked for.
    pub asked: u64,
    /// Rules that it took.
    pub installed: u64,
    /// Rules whose mark a packet had.
    pub effective: u64,
    /// Not taken for want of room.
    pub full: u64,
    /// Not taken for trouble.
    pub postponed: u64,
    /// Not taken for what they are.
    pub refused: u64,
    /// Rules that went.
    pub removed: u64,
    /// Of those, to make room for busier flows, or for having become too slow.
    pub evicted: u64,
    /// Taken, without any effect.
    pub ineffective: u64,
    /// Rules that had an effect and lost it.
    pub lost_effect: u64,
    /// Candidates that better ones took the place of.
    pub crowded_out: u64,
    /// Candidates for which no slot was free.
    pub no_slot: u64,
    /// Candidates whose zone had as many rules as it may have.
    pub zone_full: u64,
    /// Rules that the NIC took to forward by itself.
    pub bypasses: u64,
    /// What it forwarded by them, as far as it is counted to flows.
    pub passed: BypassCount,
    /// Of these rules, those that were not known to be gone when their flow ended.
    pub unsettled: u64,
}

impl OffloadStats {
    /// Of two tables.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
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

/// How things stand with the rules of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OffloadStatus {
    /// Rules that the NIC has, or is to have.
    pub live: u32,
    /// Rules that it has room for, as far as is known.
    pub room: u32,
    /// Packets per second that are enough for a rule now.
    pub threshold: f64,
    /// In what time a rule should pay.
    pub horizon_ns: Nanos,
    /// Kinds of rules, by IP version and protocol, that are not asked for because they had no
    /// effect.
    pub kinds_aside: u32,
}
