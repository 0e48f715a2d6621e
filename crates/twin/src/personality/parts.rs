// SPDX-License-Identifier: BSD-3-Clause
//! Defines the parts of a personality that are not about patterns.
//!
//! A [`Told`] is a refusal in the file: a message, or a table if `errno` or `type` are not the
//! usual ones at this place. Every part has a `source` for readers of the file.

use super::is_default;
use super::notation::Steps;
use crate::refusal::{Errno, Kind, Refusal, lasting};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A refusal of the NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum RefusalFacts {
    /// The message; the other parts are the usual ones.
    Message(String),
    /// The parts that are not the usual ones.
    Full {
        /// `rte_errno`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        errno: Option<Errno>,
        /// Type of the error; `NONE` leaves the structure untouched.
        #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
        kind: Option<Kind>,
        /// The message; `None` leaves it null.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

impl RefusalFacts {
    /// Returns the refusal; parts that are left out come from `usual`.
    pub(crate) fn refusal(&self, usual: Refusal) -> Refusal {
        match self {
            Self::Message(message) => Refusal { message: Some(lasting(message)), ..usual },
            Self::Full { errno, kind, message } => Refusal {
                errno: errno.unwrap_or(usual.errno),
                kind: kind.unwrap_or(usual.kind),
                place: usual.place,
                message: message.as_deref().map(lasting),
            },
        }
    }
}

/// Parts of a rule, which are checked one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Group, priority, direction.
    Attributes,
    /// Items.
    Pattern,
    /// Actions.
    Actions,
}

impl Check {
    /// Order of checks if a personality names none.
    pub(crate) const USUAL: [Self; 3] = [Self::Attributes, Self::Pattern, Self::Actions];
}

/// Groups, priorities, directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AttributeFacts {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Groups, from 0; no limit if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
    /// Priorities, from 0; no limit if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priorities: Option<u32>,
    /// Rules between ports of a switch are accepted.
    #[serde(skip_serializing_if = "is_default")]
    pub transfer: bool,
    /// Refusal of a group that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<RefusalFacts>,
    /// Refusal of a priority that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<RefusalFacts>,
    /// Refusal of a rule that is not for ingress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<RefusalFacts>,
    /// Refusal of a rule for egress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<RefusalFacts>,
    /// Refusal of a rule for transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_transfer: Option<RefusalFacts>,
}

/// Lists of actions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActionFacts {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Lists that are accepted; any that makes sense if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Steps>,
    /// Lists that are accepted for rules for transfer; `accepted` if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted_transfer: Vec<Steps>,
    /// Actions may come in any order.
    #[serde(skip_serializing_if = "is_default")]
    pub any_order: bool,
    /// Refusal of an action that is out of place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<RefusalFacts>,
    /// Refusal of an action that is out of place, by the action's name; takes precedence over
    /// `unknown`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub out_of_place: BTreeMap<String, RefusalFacts>,
    /// Refusal of a list that lacks an action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<RefusalFacts>,
    /// Refusal of an action that comes twice, or with another of its step, by the action's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub twice: BTreeMap<String, RefusalFacts>,
    /// Refusal of an action in group 0, by the action's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_in_root: BTreeMap<String, RefusalFacts>,
    /// Refusal of an empty list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<RefusalFacts>,
    /// Refusal of a queue that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_queue: Option<RefusalFacts>,
    /// The action rss.
    #[serde(skip_serializing_if = "is_default")]
    pub rss: RssFacts,
}

/// The action rss.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RssFacts {
    /// Refusal of queues that are not consecutive; accepted if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_contiguous: Option<RefusalFacts>,
    /// Refusal of a number of queues that is no power of two, or less than two; accepted if left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_power_of_two: Option<RefusalFacts>,
}

/// Marks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarkFacts {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The highest mark that is accepted; 2^32-1 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Refusal of a higher mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_high: Option<RefusalFacts>,
    /// A mark that packets never have, because it means no mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub means_none: Option<u32>,
    /// Marks are accepted, and no packet ever has one.
    #[serde(skip_serializing_if = "is_default")]
    pub never_delivered: bool,
    /// Flags are accepted, and no packet ever has one.
    #[serde(skip_serializing_if = "is_default")]
    pub flag_never_delivered: bool,
}

/// Rules that age.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgeFacts {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Aged rules are never reported.
    #[serde(skip_serializing_if = "is_default")]
    pub never_told: bool,
    /// Refusal of a query of the age; accepted if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_query: Option<RefusalFacts>,
}

/// Counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CountFacts {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Maximum number of rules that count; no limit if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Refusal of one more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<RefusalFacts>,
    /// Bytes are not counted.
    #[serde(skip_serializing_if = "is_default")]
    pub hits_only: bool,
    /// Interval in milliseconds at which the NIC reads its counters; queries return the last
    /// reading.
    #[serde(skip_serializing_if = "is_default")]
    pub refresh_ms: u32,
    /// Refusal of a query of counters; accepted if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_query: Option<RefusalFacts>,
}

/// The table of rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableFacts {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Number of rules that are guaranteed to fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guaranteed: Option<u32>,
    /// Number of additional rules, if no other port of the device uses the room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_effort: Option<u32>,
    /// Number of rules of group 0, if it is smaller than the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<u32>,
    /// Refusal of a rule for which there is no room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<RefusalFacts>,
    /// Treatment of a second rule with the same bits, masks, group and priority.
    #[serde(skip_serializing_if = "is_default")]
    pub duplicate: Duplicate,
}

/// What the driver says of its flow director: the figures of testpmd's `show port fdir`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FdirFacts {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Kind of matching.
    pub mode: String,
    /// Kinds of packets that rules can match, in the driver's order.
    pub flow_types: Vec<String>,
    /// Bytes of a packet's payload that rules can match.
    pub max_len: u32,
    /// Bytes of the payload from whose start on they are taken.
    pub payload_limit: u32,
    /// Bytes of each unit of payload.
    pub payload_unit: u32,
    /// Maximum number of parts of the payload.
    pub payload_seg: u32,
    /// Bytes of each mask of bits.
    pub bitmask_unit: u32,
    /// Maximum number of such masks.
    pub bitmask_num: u32,
    /// Layers behind whose headers the payload can begin.
    pub payloads: Vec<String>,
    /// Kinds of packets with a mask of their payload, in the driver's order.
    pub flex_masks: Vec<String>,
    /// Numbers that the driver reports as 0: it does not count them.
    pub always_zero: Vec<String>,
}

/// Treatment of a rule that exists already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duplicate {
    /// Refused, with `EEXIST`.
    #[default]
    Exists,
    /// Refused by `create` only, with this refusal.
    Refused(RefusalFacts),
    /// Accepted; the first stays in effect as long as it exists.
    FirstWins,
    /// Accepted; the new one is in effect as long as it exists.
    LastWins,
}

/// Maximum numbers of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Rules that are guaranteed to fit.
    pub guaranteed: u64,
    /// Rules that may fit beyond that.
    pub best_effort: u64,
}

impl Capacity {
    /// Returns the sum of both.
    pub fn whole(self) -> u64 {
        self.guaranteed.saturating_add(self.best_effort)
    }
}

impl TableFacts {
    /// Returns how many rules fit.
    pub fn capacity(&self) -> Capacity {
        let best_effort = self.best_effort.unwrap_or(0).into();
        Capacity { guaranteed: self.guaranteed.map_or(u64::MAX, u64::from), best_effort }
    }
}

/// How long calls take, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Latency {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Average of `create`.
    #[serde(skip_serializing_if = "is_default")]
    pub create_us: u32,
    /// Longest of `create`; always the average if left out.
    #[serde(skip_serializing_if = "is_default")]
    pub create_max_us: u32,
    /// Average of `create` while there are more rules than the table guarantees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_effort_create_us: Option<u32>,
    /// Average of `destroy`.
    #[serde(skip_serializing_if = "is_default")]
    pub destroy_us: u32,
    /// Longest of `destroy`.
    #[serde(skip_serializing_if = "is_default")]
    pub destroy_max_us: u32,
    /// Time from the return of `create` until the rule is in effect.
    #[serde(skip_serializing_if = "is_default")]
    pub effective_after_us: u32,
    /// Time from the return of `destroy` until the rule has no effect.
    #[serde(skip_serializing_if = "is_default")]
    pub effective_until_us: u32,
}

/// The port's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortFacts {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Refusal of a rule while the port is stopped; accepted if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<RefusalFacts>,
    /// Treatment of rules when the port stops.
    #[serde(skip_serializing_if = "is_default")]
    pub on_stop: OnStop,
}

/// Treatment of rules when the port stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStop {
    /// They stay, and are in effect when it starts again.
    #[default]
    Keep,
    /// They are destroyed; their handles are not valid any more.
    Flush,
    /// They seem to exist, but no packet hits them any more.
    Stale,
}

/// Calls that the NIC supports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Operations {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `rte_flow_validate` answers `ENOSYS`.
    #[serde(skip_serializing_if = "is_default")]
    pub no_validate: bool,
    /// `rte_flow_query` answers `ENOSYS`.
    #[serde(skip_serializing_if = "is_default")]
    pub no_query: bool,
    /// `rte_flow_isolate` answers `ENOSYS`.
    #[serde(skip_serializing_if = "is_default")]
    pub no_isolate: bool,
    /// Refusal of `rte_flow_isolate` while the port is started; accepted if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolate_started: Option<RefusalFacts>,
    /// Templates and flow queues are supported; otherwise their calls answer `ENOTSUP`.
    #[serde(skip_serializing_if = "is_default")]
    pub r#async: bool,
    /// Every call answers `ENOSYS`.
    #[serde(skip_serializing_if = "is_default")]
    pub none: bool,
}
