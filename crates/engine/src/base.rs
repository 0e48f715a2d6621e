// SPDX-License-Identifier: BSD-3-Clause
//! Owns data structures without domain meaning: memory regions, cuckoo index, timer wheel, keyed
//! hash, lists, SIMD level, time and rates.
//!
//! Imports no other room.

mod columns;
mod cuckoo;
mod keyed_hash;
mod list;
mod memory;
mod simd;
mod time;
mod timer_wheel;
mod token_bucket;

pub use columns::BURST_MAX;
pub(crate) use columns::Columns;
pub(crate) use cuckoo::{CuckooIndex, NO_RECORD};
pub(crate) use keyed_hash::{KeyDomain, KeyedHasher, derive};
pub(crate) use list::{Links, List, NONE};
pub use memory::MemoryUse;
pub(crate) use memory::{HugeRegion, prefetch};
pub(crate) use simd::SimdLevel;
pub use time::Nanos;
pub(crate) use time::{Micros, Tick, whole_micros};
pub(crate) use timer_wheel::{LinkStore, TimerLink, TimerWheel};
pub use token_bucket::TokenBucket;
