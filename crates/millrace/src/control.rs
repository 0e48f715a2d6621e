// SPDX-License-Identifier: BSD-3-Clause
//! How others ask a bump that runs: one line of JSON over a Unix socket, and lines of JSON back
//! (docs/control.md). Members are a promise to other tools: some may be added, none is renamed.
//!
//! Whoever asks is served by a thread of his own, in bounded time and memory; no packet waits.

mod answer;
mod client;
mod connections;
mod place;
mod server;
#[cfg(test)]
mod tests;
mod timed;
mod which;

pub(crate) use answer::answer;
pub(crate) use client::{Answer, AskError, Instance, InstanceArgs, Patience};
pub(crate) use place::{default_path, folders, make_folder, user};
pub(crate) use server::{OpenError, Server, Taker, receive};
pub(crate) use which::{Bits, Net, NoState, StateName};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::IpAddr;

/// Version of the protocol.
pub(crate) const VERSION: u32 = 1;
const VERSION_TEXT: &str = env!("CARGO_PKG_VERSION");
/// Bytes of a request, with the end of its line.
pub(crate) const REQUEST_MAX: usize = 64 << 10;
/// Flows or rules in one answer.
pub(crate) const LIMIT_MAX: u32 = 100_000;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// [`VERSION`].
    pub(crate) millrace: u32,
    pub(crate) ask: Ask,
    /// Flows, rules or connections to give at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u32>,
    /// Only what has an end with one of these addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<Net>,
    /// Only what has an end with this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<u16>,
    /// Only what the originator has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) src: Option<Net>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sport: Option<u16>,
    /// Only what the responder has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dst: Option<Net>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dport: Option<u16>,
    /// Only what has this zone, IP protocol number and state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proto: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<StateName>,
    /// Only what has these bits in its mark, and in its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mark: Option<Bits<32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<Bits<128>>,
    /// What to write to both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) set_mark: Option<Bits<32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) set_label: Option<Bits<128>>,
    /// Of a reload, the configuration in place of that of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// Of a flush, or of what is written: every connection is meant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) all: bool,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Who is there.
    Instance,
    Flows,
    Offload,
    Stats,
    /// Every connection that is meant.
    List,
    /// How many there are.
    Count,
    /// To end them.
    Flush,
    /// To write to their marks and labels.
    Set,
    /// Zones that have connections.
    Zones,
    /// What becomes of connections, until who asks has heard enough.
    Events,
    /// To read the configuration once more.
    Reload,
}

impl Request {
    /// A question about all there is.
    pub(crate) fn new(ask: Ask) -> Self {
        Self {
            millrace: VERSION,
            ask,
            limit: None,
            address: None,
            port: None,
            src: None,
            sport: None,
            dst: None,
            dport: None,
            zone: None,
            proto: None,
            state: None,
            mark: None,
            label: None,
            set_mark: None,
            set_label: None,
            path: None,
            all: false,
        }
    }
}

/// A line of an answer. The last one is `End` or `Error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Instance(InstanceLine),
    Port(PortLine),
    Rule(RuleLine),
    Flow(Box<FlowLine>),
    Connection(Box<ConnectionLine>),
    Zone(ZoneLine),
    Event(Box<EventLine>),
    /// So many events are missing about here.
    Lost(u64),
    /// The summary, and the report that a run would print.
    Stats {
        summary: Value,
        report: String,
    },
    End(EndLine),
    Error(ErrorLine),
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InstanceLine {
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) protocol: u32,
    pub(crate) age_s: f64,
    pub(crate) policy: String,
    pub(crate) ports: Vec<String>,
}

/// One port, and how things stand with its rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PortLine {
    pub(crate) name: String,
    /// `on` or `off`.
    pub(crate) state: String,
    /// Why it is off.
    pub(crate) reason: Option<String>,
    /// Rules that it has, and those that it is to have.
    pub(crate) installed: u64,
    pub(crate) live: u32,
    /// Rules that there is room for, as far as is known.
    pub(crate) room: u32,
    /// Packets per second that are enough for a rule.
    pub(crate) threshold_pps: f64,
    /// In what time a rule should pay.
    pub(crate) horizon_s: f64,
    pub(crate) kinds_aside: u32,
    pub(crate) mark_bits: Option<u32>,
    /// `on` where it forwards by itself, and why not; an instance of before says neither.
    #[serde(default)]
    pub(crate) bypass: String,
    #[serde(default)]
    pub(crate) bypass_reason: Option<String>,
    /// How long it took to make a rule.
    pub(crate) insert_us: Value,
    pub(crate) delete_us: Value,
    /// What became of wishes, as in the summary.
    pub(crate) rules: Value,
}

/// The rule of one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuleLine {
    /// Where its packets arrive.
    pub(crate) port: String,
    pub(crate) proto: u8,
    pub(crate) src: IpAddr,
    pub(crate) sport: u16,
    pub(crate) dst: IpAddr,
    pub(crate) dport: u16,
    pub(crate) zone: u16,
    pub(crate) state: String,
    /// Since it came to its state.
    pub(crate) age_s: f64,
    pub(crate) rate_pps: f64,
    /// Packets since the first with its mark, or that the NIC forwarded by itself.
    pub(crate) hits: u64,
    pub(crate) worker: u32,
}

/// A connection that is alive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowLine {
    pub(crate) ip_version: u8,
    pub(crate) proto: u8,
    pub(crate) src: IpAddr,
    pub(crate) sport: u16,
    pub(crate) dst: IpAddr,
    pub(crate) dport: u16,
    pub(crate) zone: u16,
    pub(crate) vlan: Vec<u16>,
    pub(crate) start_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) age_s: f64,
    pub(crate) idle_s: f64,
    pub(crate) state: String,
    pub(crate) orig: DirectionLine,
    pub(crate) reply: DirectionLine,
    pub(crate) worker: u32,
}

/// One direction of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DirectionLine {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) ip_bytes: u64,
    pub(crate) tcp_flags: u8,
    pub(crate) offload: OffloadLine,
}

/// Its rule, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OffloadLine {
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    /// The same for people.
    pub(crate) words: String,
    /// When it came to this, or was looked at last; null if never.
    pub(crate) since_ns: Option<u64>,
    pub(crate) port: Option<String>,
    pub(crate) rate_pps: f64,
    pub(crate) hits: u64,
}

/// A connection, without what its rules are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConnectionLine {
    pub(crate) ip_version: u8,
    pub(crate) proto: u8,
    pub(crate) src: IpAddr,
    pub(crate) sport: u16,
    pub(crate) dst: IpAddr,
    pub(crate) dport: u16,
    pub(crate) zone: u16,
    pub(crate) vlan: Vec<u16>,
    pub(crate) start_ns: u64,
    pub(crate) last_ns: u64,
    /// How far it has come; none of one that has ended.
    pub(crate) state: Option<String>,
    /// Until it ends if no packet comes before; none in events.
    pub(crate) timeout_s: Option<f64>,
    /// The responder has sent packets.
    pub(crate) replied: bool,
    /// Both ends want it.
    pub(crate) assured: bool,
    pub(crate) orig: CountsLine,
    pub(crate) reply: CountsLine,
    /// An instance of before has neither.
    #[serde(default)]
    pub(crate) mark: u32,
    #[serde(default)]
    pub(crate) label: String,
    pub(crate) worker: u32,
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EventLine {
    /// `new`, `update` or `destroy`.
    pub(crate) change: String,
    /// When the worker told it.
    pub(crate) at_ns: u64,
    /// Why it has ended, if so.
    pub(crate) end_reason: Option<String>,
    pub(crate) connection: ConnectionLine,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CountsLine {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) ip_bytes: u64,
    pub(crate) tcp_flags: u8,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZoneLine {
    pub(crate) zone: u16,
    /// That it has now.
    pub(crate) connections: u64,
    pub(crate) assured: u64,
    pub(crate) embryonic: u64,
    /// That began in the last full second.
    pub(crate) new_per_s: u64,
    /// That the worker has which has most, to be held against `connections_max`.
    pub(crate) worker_connections: u32,
    /// Of each worker.
    pub(crate) connections_max: Option<u32>,
    pub(crate) when_full: String,
    /// Name of its timeout policy.
    pub(crate) timeouts: String,
}

/// That was all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndLine {
    /// How many there are of what was asked for, given or not; of a list, how many were given; of a
    /// flush, how many were ended; of marks and labels, to how many they were written; of a reload,
    /// of how many the timers come up sooner.
    pub(crate) matched: u64,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ErrorLine {
    pub(crate) code: String,
    pub(crate) text: String,
}

/// What may be wrong with a request, or with the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("not a request: {0}")]
    Syntax(String),
    #[error("a request has at most {REQUEST_MAX} bytes")]
    TooLong,
    #[error(
        "this is Millrace {VERSION_TEXT}, which speaks version {VERSION} of the protocol, not {0}"
    )]
    Version(u32),
    #[error("user {0} may not ask: only the user who runs the instance, and root")]
    Denied(u32),
    #[error("as many clients as there may be are being served; ask again")]
    Busy,
    #[error("the request did not come in time")]
    Late,
    #[error("the instance keeps no labels: start it with labels = true in [table]")]
    NoLabels,
    #[error(
        "the instance was started without a configuration: name one, as in `millrace ct reload \
         bump.toml`"
    )]
    NoFile,
    /// All that is wrong with it, line by line.
    #[error("{0}")]
    Configuration(String),
    #[error("the run has come to its end")]
    Ending,
}

impl Failure {
    /// Code of [`Failure::Configuration`].
    pub(crate) const CONFIGURATION: &str = "configuration";

    fn code(&self) -> &'static str {
        match self {
            Failure::Syntax(_) => "syntax",
            Failure::TooLong => "too_long",
            Failure::Version(_) => "version",
            Failure::Denied(_) => "denied",
            Failure::Busy => "busy",
            Failure::Late => "late",
            Failure::NoLabels => "no_labels",
            Failure::NoFile => "no_file",
            Failure::Configuration(_) => Self::CONFIGURATION,
            Failure::Ending => "ending",
        }
    }

    /// As it is said over the socket.
    pub(crate) fn line(&self) -> Line {
        Line::Error(ErrorLine { code: self.code().to_owned(), text: self.to_string() })
    }
}

/// Reads the one line of a request.
fn read_request(line: &[u8]) -> Result<Request, Failure> {
    /// All that is read of a request in another version.
    #[derive(Deserialize)]
    struct Head {
        millrace: u32,
    }
    let syntax = |error: serde_json::Error| Failure::Syntax(error.to_string());
    let head: Head = serde_json::from_slice(line).map_err(syntax)?;
    if head.millrace != VERSION {
        return Err(Failure::Version(head.millrace));
    }
    let request: Request = serde_json::from_slice(line).map_err(syntax)?;
    request.check()?;
    Ok(request)
}
