// SPDX-License-Identifier: BSD-3-Clause
//! Defines refusals, in the terms of `rte_flow_error`.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The kind of part that is wrong. Names and numbers are those of `enum rte_flow_error_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "the words are those of rte_flow.h, which explains them")]
#[repr(u32)]
pub enum Kind {
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
}

/// The part of a rule at which a refusal points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// No particular part.
    Rule,
    /// The pattern's item with this number.
    Item(usize),
    /// The action with this number.
    Action(usize),
}

/// A refusal, for `rte_flow_error` and `rte_errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// New value of `rte_errno`.
    pub errno: Errno,
    /// `rte_flow_error.type`; with [`Kind::None`], the driver leaves the structure as it was.
    pub kind: Kind,
    /// What `rte_flow_error.cause` points to.
    pub place: Place,
    /// `rte_flow_error.message`. Never freed, because applications may keep it.
    pub message: Option<&'static CStr>,
}

/// Error numbers. Their values are those of Linux, equal on all of its architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the words are those of errno.h, which explains them")]
#[repr(i32)]
pub enum Errno {
    ENOENT = 2,
    EIO = 5,
    EAGAIN = 11,
    ENOMEM = 12,
    EBUSY = 16,
    EEXIST = 17,
    ENODEV = 19,
    EINVAL = 22,
    ENOSPC = 28,
    ERANGE = 34,
    ENOSYS = 38,
    ENOTSUP = 95,
    ENOBUFS = 105,
    ETIMEDOUT = 110,
}

impl Kind {
    const ALL: [Self; 18] = [
        Self::None,
        Self::Unspecified,
        Self::Handle,
        Self::AttrGroup,
        Self::AttrPriority,
        Self::AttrIngress,
        Self::AttrEgress,
        Self::AttrTransfer,
        Self::Attr,
        Self::ItemNum,
        Self::ItemSpec,
        Self::ItemLast,
        Self::ItemMask,
        Self::Item,
        Self::ActionNum,
        Self::ActionConf,
        Self::Action,
        Self::State,
    ];

    /// Returns the kind with this number in `rte_flow.h`.
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

impl Errno {
    const ALL: [Self; 14] = [
        Self::ENOENT,
        Self::EIO,
        Self::EAGAIN,
        Self::ENOMEM,
        Self::EBUSY,
        Self::EEXIST,
        Self::ENODEV,
        Self::EINVAL,
        Self::ENOSPC,
        Self::ERANGE,
        Self::ENOSYS,
        Self::ENOTSUP,
        Self::ENOBUFS,
        Self::ETIMEDOUT,
    ];

    /// Returns the error with this number, if it is one of these.
    pub fn of_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|errno| *errno as i32 == number)
    }
}

impl Refusal {
    pub(crate) const fn new(errno: Errno, kind: Kind, message: &'static CStr) -> Self {
        Self { errno, kind, place: Place::Rule, message: Some(message) }
    }

    pub(crate) const fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// Returns the refusal that the application sees after an earlier refusal `before`. Parts that
    /// this refusal does not set keep the earlier values.
    pub(crate) fn after(self, before: Self) -> Self {
        if self.kind == Kind::None { before } else { self }
    }
}

/// Returns a message that is never freed. There are as many as personalities have sentences.
pub(crate) fn lasting(message: &str) -> &'static CStr {
    static MESSAGES: LazyLock<Mutex<HashSet<&'static CStr>>> = LazyLock::new(Mutex::default);
    let text = CString::new(message.replace('\0', "")).expect("without a zero");
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(message) = messages.get(text.as_c_str()) {
        return message;
    }
    let message: &'static CStr = Box::leak(text.into_boxed_c_str());
    messages.insert(message);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back() {
        for (number, kind) in (0..).zip(Kind::ALL) {
            assert_eq!((kind as u32, Kind::of_number(number)), (number, Some(kind)));
        }
        assert_eq!(Kind::of_number(18), None);
        assert!(Errno::ALL.into_iter().all(|e| Errno::of_number(e as i32) == Some(e)));
        assert_eq!(Errno::of_number(1), None);
    }
}
