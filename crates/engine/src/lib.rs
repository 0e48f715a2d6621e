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
    Admission, Answer, Change, Checksums, Config, CtMark, CtState, Cursor, Doubt, End, EndReason,
    Evict, Filter, FlowEvent, FlowRecord, FragmentLimits, Hashed, InvalidPackets, Irregular,
    KeyCheck, LiveFlow, MAX_CAPACITY, MAX_DATAGRAMS, MAX_HOLD, Malformed, MarkBits, MarkChange,
    MarkLayout, MarkRule, MarkStats, NoMarkBits, NoPrefix, NoRule, OddFragments, Offload,
    OffloadState, OffloadStats, Passed, PickUp, Prefix, Progress, Query, Reason, Restored,
    RuleAction, RuleId, RuleState, RuleView, STALL_CYCLES, SavedFlow, SavedPhase, Side, Spread,
    Stage, State, Stats, Steering, Swept, Tally, TcpNumbers, Timeouts, Tuple, Verdict, VlanTags,
    WhenFull, Wish, ZoneFrom, ZoneNow, ZonePolicy, ZoneRule,
};
pub use base::{BURST_MAX, Memory, Nanos};
pub use control::Written;
pub use engine::{Engine, SAMPLE_EVERY};
pub use fragments::{Held, Release};
pub use packet::{Errand, Handed};
pub use policy::Zones;
