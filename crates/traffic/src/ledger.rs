// SPDX-License-Identifier: BSD-3-Clause
//! Counts the frames and connections that a workload has made, for comparison with other counters.

use crate::Side;
use wire::proto;

/// Counters of a [`Workload`](crate::Workload). Bytes are frame bytes without FCS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Frames per [`Side`].
    pub frames: [u64; 2],
    /// Bytes per [`Side`].
    pub bytes: [u64; 2],
    /// TCP frames.
    pub tcp: u64,
    /// UDP frames.
    pub udp: u64,
    /// ICMP and ICMPv6 frames.
    pub icmp: u64,
    /// Frames that are not IP.
    pub background: u64,
    /// IPv6 frames.
    pub ipv6: u64,
    /// IP frames with one or two VLAN tags.
    pub tagged: u64,
    /// Connections that have had their first frame. No two have the same addresses and ports.
    pub started: u64,
    /// Connections that have had their last frame.
    pub finished: u64,
}

impl Ledger {
    /// Returns the number of frames of both sides.
    pub fn total_frames(&self) -> u64 {
        self.frames[0] + self.frames[1]
    }

    /// Returns the number of connections that have started and not finished.
    pub fn active(&self) -> u64 {
        self.started - self.finished
    }

    pub(crate) fn count_frame(&mut self, side: Side, len: usize) {
        self.frames[side as usize] += 1;
        self.bytes[side as usize] += len as u64;
    }

    pub(crate) fn count_ip(&mut self, protocol: u8, ipv6: bool, tagged: bool) {
        match protocol {
            proto::TCP => self.tcp += 1,
            proto::UDP => self.udp += 1,
            _ => self.icmp += 1,
        }
        self.ipv6 += u64::from(ipv6);
        self.tagged += u64::from(tagged);
    }
}
