// SPDX-License-Identifier: BSD-3-Clause
//! Why a NIC does not take a rule.

use std::ffi::CStr;

/// What of a rule is to blame; `rte_flow_error` has a type for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The rule as a whole, or the port's state.
    Unspecified,
    /// No such rule.
    Handle,
    /// `group` of the attributes.
    Group,
    /// `egress` of the attributes.
    Egress,
    /// `transfer` of the attributes.
    Transfer,
    /// Neither `ingress` nor `egress`.
    Ingress,
    /// The pattern's item with this place.
    Item(usize),
    /// The list of actions.
    Actions,
    /// The action with this place.
    Action(usize),
}

/// A refusal, as `rte_flow_error` and `rte_errno` tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Positive, as in `errno.h`.
    pub errno: i32,
    /// What is to blame.
    pub cause: Cause,
    /// One line for people.
    pub message: &'static CStr,
}

/// The values of Linux, the same on all of its architectures.
pub(crate) mod errno {
    pub(crate) const ENOENT: i32 = 2;
    pub(crate) const EEXIST: i32 = 17;
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const ENOSPC: i32 = 28;
    pub(crate) const ENOTSUP: i32 = 95;
}

impl Refusal {
    pub(crate) const fn new(errno: i32, cause: Cause, message: &'static CStr) -> Self {
        Self { errno, cause, message }
    }
}
