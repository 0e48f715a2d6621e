// SPDX-License-Identifier: BSD-3-Clause
//! Counts packets that the NIC forwarded by itself, so that no worker saw them.

use super::record::{ConnCold, ConnHot, PackedCounters};
use super::state::State;
use crate::api::BypassCount;
use crate::base::{Micros, Nanos};

impl<const W: usize> ConnHot<W> {
    /// True for a UDP connection with packets of both directions.
    pub(crate) fn is_open_udp(&self) -> bool {
        self.state() == State::UdpMultiple
    }

    /// Adds packets that the NIC has forwarded, sent by the end of the key that `swapped` names.
    ///
    /// The NIC does not report how many frame bytes are not IP bytes. Their average over the
    /// packets seen so far is assumed.
    pub(crate) fn add_bypass_count(
        &mut self,
        cold: &mut ConnCold,
        swapped: u8,
        passed: BypassCount,
        now: Nanos,
    ) {
        let direction = usize::from(swapped ^ self.originator()) & 1;
        let before = self.tally(cold, direction);
        let overhead = before.bytes - before.ip_bytes;
        let more = u128::from(overhead) * u128::from(passed.packets);
        let more = (more / u128::from(before.packets.max(1))).min(passed.bytes.into()) as u64;
        let packets = before.packets + passed.packets;
        let (bytes, overhead) = (before.bytes + passed.bytes, overhead + more);
        cold.packets_high[direction] = (packets >> PackedCounters::PACKETS_BITS) as u32;
        cold.overhead_high[direction] = (overhead >> PackedCounters::OVERHEAD_BITS) as u32;
        cold.bytes_high[direction] = (bytes >> PackedCounters::BYTES_BITS) as u32;
        let counters = PackedCounters::new(before.tcp_flags, packets, overhead, bytes);
        self.counters[direction] = counters;
        if now > self.last_seen(cold) {
            self.state_word = self.state_word.at(Micros::of(now));
        }
    }
}
