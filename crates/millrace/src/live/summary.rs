// SPDX-License-Identifier: BSD-3-Clause
//! Builds the summary of a live run from the reports of its workers and the counters of its ports.

use crate::live::counters::account::WorkerReport;
use crate::live::ports::shared::SharedPort;
use crate::live::rates::{percent, wire_mbps};
use config::plan::OffloadPlan;
use engine::Stats;
use report::summary::{self, Ledger, Offload, Summary};
use std::time::Duration;

/// Returns the settings of offload, without any figures.
pub(crate) fn offload_settings(plan: &OffloadPlan) -> Offload {
    Offload {
        policy: plan.policy.to_string(),
        bypass: plan.bypass.to_string(),
        bypass_tcp: plan.bypass_tcp.to_string(),
        ..Offload::default()
    }
}

/// Returns the summary of a run that has ended after `duration`.
pub(crate) fn summary(
    ports: &[SharedPort],
    reports: &[(u32, WorkerReport)],
    (duration, offload): (Duration, Offload),
) -> Summary {
    let mut summary = Summary::new();
    summary.dpdk = Some(dpdk::version());
    summary.duration_s = duration.as_secs_f64();
    summary.ports = ports.iter().map(port).collect();
    summary.workers = reports.iter().map(|(lcore, report)| worker(*lcore, report)).collect();
    let (mut busy, mut all) = (0, 0);
    let (mut received, mut sent, mut tx_full, mut port_reset) = (0, 0, 0, 0);
    let (mut held, mut cut, mut over_mtu) = (0, 0, 0);
    let mut directions = [(0, 0); 2];
    summary.offload = offload;
    for (_, WorkerReport { account, stats, marks, rules, .. }) in reports {
        summary.add_engine(stats);
        summary.offload.marks.add(marks);
        summary.offload.admission.add(rules);
        summary.offload.bypassed.add(rules);
        busy += account.busy_cycles;
        all += account.busy_cycles + account.idle_cycles;
        received += account.received;
        held += stats.held;
        tx_full += account.tx_full;
        port_reset += account.port_reset;
        cut += account.cut;
        over_mtu += account.over_mtu;
        summary.rejects.add(account.rejects);
        for (sum, (packets, bytes)) in directions.iter_mut().zip(account.sent) {
            sum.0 += packets;
            sum.1 += bytes;
            sent += packets;
        }
    }
    summary.offload.marked_share = summary.offload.marks.counted as f64 / received.max(1) as f64;
    summary.cpu_util_percent = percent(busy, all);
    summary.directions = direction_rates(directions, duration.as_secs_f64());
    summary.drops.add("tx_full", "the outgoing port had no room", tx_full);
    summary.drops.add("port_reset", "the outgoing port was being reset", port_reset);
    summary.drops.add("cut", "as long as a buffer of its port, so it may have been cut", cut);
    summary.drops.add("over_mtu", "longer than the MTU of the outgoing port", over_mtu);
    summary.balance(received, sent, held);
    summary
}

/// Returns the summary of a run that goes on. Packets on their way from one worker to another count
/// as held. Workers report one after the other. So one may report packets that it has taken over
/// from another, which received them after its own report. These packets are added to the received
/// ones.
pub(crate) fn interim(
    ports: &[SharedPort],
    reports: &[(u32, WorkerReport)],
    of_run: (Duration, Offload),
) -> Summary {
    let mut summary = summary(ports, reports, of_run);
    let sum = |of: fn(&Stats) -> u64| reports.iter().map(|(_, report)| of(&report.stats)).sum();
    let [given, taken]: [u64; 2] = [sum(|stats| stats.handed), sum(|stats| stats.taken)];
    let Ledger { rx, tx, held, .. } = summary.ledger;
    summary.balance(rx + taken.saturating_sub(given), tx, held + given.saturating_sub(taken));
    summary
}

fn direction_rates(directions: [(u64, u64); 2], seconds: f64) -> Vec<summary::Direction> {
    let named = ["up", "down"].into_iter().zip(directions);
    named
        .map(|(name, (packets, bytes))| summary::Direction {
            name,
            packets,
            pps: packets as f64 / seconds,
            wire_mbps: wire_mbps(packets, bytes, seconds),
        })
        .collect()
}

fn port(port: &SharedPort) -> summary::Port {
    let port = port.lock();
    let stats = port.stats();
    summary::Port {
        name: port.info().devargs.clone(),
        rx_packets: stats.ipackets,
        rx_bytes: stats.ibytes,
        tx_packets: stats.opackets,
        tx_bytes: stats.obytes,
        imissed: stats.imissed,
        ierrors: stats.ierrors,
        rx_nombuf: stats.rx_nombuf,
        oerrors: stats.oerrors,
        resets: port.times_reset(),
    }
}

fn worker(
    lcore: u32,
    WorkerReport { account, stats, memory, poll_gap, .. }: &WorkerReport,
) -> summary::Worker {
    let packets = account.received;
    summary::Worker {
        lcore,
        packets,
        bursts: account.bursts,
        handed_over: stats.handed,
        taken_over: stats.taken,
        busy_cycles: account.busy_cycles,
        idle_cycles: account.idle_cycles,
        stalled_cycles: account.stalled_cycles,
        cycles_per_packet: account.busy_cycles as f64 / packets.max(1) as f64,
        poll_gap_us: *poll_gap,
        stage_cycles: account.stages(stats).split(account.busy_cycles),
        table_bytes: memory.bytes as u64,
        table_huge_page_bytes: memory.huge_page_bytes as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::counters::account::Account;
    use engine::UntrackedReason;

    /// Returns the report of a worker that has dropped one packet and holds two.
    fn report(received: u64, sent: [u64; 2], [given, taken]: [u64; 2]) -> (u32, WorkerReport) {
        let account =
            Account { received, sent: sent.map(|packets| (packets, 0)), ..Account::default() };
        let mut stats = Stats { held: 2, handed: given, taken, ..Stats::default() };
        stats.dropped[UntrackedReason::Invalid as usize] = 1;
        let (marks, rules, memory) = Default::default();
        let (admission, poll_gap) = Default::default();
        (1, WorkerReport { account, stats, marks, rules, admission, memory, poll_gap })
    }

    fn ledger(reports: &[(u32, WorkerReport)]) -> (u64, u64, u64, bool) {
        let summary = interim(&[], reports, (Duration::from_secs(1), Offload::default()));
        let Ledger { rx, tx, dropped, held, balanced } = summary.ledger;
        assert_eq!(dropped, reports.len() as u64);
        (rx, tx, held, balanced)
    }

    #[test]
    fn what_is_between_workers_is_held() {
        let first = |given| report(100, [50, 47 - given], [given, 0]);
        let second = |taken| report(10, [7, taken], [0, taken]);
        assert_eq!(ledger(&[first(0), second(0)]), (110, 104, 4, true));
        assert_eq!(ledger(&[first(5), second(3)]), (110, 102, 6, true));
        // The second worker reported later; the difference was received meanwhile.
        assert_eq!(ledger(&[first(5), second(9)]), (114, 108, 4, true));
        // One packet is missing.
        let lost = report(11, [7, 3], [0, 3]);
        assert_eq!(ledger(&[first(5), lost]), (111, 102, 6, false));
    }

    #[test]
    fn in_the_end_nothing_is_between_workers() {
        let reports = [report(100, [50, 42], [5, 0]), report(10, [7, 3], [0, 3])];
        let summary = summary(&[], &reports, (Duration::from_secs(1), Offload::default()));
        assert_eq!((summary.ledger.held, summary.ledger.balanced), (4, false));
    }
}
