// SPDX-License-Identifier: BSD-3-Clause
//! Divides the traffic of a run between several senders.

use crate::Side;

/// Part of the traffic that one sender sends. All parts together are the whole traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The port whose frames are sent; `None` for both.
    pub side: Option<Side>,
    /// Number of this share, from 0.
    pub share: u16,
    /// Number of equal shares, at least 1.
    pub shares: u16,
}

impl Default for Part {
    fn default() -> Self {
        Self { side: None, share: 0, shares: 1 }
    }
}

impl Part {
    /// True if the frames of `side` are sent.
    pub(crate) fn has_side(self, side: Side) -> bool {
        self.side.is_none_or(|only| only == side)
    }

    /// Returns how many of `count` packets this share sends. The shares take bursts in turn.
    pub(crate) fn packets(self, count: u64, burst: u64) -> u64 {
        let (share, shares) = (u64::from(self.share), u64::from(self.shares));
        let (whole, rest) = (count / burst, count % burst);
        let (each, turn) = (whole / shares, whole % shares);
        let last = if share == turn { rest } else { 0 };
        (each + u64::from(share < turn)) * burst + last
    }
}
