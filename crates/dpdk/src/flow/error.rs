// SPDX-License-Identifier: BSD-3-Clause
//! Holds a driver's refusal of a rule. Drivers may leave out number, cause, message, or all of
//! them; nothing is made up for missing parts.

use super::{Action, Rule};
use crate::{Log, sys};
use std::ffi::CStr;
use std::fmt;

/// A refusal, from `rte_flow_error` and `rte_errno`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowError {
    /// Error number of `errno.h`; 0 if the driver gives none.
    pub errno: i32,
    /// Kind of the part that is wrong.
    pub kind: ErrorKind,
    /// The part that is wrong, if the driver points at a part of the rule.
    pub cause: Option<Cause>,
    /// The driver's message, one line.
    pub message: Option<String>,
    /// Lines that the driver logged during the call. Some drivers give the reason only there.
    pub log: Log,
}

/// A part of a rule, by its place from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The attributes.
    Attributes,
    /// An item. If the driver points at the end of the pattern, the place is its length.
    Item(usize),
    /// An action. If the driver points at the end of the list, the place is its length.
    Action(usize),
}

/// `rte_flow_error_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // `Display` says it.
pub enum ErrorKind {
    None,
    Unspecified,
    Handle,
    AttrGroup,
    AttrPriority,
    AttrIngress,
    AttrEgress,
    AttrTransfer,
    Attr,
    ItemNum,
    ItemSpec,
    ItemLast,
    ItemMask,
    Item,
    ActionNum,
    ActionConf,
    Action,
    State,
    /// A number that DPDK does not define.
    Other(u32),
}

/// The kinds in DPDK's order, with its texts for them.
const KINDS: [(ErrorKind, &str); 18] = [
    (ErrorKind::None, "no error"),
    (ErrorKind::Unspecified, "cause unspecified"),
    (ErrorKind::Handle, "flow rule (handle)"),
    (ErrorKind::AttrGroup, "group field"),
    (ErrorKind::AttrPriority, "priority field"),
    (ErrorKind::AttrIngress, "ingress field"),
    (ErrorKind::AttrEgress, "egress field"),
    (ErrorKind::AttrTransfer, "transfer field"),
    (ErrorKind::Attr, "attributes structure"),
    (ErrorKind::ItemNum, "pattern length"),
    (ErrorKind::ItemSpec, "item specification"),
    (ErrorKind::ItemLast, "item specification range"),
    (ErrorKind::ItemMask, "item specification mask"),
    (ErrorKind::Item, "specific pattern item"),
    (ErrorKind::ActionNum, "number of actions"),
    (ErrorKind::ActionConf, "action configuration"),
    (ErrorKind::Action, "specific action"),
    (ErrorKind::State, "current device state"),
];

impl ErrorKind {
    /// Returns the kind with this number.
    pub fn from_number(number: u32) -> Self {
        KINDS.get(number as usize).map_or(ErrorKind::Other(number), |&(kind, _)| kind)
    }

    /// Returns the kind's number.
    pub fn number(self) -> u32 {
        match self {
            ErrorKind::Other(number) => number,
            _ => KINDS.iter().position(|&(kind, _)| kind == self).unwrap_or_default() as u32,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS.get(self.number() as usize).map_or("unknown type", |&(_, words)| words))
    }
}

impl FlowError {
    /// Returns the error of this crate for a rule that no longer exists.
    pub(super) fn gone() -> Self {
        Self::ours(Self::ENOENT, ErrorKind::Handle, "the rule is gone, or of another port")
    }

    /// Returns the error of this crate for an indirect action that does not exist.
    pub(super) fn no_action() -> Self {
        let message = "the indirect action is gone, or of another port";
        Self::ours(Self::ENOENT, ErrorKind::Action, message)
    }

    pub(super) fn other_kind() -> Self {
        let message = "the indirect action is of another kind";
        Self::ours(Self::EINVAL, ErrorKind::Action, message)
    }

    /// Error number for a rule or queue that does not exist.
    pub(super) const ENOENT: i32 = 2;
    /// Error number if something else must be destroyed first.
    pub(super) const EBUSY: i32 = 16;
    /// Error number for something that exists already.
    pub(super) const EEXIST: i32 = 17;
    /// Error number for a rule that no table accepts.
    pub(super) const EINVAL: i32 = 22;
    /// Error number for a rule that this DPDK cannot express.
    pub(super) const ENOTSUP: i32 = 95;

    /// Returns an error of this crate, not of a driver.
    pub(super) fn ours(errno: i32, kind: ErrorKind, message: &str) -> Self {
        Self { errno, kind, cause: None, message: Some(message.to_owned()), log: Log::default() }
    }

    /// Returns one line with all that is known of the error of `rule`; parts are counted from 1.
    pub fn of(&self, rule: Option<&Rule>) -> String {
        let item =
            |place: usize| rule.and_then(|rule| rule.pattern.get(place)).map(|it| it.kind.name());
        let action = |place: usize| rule.and_then(|rule| rule.actions.get(place)).map(Action::name);
        let part = |part: &str, place: usize, name: Option<&str>| match (rule, name) {
            (None, _) => format!("{part} {}", place + 1),
            (Some(_), Some(name)) => format!("{part} {} ({name})", place + 1),
            (Some(_), None) => format!("the end of the {part}s"),
        };
        let mut line = format!("error type {} ({})", self.kind.number(), self.kind);
        let cause = self.cause.map(|cause| match cause {
            Cause::Attributes => "attributes".to_owned(),
            Cause::Item(place) => part("item", place, item(place)),
            Cause::Action(place) => part("action", place, action(place)),
        });
        let message = self.message.clone().unwrap_or_else(|| "(no stated reason)".to_owned());
        // If there is no message, the words for the number take its place.
        let reason = self.reason().filter(|reason| *reason != message);
        for words in cause.into_iter().chain([message]).chain(reason) {
            line += ": ";
            line += &words;
        }
        line
    }

    /// Returns DPDK's text for [`FlowError::errno`]; `None` if it is 0.
    pub fn reason(&self) -> Option<String> {
        if self.errno == 0 {
            return None;
        }
        // SAFETY: EAL keeps the text for this thread until its next call; it is copied here.
        let text = unsafe { CStr::from_ptr(sys::rte_strerror(self.errno)) };
        Some(text.to_string_lossy().into_owned())
    }
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.of(None), self.log)
    }
}

impl std::error::Error for FlowError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_numbers_of_dpdk() {
        for (kind, number) in [
            (ErrorKind::None, sys::rte_flow_error_type_RTE_FLOW_ERROR_TYPE_NONE),
            (ErrorKind::Handle, sys::rte_flow_error_type_RTE_FLOW_ERROR_TYPE_HANDLE),
            (ErrorKind::Item, sys::rte_flow_error_type_RTE_FLOW_ERROR_TYPE_ITEM),
            (ErrorKind::Action, sys::rte_flow_error_type_RTE_FLOW_ERROR_TYPE_ACTION),
            (ErrorKind::State, sys::rte_flow_error_type_RTE_FLOW_ERROR_TYPE_STATE),
            (ErrorKind::Other(99), 99),
        ] {
            assert_eq!(kind.number(), number);
            assert_eq!(ErrorKind::from_number(number), kind);
        }
    }
}
