// SPDX-License-Identifier: BSD-3-Clause
//! Commands to an engine and bounded walks over its connections: list, count, sweep, flush, review,
//! marks, events, snapshots, NIC rule requests and results.
//!
//! The top floor: imports every room, and no room imports it.

mod access;
mod access_preview;
mod events;
mod explain;
mod list;
mod marks;
mod offload;
mod place;
mod review;
mod snapshot;

pub use marks::MarkProgress;
