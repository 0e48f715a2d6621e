// SPDX-License-Identifier: BSD-3-Clause
//! The model of the software NIC: which flow rules it takes, and what it does with a packet.
//!
//! [`Nic`] is one port. It shares no code with the engine, whose judge it is, and names nothing of
//! DPDK: the C of `pmd/` turns `rte_flow` into [`Item`] and [`Action`], frames into bytes, and a
//! [`Verdict`] into fields of an mbuf. `ffi.rs` is that border and the only unsafe code.
//!
//! Rules change under a lock; classifying needs `&Nic` only, from as many threads as like.
#![deny(unsafe_code)]

mod ffi;
mod headers;
mod nic;
mod pattern;
mod refusal;
pub mod rss;
mod table;

pub use nic::{Action, Handle, Nic, Spread, Tally, Verdict};
pub use pattern::{Attributes, HEADER_MAX, Item, Proto};
pub use refusal::{Cause, Refusal};
