// SPDX-License-Identifier: BSD-3-Clause
//! Counts of a trial, and the part of its losses that may be the tester's own.

use super::Trial;

/// Share of the load that the tester sustains back to back. Answers above it are the tester's limit
/// as likely as the device's.
pub const CALIBRATION_MARGIN: f64 = 0.95;

/// Share of the intended load that a tester must offer.
const OFFERED_MIN: f64 = 0.999;

/// What was sent and received in a trial: packets, or connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number that was to be sent.
    pub intended: u64,
    /// Number that was sent in time.
    pub offered: u64,
    /// Number that came back.
    pub forwarded: u64,
    /// Number that the tester's own ports dropped.
    pub missed: u64,
    /// Number that came while a worker of the tester did not run.
    pub delayed: u64,
}

impl Counts {
    /// Returns the number that was not sent in time.
    pub fn unsent(&self) -> u64 {
        self.intended.abs_diff(self.offered)
    }

    /// Returns the number that was sent and did not come back, or came back too often.
    pub fn lost(&self) -> u64 {
        self.offered.abs_diff(self.forwarded)
    }

    /// Returns a trial for the search. What was not sent counts as lost.
    pub fn trial(&self, duration: f64) -> Trial {
        Trial { duration, loss_ratio: self.share(self.lost() + self.unsent(), 1.0) }
    }

    /// Returns the share that was lost by the device for sure: without what the tester did not
    /// send, dropped, or may have lost while a worker did not run.
    pub fn loss_ratio_of_device(&self) -> f64 {
        self.share(self.lost().saturating_sub(self.missed + self.delayed), 0.0)
    }

    /// True if the tester has offered less than 99.9 % of the load.
    pub fn is_offered_short(&self) -> bool {
        (self.offered as f64) < self.intended as f64 * OFFERED_MIN
    }

    fn share(&self, count: u64, of_nothing: f64) -> f64 {
        match self.offered.max(self.intended) {
            0 => of_nothing,
            most => count as f64 / most as f64,
        }
    }
}
