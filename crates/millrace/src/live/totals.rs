// SPDX-License-Identifier: BSD-3-Clause
//! Adds up the counters of a running instance, and computes rates between two readings.

use crate::live::counters::published::Snapshot;
use crate::live::rates::{percent, wire_mbps};
use report::summary::Energy;
use serde::Serialize;
use std::time::Duration;

/// Sums over all workers and ports at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Time of the reading, since the start of the run.
    pub(crate) at: Duration,
    pub(crate) workers: Snapshot,
    /// Packets and frame bytes (without FCS) that the NIC forwarded by itself, by direction: up,
    /// down. No worker received them.
    pub(crate) bypassed: [(u64, u64); 2],
    /// Rules that the ports have now.
    pub(crate) rules: u64,
    /// Rules installed so far.
    pub(crate) inserts: u64,
    /// Total time to install them.
    pub(crate) insert_time: Duration,
    /// Microjoules that the processor packages have used since the start; `None` if unknown.
    pub(crate) energy_uj: Option<u64>,
}

/// Rates between two readings.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Rates {
    /// Megabits per second on the wire, from port A to port B.
    pub(crate) up_mbps: f64,
    /// Megabits per second on the wire, from port B to port A.
    pub(crate) down_mbps: f64,
    /// Million packets per second, both directions: those that workers received, and those that
    /// the NIC forwarded by itself.
    pub(crate) mpps: f64,
    /// Share of the workers' time that was busy, in percent, without the time that other programs
    /// took.
    pub(crate) cpu_percent: f64,
    /// Share of the workers' time that other programs took, in percent.
    pub(crate) cpu_taken_percent: f64,
    /// Busy cycles per packet, of all packets in `mpps`.
    pub(crate) cycles_per_packet: f64,
    /// Share of packets counted by a mark of the NIC, in percent.
    pub(crate) marked_percent: f64,
    /// Share of packets decided by a mark of an access list's rule, in percent.
    pub(crate) list_marked_percent: f64,
    /// Share of packets that the NIC forwarded by itself, in percent.
    pub(crate) bypassed_percent: f64,
    /// Mean time to install a rule, in microseconds; `None` if none was installed.
    pub(crate) insert_us: Option<f64>,
}

impl Totals {
    /// Returns the rates since an earlier reading.
    pub(crate) fn since(&self, before: &Self) -> Rates {
        let (now, then) = (&self.workers, &before.workers);
        let seconds = (self.at - before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let more = |now: (u64, u64), then: (u64, u64)| (now.0 - then.0, now.1 - then.1);
        let [up_mbps, down_mbps] = [0, 1].map(|direction| {
            let sent = more(now.sent[direction], then.sent[direction]);
            let bypassed = more(self.bypassed[direction], before.bypassed[direction]);
            wire_mbps(sent.0 + bypassed.0, sent.1 + bypassed.1, seconds)
        });
        let (packets, bypassed) = self.packets_since(before);
        let busy = now.busy_cycles - then.busy_cycles;
        let awake = busy + now.idle_cycles - then.idle_cycles;
        let taken = now.stalled_cycles - then.stalled_cycles;
        let inserts = self.inserts - before.inserts;
        let insert_time = self.insert_time - before.insert_time;
        Rates {
            up_mbps,
            down_mbps,
            mpps: packets as f64 / seconds / 1e6,
            cpu_percent: percent(busy, awake),
            // A worker adds up an interruption only once it has its cpu again.
            cpu_taken_percent: match awake + taken {
                0 if self.at > before.at => 100.0,
                all => percent(taken, all),
            },
            cycles_per_packet: busy as f64 / packets.max(1) as f64,
            marked_percent: percent(now.marked - then.marked, packets),
            list_marked_percent: percent(now.by_list_mark - then.by_list_mark, packets),
            bypassed_percent: percent(bypassed, packets),
            insert_us: (inserts > 0).then(|| insert_time.as_secs_f64() * 1e6 / inserts as f64),
        }
    }

    /// Returns the packets of workers and NIC since an earlier reading, and those of the NIC alone.
    fn packets_since(&self, before: &Self) -> (u64, u64) {
        let sum = |totals: &Self| totals.bypassed.iter().map(|direction| direction.0).sum::<u64>();
        let bypassed = sum(self) - sum(before);
        (self.workers.received - before.workers.received + bypassed, bypassed)
    }

    /// Returns the energy since an earlier reading; unknown if that of the whole run is.
    pub(crate) fn energy_since(&self, before: &Self, of_run: &Energy) -> Energy {
        if of_run.package_j.is_none() {
            return of_run.clone();
        }
        let sent = |totals: &Self| totals.workers.sent.iter().map(|way| way.0).sum::<u64>();
        let packets = sent(self) - sent(before) + self.packets_since(before).1;
        let used = self.energy_uj.zip(before.energy_uj).map(|(now, then)| now - then);
        Energy::of(used.ok_or("the energy counter was not read"), packets)
    }

    /// Returns busy cycles per packet by stage since an earlier reading.
    pub(crate) fn stages_per_packet_since(&self, before: &Self) -> Vec<(&'static str, f64)> {
        let (now, then) = (&self.workers, &before.workers);
        let packets = self.packets_since(before).0.max(1) as f64;
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
        now.workers.by_list_mark = 1_500_000;
        let rates = now.since(&before);
        assert_eq!((rates.up_mbps, rates.down_mbps), (672.0, 336.0));
        assert_eq!((rates.mpps, rates.cpu_percent, rates.marked_percent), (1.5, 75.0, 25.0));
        assert_eq!((rates.cycles_per_packet, rates.insert_us), (100.0, None));
        assert_eq!(rates.list_marked_percent, 50.0);

        (now.inserts, now.insert_time) = (4, Duration::from_millis(1));
        assert_eq!(now.since(&before).insert_us, Some(250.0));
        assert_eq!((now.since(&now).mpps, now.since(&now).cpu_taken_percent), (0.0, 0.0));
        let later = Totals { at: at(6), ..now };
        assert_eq!(later.since(&now).cpu_taken_percent, 100.0, "it has not run at all");
    }

    #[test]
    fn packets_of_the_nic_are_packets() {
        let mut before = Totals::default();
        before.workers.received = 1_000_000;
        let mut now = Totals { at: Duration::from_secs(1), ..before };
        now.workers.received += 1_000_000;
        (now.workers.marked, now.workers.busy_cycles) = (250_000, 8_000_000);
        (now.workers.idle_cycles, now.workers.stalled_cycles) = (8_000_000, 4_000_000);
        now.workers.sent = [(500_000, 30_000_000); 2];
        now.bypassed = [(2_500_000, 150_000_000), (500_000, 30_000_000)];
        let rates = now.since(&before);
        assert_eq!((rates.up_mbps, rates.down_mbps), (2016.0, 672.0));
        assert_eq!((rates.mpps, rates.cycles_per_packet), (4.0, 2.0));
        assert_eq!((rates.marked_percent, rates.bypassed_percent), (6.25, 75.0));
        assert_eq!((rates.cpu_percent, rates.cpu_taken_percent), (50.0, 20.0));
    }

    #[test]
    fn energy_is_of_the_packets_between() {
        let of_run = Energy::of(Ok::<_, String>(9), 1);
        let mut before = Totals { energy_uj: Some(1_000_000), ..Totals::default() };
        before.workers.sent = [(500, 0); 2];
        let mut now = Totals { energy_uj: Some(3_000_000), ..before };
        now.workers.sent = [(2_500_000, 0), (500_500, 0)];
        now.bypassed = [(1_000_500, 0), (499_500, 0)];
        let energy = now.energy_since(&before, &of_run);
        let per_packet = 2e9 / (2_499_500 + 500_000 + 1_500_000) as f64;
        assert_eq!((energy.package_j, energy.nj_per_packet), (Some(2.0), Some(per_packet)));
        let unmoved = now.energy_since(&now, &of_run);
        assert_eq!(unmoved.reason.as_deref(), Some("the energy counter did not change"));
        // The sum lacks a package whose counter stood still for the whole run.
        let unknown = Energy::unknown("a counter did not change");
        assert_eq!(now.energy_since(&before, &unknown), unknown);
    }
}
