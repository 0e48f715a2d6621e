// SPDX-License-Identifier: BSD-3-Clause
//! Runs a bump in the wire: its ports, workers and programming threads, and client queries.
//!
//! The thread that owns a [`Runtime`] is the control thread. It takes flow records, watches the
//! ports and prints. Workers never wait for it. Each room imports only rooms that stand before it
//! in `tests/project/layers.rs`.

mod clock;
mod rates;

mod counters;

mod ports;

mod checkpointing;

mod offload;

mod commands;

mod worker;

mod summary;

pub(crate) mod query;

mod totals;

mod runtime;

mod startup;

mod rate_line;

pub(crate) mod reload_plan;

pub(crate) mod answers;

pub(crate) use ports::event::PortEvent;
pub(crate) use ports::pair::PortPair;
pub(crate) use query::list_hits::ListHitsTimer;
pub(crate) use rate_line::RateLine;
pub(crate) use runtime::Runtime;
pub(crate) use totals::{Rates, Totals};
