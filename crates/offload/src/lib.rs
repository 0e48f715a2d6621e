// SPDX-License-Identifier: BSD-3-Clause
//! From the wishes of workers to rules of a NIC: what programs one port.
//!
//! Sans-I/O: wishes in, answers out, and one call to the port at a time. No thread, no clock but
//! the one it is shown, and nothing of DPDK: a [`RulePort`] is whoever takes rules. It never relies
//! on the NIC for what is there: it keeps its own account, and rules that a NIC does not part with
//! are named and never used again.
#![forbid(unsafe_code)]

mod pace;
mod port;
mod programmer;

pub use pace::Pace;
pub use port::{Refusal, RefusalClass, RulePort};
pub use programmer::{Counts, Limits, Next, Programmer, Stuck, Worker};
