// SPDX-License-Identifier: BSD-3-Clause
//! Makes and checks the frames of the generator, the benchmarks and the tests.
//!
//! | module | makes |
//! |---|---|
//! | [`stream`] | stateless streams of the generator; a receiver verifies packets by [`Stamp`]s |
//! | [`trex`] | the traffic of TRex profiles |
//! | [`neighbour`] | ARP and neighbour discovery |
//! | [`reflector_query`] | queries for the counters of a reflector |
//! | [`Workload`] | an endless realistic mix for a bump in the wire |
//! | [`scenario`], [`article`] | the frames of the benchmarks, the loads of the FlowTable article |
//! | [`flood`] | packets that collide in weak hashes; [`access_rules`] that do not match them |
//! | [`PcapWriter`] | a capture file from frames |
//!
//! The same seed and arguments give the same bytes. This crate uses no clock, thread or file. Every
//! frame has correct lengths and checksums.
#![forbid(unsafe_code)]

pub mod article;
pub mod flood;
pub mod neighbour;
pub mod reflector_query;
pub mod scenario;
pub mod stream;
pub mod trex;

mod access_rules;
mod dpdk_project;
mod endpoints;
mod filler;
mod flow;
mod ledger;
mod link;
mod part;
mod pcap;
mod probed;
mod profile;
mod ramp;
mod reflect;
mod segment;
mod sequence;
mod source;
mod stamp;
mod template;
mod verify;
mod workload;

pub use access_rules::access_rules;
pub use filler::{Filler, Window};
pub use ledger::Ledger;
pub use part::Part;
pub use pcap::PcapWriter;
pub use probed::ProbedReplay;
pub use profile::Profile;
pub use reflect::{KeptPorts, NotSwapped, Swap, Swapped};
pub use sequence::{Arrival, Sequence};
pub use source::{Alike, ROOM, Source, Written};
pub use stamp::{DPDK_PROJECT_SEED, PayloadFormat, Stamp, StampKey};
pub use verify::{Finding, Verifier};
pub use workload::Workload;

/// Bytes of the longest frame of a [`Workload`] or [`scenario`], without FCS: two VLAN tags and an
/// IP packet of 1500 bytes. Frames of a [`Source`] may have up to [`ROOM`] bytes.
pub const MAX_FRAME: usize = 14 + 2 * 4 + 1500;

/// Side of the bump where a frame enters: clients are on side A, servers on side B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// Originators of connections.
    A,
    /// Responders.
    B,
}

impl Side {
    /// Returns the opposite side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}
