// SPDX-License-Identifier: BSD-3-Clause
//! `millrace stats`: prints the counters of a running instance.

use super::run::seconds;
use crate::signals;
use anyhow::Context;
use control::{Instance, InstanceArgs, Line, QueryError, Request, RequestKind};
use results::{table, units};
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Show the counters of a running instance: its summary, as if the run ended now
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Print again every S seconds, until Ctrl-C or the end of the run; cpu and rates are then
    /// since the previous output. On a terminal each output replaces the one before
    #[arg(long, value_name = "S", value_parser = seconds)]
    watch: Option<Duration>,
    /// Print JSON, one line per output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  millrace stats
      Counters since the start of the run, average rates and cpu.
  millrace stats --watch 1 --json
      The summary of each second, for other programs.

Exit status: 0 good; 1 no instance answers; 2 wrong use.";

/// Moves the cursor of a terminal to the top and clears the screen (ECMA-48 CUP and ED), so that
/// each output takes the place of the one before.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Time between two checks for Ctrl-C.
const NAP: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &StatsArgs) -> anyhow::Result<ExitCode> {
    let mut instance = args.instance.find()?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let mut last = None;
    loop {
        let requested_at = Instant::now();
        let (summary, report) = match request_stats(&mut instance) {
            Ok(stats) => stats,
            // The run has ended since the previous output.
            Err(error) if last.is_some() && is_end(&error) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(error),
        };
        let mut out = io::stdout().lock();
        if args.json {
            writeln!(out, "{summary}")?;
        } else {
            if args.watch.is_some() && out.is_terminal() {
                write!(out, "{CLEAR}")?;
            }
            print(&mut out, &summary, last.as_ref())?;
            writeln!(out, "{}", units::as_printed_here(report))?;
        }
        out.flush()?;
        last = Some(summary);
        let Some(watch) = args.watch else { return Ok(ExitCode::SUCCESS) };
        while requested_at.elapsed() < watch {
            if interrupted.load(Ordering::Relaxed) {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(NAP.min(watch));
        }
    }
}

fn is_end(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(QueryError::is_end)
}

fn request_stats(instance: &mut Instance) -> anyhow::Result<(Value, String)> {
    let answer = instance.query(&Request::new(RequestKind::Stats))?;
    match answer.lines.into_iter().next() {
        Some(Line::Stats { summary, report }) => Ok((summary, report)),
        _ => anyhow::bail!("the instance sent no counters"),
    }
}

/// Prints what the report of a run does not have: time, cpu, rates and ports. Rates and cpu are
/// since `last`, or since the start of the run.
fn print(out: &mut impl Write, summary: &Value, last: Option<&Value>) -> io::Result<()> {
    let float = |value: &Value| value.as_f64().unwrap_or_default();
    let time = float(&summary["duration_s"]);
    let since = last.map_or(0.0, |last| float(&last["duration_s"]));
    let cpu = cpu_percent(summary, last);
    let (text, version) = (summary["version"].as_str().unwrap_or_default(), &summary["dpdk"]);
    let dpdk = version.as_str().unwrap_or_default();
    writeln!(out, "Millrace {text}, {dpdk}: running for {time:.1} s, cpu {cpu:.1} %")?;
    for (i, name) in ["up", "down"].into_iter().enumerate() {
        let [now, before] = [Some(summary), last].map(|summary| {
            let direction = summary.map_or(&Value::Null, |summary| &summary["directions"][i]);
            number(&direction["packets"])
        });
        let kpps = now.saturating_sub(before) as f64 / (time - since).max(1e-3) / 1e3;
        let now = units::thousands(now);
        writeln!(out, "{name}: {now} packets, {kpps:.1} kpps")?;
    }
    let ports = summary["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |port: &Value| {
        let name = port["name"].as_str().unwrap_or_default();
        let name = name.split(',').next().unwrap_or_default().to_owned();
        let counts = PORT[1..].iter().map(|column| units::thousands(number(&port[*column])));
        let mut cells: Vec<_> = std::iter::once(name).chain(counts).collect();
        std::array::from_fn(|i| std::mem::take(&mut cells[i]))
    };
    let rows: Vec<[String; PORT.len()]> = ports.iter().map(row).collect();
    table::print(out, PORT, &(1..PORT.len()), &rows)
}

/// Returns the busy cycles of the workers in percent of all their cycles, since `last`.
fn cpu_percent(summary: &Value, last: Option<&Value>) -> f64 {
    let sum = |summary: &Value, name: &str| -> u64 {
        let workers = summary["workers"].as_array().into_iter().flatten();
        workers.map(|worker| number(&worker[name])).sum()
    };
    let [busy, idle] = ["busy_cycles", "idle_cycles"].map(|name| {
        let before = last.map_or(0, |last| sum(last, name));
        sum(summary, name).saturating_sub(before)
    });
    busy as f64 * 100.0 / (busy + idle).max(1) as f64
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Columns of the table of ports: names of members in the summary.
const PORT: [&str; 7] =
    ["port", "rx_packets", "tx_packets", "imissed", "ierrors", "rx_nombuf", "oerrors"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_and_cpu_are_since_the_last_time() {
        let at = |duration_s: u64, packets: u64, busy: u64, idle: u64| {
            let workers = [json!({ "busy_cycles": busy, "idle_cycles": idle }), json!({})];
            let up = json!({ "packets": packets });
            json!({ "duration_s": duration_s, "workers": workers, "directions": [up] })
        };
        let (before, now) = (at(2, 1000, 100, 0), at(4, 5000, 200, 300));
        let first_lines = |last| {
            let mut out = Vec::new();
            print(&mut out, &now, last).unwrap();
            let text = String::from_utf8(out).unwrap();
            text.lines().take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        let [start, up] = first_lines(None).try_into().unwrap();
        assert!(start.ends_with("running for 4.0 s, cpu 40.0 %"), "{start}");
        assert_eq!(up, "up: 5_000 packets, 1.2 kpps");
        let [start, up] = first_lines(Some(&before)).try_into().unwrap();
        assert!(start.ends_with("running for 4.0 s, cpu 25.0 %"), "{start}");
        assert_eq!(up, "up: 5_000 packets, 2.0 kpps");
    }
}
