// SPDX-License-Identifier: BSD-3-Clause
//! Measures with connections: opens them through a device, and counts what becomes of them.
//!
//! A trial has a fixed number of connections, so that it is known how many must come through. Each
//! of them counts: at a rate, it must not fail; if all are to be open together, its server and then
//! its client must still get a message through after all are open, and both must close it.

use super::measurement::{Measurement, Tester};
use crate::tester::{self, Load, TesterStatistics};
use anyhow::{Context, bail};
use results::search::{ConnectionFigures, FailedConnections, LatencyPercentiles};
use search::mlr::Counts;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time after the end of a load for connections that are late.
const GRACE: Duration = Duration::from_millis(50);
/// Share of the connections due that must be opened in time.
const OPENED_MIN: f64 = 0.99;
/// Longest wait until connections have closed that were held.
const CLOSING_S: f64 = 2.0;
/// Time between two reports of a tester, by which its counters may be newer than the question.
const REPORT_S: f64 = 0.15;
/// Time for which connections are held longer, since reading counters takes a while.
const SLACK_S: f64 = 0.5;
/// Time in which a tester begins.
const START_S: f64 = 0.02;
/// Longest time for which connections stay open while something else is done.
const HELD_FOR_WORK_S: f64 = 600.0;
/// Time between two looks at the counters.
const TURN: Duration = Duration::from_millis(50);

/// What the load of a trial is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum LoadKind {
    /// Connections per second.
    Rate,
    /// Connections at a time, which are opened at this rate.
    Held { cps: f64 },
    /// Connections per second, until this many are open together.
    HeldRate { connections: u32 },
}

/// Makes trials with a tester of connections.
pub(in super::super) struct ConnectionTrials<'a> {
    pub(in super::super) tester: &'a mut dyn tester::Tester,
    pub(in super::super) kind: LoadKind,
    /// What connections carry.
    pub(in super::super) profile: Load,
    /// Command that is run before each trial.
    pub(in super::super) reset_command: Option<&'a str>,
    pub(in super::super) interrupted: &'a AtomicBool,
}

/// A trial, and the time of its parts in seconds.
#[derive(Clone, Copy, Debug)]
struct Course {
    load: Load,
    /// Connections in total.
    connections: u32,
    /// Time in which they are opened.
    opening_s: f64,
    /// Time for which all are open together; `None` if they close as they like.
    held_s: Option<f64>,
    /// True if lost packets count as much as connections that failed.
    counts_packets: bool,
}

impl Course {
    fn new(kind: LoadKind, profile: Load, load: f64, seconds: f64) -> Self {
        let (cps, connections) = match kind {
            LoadKind::Rate => (load, load * seconds),
            LoadKind::Held { cps } => (cps, load),
            LoadKind::HeldRate { connections } => (load, f64::from(connections)),
        };
        let connections = connections.round().clamp(1.0, f64::from(u32::MAX)) as u32;
        let opening_s = f64::from(connections) / cps;
        let held_s = (kind != LoadKind::Rate).then_some(seconds);
        let hold_ms =
            held_s.map_or(0, |held_s| ((opening_s + held_s + SLACK_S) * 1e3).ceil() as u32);
        let total_flows = Some(connections);
        let load = Load { cps, hold_ms, max_flows: None, total_flows, ramp_up_s: 0, ..profile };
        let counts_packets = !matches!(kind, LoadKind::Held { .. });
        Self { load, connections, opening_s, held_s, counts_packets }
    }
}

/// Counters of a trial.
struct Counted {
    /// Shortly before all connections were due.
    due: TesterStatistics,
    /// While connections were open together; at a rate, at the end of the load.
    open: TesterStatistics,
    /// After the last packet.
    end: TesterStatistics,
}

impl Tester for ConnectionTrials<'_> {
    fn measure(&mut self, load: f64, seconds: f64) -> anyhow::Result<Measurement> {
        let (begun, mut simulated_s) = (Instant::now(), 0.0);
        if let Some(command) = self.reset_command {
            run_command(command, "--reset-command")?;
        }
        let course = Course::new(self.kind, self.profile, load, seconds);
        let counted = self.run(&course, &mut simulated_s);
        // A daemon that the signal has ended does not answer.
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let whole_s = match self.tester.is_simulated() {
            true => simulated_s,
            false => begun.elapsed().as_secs_f64(),
        };
        Ok(Measurement { whole_s, ..measurement(&course, &counted?, seconds) })
    }

    fn packets_per_second(&self, _: f64) -> Option<f64> {
        None
    }
}

impl ConnectionTrials<'_> {
    fn run(&mut self, course: &Course, waited_s: &mut f64) -> anyhow::Result<Counted> {
        self.tester.start(&course.load)?;
        let last_s = REPORT_S.min(course.opening_s / 2.0);
        self.wait(course.opening_s - last_s, waited_s)?;
        let due = self.tester.statistics()?;
        self.wait(last_s, waited_s)?;
        let open = match course.held_s {
            None => {
                let open = self.tester.statistics()?;
                self.wait(GRACE.as_secs_f64(), waited_s)?;
                open
            }
            Some(held_s) => {
                self.wait(held_s / 2.0, waited_s)?;
                let open = self.tester.statistics()?;
                self.wait(held_s / 2.0 + SLACK_S + course.opening_s, waited_s)?;
                self.wait_for_ends(waited_s)?;
                open
            }
        };
        self.tester.stop()?;
        Ok(Counted { due, open, end: self.tester.statistics()? })
    }

    /// Waits until both ends of all connections have closed, but not for long.
    fn wait_for_ends(&mut self, waited_s: &mut f64) -> anyhow::Result<()> {
        let until = *waited_s + CLOSING_S;
        while *waited_s < until {
            let TesterStatistics { client, server, .. } = self.tester.statistics()?;
            let ended = client.completed.min(server.completed) + client.failed.total();
            if ended >= client.attempted {
                break;
            }
            self.wait(TURN.as_secs_f64(), waited_s)?;
        }
        Ok(())
    }

    fn wait(&mut self, seconds: f64, waited_s: &mut f64) -> anyhow::Result<()> {
        self.tester.wait(Duration::from_secs_f64(seconds), self.interrupted)?;
        *waited_s += seconds;
        if self.interrupted.load(Ordering::Relaxed) {
            self.tester.stop()?;
            bail!("interrupted");
        }
        Ok(())
    }
}

/// What was done while connections were open.
pub(in super::super) struct Held<T> {
    pub(in super::super) result: T,
    /// Connections that were open at both ends before.
    pub(in super::super) open: u64,
}

impl ConnectionTrials<'_> {
    /// Opens connections, does `work` while they are open, and cuts them off.
    pub(in super::super) fn while_held<T>(
        &mut self,
        connections: u32,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<Held<T>> {
        let course = Course::new(self.kind, self.profile, connections.into(), HELD_FOR_WORK_S);
        let mut waited_s = 0.0;
        self.tester.start(&course.load)?;
        self.wait(course.opening_s + GRACE.as_secs_f64(), &mut waited_s)?;
        let TesterStatistics { client, server, .. } = self.tester.statistics()?;
        let result = work();
        self.tester.stop()?;
        Ok(Held { result: result?, open: client.active.min(server.active) })
    }
}

/// Runs a command of the user, whose output must not be taken for that of the search.
pub(in super::super) fn run_command(command: &str, option: &str) -> anyhow::Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
    let status = shell.status().with_context(|| format!("{option}: cannot run sh"))?;
    if !status.success() {
        bail!("{option} {command:?} failed: {status}");
    }
    Ok(())
}

/// Converts the counters of a tester to those of a trial.
fn measurement(course: &Course, counted: &Counted, seconds: f64) -> Measurement {
    let Counted { due, open, end } = counted;
    let intended = u64::from(course.connections);
    let expected = (course.load.cps * (due.elapsed_s - START_S)).min(intended as f64);
    let share = due.client.attempted as f64 / expected.max(1.0);
    // At low rates a connection more or less says nothing.
    let is_in_time = due.client.attempted as f64 >= expected * OPENED_MIN - 1.0;
    let is_held_up = !end.link_limits.is_empty() || !due.link_limits.is_empty();
    let in_time = if is_in_time { f64::INFINITY } else { intended as f64 * share };
    let opened_in_time = (in_time as u64).min(end.client.attempted);
    // What the device does not take counts as offered, and as lost.
    let offered = if is_held_up { intended } else { opened_in_time };
    let forwarded = match course.held_s {
        Some(_) => end.client.completed.min(end.server.completed),
        None => end.client.attempted.saturating_sub(end.unsuccessful()),
    };
    let (sent, received) = (end.sent().packets, end.received().packets);
    let packet_loss_ratio = match sent {
        0 => 0.0,
        _ => sent.saturating_sub(received) as f64 / sent as f64,
    };
    let is_rate = course.held_s.is_none() && seconds > 0.0;
    let each_second = |count: u64| is_rate.then(|| count as f64 / seconds);
    let failed = end.client.failed;
    let figures = ConnectionFigures {
        established: end.client.established,
        completed: end.client.completed,
        failed: FailedConnections {
            no_answer: failed.no_answer,
            reset: failed.reset,
            timeout: failed.timeout,
            checksum: failed.checksum,
            wrong_data: failed.wrong_data,
            unreachable: failed.unreachable,
        },
        open: open.client.active.min(open.server.active),
        connections_per_second: each_second(end.client.established),
        transactions_per_second: each_second(end.client.responses),
        throughput_bps: each_second(8 * end.received().bytes),
        packet_loss_ratio,
        setup: end.setup.map(percentiles),
        first_byte: end.first_byte.map(percentiles),
        last_byte: end.response.map(percentiles),
    };
    Measurement {
        // Connections that were opened too late do not count, whatever became of them.
        counts: Counts {
            intended,
            offered,
            forwarded: forwarded.saturating_sub(end.client.attempted - opened_in_time),
            ..Counts::default()
        },
        limits: end.limits.clone(),
        longest_gap_ns: end.longest_gap_ns,
        // A packet that is sent again costs a rate, but no place in a table.
        packet_loss_ratio: if course.counts_packets { packet_loss_ratio } else { 0.0 },
        connections: Some(figures),
        ..Measurement::default()
    }
}

fn percentiles(of: tester::LatencyPercentiles) -> LatencyPercentiles {
    let tester::LatencyPercentiles { p50_us, p99_us, p999_us, max_us } = of;
    LatencyPercentiles { p50_us, p99_us, p999_us, max_us }
}

#[cfg(test)]
mod tests;
