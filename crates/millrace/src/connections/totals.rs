// SPDX-License-Identifier: BSD-3-Clause
//! Adds up what the tasks of a session report, in total and by interval.

use generator::{ConnectionsReport, Inbox, TakenFrames};
use stateful::{Counters, Latencies, Role};
use std::collections::BTreeMap;

/// Counts of clients or of servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndTotals {
    pub(crate) counters: Counters,
    pub(crate) latencies: Latencies,
    /// Frames that the port took.
    pub(crate) taken: TakenFrames,
    /// Connections that were due and not opened yet, at the end.
    pub(crate) overdue: u64,
    /// Longest time between two turns of a task, in nanoseconds.
    pub(crate) longest_gap_ns: u64,
}

/// Share of connections that may be due and not opened yet.
const OVERDUE_MAX: f64 = 0.001;
/// Seconds of the rate that may be due in addition: another program may have the cpu that long.
const OVERDUE_S: f64 = 0.01;

/// Returns how many connections may be due and not opened before the generator counts as too slow,
/// by those attempted and the rate. One is due in the last moment of any run.
pub(crate) fn overdue_max(attempted: u64, cps: f64) -> f64 {
    attempted as f64 * OVERDUE_MAX + cps * OVERDUE_S + 1.0
}

impl EndTotals {
    fn add(&mut self, report: &ConnectionsReport) {
        self.counters.add(&report.counters);
        self.latencies.add(&report.latencies);
        self.taken.packets += report.taken.packets;
        self.taken.bytes += report.taken.bytes;
        self.longest_gap_ns = self.longest_gap_ns.max(report.longest_gap_ns);
    }
}

/// Counts of both ends; `None` for an end that is not in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) client: Option<EndTotals>,
    pub(crate) server: Option<EndTotals>,
}

impl Totals {
    /// Returns the counts of an end, which are made if there are none.
    fn end(&mut self, role: Role) -> &mut EndTotals {
        let end = match role {
            Role::Client => &mut self.client,
            Role::Server => &mut self.server,
        };
        end.get_or_insert_default()
    }
}

/// Reports of a task.
struct Reporter {
    role: Role,
    inbox: Inbox<ConnectionsReport>,
    /// Connections that were due in the latest report.
    overdue: u64,
    /// Time of the latest report, in nanoseconds of the run.
    end_ns: u64,
}

/// The counts of a session.
#[derive(Default)]
pub(super) struct Ledger {
    reporters: Vec<Reporter>,
    pub(super) totals: Totals,
    intervals: BTreeMap<u64, Totals>,
}

impl Ledger {
    /// Adds a task.
    pub(super) fn add(&mut self, role: Role, inbox: Inbox<ConnectionsReport>) {
        self.totals.end(role);
        self.reporters.push(Reporter { role, inbox, overdue: 0, end_ns: 0 });
    }

    /// Takes the reports that have arrived.
    pub(super) fn poll(&mut self) {
        let Self { reporters, totals, intervals } = self;
        for Reporter { role, inbox, overdue, end_ns } in reporters.iter_mut() {
            inbox.take_all(|report| {
                totals.end(*role).add(report);
                intervals.entry(report.interval).or_default().end(*role).add(report);
                (*overdue, *end_ns) = (report.overdue, report.end_ns);
            });
        }
        // Servers have none.
        if let Some(client) = &mut totals.client {
            client.overdue = reporters.iter().map(|it| it.overdue).sum();
        }
    }

    /// Returns the time up to which all tasks have reported, in nanoseconds of the run.
    pub(super) fn reported_until(&self) -> u64 {
        self.reporters.iter().map(|it| it.end_ns).min().unwrap_or(0)
    }

    /// Forgets the latencies and the longest gaps.
    pub(super) fn clear_latencies(&mut self) {
        for end in [&mut self.totals.client, &mut self.totals.server].into_iter().flatten() {
            end.latencies.clear();
            end.longest_gap_ns = 0;
        }
        self.intervals.clear();
    }

    /// Takes the oldest interval below `number`, with its number.
    pub(super) fn take_interval(&mut self, number: u64) -> Option<(u64, Totals)> {
        let first = self.intervals.first_entry().filter(|entry| *entry.key() < number)?;
        Some(first.remove_entry())
    }
}
