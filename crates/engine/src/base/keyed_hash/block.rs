// SPDX-License-Identifier: BSD-3-Clause
//! Owns the number of keys that vector code hashes at once, and the length block of a message.

use crate::base::columns::BURST_MAX;

/// Number of keys that are hashed side by side.
pub(super) const LANES: usize = 16;

const _: () = assert!(BURST_MAX % LANES == 0);

/// Returns the last block of a message of `W` whole words: its length in bytes in the top byte,
/// else 0.
pub(super) const fn length_block<const W: usize>() -> u64 {
    (8 * W as u64) << 56
}
