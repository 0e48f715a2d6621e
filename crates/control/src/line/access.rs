// SPDX-License-Identifier: BSD-3-Clause
//! Defines the lines of answers about access lists.

use super::{ConnectionLine, OffloadLine};
use serde::{Deserialize, Serialize};

/// A rule of an access list, or the default of one, and the packets that it has decided about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessRuleLine {
    /// Index of the pair.
    pub pair: u32,
    /// Name of the list.
    pub list: String,
    /// Ports and directions of the list, such as `a in`.
    pub places: Vec<String>,
    /// Index of the rule; null for the default.
    pub rule: Option<u32>,
    /// Number of changes of access lists so far.
    #[serde(default)]
    pub epoch: u32,
    /// Names the rule until the lists change; null for the default.
    #[serde(default)]
    pub handle: Option<String>,
    /// The rule as text.
    pub text: String,
    /// Packets that it has decided about; for `count`, that it has counted.
    pub packets: u64,
    /// Frame bytes of these packets.
    pub bytes: u64,
    /// Seconds since the last packet; null if there was none.
    pub last_s: Option<f64>,
}

/// A port, and which rules of the access list that judges its packets it has in its NIC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessPortLine {
    /// Index of the pair.
    pub pair: u32,
    /// `a` or `b`.
    pub port: String,
    /// Name of the port.
    pub name: String,
    /// Name of the list that is the first to judge packets which arrive at the port; null if none
    /// does.
    pub list: Option<String>,
    /// Name of the list that is the first to judge frames which arrive at the port and are not IP;
    /// null if none does. It has no rules in the NIC.
    pub ethernet_list: Option<String>,
    /// True if the port can have rules of the list.
    pub possible: bool,
    /// Why it cannot; null if it can.
    pub reason: Option<String>,
    /// Number of the lists among those of the run.
    pub epoch: u32,
    /// Most rules of lists in the port.
    pub room: u64,
    /// Levels of priority that the port has for them.
    pub levels: u32,
    /// Rules of lists that the port has now.
    pub present: u64,
    /// Rules of lists created so far.
    pub created: u64,
    /// Rules of lists removed so far.
    pub destroyed: u64,
    /// Rules that the port failed to remove.
    pub stuck: u64,
    /// Mean time to create or remove one, in microseconds.
    pub call_us: f64,
    /// Packets of all ports of the pair that were decided by a mark of a list's rule.
    pub decided: u64,
    /// Marked packets that were compared with the lists as well.
    pub checked: u64,
    /// Compared packets for which the lists found another rule. Its mark is not used any more.
    pub disagreed: u64,
    /// The rules of the list, and its default as the last one.
    pub rules: Vec<AccessPortRule>,
}

/// A rule of an access list in a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessPortRule {
    /// Index of the rule; null for the default.
    pub rule: Option<u32>,
    /// The rule as text.
    pub text: String,
    /// `nic` if the port has it and marks its packets, `drop` if it drops them, `waiting` if it is
    /// to be installed, else `software`.
    pub state: String,
    /// Why it is in software, or is to be dropped in the port and is not; null otherwise.
    pub reason: Option<String>,
    /// Numbers of its rules in the port.
    pub numbers: Vec<u64>,
}

/// A packet that a rule of an access list logs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessLogLine {
    /// Time at which it arrived, in nanoseconds since the Unix epoch.
    pub at_ns: u64,
    /// `at_ns` in microseconds; 0 from an older instance.
    #[serde(default)]
    pub at_us: u64,
    /// Index of the pair.
    pub pair: u32,
    /// Port at which it arrived: `a` or `b`.
    pub port: String,
    /// Name of the list.
    pub list: String,
    /// Index of the rule.
    pub rule: u32,
    /// The rule as text.
    pub text: String,
    /// Its action.
    pub action: String,
    /// The packet as text, as `millrace acl explain` reads it.
    pub packet: String,
    /// Bytes of its frame.
    pub bytes: u64,
    /// Lcore of the worker that had the packet.
    pub worker: u32,
}

/// A change of one rule of an access list, of its default, or of a place that it is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessChangeLine {
    /// `added`, `removed` or `moved`.
    pub change: String,
    /// Name of the list.
    pub list: String,
    /// Handle of the rule before the change; null for one that is added, and for what is no rule.
    pub from: Option<String>,
    /// Handle of the rule after the change; null for one that is removed, and for what is no rule.
    pub handle: Option<String>,
    /// The rule as text; of a default, `default` and its action; of a place, `port` and the place.
    pub text: String,
}

/// A rule that an earlier rule of its list takes packets from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessOverlapLine {
    /// Name of the list.
    pub list: String,
    /// Handle of the rule after the change.
    pub handle: String,
    /// The rule as text.
    pub text: String,
    /// Handle of the earlier rule after the change.
    pub earlier: String,
    /// The earlier rule as text.
    pub earlier_text: String,
    /// True if the earlier rule takes all its packets.
    pub unreachable: bool,
}

/// Connections that a change of access lists would decide about otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccessDecisionLine {
    /// Decision in force: `permitted`, `denied`, or `varies` if it depends on the packet.
    pub now: String,
    /// Decision after the change.
    pub then: String,
    /// Number of such connections.
    pub connections: u64,
    /// Some of them.
    pub examples: Vec<ConnectionLine>,
}

/// What would happen to a packet that arrived now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessExplainLine {
    /// Index of the pair.
    pub pair: u32,
    /// Port at which it arrives: `a` or `b`.
    pub port: String,
    /// Name of the port.
    pub name: String,
    /// The packet as text.
    pub packet: String,
    /// Its zone.
    pub zone: u16,
    /// Its states for rules; empty for a frame that is not IP.
    pub ct: String,
    /// Its relation to connections: `belongs`, `reopens`, `begins`, `invalid`, `untracked`,
    /// `error`; `frame` for a frame that is not IP.
    pub relation: String,
    /// The connection that has its addresses and ports; null if there is none.
    pub connection: Option<ExplainedConnection>,
    /// `searched` if the packet is compared with rules, `stored` if the decision of its connection
    /// holds, `not_asked` if no list judges it.
    pub source: String,
    /// The rules on its way: those that count it, and those that decide.
    pub rules: Vec<AccessExplainRule>,
    /// `pass`, `deny` or `reject`.
    pub verdict: String,
    /// Where that is decided: `software`, `list_mark`, `list_drop`, `connection_mark` or
    /// `bypass`.
    pub decided_by: String,
    /// Number of changes of access lists so far.
    pub epoch: u32,
}

/// A rule on the way of a packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessExplainRule {
    /// Name of the list.
    pub list: String,
    /// Number of its rules.
    pub list_rules: u32,
    /// Port and direction by which the list judges the packet, such as `a in`.
    pub place: String,
    /// Index of the rule; null for the default.
    pub rule: Option<u32>,
    /// Names the rule until the lists change; null for the default.
    pub handle: Option<String>,
    /// The rule as text.
    pub text: String,
    /// Its action.
    pub action: String,
    /// Where the port at which the packet arrives has the rule: `nic` if it marks its packets,
    /// `drop` if it drops them, `waiting` if the rule is to be installed, else `software`.
    pub state: String,
    /// Why it is in software; null otherwise.
    pub reason: Option<String>,
    /// Numbers of its rules in the port.
    pub numbers: Vec<u64>,
}

/// A connection, and what is stored with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedConnection {
    /// The connection.
    pub connection: ConnectionLine,
    /// Direction of the packet: `orig` or `reply`.
    pub direction: String,
    /// Port at which the first packet arrived: `a` or `b`; null if it was restored.
    pub began_at: Option<String>,
    /// Decision about packets of the originator: `undecided`, `permitted`, `denied`, `rejected`, or
    /// `varies` if each is compared with rules.
    pub orig_decision: String,
    /// Decision about packets of the responder.
    pub reply_decision: String,
    /// A rule permits both directions.
    pub reflects: bool,
    /// The lists have changed: the next packet decides anew about both directions.
    pub judged_anew: bool,
    /// The NIC rule of the packet's direction, or why it has none.
    pub offload: OffloadLine,
}
