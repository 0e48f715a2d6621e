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
        let is_kept = matches!(self.ask, RequestKind::Flows | RequestKind::Offload);
        if is_kept && self.limit.is_some_and(|limit| limit > LIMIT_MAX) {
            return fault(format!("limit: must be at most {LIMIT_MAX}"));
        }
        match (self.ask, &self.path) {
            (RequestKind::Reload, Some(path)) if !path.starts_with('/') => {
                return fault("path: must be absolute (begin with /)".to_owned());
            }
            (RequestKind::Reload, _) if !self.filter().is_any() => {
                return fault("reload: takes no conditions; it covers all zones".to_owned());
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
}
