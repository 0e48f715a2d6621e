// SPDX-License-Identifier: BSD-3-Clause
//! Adds up the counters of a running instance, and computes rates between two readings.

use crate::live::counters::published::Snapshot;
use crate::live::rates::{percent, wire_mbps};
use serde::Serialize;
use std::time::Duration;

/// Sums over all workers and ports at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Time of the reading, since the start of the run.
    pub(crate) at: Duration,
    pub(crate) workers: Snapshot,
    /// Rules that the ports have now.
    pub(crate) rules: u64,
    /// Rules installed so far.
    pub(crate) inserts: u64,
    /// Total time to install them.
    pub(crate) insert_time: Duration,
}

/// Rates between two readings.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Rates {
    /// Megabits per second on the wire, from port A to port B.
    pub(crate) up_mbps: f64,
    /// Megabits per second on the wire, from port B to port A.
    pub(crate) down_mbps: f64,
    /// Million packets per second received, both directions.
    pub(crate) mpps: f64,
    /// Share of the workers' time that was busy, in percent.
    pub(crate) cpu_percent: f64,
    /// Busy cycles per packet.
    pub(crate) cycles_per_packet: f64,
    /// Share of packets counted by a mark of the NIC, in percent.
    pub(crate) marked_percent: f64,
    /// Mean time to install a rule, in microseconds; `None` if none was installed.
    pub(crate) insert_us: Option<f64>,
}

impl Totals {
    /// Returns the rates since an earlier reading.
    pub(crate) fn since(&self, before: &Self) -> Rates {
        let (now, then) = (&self.workers, &before.workers);
        let seconds = (self.at - before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let [up_mbps, down_mbps] = [0, 1].map(|direction| {
            let packets = now.sent[direction].0 - then.sent[direction].0;
            wire_mbps(packets, now.sent[direction].1 - then.sent[direction].1, seconds)
        });
        let received = now.received - then.received;
        let busy = now.busy_cycles - then.busy_cycles;
        let inserts = self.inserts - before.inserts;
        let insert_time = self.insert_time - before.insert_time;
        Rates {
            up_mbps,
            down_mbps,
            mpps: received as f64 / seconds / 1e6,
            cpu_percent: percent(busy, busy + now.idle_cycles - then.idle_cycles),
            cycles_per_packet: busy as f64 / received.max(1) as f64,
            marked_percent: percent(now.marked - then.marked, received),
            insert_us: (inserts > 0).then(|| insert_time.as_secs_f64() * 1e6 / inserts as f64),
        }
    }
}

impl Totals {
    /// Returns busy cycles per packet by stage since an earlier reading.
    pub(crate) fn stages_per_packet_since(&self, before: &Self) -> Vec<(&'static str, f64)> {
        let (now, then) = (&self.workers, &before.workers);
        let packets = (now.received - then.received).max(1) as f64;
        let stages = now.sample.since(then.sample).split(now.busy_cycles - then.busy_cycles);
        stages.named().map(|(name, cycles)| (name, cycles as f64 / packets)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between() {
        let workers = |packets, busy_cycles| Snapshot {
            sent: [(packets, 60 * packets), (packets / 2, 30 * packets)],
            received: packets * 3 / 2,
            busy_cycles,
            idle_cycles: 1_000,
            ..Snapshot::default()
        };
        let at = Duration::from_secs;
        let before = Totals { at: at(3), workers: workers(1_000_000, 500), ..Totals::default() };
        let mut now = Totals { at: at(5), workers: workers(3_000_000, 300_000_500), ..before };
        now.workers.idle_cycles += 100_000_000;
        now.workers.marked = 750_000;
        let rates = now.since(&before);
        assert_eq!((rates.up_mbps, rates.down_mbps), (672.0, 336.0));
        assert_eq!((rates.mpps, rates.cpu_percent, rates.marked_percent), (1.5, 75.0, 25.0));
        assert_eq!((rates.cycles_per_packet, rates.insert_us), (100.0, None));

        (now.inserts, now.insert_time) = (4, Duration::from_millis(1));
        assert_eq!(now.since(&before).insert_us, Some(250.0));
        assert_eq!(now.since(&now).mpps, 0.0);
    }
}
