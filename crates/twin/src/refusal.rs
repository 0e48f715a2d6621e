// SPDX-License-Identifier: BSD-3-Clause
//! Why a NIC does not take a rule.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::{LazyLock, Mutex, PoisonError};

/// What of a rule is to blame. Names and numbers are those of `enum rte_flow_error_type`.
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

/// Where in a rule the trouble is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere in particular.
    Rule,
    /// The pattern's item with this number.
    Item(usize),
    /// The action with this number.
    Action(usize),
}

/// A refusal, as `rte_flow_error` and `rte_errno` tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What `rte_errno` becomes.
    pub errno: Errno,
    /// `rte_flow_error.type`; with [`Kind::None`] the structure stays as it was.
    pub kind: Kind,
    /// What `rte_flow_error.cause` points to.
    pub place: Place,
    /// `rte_flow_error.message`. Never freed: applications keep it as long as they like.
    pub message: Option<&'static CStr>,
}

/// The values of Linux, the same on all of its architectures.
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

impl Refusal {
    pub(crate) const fn new(errno: Errno, kind: Kind, message: &'static CStr) -> Self {
        Self { errno, kind, place: Place::Rule, message: Some(message) }
    }

    pub(crate) const fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }
}

/// The message that lives for ever. There are as many as personalities have sentences.
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
