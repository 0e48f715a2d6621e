// SPDX-License-Identifier: BSD-3-Clause
//! The size of a burst, and the layout of its keys: one column per word, so that SIMD code reads
//! the same word of neighbouring packets from contiguous memory.

/// The keys of a burst, word by word: what the vector units read is contiguous.
pub(crate) type Columns<const W: usize> = [[u64; BURST_MAX]; W];

/// Most packets in one call of [`Engine::process`](crate::Engine::process).
pub const BURST_MAX: usize = 64;
