// SPDX-License-Identifier: BSD-3-Clause
//! Programs the rules of one NIC port from the rule requests of workers.
//!
//! Sans-I/O: requests go in, results come out. In between, operations of the port begin now and
//! have their results later. There is no thread, no DPDK, and no clock but the one that the caller
//! passes; a [`RulePort`] is anything that takes rules. The programmer keeps its own account, and
//! does not rely on the NIC for the rules that exist. It names rules that a NIC fails to remove,
//! and never uses them again.
#![forbid(unsafe_code)]

mod account;
mod pace;
mod port;
mod programmer;

pub use pace::CallPacer;
pub use port::{Completion, OperationResult, Refusal, RefusalClass, RuleNumber, RulePort};
pub use programmer::{Counts, LeakedRule, Limits, Next, Programmer, Worker};
