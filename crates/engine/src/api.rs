// SPDX-License-Identifier: BSD-3-Clause
//! Every plain type that a caller of the engine sees: configuration, verdicts, records, events,
//! filters, NIC rule requests and results, statistics.
//!
//! No behaviour beyond reading, printing and comparing; imports only `base`.

mod anomaly;
mod behaviour;
mod config;
mod conn_snapshot;
mod ct_mark;
mod ct_state;
mod event;
mod filter;
mod flow_mark;
mod flow_record;
mod fragment_limits;
mod ip_proto;
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

pub use anomaly::Irregular;
pub use behaviour::{
    Checksums, Evict, InvalidPackets, Malformed, OddFragments, PickUp, TcpNumbers, WhenFull,
};
pub use config::{Config, MAX_CAPACITY};
pub use conn_snapshot::{Restored, SavedFlow, SavedPhase};
pub use ct_mark::{CtMark, MarkBits, MarkChange, NoMarkBits};
pub use ct_state::CtState;
pub use event::{Change, FlowEvent};
pub use filter::{End, Filter, NoPrefix, Prefix};
pub use flow_mark::{MarkLayout, RuleId};
pub use flow_record::{EndReason, FlowRecord, State, Tally, VlanTags};
pub use fragment_limits::{FragmentLimits, MAX_DATAGRAMS, MAX_HOLD};
pub(crate) use ip_proto::{
    PROTO_ESP, PROTO_GRE, PROTO_ICMP, PROTO_ICMPV6, PROTO_SCTP, PROTO_TCP, PROTO_UDP, has_ports,
};
pub use mark_rule::MarkRule;
pub use offload::{Admission, Answer, KeyCheck, Offload, Passed, RuleAction, Side, Tuple, Wish};
pub use proto_state::Progress;
pub use query::{Cursor, LiveFlow, Query, Swept, ZoneNow};
pub use rule_view::{NoRule, RuleState, RuleView};
pub use stats::{MarkStats, OffloadState, OffloadStats, STALL_CYCLES, Stage, Stats};
pub use steering::{Doubt, Hashed, Spread, Steering};
pub use timeouts::Timeouts;
pub use untracked_reason::Reason;
pub use verdict::Verdict;
pub(crate) use zone::ZONES;
pub use zone::{ZoneFrom, ZonePolicy, ZoneRule};
