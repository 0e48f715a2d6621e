// SPDX-License-Identifier: BSD-3-Clause
//! The model of the software NIC: which flow rules it takes, and what it does with a packet.
//!
//! [`PortRules`] is one port. It shares no code with the engine, whose judge it is, and names
//! nothing of DPDK: the C of `pmd/` turns `rte_flow` into [`Item`] and [`Action`], frames into
//! bytes, and a [`Verdict`] into fields of an mbuf. `ffi.rs` is that border and the only unsafe
//! code.
//!
//! Rules change under a lock; classifying needs `&Nic` only, from as many threads as like.
#![deny(unsafe_code)]

mod action;
mod capture;
pub mod checksum;
mod faults;
mod ffi;
mod fields;
mod headers;
mod index;
mod judge;
mod latency;
mod nic;
mod pattern;
pub mod personality;
mod random;
mod refusal;
pub mod rss;
mod rules;
mod table;
mod tuple;

pub use action::{Action, Age, Spread};
pub use capture::{Capture, CaptureError};
pub use faults::{Fault, Faults, FaultsError};
pub use fields::{Cover, Field};
pub use judge::Rule;
pub use nic::{Answer, Checksums, Nic, PortForwards, Verdict};
pub use pattern::{Attributes, HEADER_MAX, Item, ItemSpec, Proto};
pub use personality::{Personality, PersonalityError};
pub use refusal::{Errno, Kind, Place, Refusal};
pub use rules::{Counted, Handle, Idle, Tally};
