// SPDX-License-Identifier: BSD-3-Clause
//! Formats results of measurements for users and for other programs.
//!
//! [`Results`] has the members of the JSON of a generator run, and prints them as text for users.
//! [`report::page`] shows one [`Run`] or several in plots. The crate reads no clock and opens no
//! file.
#![forbid(unsafe_code)]

mod confidence;
pub mod connections;
pub mod conntrack;
pub mod histogram;
mod limits;
mod link;
pub mod live;
pub mod metrics;
pub mod names;
pub mod page;
pub mod plot;
pub mod report;
mod run;
mod schema;
pub mod search;
pub mod side_by_side;
pub mod table;
mod text;
pub mod units;
pub mod workers;

pub use run::{ReadError, Run};
pub use schema::{
    Count, Counted, Host, Interval, KIND, Latency, Link, Origin, Pacing, PortInterval, PortResult,
    QueueInterval, QueueResult, ReflectorResult, Results, SenderResult, StreamInterval,
    StreamLatency, StreamResult, Verified,
};
pub use text::IntervalLines;

/// Bytes that a frame takes on the wire and drivers do not count: FCS, preamble and gap.
pub const WIRE_EXTRA: u64 = FCS + WIRE_GAP;
const FCS: u64 = 4;
/// Preamble and gap between frames (IEEE 802.3).
const WIRE_GAP: u64 = 20;

/// Returns the bits that frames take on the wire; `bytes` without FCS.
pub fn wire_bits(packets: u64, bytes: u64) -> f64 {
    (bytes + WIRE_EXTRA * packets) as f64 * 8.0
}

#[cfg(test)]
mod tests;
