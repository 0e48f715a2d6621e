// SPDX-License-Identifier: BSD-3-Clause
//! Defines the table of the benchmark and its JSON (docs/bench-conntrack.md). Members may be added,
//! none is renamed.

use super::device::{Configuration, Dut, LONG_TIMEOUT_S, SHORT_TIMEOUT_S};
use super::profile::Profile;
use crate::tester::{Load, TesterStatistics};
use results::{table, units};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use std::io::{self, Write};

/// Version of the JSON.
const VERSION: u32 = 1;
/// Share by which the device's count of connections may differ from the generator's, besides those
/// that have ended and wait for their timeout.
const COUNT_TOLERANCE: f64 = 0.01;

/// All rows, and how they were measured.
#[derive(Serialize)]
pub(super) struct Results {
    version: u32,
    command: &'static str,
    seconds: u32,
    error_threshold: f64,
    pub(super) rows: Vec<Row>,
}

/// A configuration with a profile.
pub(super) struct Row {
    pub(super) profile: Profile,
    pub(super) configuration: Configuration,
    /// What this host lacks to run it.
    pub(super) lacks: Option<String>,
    /// `None` if nothing was measured.
    pub(super) figures: Option<Figures>,
    /// True if the device may bear more: the generator, the search or an option was the limit.
    pub(super) is_at_least: bool,
    /// What the reader must know about the figures.
    pub(super) notes: Vec<String>,
    /// Difference of the rate from that of the first device, in percent.
    difference_percent: Option<f64>,
}

/// What was measured at a rate.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// Connections opened each second.
    pub(super) cps: f64,
    /// Open connections of the generator.
    active_flows: Option<u64>,
    /// Connections in the device's table.
    device_flows: Option<u64>,
    /// Bits of frames with FCS that both ports received each second.
    bps: f64,
    /// Packets that both ports received each second.
    pps: f64,
    /// Why the load was not good; empty if it was.
    faults: Vec<String>,
}

impl Figures {
    /// Takes the counters of a load that has stopped, and the connections that were open while it
    /// ran: those of the generator and those of the device.
    pub(super) fn new(
        of: &TesterStatistics,
        [active_flows, device_flows]: [Option<u64>; 2],
        faults: Vec<String>,
    ) -> Self {
        let rates = of.rates();
        Self {
            cps: rates.opened_cps,
            active_flows,
            device_flows,
            bps: rates.received_bps,
            pps: rates.received_pps,
            faults,
        }
    }

    /// Returns a note if the device's count differs from the generator's by more than connections
    /// that have ended and wait for their timeout.
    pub(super) fn count_difference(&self, load: &Load, of: Configuration) -> Option<String> {
        let [active, counted] = [self.active_flows?, self.device_flows?].map(|it| it as f64);
        if !of.has_tracking {
            return None;
        }
        let udp = load.udp_percent / 100.0;
        let linger_s = (1.0 - udp) * f64::from(SHORT_TIMEOUT_S) + udp * f64::from(LONG_TIMEOUT_S);
        let lingering = linger_s * self.cps;
        let least = active * (1.0 - COUNT_TOLERANCE);
        let most = (active + lingering) * (1.0 + COUNT_TOLERANCE);
        (!(least..=most).contains(&counted)).then(|| {
            format!(
                "the device counts {counted:.0} connections, and should have from {least:.0} to \
                 {most:.0}"
            )
        })
    }
}

impl Row {
    pub(super) fn new(profile: Profile, configuration: Configuration) -> Self {
        Self {
            profile,
            configuration,
            lacks: None,
            figures: None,
            is_at_least: false,
            notes: Vec::new(),
            difference_percent: None,
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.profile.name(), self.configuration.name())
    }

    /// True if the row has a good figure, or this host cannot run it.
    pub(super) fn is_done(&self) -> bool {
        self.lacks.is_some() || self.cps().is_some()
    }

    /// Returns the rate; `None` if the device did not bear it.
    fn cps(&self) -> Option<f64> {
        self.figures.as_ref().filter(|figures| figures.faults.is_empty()).map(|it| it.cps)
    }

    fn notes(&self) -> Vec<&str> {
        let faults = self.figures.iter().flat_map(|figures| &figures.faults);
        self.lacks.iter().chain(faults).chain(&self.notes).map(String::as_str).collect()
    }

    fn cells(&self) -> [String; 9] {
        let shown = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
        let figures = self.figures.as_ref();
        let count = |count: fn(&Figures) -> Option<u64>| {
            shown(figures.and_then(count).map(units::thousands))
        };
        let cps = self.cps().map(|cps| units::thousands(cps.round() as u64));
        let at_least = if self.is_at_least { ">= " } else { "" };
        [
            self.profile.name().to_owned(),
            self.configuration.name(),
            shown(cps.map(|cps| format!("{at_least}{cps}"))),
            count(|figures| figures.active_flows),
            count(|figures| figures.device_flows),
            shown(figures.map(|it| format!("{:.1}", it.bps / 1e6))),
            shown(figures.map(|it| format!("{:.1}", it.pps / 1e3))),
            shown(self.difference_percent.map(|percent| format!("{percent:+.1}"))),
            self.notes().join("; "),
        ]
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", 10)?;
        let Configuration { dut, has_tracking, cpus } = self.configuration;
        let is_device = dut != Dut::Cable;
        row.serialize_field("profile", &self.profile)?;
        row.serialize_field("device", if is_device { "millrace" } else { "cable" })?;
        row.serialize_field("tracking", &is_device.then_some(has_tracking))?;
        row.serialize_field("cpus", &is_device.then_some(cpus))?;
        row.serialize_field("lacks", &self.lacks)?;
        row.serialize_field("cps", &self.cps())?;
        row.serialize_field("is_at_least", &self.is_at_least)?;
        row.serialize_field("difference_percent", &self.difference_percent)?;
        row.serialize_field("figures", &self.figures)?;
        row.serialize_field("notes", &self.notes)?;
        row.end()
    }
}

impl Results {
    pub(super) fn new(seconds: u32, error_threshold: f64) -> Self {
        let command = "bench conntrack";
        Self { version: VERSION, command, seconds, error_threshold, rows: Vec::new() }
    }

    /// Computes the differences from the first device with a figure, in each profile. A rate that
    /// is only a lower bound has none.
    pub(super) fn compare(&mut self) {
        for profile in Profile::ALL {
            let mut first = None;
            let rows = self.rows.iter_mut().filter(|row| row.profile == profile);
            for row in rows.filter(|row| row.configuration.dut != Dut::Cable && !row.is_at_least) {
                let Some(cps) = row.cps() else { continue };
                match first {
                    None => first = Some(cps),
                    Some(first) => row.difference_percent = Some(100.0 * (cps / first - 1.0)),
                }
            }
        }
    }

    /// Prints how the devices were set up, and the table.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let mut printed: Vec<String> = Vec::new();
        for row in self.rows.iter().filter(|row| row.figures.is_some()) {
            let name = row.configuration.name();
            if printed.contains(&name) {
                continue;
            }
            let Some(settings) = row.configuration.settings() else { continue };
            writeln!(out, "{name}: millrace run with\n")?;
            settings.lines().try_for_each(|line| match line {
                "" => writeln!(out),
                line => writeln!(out, "    {line}"),
            })?;
            writeln!(out)?;
            printed.push(name);
        }
        let headings = [
            "connections",
            "device",
            "per second",
            "active",
            "in its table",
            "Mbit/s",
            "kpackets/s",
            "difference %",
            "notes",
        ];
        let rows: Vec<_> = self.rows.iter().map(Row::cells).collect();
        table::print(out, headings, &(2..8), &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(dut: Dut, has_tracking: bool, cps: Option<f64>) -> Row {
        let configuration = Configuration { dut, has_tracking, cpus: 1 };
        let figures = cps.map(|cps| Figures { cps, ..Figures::default() });
        Row { figures, ..Row::new(Profile::Short, configuration) }
    }

    #[test]
    fn differences_are_from_the_first_device_and_not_of_bounds() {
        let mut results = Results::new(1, 0.0);
        results.rows = vec![
            row(Dut::Cable, false, Some(900.0)),
            row(Dut::Millrace, true, None),
            row(Dut::Millrace, true, Some(200.0)),
            row(Dut::Millrace, false, Some(300.0)),
            Row { is_at_least: true, ..row(Dut::Millrace, false, Some(400.0)) },
        ];
        results.compare();
        let differences = results.rows.iter().map(|row| row.difference_percent);
        assert_eq!(differences.collect::<Vec<_>>(), [None, None, None, Some(50.0), None]);
    }

    #[test]
    fn a_rate_that_was_not_borne_is_no_figure() {
        let mut bad = row(Dut::Millrace, true, Some(200.0));
        bad.figures.as_mut().unwrap().faults.push("1 % of the packets were lost".to_owned());
        assert_eq!(bad.cells()[2], "-");
        assert_eq!(bad.cells()[8], "1 % of the packets were lost");
        assert!(!bad.is_done());
        let json = serde_json::to_value(&bad).unwrap();
        assert_eq!(json["cps"], serde_json::Value::Null);
    }

    #[test]
    fn counts_of_generator_and_device_may_differ_by_connections_that_linger() {
        let load = Profile::Short.load();
        let of = Configuration { dut: Dut::Millrace, has_tracking: true, cpus: 1 };
        let note = |counted| {
            let flows = [Some(100), Some(counted)];
            let [active_flows, device_flows] = flows;
            let figures = Figures { cps: 1000.0, active_flows, device_flows, ..Figures::default() };
            figures.count_difference(&load, of)
        };
        // 990 of TCP and 300 of UDP wait for their timeout, and 1 % of all is tolerated.
        assert_eq!([99, 100, 1390, 1403].map(note), [const { None }; 4]);
        assert!(note(98).unwrap().contains("should have from 99 to 1404"));
        assert!(note(1404).is_some());
    }
}
