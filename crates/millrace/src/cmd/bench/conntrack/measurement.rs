// SPDX-License-Identifier: BSD-3-Clause
//! Measures a row: finds the highest rate that a device sustains, and takes its figures there.

use super::super::cps::{self, Range};
use super::device::{Bench, Configuration, linger_s};
use super::{RateArgs, profile};
use crate::cpu_locks;
use crate::tester::{Load, Tester, TesterStatistics};
use report::output::write_line;
use results::conntrack::{ConntrackResults, Figures, Lifetime, Row, SetUp};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Measures rows one after the other.
pub(super) struct Runner<'a> {
    pub(super) rates: &'a RateArgs,
    pub(super) interrupted: &'a AtomicBool,
}

impl Runner<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Measures a configuration, unless this host lacks cpus, and adds its row to the results.
    pub(super) fn measure_row(
        &self,
        configuration: &Configuration,
        profile: Lifetime,
        results: &mut ConntrackResults,
    ) {
        let mut row = Row::new(configuration.point(profile));
        let cpus = cpu_locks::cpus_of_this_host().by_preference();
        row.lacks = configuration.lacks(cpus.len());
        if row.lacks.is_none() {
            let name = row.name();
            write_line(io::stderr(), format_args!("millrace: {name}"));
            match self.measure(configuration, &cpus, (&mut row, results)) {
                // What failed after the signal says nothing about the device.
                _ if self.is_interrupted() => row.notes.push("interrupted".to_owned()),
                Ok(()) => {}
                Err(error) => {
                    let text = format!("{error:#}");
                    write_line(io::stderr(), format_args!("millrace: {name}: {text}"));
                    row.notes.push(text);
                }
            }
        }
        results.rows.push(row);
    }

    fn measure(
        &self,
        configuration: &Configuration,
        cpus: &[u32],
        (row, results): (&mut Row, &mut ConntrackResults),
    ) -> anyhow::Result<()> {
        let mut bench = Bench::start(configuration, cpus, self.interrupted)?;
        let mut tester = bench.tester()?;
        // Both profiles have the same set-ups.
        let is_new = |it: &SetUp| results.set_ups.iter().all(|other| other.name != it.name);
        let set_up = bench.set_up(&row.point).filter(is_new);
        results.set_ups.extend(set_up);
        for _ in 0..self.rates.repeat {
            let cps = self.find(row, &mut tester)?;
            let load = Load { cps, ..profile::load(row.point.profile) };
            let figures = self.measure_rate(&load, row, (&mut tester, &mut bench))?;
            if configuration.is_counted() {
                note(row, figures.count_difference(linger_s(load.udp_percent)));
            }
            row.add(figures);
        }
        Ok(())
    }

    /// Returns the highest rate that the device sustains, or the one that the user has named.
    fn find(&self, row: &mut Row, tester: &mut dyn Tester) -> anyhow::Result<f64> {
        if let Some(cps) = self.rates.cps {
            row.is_at_least = true;
            return Ok(cps);
        }
        let [min_cps, max_cps] = self.rates.range(row.point.profile);
        let RateArgs { seconds, error_threshold, max_iterations, .. } = *self.rates;
        let range =
            Range { min_cps, max_cps, seconds, threshold_percent: error_threshold, max_iterations };
        let found = cps::find(&profile::load(row.point.profile), range, tester, self.interrupted)?;
        row.is_at_least |= found.unlimited.is_some();
        note(row, found.unlimited);
        found.rate.map_err(anyhow::Error::msg)
    }

    /// Measures a rate, once the load has settled.
    fn measure_rate(
        &self,
        load: &Load,
        row: &mut Row,
        (tester, bench): (&mut dyn Tester, &mut Bench),
    ) -> anyhow::Result<Figures> {
        tester.start(load)?;
        let has_settled = cps::settle(tester, load, cps::Rule::Connections, self.interrupted)?;
        note(row, (!has_settled).then(|| "the packet rate did not settle".to_owned()));
        tester.clear()?;
        let active_before = tester.statistics()?.client.active;
        tester.wait(Duration::from_secs(self.rates.seconds.into()), self.interrupted)?;
        // Both counts are of the same moment, as far as possible.
        let device_flows = bench.count()?;
        let active_flows = tester.statistics()?.client.active;
        tester.stop()?;
        let mut statistics: TesterStatistics = tester.statistics()?;
        statistics.client.active = active_flows;
        anyhow::ensure!(!self.is_interrupted(), "interrupted");
        let threshold = self.rates.error_threshold;
        let faults = cps::faults(&statistics, active_before, load.cps, threshold);
        let rates = statistics.rates();
        Ok(Figures {
            cps: rates.opened_cps,
            active_flows: Some(active_flows),
            device_flows,
            bps: rates.received_bps,
            pps: rates.received_pps,
            faults,
        })
    }
}

/// Adds a note that the row does not have yet.
fn note(row: &mut Row, text: Option<String>) {
    row.notes.extend(text.filter(|text| !row.notes.contains(text)));
}
