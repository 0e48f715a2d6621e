// SPDX-License-Identifier: BSD-3-Clause
//! Queries the workers and ports of a running instance, for threads that serve clients.

pub(crate) mod client;
pub(crate) mod event_stream;
pub(crate) mod explain;
pub(crate) mod list_edit;
pub(crate) mod list_hits;
pub(crate) mod list_state;
pub(crate) mod nic_drops;
pub(crate) mod preview;
pub(crate) mod recall;
pub(crate) mod reload;
pub(crate) mod turns;
