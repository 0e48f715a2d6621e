// SPDX-License-Identifier: BSD-3-Clause
//! Defines the lines of an answer, as written in JSON.

mod access;

pub use access::{
    AccessChangeLine, AccessDecisionLine, AccessExplainLine, AccessExplainRule, AccessLogLine,
    AccessOverlapLine, AccessPortLine, AccessPortRule, AccessRuleLine, ExplainedConnection,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::IpAddr;

/// A line of an answer. The last one is `End` or `Error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The instance that answers.
    Instance(InstanceLine),
    /// A port and the state of its rules.
    Port(Box<PortLine>),
    /// A rule of a port.
    Rule(RuleLine),
    /// A connection with its rules.
    Flow(Box<FlowLine>),
    /// A connection.
    Connection(Box<ConnectionLine>),
    /// A zone.
    Zone(ZoneLine),
    /// A rule of an access list, or its default.
    AccessRule(AccessRuleLine),
    /// Rules of access lists in a port.
    AccessPort(Box<AccessPortLine>),
    /// A packet that an access list logs.
    AccessLog(AccessLogLine),
    /// A change of one rule of an access list.
    AccessChange(AccessChangeLine),
    /// A rule that an earlier one takes packets from.
    AccessOverlap(AccessOverlapLine),
    /// Connections that a change of access lists would decide about otherwise.
    AccessDecision(AccessDecisionLine),
    /// What would happen to a packet.
    AccessExplain(Box<AccessExplainLine>),
    /// An event of a connection.
    Event(Box<EventLine>),
    /// This many events, or logged packets, are missing at this place.
    Lost(u64),
    /// The summary, and the report that a run would print.
    Stats {
        /// The members of the JSON summary.
        summary: Value,
        /// The report as text.
        report: String,
    },
    /// End of the answer, which is complete.
    End(EndLine),
    /// Error that ends the answer.
    Error(ErrorLine),
}

/// The instance that answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceLine {
    /// Process ID.
    pub pid: u32,
    /// Version of the program.
    pub version: String,
    /// Version of the protocol.
    pub protocol: u32,
    /// Seconds since the start.
    pub age_s: f64,
    /// Policy of offload, as in the configuration.
    pub policy: String,
    /// Names of the ports: of each pair A, then B.
    pub ports: Vec<String>,
}

/// A port and the state of its rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortLine {
    /// Name of the port.
    pub name: String,
    /// `on` or `off`.
    pub state: String,
    /// Why it is off; null if it is on.
    pub reason: Option<String>,
    /// Installed rules.
    pub installed: u64,
    /// Installed and requested rules.
    pub live: u32,
    /// Room for rules, as far as known.
    pub room: u32,
    /// Packets per second from which a direction gets a rule.
    pub threshold_pps: f64,
    /// Seconds in which a rule must save more than it costs.
    pub horizon_s: f64,
    /// Kinds of rules set aside because they had no effect.
    pub kinds_aside: u32,
    /// Width of its marks in bits; null if it takes no rules.
    pub mark_bits: Option<u32>,
    /// `on` if it bypasses UDP; `off` if not; empty from an older instance.
    #[serde(default)]
    pub bypass: String,
    /// Why it does not bypass UDP; null if it does, or from an older instance.
    #[serde(default)]
    pub bypass_reason: Option<String>,
    /// What workers do with marks: `used`, `ignored` or `no_rules`; empty from an older instance.
    #[serde(default)]
    pub mark_use: String,
    /// Cycles per packet by mark when that was measured last; 0 if never.
    #[serde(default)]
    pub mark_cycles: f64,
    /// Cycles per packet in software when that was measured last; 0 if never.
    #[serde(default)]
    pub software_cycles: f64,
    /// How often workers have changed what they do with marks; 0 from an older instance.
    #[serde(default)]
    pub mark_switches: u64,
    /// `on` if it bypasses TCP; `off` if not; empty from an older instance.
    #[serde(default)]
    pub bypass_tcp: String,
    /// Why it does not bypass TCP; null if it does, or from an older instance.
    #[serde(default)]
    pub bypass_tcp_reason: Option<String>,
    /// Packets that pay for a rule by which the NIC forwards; 0 from an older instance.
    #[serde(default)]
    pub payback_packets: u32,
    /// Time of a packet in the worker, in nanoseconds, without receiving and sending; 0 if not
    /// known.
    #[serde(default)]
    pub packet_ns: f64,
    /// Times to install a rule, in microseconds.
    pub insert_us: Value,
    /// Times to remove a rule, in microseconds.
    pub delete_us: Value,
    /// Counts of rule requests, as in the summary.
    pub rules: Value,
}

/// The rule of one direction of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleLine {
    /// Port where its packets arrive.
    pub port: String,
    /// IP protocol number.
    pub proto: u8,
    /// Source address of its packets.
    pub src: IpAddr,
    /// Source port of its packets.
    pub sport: u16,
    /// Destination address of its packets.
    pub dst: IpAddr,
    /// Destination port of its packets.
    pub dport: u16,
    /// Zone of the connection.
    pub zone: u16,
    /// State of the rule.
    pub state: String,
    /// Seconds in this state.
    pub age_s: f64,
    /// Packets per second of the direction.
    pub rate_pps: f64,
    /// Packets with its mark since the first one, or packets that the NIC bypassed.
    pub hits: u64,
    /// Lcore of the worker that has the connection.
    pub worker: u32,
}

/// A connection in the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowLine {
    /// 4 or 6.
    pub ip_version: u8,
    /// IP protocol number.
    pub proto: u8,
    /// Name of the protocol, or its number if it has none here; empty from an older instance.
    #[serde(default)]
    pub proto_name: String,
    /// Address of the originator.
    pub src: IpAddr,
    /// Port of the originator.
    pub sport: u16,
    /// Address of the responder.
    pub dst: IpAddr,
    /// Port of the responder.
    pub dport: u16,
    /// Zone of the connection.
    pub zone: u16,
    /// VLAN ids of its packets, the outer one first.
    pub vlan: Vec<u16>,
    /// Time of its first packet, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// Time of its first packet in microseconds, for readers whose numbers are exact up to 2^53
    /// only; 0 from an older instance.
    #[serde(default)]
    pub start_us: u64,
    /// Time of its last packet, in nanoseconds since the Unix epoch.
    pub last_ns: u64,
    /// Time of its last packet in microseconds; 0 from an older instance.
    #[serde(default)]
    pub last_us: u64,
    /// Seconds since its first packet.
    pub age_s: f64,
    /// Seconds since its last packet.
    pub idle_s: f64,
    /// State, as in flow records.
    pub state: String,
    /// State, as in the list of connections; empty from an older instance.
    #[serde(default)]
    pub ct_state: String,
    /// Direction from the originator to the responder.
    pub orig: DirectionLine,
    /// Direction from the responder to the originator.
    pub reply: DirectionLine,
    /// Lcore of the worker that has the connection.
    pub worker: u32,
}

/// One direction of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionLine {
    /// Packets of the direction.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Bytes from the IP header on.
    pub ip_bytes: u64,
    /// All TCP flags of these packets.
    pub tcp_flags: u8,
    /// Its rule, or why it has none.
    pub offload: OffloadLine,
}

/// The rule of a direction, or why it has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffloadLine {
    /// State of the rule.
    pub state: String,
    /// Why there is no rule; null if there is one, or one was requested.
    pub reason: Option<String>,
    /// State or reason as text.
    pub words: String,
    /// Start of the rule's state; without a rule, time of the last evaluation; null if never
    /// evaluated.
    pub since_ns: Option<u64>,
    /// `since_ns` in microseconds.
    #[serde(default)]
    pub since_us: Option<u64>,
    /// Name of the port where its packets arrive.
    pub port: Option<String>,
    /// Packets per second.
    pub rate_pps: f64,
    /// Packets with its mark, or packets that the NIC bypassed.
    pub hits: u64,
}

/// A connection, without its rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLine {
    /// 4 or 6.
    pub ip_version: u8,
    /// IP protocol number.
    pub proto: u8,
    /// Name of the protocol, or its number if it has none here; empty from an older instance.
    #[serde(default)]
    pub proto_name: String,
    /// Address of the originator.
    pub src: IpAddr,
    /// Port of the originator.
    pub sport: u16,
    /// Address of the responder.
    pub dst: IpAddr,
    /// Port of the responder.
    pub dport: u16,
    /// Zone of the connection.
    pub zone: u16,
    /// VLAN ids of its packets, the outer one first.
    pub vlan: Vec<u16>,
    /// Time of its first packet, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// Time of its first packet in microseconds, for readers whose numbers are exact up to 2^53
    /// only; 0 from an older instance.
    #[serde(default)]
    pub start_us: u64,
    /// Time of its last packet, in nanoseconds since the Unix epoch.
    pub last_ns: u64,
    /// Time of its last packet in microseconds; 0 from an older instance.
    #[serde(default)]
    pub last_us: u64,
    /// State, or the last one if the connection has ended. An older instance sends null then.
    pub state: Option<String>,
    /// Seconds until it ends if no packet comes; null in events.
    pub timeout_s: Option<f64>,
    /// The responder has sent packets that fit.
    pub replied: bool,
    /// Both ends have shown that they want the connection.
    pub assured: bool,
    /// Counts from the originator to the responder.
    pub orig: CountsLine,
    /// Counts from the responder to the originator.
    pub reply: CountsLine,
    /// Connection mark; 0 from an older instance.
    #[serde(default)]
    pub mark: u32,
    /// Connection label in hexadecimal; empty from an older instance.
    #[serde(default)]
    pub label: String,
    /// Lcore of the worker that has the connection.
    pub worker: u32,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// `new`, `update` or `destroy`.
    pub change: String,
    /// Time at which the worker reported it, in nanoseconds since the Unix epoch.
    pub at_ns: u64,
    /// `at_ns` in microseconds; 0 from an older instance.
    #[serde(default)]
    pub at_us: u64,
    /// Why the connection has ended; null if it has not.
    pub end_reason: Option<String>,
    /// The connection, with its counts at that time.
    pub connection: ConnectionLine,
}

/// Counts of one direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountsLine {
    /// Packets of the direction.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Bytes from the IP header on.
    pub ip_bytes: u64,
    /// All TCP flags of these packets.
    pub tcp_flags: u8,
}

/// A zone: its connections and settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneLine {
    /// Number of the zone.
    pub zone: u16,
    /// Its connections at all workers.
    pub connections: u64,
    /// Connections that are assured.
    pub assured: u64,
    /// Connections that are not assured.
    pub embryonic: u64,
    /// Connections that began in the last full second.
    pub new_per_s: u64,
    /// Connections at the worker that has most, to compare with `connections_max`.
    pub worker_connections: u32,
    /// Most connections at each worker; null for no limit.
    pub connections_max: Option<u32>,
    /// Effect of the limit on packets that would begin a connection.
    pub when_full: String,
    /// Name of its timeout policy.
    pub timeouts: String,
}

/// The end of a complete answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndLine {
    /// Number of items that match, listed or not. For `list`: listed; `flush`: ended; `set`:
    /// written. For `reload`: connections whose timeouts became earlier.
    pub matched: u64,
    /// For `reload` and `change_lists`, if access lists have changed.
    #[serde(flatten)]
    pub effect: Option<ChangeEffectLine>,
}

/// What a change of access lists has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangeEffectLine {
    /// At most this many seconds, some workers followed the old lists and others the new ones.
    pub both_lists_s: f64,
    /// NIC rules that dropped packets by the old lists, all of which were removed before.
    pub drops: u64,
    /// Seconds that took.
    pub drops_s: f64,
    /// Rules by which NICs forwarded packets by themselves.
    pub bypasses: u64,
    /// How many of them were left when the lists changed.
    pub bypasses_left: u64,
    /// Seconds for which the change waited for their removal.
    pub recall_s: f64,
    /// Connections about which the new lists decide.
    pub visited: u64,
    /// Seconds until they decided about all of them.
    pub visit_s: f64,
}

/// An error that ends an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorLine {
    /// Code of the error, one of the protocol's.
    pub code: String,
    /// The error as text.
    pub text: String,
}
