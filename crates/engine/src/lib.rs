// SPDX-License-Identifier: BSD-3-Clause
//! The flow engine of one worker: packets, `now` and commands in; verdicts and flow records out.
//!
//! Sans-I/O: no DPDK, no clock, no thread, no lock, no logging, and no allocation after
//! [`Engine::new`]. The same engine runs live, on captures, in tests and under the fuzzer.
#![deny(unsafe_code)]

mod account;
mod api;
mod base;
mod conn;
mod control;
mod engine;
mod fragments;
mod offload;
mod packet;
mod pipeline;
mod policy;
mod table;
mod tracker;

pub use api::{
    AccessError, AccessLimits, AccessLists, AccessLog, AccessSource, AccessTrace, AccessUpdate,
    Anomaly, BypassAfter, BypassConfig, BypassCount, ChecksumCheck, Config, ConnDecision,
    ConnExplanation, ConnSnapshot, ConnView, CtMark, CtState, Cursor, DecisionChange,
    DirectionAccess, DirectionCounters, EndReason, EndpointMatch, EthernetBinding, EventKind,
    Evict, Filter, FiveTuple, FlowEvent, FlowRecord, FlowState, FragmentLimits, FrameTrace,
    InvalidFragments, InvalidPackets, ListBinding, ListDirection, ListMarkConfig, ListMarkStats,
    MAX_CAPACITY, MAX_DATAGRAMS, MAX_HOLD, MalformedPackets, MarkChange, MarkChoiceStatus,
    MarkLayout, MarkRule, MarkStats, MarkUse, MarkVerification, MaskedBits, MaskedBitsError,
    NeighbourDiscovery, NoRuleReason, OffloadConfig, OffloadPolicy, OffloadStats, OffloadStatus,
    PacketExplanation, PacketQuestion, PacketRelation, Prefix, PrefixError, ProtoState, Query,
    RestoreOutcome, RuleAction, RuleHits, RuleId, RuleRequest, RuleResult, RuleState, RuleView,
    STALL_CYCLES, Side, SnapshotState, Stage, Stats, SteeringConfig, SteeringMismatch,
    SweepProgress, TcpPickup, TcpWindowCheck, Timeouts, Tracking, UntrackedReason, Verdict,
    VlanTags, WhenFull, ZonePolicy, ZoneRule, ZoneSource, ZoneStatus,
};
pub use base::{BURST_MAX, MemoryUse, Nanos, TokenBucket};
pub use control::MarkProgress;
pub use engine::{Engine, SAMPLE_EVERY};
pub use fragments::{HeldPacket, Release};
pub use offload::INEFFECTIVE_MAX;
pub use packet::{HandedOff, Handoff};
pub use policy::ZonePolicies;
