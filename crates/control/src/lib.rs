// SPDX-License-Identifier: BSD-3-Clause
//! Queries a running instance: one line of JSON over a Unix socket, and lines of JSON back
//! (docs/control.md). Other tools rely on the members: some may be added, none is renamed.
//!
//! A thread of its own serves each client, in bounded time and memory; no packet waits.
//!
//! The crate has the protocol, the client, and the socket of the server. It knows no running
//! instance: that is an [`Answerer`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod client;
mod deadline;
mod line;
mod list_change;
mod packet_question;
mod selector;
mod server;
mod socket_path;
#[cfg(test)]
mod tests;

pub use client::{Answer, Instance, InstanceArgs, QueryError, ReplyTimeout};
pub use line::{
    AccessChangeLine, AccessDecisionLine, AccessExplainLine, AccessExplainRule, AccessLogLine,
    AccessOverlapLine, AccessPortLine, AccessPortRule, AccessRuleLine, ChangeEffectLine,
    ConnectionLine, CountsLine, DirectionLine, EndLine, ErrorLine, EventLine, ExplainedConnection,
    FlowLine, InstanceLine, Line, OffloadLine, PortLine, RuleLine, ZoneLine,
};
pub use list_change::{ListChange, NoHandle, RuleHandle};
pub use packet_question::PacketToExplain;
pub use selector::{Bits, NoState, PrefixText, StateName};
pub use server::{AnswerError, Answerer, LineWriter, OpenError, Server, check_path, receive};
pub use socket_path::{default_path, folders, make_folder, user};

use serde::{Deserialize, Serialize};

/// Version of the protocol.
pub const VERSION: u32 = 1;
const VERSION_TEXT: &str = env!("CARGO_PKG_VERSION");
/// Most bytes of a request, with the line feed.
pub(crate) const REQUEST_MAX: usize = 64 << 10;
/// Most flows or rules in one answer.
pub const LIMIT_MAX: u32 = 100_000;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`].
    pub millrace: u32,
    /// Subject of the request.
    pub ask: RequestKind,
    /// Most flows, rules or connections to list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only connections with an end in this network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<PrefixText>,
    /// Only connections with an end at this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Only connections whose originator is in this network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<PrefixText>,
    /// Only connections whose originator has this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sport: Option<u16>,
    /// Only connections whose responder is in this network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<PrefixText>,
    /// Only connections whose responder has this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dport: Option<u16>,
    /// Only connections in this zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<u16>,
    /// Only connections of this IP protocol number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proto: Option<u8>,
    /// Only connections in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateName>,
    /// Only connections with these bits in their mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Bits<32>>,
    /// Only connections with these bits in their label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Bits<128>>,
    /// For `set`: bits to write to the mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_mark: Option<Bits<32>>,
    /// For `set`: bits to write to the label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_label: Option<Bits<128>>,
    /// For `reload`: path of the configuration, instead of the one from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// For `change_lists`: the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_change: Option<ListChange>,
    /// For `explain`: the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<PacketToExplain>,
    /// For `reload` and `change_lists`: changes nothing, and says what would change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// For `flush` and `set`: applies to every connection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// Subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Describes the instance.
    Instance,
    /// Lists the connections with the most bytes.
    Flows,
    /// Lists ports and their rules.
    Offload,
    /// Returns the summary of the run so far.
    Stats,
    /// Lists all connections that match.
    List,
    /// Counts connections.
    Count,
    /// Ends connections.
    Flush,
    /// Writes marks and labels of connections.
    Set,
    /// Lists zones that have connections or settings.
    Zones,
    /// Sends events of connections until the client disconnects.
    Events,
    /// Reads the configuration again.
    Reload,
    /// Lists the rules of access lists and their counters.
    Lists,
    /// Lists the ports, and which rules of access lists each has in its NIC.
    ListOffload,
    /// Changes access lists.
    ChangeLists,
    /// Explains what would happen to a packet.
    Explain,
    /// Sends packets that access lists log until the client disconnects.
    AccessLog,
}

impl Request {
    /// Returns a request without conditions.
    pub fn new(ask: RequestKind) -> Self {
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
            list_change: None,
            explain: None,
            dry_run: false,
            all: false,
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The line is no JSON, or a member is missing, unknown or wrong.
    #[error("not a valid request: {0}")]
    Syntax(String),
    /// The request is longer than `REQUEST_MAX`.
    #[error(
        "the request is too long: at most {REQUEST_MAX} bytes are allowed; write many rules into \
         the configuration, and let the instance reload it"
    )]
    TooLong,
    /// The request is of another version of the protocol.
    #[error(
        "Millrace {VERSION_TEXT} uses version {VERSION} of the protocol, but the request has \
         version {0}"
    )]
    Version(u32),
    /// This user must not query the instance.
    #[error("user {0} has no permission: only root and the instance's own user do")]
    Denied(u32),
    /// Too many clients are being served.
    #[error("too many clients are connected to the instance; try again later")]
    Busy,
    /// The request did not arrive in time.
    #[error("no complete request arrived in time")]
    Late,
    /// A label is to be written, but connections have no labels.
    #[error("connections have no labels: restart the instance with labels = true in [table]")]
    NoLabels,
    /// There is no configuration to read again.
    #[error(
        "the instance was started without a configuration file: name one, as in `millrace ct \
         reload bump.toml`"
    )]
    NoFile,
    /// All faults of the configuration, line by line.
    #[error("{0}")]
    Configuration(String),
    /// A change of access lists is refused.
    #[error("{0}")]
    Lists(String),
    /// A packet cannot be explained.
    #[error("{0}")]
    Packet(String),
    /// The run has ended.
    #[error("the run is ending, so the instance answers no more requests")]
    Ending,
}

impl Failure {
    /// Code of [`Failure::Configuration`].
    pub const CONFIGURATION: &str = "configuration";
    /// Code of [`Failure::Lists`].
    pub const LISTS: &str = "lists";
    /// Code of [`Failure::Packet`].
    pub const PACKET: &str = "packet";

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
            Failure::Lists(_) => Self::LISTS,
            Failure::Packet(_) => Self::PACKET,
            Failure::Ending => "ending",
        }
    }

    /// Returns the line that reports this to the client.
    pub fn line(&self) -> Line {
        Line::Error(ErrorLine { code: self.code().to_owned(), text: self.to_string() })
    }
}

/// Parses the line of a request.
fn read_request(line: &[u8]) -> Result<Request, Failure> {
    /// The only member that is read from a request of another version.
    #[derive(Deserialize)]
    struct Head {
        millrace: u32,
    }
    // Serde would also read an array, as the values of the members in their order.
    if line.trim_ascii_start().first() != Some(&b'{') {
        let form = r#"it must be a JSON object in one line, such as {"millrace":1,"ask":"count"}"#;
        return Err(Failure::Syntax(form.to_owned()));
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
