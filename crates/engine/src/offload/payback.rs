// SPDX-License-Identifier: BSD-3-Clause
//! Measures how many packets pay for a rule by which the NIC forwards a direction by itself.
//!
//! Such a rule saves the worker all of its work on a packet, and costs a cpu the time to install
//! and to remove it. A direction is expected to send as many packets again as it has sent so far.

use crate::api::Stats;
use crate::base::Nanos;

/// Least time and number of measured packets from one measurement to the next, in nanoseconds.
const PERIOD: Nanos = 250_000_000;
const PACKETS_MIN: u64 = 1024;

/// Number of packets that pay for a rule, before rules and packets have been measured.
pub(crate) const PAYBACK_UNKNOWN: u32 = 1024;

/// Bounds of that number. Below, nearly each connection would get a rule; and no measurement is so
/// wrong that none should get any.
const PAYBACK_MIN: f64 = 64.0;
const PAYBACK_MAX: f64 = (1 << 24) as f64;

/// Time that a packet takes in the worker, on average over the last seconds. What the port takes to
/// receive and send it is not part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketCost {
    last: Reading,
    nanos: f64,
}

/// Totals at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    now: Nanos,
    /// The counter of cycles.
    counter: u64,
    /// Cycles of packets that were measured, and their number.
    cycles: u64,
    packets: u64,
}

impl PacketCost {
    pub(crate) const UNKNOWN: PacketCost =
        PacketCost { last: Reading { now: 0, counter: 0, cycles: 0, packets: 0 }, nanos: 0.0 };

    /// Returns the time, in nanoseconds; 0 if it is not known.
    pub(crate) fn nanos(self) -> f64 {
        self.nanos
    }

    /// Returns the number of packets that pay for a rule, which took `effort` nanoseconds to
    /// install and takes as long to remove.
    pub(crate) fn payback_packets(self, effort: Nanos) -> u32 {
        if self.nanos == 0.0 || effort == 0 {
            return PAYBACK_UNKNOWN;
        }
        (2.0 * effort as f64 / self.nanos).clamp(PAYBACK_MIN, PAYBACK_MAX) as u32
    }

    /// True if the next measurement is due.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        now.saturating_sub(self.last.now) >= PERIOD
    }

    /// Measures the packets since the last measurement. `counter` is the counter of cycles `now`.
    pub(crate) fn measure(&mut self, (now, counter): (Nanos, u64), stats: &Stats) {
        let cycles = stats.stage_cycles.iter().sum();
        let next = Reading { now, counter, cycles, packets: stats.sampled_packets };
        let packets = next.packets - self.last.packets;
        if packets < PACKETS_MIN && self.last.now > 0 {
            return;
        }
        let last = std::mem::replace(&mut self.last, next);
        let counted = next.counter.wrapping_sub(last.counter);
        // The first reading measures nothing, nor does a counter that stands still.
        if last.now == 0 || counted == 0 || packets == 0 {
            return;
        }
        let nanos_per_cycle = (now - last.now) as f64 / counted as f64;
        let cost = (next.cycles - last.cycles) as f64 * nanos_per_cycle / packets as f64;
        self.nanos = if self.nanos == 0.0 { cost } else { (3.0 * self.nanos + cost) / 4.0 };
    }
}

#[cfg(test)]
mod tests;
