// SPDX-License-Identifier: BSD-3-Clause
//! How many keys the vector versions of SipHash take at once, and the length block of a message.

use crate::base::columns::BURST_MAX;

/// Keys hashed side by side.
pub(super) const LANES: usize = 16;

const _: () = assert!(BURST_MAX % LANES == 0);

/// The last block of a message of whole words holds its length in bytes and nothing else.
pub(super) const fn length_block<const W: usize>() -> u64 {
    (8 * W as u64) << 56
}
