// SPDX-License-Identifier: BSD-3-Clause
//! What a run says of itself, and where that goes.
//!
//! [`summary`] adds up what was counted, as JSON and as text. [`records`] writes a record of each
//! flow that has ended; [`top_flows`] keeps the busiest of them. [`output`] opens files and
//! streams, and writes to them without waiting for whoever reads.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod output;
pub mod records;
pub mod summary;
pub mod top_flows;
pub mod top_n;
