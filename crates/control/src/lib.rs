// SPDX-License-Identifier: BSD-3-Clause
//! How others ask a bump that runs: one line of JSON over a Unix socket, and lines of JSON back
//! (docs/control.md). Members are a promise to other tools: some may be added, none is renamed.
//!
//! Whoever asks is served by a thread of his own, in bounded time and memory; no packet waits.
//!
//! The crate has the protocol, the side that asks, and the socket of the side that answers. It
//! knows no running instance: that is an [`Answerer`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod client;
mod deadline;
mod line;
mod selector;
mod server;
mod socket_path;
#[cfg(test)]
mod tests;

pub use client::{Answer, AskError, Instance, InstanceArgs, ReplyTimeout};
pub use line::{
    ConnectionLine, CountsLine, DirectionLine, EndLine, ErrorLine, EventLine, FlowLine,
    InstanceLine, Line, OffloadLine, PortLine, RuleLine, ZoneLine,
};
pub use selector::{Bits, NoState, PrefixText, StateName};
pub use server::{AnswerError, Answerer, LineWriter, OpenError, Server, receive};
pub use socket_path::{default_path, folders, make_folder, user};

use serde::{Deserialize, Serialize};

/// Version of the protocol.
pub const VERSION: u32 = 1;
const VERSION_TEXT: &str = env!("CARGO_PKG_VERSION");
/// Bytes of a request, with the end of its line.
pub(crate) const REQUEST_MAX: usize = 64 << 10;
/// Flows or rules in one answer.
pub const LIMIT_MAX: u32 = 100_000;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`].
    pub millrace: u32,
    /// What it is about.
    pub ask: Ask,
    /// Flows, rules or connections to give at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only what has an end with one of these addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<PrefixText>,
    /// Only what has an end with this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Only what the originator has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<PrefixText>,
    /// Only what has this port of the originator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sport: Option<u16>,
    /// Only what the responder has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<PrefixText>,
    /// Only what has this port of the responder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dport: Option<u16>,
    /// Only what has this zone, IP protocol number and state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<u16>,
    /// Only what has this IP protocol number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proto: Option<u8>,
    /// Only what is in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateName>,
    /// Only what has these bits in its mark, and in its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Bits<32>>,
    /// Only what has these bits in its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Bits<128>>,
    /// What to write to both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_mark: Option<Bits<32>>,
    /// What to write to its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_label: Option<Bits<128>>,
    /// Of a reload, the configuration in place of that of the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of a flush, or of what is written: every connection is meant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Who is there.
    Instance,
    /// The connections with the most bytes.
    Flows,
    /// Ports and their rules.
    Offload,
    /// The summary of the run so far.
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
    pub fn new(ask: Ask) -> Self {
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

/// What may be wrong with a request, or with the moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No JSON, or a member that is missing, unknown or wrong.
    #[error("not a request: {0}")]
    Syntax(String),
    /// The request is longer than a request may be.
    #[error("a request has at most {REQUEST_MAX} bytes")]
    TooLong,
    /// It speaks another version of the protocol.
    #[error(
        "this is Millrace {VERSION_TEXT}, which speaks version {VERSION} of the protocol, not {0}"
    )]
    Version(u32),
    /// This user may not ask.
    #[error("user {0} may not ask: only the user who runs the instance, and root")]
    Denied(u32),
    /// There are too many clients.
    #[error("as many clients as there may be are being served; ask again")]
    Busy,
    /// The request was not there in time.
    #[error("the request did not come in time")]
    Late,
    /// A label is to be written, and the instance keeps none.
    #[error("the instance keeps no labels: start it with labels = true in [table]")]
    NoLabels,
    /// There is no configuration to read again.
    #[error(
        "the instance was started without a configuration: name one, as in `millrace ct reload \
         bump.toml`"
    )]
    NoFile,
    /// All that is wrong with it, line by line.
    #[error("{0}")]
    Configuration(String),
    /// The run has come to its end.
    #[error("the run has come to its end")]
    Ending,
}

impl Failure {
    /// Code of [`Failure::Configuration`].
    pub const CONFIGURATION: &str = "configuration";

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
    pub fn line(&self) -> Line {
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
