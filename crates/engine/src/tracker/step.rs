// SPDX-License-Identifier: BSD-3-Clause
//! Defines the result of one packet for its connection.

use crate::api::{Anomaly, UntrackedReason};

/// Result of one packet for its connection. Returned in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It was counted.
    Tracked,
    /// It was counted, and changed nothing.
    Ignored(Anomaly),
    /// It was not counted: the drop policy says so.
    Invalid(Anomaly),
    /// It was not counted: its connection could not begin.
    NoRoom(UntrackedReason),
    /// It begins a new connection in place of the one with its key, if that is admitted. Nothing
    /// has been counted yet.
    NeedsAdmission(ReopenCause),
}

/// What a packet would do to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreseen {
    /// It fits.
    Fits,
    /// It does not fit, and would change nothing.
    Ignored(Anomaly),
    /// It begins a new connection in place of that one, if it is admitted.
    Begins,
}

/// Why a new connection takes the place of one with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReopenCause {
    /// The old one is over, and its ports are used again.
    PortReuse,
    /// Both ends have forgotten the old one: one has sent a SYN, the other its SYN+ACK.
    AgreedSyn,
}

const _: () = assert!(size_of::<Step>() <= 8);
