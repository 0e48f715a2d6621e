// SPDX-License-Identifier: BSD-3-Clause
//! Counters of one engine. Plain numbers with one writer; whoever shares them copies them out.

use crate::reason::Reason;
use crate::record::EndReason;
use crate::tcp::Irregular;

/// What the engine did so far. Every packet given to [`Engine::process`](crate::Engine::process)
/// is in exactly one of `tracked`, `passed[..]`, `dropped[..]`, `held`, `handed`; so is every
/// packet that was taken over from another engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frame bytes of all packets, without FCS.
    pub bytes: u64,
    /// Packets counted to a flow.
    pub tracked: u64,
    /// Packets forwarded without a flow, by [`Reason`].
    pub passed: [u64; Reason::ALL.len()],
    /// Packets to drop, by [`Reason`].
    pub dropped: [u64; Reason::ALL.len()],
    /// Fragments that wait for the first of their datagram.
    pub held: u64,
    /// Packets given to other engines, which have their connections.
    pub handed: u64,
    /// Packets taken over from other engines.
    pub taken: u64,
    /// Packets that changed nothing, by [`Irregular`]: forwarded and counted to a flow, but for
    /// those that are dropped.
    pub irregular: [u64; Irregular::ALL.len()],
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
