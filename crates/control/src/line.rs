// SPDX-License-Identifier: BSD-3-Clause
//! The lines of an answer, as they are written in JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::IpAddr;

/// A line of an answer. The last one is `EndpointMatch` or `Error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// Who answers.
    Instance(InstanceLine),
    /// A port.
    Port(PortLine),
    /// A rule of a port.
    Rule(RuleLine),
    /// A connection with its rules.
    Flow(Box<FlowLine>),
    /// A connection.
    Connection(Box<ConnectionLine>),
    /// A zone.
    Zone(ZoneLine),
    /// An event of a connection.
    Event(Box<EventLine>),
    /// So many events are missing about here.
    Lost(u64),
    /// The summary, and the report that a run would print.
    Stats {
        /// The members of the JSON summary.
        summary: Value,
        /// The text for people.
        report: String,
    },
    /// The answer is complete.
    End(EndLine),
    /// Why there is no answer, or no more of it.
    Error(ErrorLine),
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceLine {
    /// Number of its process.
    pub pid: u32,
    /// Version of the program.
    pub version: String,
    /// Version of the protocol.
    pub protocol: u32,
    /// Seconds since it began.
    pub age_s: f64,
    /// Its policy of offload, as in the configuration.
    pub policy: String,
    /// Names of its ports; two follow each other that are a pair.
    pub ports: Vec<String>,
}

/// One port, and how things stand with its rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortLine {
    /// Name of the port.
    pub name: String,
    /// `on` or `off`.
    pub state: String,
    /// Why it is off.
    pub reason: Option<String>,
    /// Rules that it has, and those that it is to have.
    pub installed: u64,
    /// Rules that it has or is to have.
    pub live: u32,
    /// Rules that there is room for, as far as is known.
    pub room: u32,
    /// Packets per second that are enough for a rule.
    pub threshold_pps: f64,
    /// In what time a rule should pay.
    pub horizon_s: f64,
    /// Kinds of rules that are not asked for, since they had no effect.
    pub kinds_aside: u32,
    /// Bits of the marks that it takes, if it takes any.
    pub mark_bits: Option<u32>,
    /// `on` where it forwards by itself, and why not; an instance of before says neither.
    #[serde(default)]
    pub bypass: String,
    /// Why it does not forward by itself.
    #[serde(default)]
    pub bypass_reason: Option<String>,
    /// How long it took to make a rule.
    pub insert_us: Value,
    /// How long it took to remove a rule.
    pub delete_us: Value,
    /// What became of wishes, as in the summary.
    pub rules: Value,
}

/// The rule of one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleLine {
    /// Where its packets arrive.
    pub port: String,
    /// IP protocol number.
    pub proto: u8,
    /// Address that its packets come from.
    pub src: IpAddr,
    /// Port that they come from.
    pub sport: u16,
    /// Address that they go to.
    pub dst: IpAddr,
    /// Port that they go to.
    pub dport: u16,
    /// Zone of the connection.
    pub zone: u16,
    /// How far the rule has come.
    pub state: String,
    /// Since it came to its state.
    pub age_s: f64,
    /// Packets per second of the direction.
    pub rate_pps: f64,
    /// Packets since the first with its mark, or that the NIC forwarded by itself.
    pub hits: u64,
    /// Lcore of the worker that has the connection.
    pub worker: u32,
}

/// A connection that is alive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowLine {
    /// 4 or 6.
    pub ip_version: u8,
    /// IP protocol number.
    pub proto: u8,
    /// Address of the originator.
    pub src: IpAddr,
    /// Port of the originator.
    pub sport: u16,
    /// Address of the responder.
    pub dst: IpAddr,
    /// Port of the responder.
    pub dport: u16,
    /// Its zone.
    pub zone: u16,
    /// VLAN ids of its packets, the outer one first.
    pub vlan: Vec<u16>,
    /// Time of its first packet, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// Time of its last packet, in the same way.
    pub last_ns: u64,
    /// Seconds since its first packet.
    pub age_s: f64,
    /// Seconds since its last packet.
    pub idle_s: f64,
    /// Its state, as in flow records.
    pub state: String,
    /// From the originator to the responder.
    pub orig: DirectionLine,
    /// From the responder to the originator.
    pub reply: DirectionLine,
    /// Lcore of the worker that has it.
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
    /// TCP flags that were seen.
    pub tcp_flags: u8,
    /// Its rule, or why it has none.
    pub offload: OffloadLine,
}

/// Its rule, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OffloadLine {
    /// How far its rule has come.
    pub state: String,
    /// Why there is no rule; null if there is one, or will be.
    pub reason: Option<String>,
    /// The same for people.
    pub words: String,
    /// When it came to this, or was looked at last; null if never.
    pub since_ns: Option<u64>,
    /// Name of the port where its packets arrive.
    pub port: Option<String>,
    /// Packets per second.
    pub rate_pps: f64,
    /// Packets with its mark, or that the NIC forwarded by itself.
    pub hits: u64,
}

/// A connection, without what its rules are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLine {
    /// 4 or 6.
    pub ip_version: u8,
    /// IP protocol number.
    pub proto: u8,
    /// Address of the originator.
    pub src: IpAddr,
    /// Port of the originator.
    pub sport: u16,
    /// Address of the responder.
    pub dst: IpAddr,
    /// Port of the responder.
    pub dport: u16,
    /// Its zone.
    pub zone: u16,
    /// VLAN ids of its packets, the outer one first.
    pub vlan: Vec<u16>,
    /// Time of its first packet, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// Time of its last packet, in the same way.
    pub last_ns: u64,
    /// How far it has come; none of one that has ended.
    pub state: Option<String>,
    /// Until it ends if no packet comes before; none in events.
    pub timeout_s: Option<f64>,
    /// The responder has sent packets.
    pub replied: bool,
    /// Both ends want it.
    pub assured: bool,
    /// From the originator to the responder.
    pub orig: CountsLine,
    /// From the responder to the originator.
    pub reply: CountsLine,
    /// An instance of before has neither.
    #[serde(default)]
    pub mark: u32,
    /// In hexadecimal; an instance of before has none.
    #[serde(default)]
    pub label: String,
    /// Lcore of the worker that has it.
    pub worker: u32,
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// `new`, `update` or `destroy`.
    pub change: String,
    /// When the worker told it.
    pub at_ns: u64,
    /// Why it has ended, if so.
    pub end_reason: Option<String>,
    /// The connection, with what it had counted then.
    pub connection: ConnectionLine,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountsLine {
    /// Packets of the direction.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Bytes from the IP header on.
    pub ip_bytes: u64,
    /// TCP flags that were seen.
    pub tcp_flags: u8,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneLine {
    /// Its number.
    pub zone: u16,
    /// That it has now.
    pub connections: u64,
    /// Those that both ends want.
    pub assured: u64,
    /// The others.
    pub embryonic: u64,
    /// That began in the last full second.
    pub new_per_s: u64,
    /// That the worker has which has most, to be held against `connections_max`.
    pub worker_connections: u32,
    /// Of each worker.
    pub connections_max: Option<u32>,
    /// What happens to new ones beyond that.
    pub when_full: String,
    /// Name of its timeout policy.
    pub timeouts: String,
}

/// That was all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndLine {
    /// How many there are of what was asked for, given or not; of a list, how many were given; of a
    /// flush, how many were ended; of marks and labels, to how many they were written; of a reload,
    /// of how many the timers come up sooner.
    pub matched: u64,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorLine {
    /// One of the codes of the protocol.
    pub code: String,
    /// The same for people.
    pub text: String,
}
