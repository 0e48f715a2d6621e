// SPDX-License-Identifier: BSD-3-Clause
//! The summary of a live run, from the reports of its workers and the counters of its ports.

use super::meter::{percent, wire_mbps};
use super::{Account, Report, SharedPort};
use crate::summary::{self, Offload, StageCycles, Summary};
use engine::{Stage, Stats};
use std::time::Duration;

/// Closes the account of a run of `duration`.
pub(super) fn summary(
    ports: &[SharedPort],
    reports: &[(u32, Report)],
    (duration, offload): (Duration, Offload),
) -> Summary {
    let mut summary = Summary::new();
    summary.dpdk = Some(dpdk::version());
    summary.duration_s = duration.as_secs_f64();
    summary.ports = ports.iter().map(port).collect();
    summary.workers = reports.iter().map(|(lcore, report)| worker(*lcore, report)).collect();
    let (mut busy, mut all) = (0, 0);
    let (mut received, mut sent, mut tx_full, mut port_reset) = (0, 0, 0, 0);
    let mut held = 0;
    let mut directions = [(0, 0); 2];
    summary.offload = offload;
    for (_, Report { account, stats, marks, rules, .. }) in reports {
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
        for (sum, (packets, bytes)) in directions.iter_mut().zip(account.sent) {
            sum.0 += packets;
            sum.1 += bytes;
            sent += packets;
        }
    }
    summary.offload.marked_share = summary.offload.marks.counted as f64 / received.max(1) as f64;
    summary.cpu_util_percent = percent(busy, all);
    summary.directions = direction_rates(directions, duration.as_secs_f64());
    summary.drops.add("tx_full", "the port they should leave by had no room for them", tx_full);
    summary.drops.add("port_reset", "the port they should leave by was being reset", port_reset);
    summary.balance(received, sent, held);
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

fn worker(lcore: u32, Report { account, stats, memory, poll_gap, .. }: &Report) -> summary::Worker {
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
        stage_cycles: stage_cycles(account, stats),
        table_bytes: memory.bytes as u64,
        table_huge_page_bytes: memory.huge_page_bytes as u64,
    }
}

/// Stages are measured in a sample of the bursts; this is what they come to for all packets.
fn stage_cycles(account: &Account, stats: &Stats) -> StageCycles {
    let scale = |cycles: u64, sampled: u64| {
        (cycles as f64 * account.received as f64 / sampled.max(1) as f64) as u64
    };
    let engine = |stage: Stage| scale(stats.stage_cycles[stage as usize], stats.sampled_packets);
    StageCycles {
        rx: scale(account.sampled_rx_cycles, account.sampled_packets),
        mark: engine(Stage::Mark),
        parse: engine(Stage::Parse),
        lookup: engine(Stage::Lookup),
        track: engine(Stage::Track),
        miss: engine(Stage::Miss),
        tx: scale(account.sampled_tx_cycles, account.sampled_packets),
        housekeeping: account.housekeeping_cycles,
    }
}
