// SPDX-License-Identifier: BSD-3-Clause
//! Formats the line of rates that a run prints every interval, a second by default.

use crate::live::counters::published::Snapshot;
use crate::live::rates::{percent, wire_mbps};
use crate::live::runtime::Runtime;
use results::units;
use std::time::{Duration, Instant};

/// Computes the rates since the previous line.
pub(crate) struct RateLine {
    /// Time between two lines.
    interval: Duration,
    at: Instant,
    /// Sums over all workers at the time of the previous line.
    last: Snapshot,
}

impl RateLine {
    /// Begins the first interval now.
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, at: Instant::now(), last: Snapshot::default() }
    }

    /// Returns the column headings of [`line`](Self::line).
    pub(crate) fn heading(live: &Runtime) -> String {
        let row = |[time, up, up_mbps, down, down_mbps, drops, cpu, flows]: [&str; 8]| {
            format!(
                "{time:>6}  {up:>9} {up_mbps:>9}  {down:>9} {down_mbps:>9}  {drops:>8}  {cpu:>5}  \
                 {flows:>9}"
            )
        };
        let mut names = row(["time", "up", "", "down", "", "drops", "cpu", "flows"]);
        let mut units = row(["s", "kpps", "Mb/s", "kpps", "Mb/s", "", "%", "active"]);
        if live.rules().is_some() {
            names += &format!("  {:>6}  {:>9}", "marked", "rules");
            units += &format!("  {:>6}  {:>9}", "%", "now");
        }
        names += &format!("  {:>6}  {:>6}", "stolen", "wait");
        units += &format!("  {:>6}  {:>6}", "%", "us");
        format!("{names}\n{units}")
    }

    /// Returns the next line if an interval has passed.
    pub(crate) fn line(&mut self, live: &Runtime) -> Option<String> {
        let elapsed = self.at.elapsed();
        if elapsed < self.interval {
            return None;
        }
        let now: Snapshot = live.snapshots().into_iter().sum();
        let last = std::mem::replace(&mut self.last, now);
        self.at += elapsed;
        let seconds = elapsed.as_secs_f64();
        let [up, down] = [0, 1].map(|direction| {
            let packets = now.sent[direction].0 - last.sent[direction].0;
            let bytes = now.sent[direction].1 - last.sent[direction].1;
            (packets as f64 / seconds / 1e3, wire_mbps(packets, bytes, seconds))
        });
        let busy = now.busy_cycles - last.busy_cycles;
        let idle = now.idle_cycles - last.idle_cycles;
        let line = format!(
            "{:>6.*}  {:>9.1} {:>9.1}  {:>9.1} {:>9.1}  {:>8}  {:>5.1}  {:>9}",
            if self.interval.subsec_nanos() == 0 { 0 } else { 2 },
            live.elapsed().as_secs_f64(),
            up.0,
            up.1,
            down.0,
            down.1,
            units::thousands(now.dropped - last.dropped),
            percent(busy, busy + idle),
            units::thousands(now.active),
        );
        let marked = live.rules().map(|rules| {
            let marked = percent(now.marked - last.marked, now.received - last.received);
            format!("  {marked:>6.1}  {:>9}", units::thousands(rules))
        });
        let stalled = now.stalled_cycles - last.stalled_cycles;
        let stolen = percent(stalled, busy + idle + stalled);
        let wait = live.take_longest_gap().as_micros() as u64;
        let (marked, wait) = (marked.unwrap_or_default(), units::thousands(wait));
        Some(format!("{line}{marked}  {stolen:>6.1}  {wait:>6}"))
    }
}
