// SPDX-License-Identifier: BSD-3-Clause
//! Owns the plain types that a caller of the engine sees.
//!
//! These are configuration, verdicts, records, events, filters, NIC rule requests and results, and
//! statistics. They only parse, print and compare. This room imports only `base`.

mod access;
mod access_explain;
mod access_log;
mod access_preview;
mod anomaly;
mod behaviour;
mod config;
mod conn_snapshot;
mod ct_mark;
mod ct_state;
mod ethernet_access;
mod event;
mod filter;
mod flow_mark;
mod flow_record;
mod fragment_limits;
mod ip_proto;
mod list_marks;
mod list_places;
mod mark_rule;
mod offload;
mod proto_state;
mod query;
mod rule_view;
mod stats;
mod steering;
mod timeouts;
mod untracked_reason;
mod verdict;
mod zone;

pub(crate) use access::RuleDecision;
pub use access::{
    AccessError, AccessLimits, AccessLists, AccessSource, AccessTrace, AccessUpdate, ListBinding,
    RuleHits,
};
pub use access_explain::{
    ConnExplanation, DirectionAccess, PacketExplanation, PacketQuestion, PacketRelation,
};
pub use access_log::AccessLog;
pub use access_preview::{ConnDecision, DecisionChange};
pub use anomaly::Anomaly;
pub use behaviour::{
    ChecksumCheck, Evict, InvalidFragments, InvalidPackets, MalformedPackets, NeighbourDiscovery,
    TcpPickup, TcpWindowCheck, Tracking, WhenFull,
};
pub use config::{Config, MAX_CAPACITY};
pub use conn_snapshot::{ConnSnapshot, RestoreOutcome, SnapshotState};
pub use ct_mark::{CtMark, MarkChange, MaskedBits, MaskedBitsError};
pub use ct_state::CtState;
pub use ethernet_access::{EthernetBinding, FrameTrace};
pub use event::{EventKind, FlowEvent};
pub use filter::{EndpointMatch, Filter, Prefix, PrefixError};
pub use flow_mark::{MarkLayout, RuleId};
pub use flow_record::{DirectionCounters, EndReason, FlowRecord, FlowState, VlanTags};
pub use fragment_limits::{FragmentLimits, MAX_DATAGRAMS, MAX_HOLD};
pub(crate) use ip_proto::{
    PROTO_ESP, PROTO_GRE, PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP, has_ports,
};
pub use list_marks::{ListMarkConfig, ListMarkStats};
pub use list_places::ListDirection;
pub use mark_rule::MarkRule;
pub use offload::{
    BypassAfter, BypassConfig, BypassCount, FiveTuple, MarkChoiceStatus, MarkUse, MarkVerification,
    OffloadConfig, OffloadPolicy, RuleAction, RuleRequest, RuleResult, Side,
};
pub use proto_state::ProtoState;
pub use query::{ConnView, Cursor, Query, SweepProgress, ZoneStatus};
pub use rule_view::{NoRuleReason, RuleState, RuleView};
pub use stats::{MarkStats, OffloadStats, OffloadStatus, STALL_CYCLES, Stage, Stats};
pub use steering::{SteeringConfig, SteeringMismatch};
pub use timeouts::Timeouts;
pub use untracked_reason::UntrackedReason;
pub use verdict::Verdict;
pub(crate) use zone::ZONES;
pub use zone::{ZonePolicy, ZoneRule, ZoneSource};
