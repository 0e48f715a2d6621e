// SPDX-License-Identifier: BSD-3-Clause
//! Owns the maximum size of a burst, and the layout of its keys in columns.
//!
//! A column holds one word of each key, so SIMD code reads a word of neighbouring packets from
//! contiguous memory.

/// The keys of a burst, one column per word of a key.
pub(crate) type Columns<const W: usize> = [[u64; BURST_MAX]; W];

/// Maximum number of packets in one call of [`Engine::process`](crate::Engine::process).
pub const BURST_MAX: usize = 64;
