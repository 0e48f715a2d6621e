// SPDX-License-Identifier: BSD-3-Clause
//! From the wishes of workers to rules of a NIC: what programs one port.
//!
//! Sans-I/O: wishes in, answers out, and in between operations of the port that are begun now and
//! have their results later. No thread, no clock but the one it is shown, and nothing of DPDK: a
//! [`RulePort`] is whoever takes rules. It never relies on the NIC for what is there: it keeps its
//! own account, and rules that a NIC does not part with are named and never used again.
#![forbid(unsafe_code)]

mod account;
mod pace;
mod port;
mod programmer;

pub use pace::CallPacer;
pub use port::{Completion, OperationResult, Refusal, RefusalClass, RuleNumber, RulePort};
pub use programmer::{Counts, LeakedRule, Limits, Next, Programmer, Worker};
