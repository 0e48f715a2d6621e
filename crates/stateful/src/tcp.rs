// SPDX-License-Identifier: BSD-3-Clause
//! TCP (RFC 9293) with retransmission (RFC 6298), congestion control and fast recovery (RFC 5681,
//! RFC 6582), and delayed acknowledgements. There is no window scaling: windows have up to 65,535
//! bytes. There are no other options than MSS.

mod input;
mod output;
mod timer;

use crate::endpoint::Endpoint;

/// Largest window that is offered or used.
pub(crate) const WINDOW_MAX: u16 = u16::MAX;
/// Most bytes in flight: with the FIN, they fit into 16 bits.
const INFLIGHT_MAX: u16 = u16::MAX - 1;
/// Segments of the initial congestion window (RFC 6928).
const INITIAL_SEGMENTS: u16 = 10;
/// MSS of a peer that names none (RFC 9293 section 3.7.1).
const MSS_DEFAULT: u16 = 536;
/// Data that a program may send before earlier data is acknowledged.
const UNACKNOWLEDGED_MAX: u32 = 1 << 20;

impl Endpoint {
    /// Sets the MSS and the windows that follow from it, at the beginning of a connection.
    fn begin_windows(&mut self, offered: u16, own: u16) {
        let offered = if offered == 0 { MSS_DEFAULT } else { offered.max(64) };
        self.mss = offered.min(own);
        self.cwnd = self.mss.saturating_mul(INITIAL_SEGMENTS).min(INFLIGHT_MAX);
        self.ssthresh = INFLIGHT_MAX;
    }

    /// True if the peer has acknowledged our FIN.
    fn is_fin_acknowledged(&self) -> bool {
        self.una == self.written.wrapping_add(1)
    }
}
