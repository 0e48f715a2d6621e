// SPDX-License-Identifier: BSD-3-Clause
//! Runs stateful traffic on ports: clients at the first one, servers at the second one. Commands
//! read a profile, start a session, and read its totals.

mod astf;
mod balance;
mod impairment;
mod next_hop;
mod profile_file;
mod session;
mod totals;

pub(crate) use balance::Balance;
pub(crate) use profile_file::{ProfileOptions, read_profile};
pub(crate) use session::{
    Ends, Finished, PortCounts, REPORT_NS_MAX, Session, SessionOptions, TaskQueues,
};
pub(crate) use totals::{EndTotals, Totals, overdue_max};
