// SPDX-License-Identifier: BSD-3-Clause
//! Parses and writes the conditions of a request, as JSON has them.

use super::{Failure, LIMIT_MAX, Request, RequestKind};
use engine::{
    EndpointMatch, Filter, MarkChange, MaskedBits, MaskedBitsError, Prefix, PrefixError, ProtoState,
};
use serde::{Deserialize, Serialize};

/// A network such as `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PrefixText(pub Prefix);

/// The name of a [`ProtoState`], such as `ESTABLISHED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StateName(pub ProtoState);

/// Bits of a mark or label of `N` bits, such as `0x5/0xff`; without a mask, all bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bits<const N: u32>(pub MaskedBits);

/// Error: the name is not that of a connection state.
#[derive(Debug, thiserror::Error)]
#[error("{name:?} is not a connection state; the states are {}", names())]
pub struct NoState {
    name: String,
}

/// Returns all names of states.
fn names() -> String {
    ProtoState::ALL.map(ProtoState::name).join(", ")
}

impl TryFrom<String> for PrefixText {
    type Error = PrefixError;

    fn try_from(text: String) -> Result<Self, PrefixError> {
        text.parse().map(Self)
    }
}

impl From<PrefixText> for String {
    fn from(net: PrefixText) -> Self {
        net.0.to_string()
    }
}

impl TryFrom<String> for StateName {
    type Error = NoState;

    fn try_from(text: String) -> Result<Self, NoState> {
        ProtoState::named(&text).map(Self).ok_or(NoState { name: text })
    }
}

impl<const N: u32> TryFrom<String> for Bits<N> {
    type Error = MaskedBitsError;

    fn try_from(text: String) -> Result<Self, MaskedBitsError> {
        MaskedBits::read(&text, N).map(Self)
    }
}

impl<const N: u32> From<Bits<N>> for String {
    fn from(bits: Bits<N>) -> Self {
        bits.0.to_string()
    }
}

impl From<StateName> for String {
    fn from(state: StateName) -> Self {
        state.0.name().to_owned()
    }
}

impl Request {
    /// Returns the conditions as a filter.
    pub fn filter(&self) -> Filter {
        let end = |address: Option<PrefixText>, port| EndpointMatch {
            address: address.map(|net| net.0),
            port,
        };
        Filter {
            zone: self.zone,
            proto: self.proto,
            proto_state: self.state.map(|state| state.0),
            mark: self.mark.map(|bits| bits.0),
            label: self.label.map(|bits| bits.0),
            src: end(self.src, self.sport),
            dst: end(self.dst, self.dport),
            either: end(self.address, self.port),
        }
    }

    /// Returns the change to marks and labels.
    pub fn change(&self) -> MarkChange {
        MarkChange {
            mark: self.set_mark.map(|bits| bits.0),
            label: self.set_label.map(|bits| bits.0),
        }
    }

    /// Returns the most flows or rules to list; 50 by default.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(50) as usize
    }

    /// Checks that the members fit the subject of the request.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let fault = |text: String| Err(Failure::Syntax(text));
        self.check_limit()?;
        match (self.ask, &self.path) {
            (RequestKind::Reload, Some(path)) if !path.starts_with('/') => {
                return fault("path: must be absolute (begin with /)".to_owned());
            }
            (RequestKind::Reload, _) | (_, None) => {}
            _ => return fault("path: only \"reload\" takes it".to_owned()),
        }
        match (self.ask, self.change() == MarkChange::default()) {
            (RequestKind::Set, true) => {
                return fault("set: needs set_mark, set_label, or both".to_owned());
            }
            (RequestKind::Set, false) | (_, true) => {}
            _ => return fault("set_mark, set_label: only \"set\" takes them".to_owned()),
        }
        self.check_list_change()?;
        match (self.ask, &self.explain) {
            (RequestKind::Explain, None) => return fault("explain: needs explain".to_owned()),
            (RequestKind::Explain, _) | (_, None) => {}
            _ => return fault("explain: only \"explain\" takes it".to_owned()),
        }
        self.check_conditions()?;
        let (name, changes) = match self.ask {
            RequestKind::Flush => ("flush", true),
            RequestKind::Set => ("set", true),
            _ => ("", false),
        };
        match (changes, self.filter().is_any(), self.all) {
            (true, true, false) => fault(format!("{name}: needs a condition, or \"all\": true")),
            (true, false, true) => fault(format!("{name}: takes conditions or \"all\", not both")),
            (false, _, true) => fault("all: only \"flush\" and \"set\" take it".to_owned()),
            _ => Ok(()),
        }
    }

    /// Checks that only requests that list items have a limit. A limit that `flush` or `set`
    /// ignored would end or change more connections than the client wants.
    fn check_limit(&self) -> Result<(), Failure> {
        let text = match (self.ask, self.limit) {
            (_, None) | (RequestKind::List, _) => return Ok(()),
            (RequestKind::Flows | RequestKind::Offload, Some(limit)) if limit <= LIMIT_MAX => {
                return Ok(());
            }
            (RequestKind::Flows | RequestKind::Offload, _) => {
                format!("limit: must be at most {LIMIT_MAX}")
            }
            _ => "limit: only \"flows\", \"offload\" and \"list\" take it".to_owned(),
        };
        Err(Failure::Syntax(text))
    }

    /// Checks that `change_lists` has a change, and only requests that can be tried are.
    fn check_list_change(&self) -> Result<(), Failure> {
        let text = match (self.ask, &self.list_change) {
            (RequestKind::ChangeLists, None) => "change_lists: needs list_change",
            (RequestKind::ChangeLists, Some(_)) | (RequestKind::Reload, None) => return Ok(()),
            (_, Some(_)) => "list_change: only \"change_lists\" takes it",
            (_, None) if self.dry_run => "dry_run: only \"reload\" and \"change_lists\" take it",
            (_, None) => return Ok(()),
        };
        Err(Failure::Syntax(text.to_owned()))
    }

    /// Checks that only requests about connections have conditions.
    fn check_conditions(&self) -> Result<(), Failure> {
        let name = match self.ask {
            _ if self.filter().is_any() => return Ok(()),
            RequestKind::Instance => "instance",
            RequestKind::Stats => "stats",
            RequestKind::Zones => "zones",
            RequestKind::Reload => "reload",
            RequestKind::Lists => "lists",
            RequestKind::ListOffload => "list_offload",
            RequestKind::ChangeLists => "change_lists",
            RequestKind::Explain => "explain",
            RequestKind::AccessLog => "access_log",
            RequestKind::Flows
            | RequestKind::Offload
            | RequestKind::List
            | RequestKind::Count
            | RequestKind::Flush
            | RequestKind::Set
            | RequestKind::Events => return Ok(()),
        };
        Err(Failure::Syntax(format!(
            "{name}: takes no conditions, such as \"zone\"; only \"flows\", \"offload\", \"list\", \
             \"count\", \"flush\", \"set\" and \"events\" take them"
        )))
    }
}
