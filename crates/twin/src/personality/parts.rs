// SPDX-License-Identifier: BSD-3-Clause
//! The parts of a personality that are not about patterns.
//!
//! A [`Reply`] is a refusal as the file has it: a sentence, or a table if `errno` or `type` are not
//! the usual ones at this place. Every part has a `source` for readers of the file.

use super::is_default;
use super::notation::Steps;
use crate::refusal::{Errno, Kind, Refusal, lasting};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the NIC says no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Told {
    /// The message; the rest is as usual.
    Message(String),
    /// What is not as usual.
    Full {
        /// `rte_errno`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        errno: Option<Errno>,
        /// Type of the error; `NONE` leaves the structure untouched.
        #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
        kind: Option<Kind>,
        /// None leaves it null.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

impl Told {
    /// The refusal; `usual` is what is not told.
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

/// Parts of a rule, to be looked at one after the other.
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
    /// Where a personality names no order.
    pub(crate) const USUAL: [Self; 3] = [Self::Attributes, Self::Pattern, Self::Actions];
}

/// Groups, priorities, directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AttributeFacts {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Groups, from 0; no limit if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
    /// Priorities, from 0; no limit if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priorities: Option<u32>,
    /// Rules between ports are taken, of ports that are part of a switch.
    #[serde(skip_serializing_if = "is_default")]
    pub transfer: bool,
    /// Of a group that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Told>,
    /// Of a priority that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Told>,
    /// Of a rule that is not for ingress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Told>,
    /// Of a rule for egress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Told>,
    /// Of a rule for transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_transfer: Option<Told>,
}

/// Lists of actions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActionFacts {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The lists that are taken; any that makes sense if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Steps>,
    /// The lists that rules for transfer have instead; the same if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accepted_transfer: Vec<Steps>,
    /// Actions may come in any order.
    #[serde(skip_serializing_if = "is_default")]
    pub any_order: bool,
    /// Of an action that has no place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Told>,
    /// Refusal of an action that is out of place, by the action's name; takes precedence over
    /// `unknown`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub out_of_place: BTreeMap<String, Told>,
    /// Of a list that lacks an action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Told>,
    /// Of an action, or another of its step, that comes twice: by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub twice: BTreeMap<String, Told>,
    /// Of an action that is refused in group 0: by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_in_root: BTreeMap<String, Told>,
    /// Of a list that is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<Told>,
    /// Of a queue that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_queue: Option<Told>,
    /// The action rss.
    #[serde(skip_serializing_if = "is_default")]
    pub rss: RssFacts,
}

/// The action rss.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RssFacts {
    /// Of queues that do not follow each other; taken if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_contiguous: Option<Told>,
    /// Of numbers of queues that are no power of two, or fewer than two; taken if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_power_of_two: Option<Told>,
}

/// Marks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MarkFacts {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The highest that is taken; 2^32-1 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Of a higher one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_high: Option<Told>,
    /// A mark that packets are not delivered with: it means no mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub means_none: Option<u32>,
    /// Marks are taken, and no packet ever has one.
    #[serde(skip_serializing_if = "is_default")]
    pub never_delivered: bool,
    /// Flags are taken, and no packet ever has one.
    #[serde(skip_serializing_if = "is_default")]
    pub flag_never_delivered: bool,
}

/// Rules that age.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgeFacts {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Nobody is ever told that a rule is aged.
    #[serde(skip_serializing_if = "is_default")]
    pub never_told: bool,
    /// Of a query of the age; taken if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_query: Option<Told>,
}

/// Counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CountFacts {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Rules that may count; no limit if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Of one more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<Told>,
    /// Bytes are not counted.
    #[serde(skip_serializing_if = "is_default")]
    pub hits_only: bool,
    /// Milliseconds between two readings of the counters, of which queries see the last.
    #[serde(skip_serializing_if = "is_default")]
    pub refresh_ms: u32,
    /// Of a query of anything; taken if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_query: Option<Told>,
}

/// The table of rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableFacts {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Rules it takes for sure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guaranteed: Option<u32>,
    /// Rules beyond that, where no other port of the device took the room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_effort: Option<u32>,
    /// Rules of group 0, where it is smaller than the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<u32>,
    /// Of a rule that finds no room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<Told>,
    /// What a second rule with the same bits, masks, group and priority comes to.
    #[serde(skip_serializing_if = "is_default")]
    pub duplicate: Duplicate,
}

/// What a rule comes to that is there already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duplicate {
    /// Refused, with `EEXIST`.
    #[default]
    Exists,
    /// Refused by `create` only, in these words.
    Refused(Told),
    /// Taken; the first stays in effect as long as it is there.
    FirstWins,
    /// Taken; it is in effect as long as it is there.
    LastWins,
}

/// How many rules there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// For sure.
    pub guaranteed: u64,
    /// Beyond that.
    pub best_effort: u64,
}

impl Capacity {
    /// With all luck.
    pub fn whole(self) -> u64 {
        self.guaranteed.saturating_add(self.best_effort)
    }
}

impl TableFacts {
    /// How many rules there may be.
    pub fn capacity(&self) -> Capacity {
        let best_effort = self.best_effort.unwrap_or(0).into();
        Capacity { guaranteed: self.guaranteed.map_or(u64::MAX, u64::from), best_effort }
    }
}

/// How long calls take, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Latency {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Average of `create`.
    #[serde(skip_serializing_if = "is_default")]
    pub create_us: u32,
    /// Longest of `create`; always the average if left out.
    #[serde(skip_serializing_if = "is_default")]
    pub create_max_us: u32,
    /// Average of `create` while more rules are there than the table guarantees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_effort_create_us: Option<u32>,
    /// Average of `destroy`.
    #[serde(skip_serializing_if = "is_default")]
    pub destroy_us: u32,
    /// Longest of `destroy`.
    #[serde(skip_serializing_if = "is_default")]
    pub destroy_max_us: u32,
    /// A rule is in effect so long after `create` returned.
    #[serde(skip_serializing_if = "is_default")]
    pub effective_after_us: u32,
    /// A rule is in effect until so long after `destroy` returned.
    #[serde(skip_serializing_if = "is_default")]
    pub effective_until_us: u32,
}

/// The port's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortFacts {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Of a rule while the port is stopped; taken if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Told>,
    /// What becomes of rules when the port stops.
    #[serde(skip_serializing_if = "is_default")]
    pub on_stop: OnStop,
}

/// What becomes of rules when the port stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnStop {
    /// They stay, and are in effect when it starts again.
    #[default]
    Keep,
    /// They are gone; handles are void.
    Flush,
    /// They seem to be there, and no packet hits them any more.
    Stale,
}

/// Calls that there are, and are not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Operations {
    /// For people.
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
    /// Of `rte_flow_isolate` while the port is started; taken if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolate_started: Option<Told>,
    /// There are templates and flow queues; their calls answer `ENOTSUP` otherwise.
    #[serde(skip_serializing_if = "is_default")]
    pub r#async: bool,
    /// Every call answers `ENOSYS`.
    #[serde(skip_serializing_if = "is_default")]
    pub none: bool,
}
