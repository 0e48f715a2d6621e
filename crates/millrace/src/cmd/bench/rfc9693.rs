// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench rfc9693`: measures the connection tracking of a device.

mod capacity;
mod tear_down;

use super::generator_options::{CONNECTION_OPTIONS, refuse_other_options};
use super::search::{
    CableOrPorts, ConnectionArgs, ConnectionSearch, Found, LoadKind, NamedGoal, OPENING_MAX_S,
    OpenTester, OutputArgs, Plan, conduct, count, opening_rate, ports, refuse_one_port,
    refuse_too_many, results_of_now, share,
};
use crate::signals;
use anyhow::Context;
use capacity::{CapacityTrials, SHARE_OF_RATE};
use clap::error::ErrorKind;
use results::search::{OneSearch, SearchResults};
use search::mlr::{Goal, Limits};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Seconds for which all connections of a trial are open together.
const HELD_S: f64 = 1.0;
/// Seconds after which the search for a rate ends.
const DURATION_MAX_S: f64 = 3600.0;

/// Names of what is measured, in tables and results.
const ESTABLISHMENT: &str = "establishment rate";
const CAPACITY: &str = "table capacity";
const TEAR_DOWN: &str = "tear-down rate";

/// Measure the connection tracking of a device (RFC 9693)
///
/// Finds the highest rate at which the device establishes connections, each of which is validated:
/// once all are open, both of its ends exchange a message and close it. Then finds how many
/// connections the device's table holds, and, with --delete-command, how fast it deletes them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Rfc9693Args {
    /// Ports A,B: clients are on A, servers on B
    #[arg(value_name = "PORTS", value_parser = ports, required_unless_present = "simulate")]
    ports: Option<String>,
    /// Smallest rate, in connections per second
    #[arg(long, value_name = "CPS", default_value = "1k", value_parser = opening_rate)]
    min_rate: f64,
    /// Largest rate, in connections per second
    #[arg(long, value_name = "CPS", default_value = "200k", value_parser = opening_rate)]
    max_rate: f64,
    /// Open N connections in each trial of a rate; the search for the capacity begins with them
    #[arg(long, value_name = "N", default_value = "10k", value_parser = count)]
    connections: u32,
    /// Search for a capacity of up to N connections
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    max_connections: u32,
    /// Largest distance of the bounds of an answer, divided by the upper one
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = width)]
    width: f64,
    /// Measure how fast the device deletes connections, with this command of sh that deletes all
    #[arg(long, value_name = "COMMAND")]
    delete_command: Option<String>,
    /// Measure the tester alone before: cable (in memory), none, or ports that are connected
    #[arg(long, value_name = "PORTS", default_value = "cable", value_parser = calibrate)]
    calibrate: String,
    #[command(flatten)]
    traffic: ConnectionArgs,
    #[command(flatten)]
    outputs: OutputArgs,
    /// Options of `millrace gen --daemon`, such as --gateway, after `--`
    #[arg(last = true, value_name = "GEN_OPTIONS")]
    generator_options: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  millrace bench rfc9693 18:00.0,18:00.1 --json device.json
      Rate and capacity of a device between two ports, with TCP.
  millrace bench rfc9693 eth1,eth2 -u 100 --reset-command \"ssh root@device conntrack -F\"
      With UDP, as the RFC does. The device's table is emptied before each trial.
  millrace bench rfc9693 eth1,eth2 --delete-command \"ssh root@device conntrack -F\"
      Also how many connections per second the device deletes, measured with 10,000.

Exit status: 0 every figure is the device's; 1 not, or a trial failed; 2 wrong use.";

fn calibrate(text: &str) -> Result<String, String> {
    match text {
        "cable" | "none" => Ok(text.to_owned()),
        _ => ports(text).map_err(|error| error.to_string()),
    }
}

fn width(text: &str) -> Result<f64, String> {
    share("--width", text, 1e-4)
}

pub(super) fn run(args: &Rfc9693Args) -> anyhow::Result<ExitCode> {
    args.refuse_contradictions().unwrap_or_else(|fault| {
        clap::Error::raw(ErrorKind::ArgumentConflict, format!("{fault}\n")).exit()
    });
    let outputs = args.outputs.open()?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let mut results = args.empty_results();
    let error = args.measure(&mut results, &interrupted).err();
    results.is_interrupted = interrupted.load(Ordering::Relaxed);
    outputs.finish(&results, error)
}

impl Rfc9693Args {
    /// Returns the ports; nothing if the device is simulated.
    fn ports(&self) -> &str {
        self.ports.as_deref().unwrap_or_default()
    }

    fn refuse_contradictions(&self) -> Result<(), String> {
        if self.min_rate >= self.max_rate {
            return Err("--min-rate must be below --max-rate".to_owned());
        }
        if self.connections > self.max_connections {
            return Err("--connections must not be above --max-connections".to_owned());
        }
        refuse_one_port(self.ports())?;
        refuse_too_many(f64::from(self.connections), self.min_rate, "--connections")?;
        refuse_other_options(&self.generator_options, CONNECTION_OPTIONS)
    }

    /// Returns what is measured, in the form of goals. Each trial decides.
    fn goals(&self) -> Vec<NamedGoal> {
        let goal = Goal {
            name: "rfc9693",
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            relative_width: self.width,
            initial_trial: HELD_S,
            final_trial: HELD_S,
            duration_sum: HELD_S,
        };
        let names =
            [Some(ESTABLISHMENT), Some(CAPACITY), self.delete_command.as_ref().map(|_| TEAR_DOWN)];
        let named = |name: &str| NamedGoal { name: name.to_owned(), goal };
        names.into_iter().flatten().map(named).collect()
    }

    fn empty_results(&self) -> SearchResults {
        SearchResults {
            ports: self.ports().to_owned(),
            streams: vec![format!(
                "{} connections={} max-connections={}",
                self.traffic.describe(),
                self.connections,
                self.max_connections
            )],
            generator_options: self.generator_options.clone(),
            unit: "cps".to_owned(),
            min_load: self.min_rate,
            max_load: self.max_rate,
            duration_max_s: DURATION_MAX_S,
            goals: self.goals().iter().map(NamedGoal::shown).collect(),
            ..results_of_now()
        }
    }

    /// Measures one after the other. After an error, `results` have what was found before.
    fn measure(&self, results: &mut SearchResults, interrupted: &AtomicBool) -> anyhow::Result<()> {
        let search =
            ConnectionSearch { args: &self.traffic, options: &self.generator_options, interrupted };
        let goals = self.goals();
        let plan = Plan {
            goals: &goals[..1],
            limits: Limits {
                min_load: self.min_rate,
                max_load: self.max_rate,
                duration_max: DURATION_MAX_S,
            },
            unit: "cps",
            latency_max: None,
            warm_up_s: 0.0,
        };
        let kind = LoadKind::HeldRate { connections: self.connections };
        let progress = |line: &str| self.outputs.report(line);
        let cable = match self.calibrate.as_str() {
            "none" => None,
            "cable" => Some(CableOrPorts::Cable),
            ports => Some(CableOrPorts::Ports(ports)),
        };
        let calibrate = |ports| search.calibrate((plan, kind), ports, &progress);
        let calibration = cable.map(calibrate).transpose()?;
        let mut tester = search.open(self.ports())?;
        if tester.is_simulated() {
            progress("the device is simulated: these are no measurements");
        }
        progress(&format!("searching for the {ESTABLISHMENT}"));
        let mut trials = search.trials(&mut tester, kind);
        let Found { search: found, error } = conduct(plan, &mut trials, calibration, &progress);
        let rate = found.answers.first().and_then(|answer| answer.lower);
        results.searches.push(OneSearch { unit: Some("cps".to_owned()), ..found });
        error.map_or(Ok(()), Err)?;
        let Some(rate) = rate else {
            progress(
                "no rate was found, so capacity and tear-down are not measured; lower --min-rate \
                 or --connections",
            );
            return Ok(());
        };
        self.measure_table(&search, &mut tester, (rate, &progress), results)
    }

    /// Measures the capacity of the table, and how fast it is emptied.
    fn measure_table(
        &self,
        search: &ConnectionSearch<'_>,
        tester: &mut OpenTester,
        (rate, progress): (f64, &dyn Fn(&str)),
        results: &mut SearchResults,
    ) -> anyhow::Result<()> {
        let cps = rate * SHARE_OF_RATE;
        let openable = (cps * OPENING_MAX_S) as u32;
        progress(&format!("searching for the {CAPACITY}"));
        let mut trials = CapacityTrials {
            trials: search.trials(tester, LoadKind::Held { cps }),
            connections: [self.connections, self.max_connections].map(|it| it.min(openable)),
            is_clamped: openable < self.max_connections,
            width: self.width,
            progress,
        };
        let Found { search: found, error } = trials.search();
        results.searches.push(found);
        error.map_or(Ok(()), Err)?;
        let Some(command) = &self.delete_command else { return Ok(()) };
        progress(&format!("measuring the {TEAR_DOWN}"));
        let mut trials = search.trials(tester, LoadKind::Held { cps });
        let connections = self.connections.min(openable);
        results.searches.push(tear_down::measure(&mut trials, command, connections)?);
        Ok(())
    }
}
