// SPDX-License-Identifier: BSD-3-Clause
//! Models the software NIC: which flow rules it accepts, and their effect on packets.
//!
//! [`Nic`] is one port. It shares no code with the engine, of which it is the test oracle,
//! and names nothing of DPDK. The C of `pmd/` turns `rte_flow` into [`Item`] and [`Action`], frames
//! into bytes, and a [`Verdict`] into fields of an mbuf. `ffi.rs` is the interface to that C and
//! the only unsafe code.
//!
//! Rules change under a lock. Classifying needs `&Nic` only, so any number of threads may classify.
#![deny(unsafe_code)]

mod action;
mod capture;
pub mod checksum;
mod faults;
mod ffi;
mod fields;
mod headers;
mod index;
mod latency;
mod nic;
mod pattern;
pub mod personality;
mod random;
mod refusal;
pub mod rss;
mod rule_check;
mod rules;
mod table;
mod tuple;

pub use action::{Action, Age, Spread};
pub use capture::{Capture, CaptureError};
pub use faults::{Fault, Faults, FaultsError};
pub use fields::{Cover, Field};
pub use nic::{Answer, Checksums, Nic, PortForwards, Verdict};
pub use pattern::{Attributes, HEADER_MAX, Item, ItemSpec, Proto};
pub use personality::{Personality, PersonalityError};
pub use refusal::{Errno, Kind, Place, Refusal};
pub use rule_check::Rule;
pub use rules::{Counted, Handle, Idle, Tally};
