// SPDX-License-Identifier: BSD-3-Clause
//! Programs the rules of one NIC port from the rule requests of workers.
//!
//! A [`Programmer`] takes rule requests and returns rule results. It calls a [`RulePort`], which
//! begins operations and reports their results later. The crate does no I/O: it has no thread and
//! no DPDK, and the caller passes the time. The programmer records by itself which rules the port
//! has, and does not ask the NIC for them. It lists rules that a NIC fails to remove
//! ([`LeakedRule`]), and never uses them again.
#![forbid(unsafe_code)]

mod account;
mod list_choice;
mod list_programmer;
mod pace;
mod port;
mod programmer;

pub use list_choice::{Chosen, ListChoice, ListRule, NotChosen, choose};
pub use list_programmer::{
    DropsLeft, ListAction, ListCounts, ListPort, ListProgrammer, ListRuleState,
};
pub use pace::CallPacer;
pub use port::{Completion, NicAction, Refusal, RefusalClass, RuleNumber, RulePort};
pub use programmer::{Counts, LeakedRule, Limits, Next, Programmer, Worker};
