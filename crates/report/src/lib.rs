// SPDX-License-Identifier: BSD-3-Clause
//! Writes the results of a run: summary, flow records, busiest flows.
//!
//! [`summary`] adds up counters, as JSON and as text. [`records`] writes a record of each
//! connection that has ended, and [`top_flows`] keeps the busiest of them. [`output`] opens files
//! and streams, and writes to them without waiting for a reader that has stopped.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod output;
pub mod records;
pub mod summary;
pub mod top_flows;
pub mod top_n;
