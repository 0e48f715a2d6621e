// SPDX-License-Identifier: BSD-3-Clause
//! Measures the speed of `millrace gen` and `millrace reflect`, beside testpmd on the same ports:
//! `cargo bench -p millrace --bench generator -- --help`.
//!
//! Each repetition measures all rows once, so that rows which are compared run close to each other
//! in time. A row's figure is the median.
#![forbid(unsafe_code)]

mod measure;
mod rows;

use clap::Parser;
use measure::Bench;
use rows::{Bar, Row};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Measure the speed of the generator and of the reflector
#[derive(Parser)]
#[command(name = "generator")]
struct Args {
    /// Number of repetitions
    #[arg(long, value_name = "N", default_value_t = 5)]
    reps: usize,
    /// Seconds that each row is measured in a repetition
    #[arg(long, value_name = "S", default_value_t = 3)]
    seconds: u32,
    /// Measure only rows whose name contains NAME; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the names of the rows and exit
    #[arg(long)]
    list: bool,
    /// Ignored: cargo bench passes it to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let wanted =
        |row: &Row| args.only.is_empty() || args.only.iter().any(|part| row.name.contains(part));
    let rows: Vec<Row> = rows::all().into_iter().filter(wanted).collect();
    if args.list {
        rows.iter().for_each(|row| println!("{}", row.name));
        return Ok(ExitCode::SUCCESS);
    }
    let bench = Bench::new(args.seconds)?;
    let mut found: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for repetition in 1..=args.reps {
        for row in &rows {
            eprintln!("repetition {repetition} of {}: {}", args.reps, row.name);
            match bench.measure(row)? {
                Some(figure) => found.entry(row.name).or_default().push(figure),
                None => eprintln!("  skipped: {}", row.needs()),
            }
        }
    }
    let medians: BTreeMap<&str, f64> =
        found.iter().map(|(name, figures)| (*name, median(figures))).collect();
    println!("{:44} {:>10} {:>10} {:>10}  must / goal", "row", "median", "min", "max");
    let mut is_good = true;
    for row in &rows {
        let Some(figures) = found.get(row.name) else { continue };
        let (min, max) = figures
            .iter()
            .fold((f64::MAX, f64::MIN), |(min, max), figure| (min.min(*figure), max.max(*figure)));
        let outcome = judge(row, &medians, &mut is_good);
        let median = medians[row.name];
        println!("{:44} {median:10.3} {min:10.3} {max:10.3}  {outcome}", row.name);
    }
    println!("\nFigures are Mpps unless the row's name has another unit.");
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the outcome for each threshold of a row. Sets `is_good` to false if the row misses a
/// required value.
fn judge(row: &Row, medians: &BTreeMap<&str, f64>, is_good: &mut bool) -> String {
    let figure = medians[row.name];
    let outcomes = row.bars.iter().map(|bar| {
        let (value, must, goal, is_upper) = match bar {
            Bar::Least { must, goal } => (figure, *must, *goal, false),
            Bar::Most { must, goal } => (figure, *must, *goal, true),
            Bar::Times { than, must, goal } => match medians.get(than) {
                Some(other) => (figure / other, *must, *goal, false),
                None => return format!("{than} is missing"),
            },
        };
        let holds = |bar: f64| if is_upper { value <= bar } else { value >= bar };
        *is_good &= holds(must);
        let word = match (holds(must), holds(goal)) {
            (_, true) => "goal",
            (true, _) => "must",
            _ => "MISSED",
        };
        let sign = if is_upper { "<=" } else { ">=" };
        match bar {
            Bar::Times { than, .. } => {
                format!("{word}: {value:.2} x {than}, {sign} {must} / {goal}")
            }
            _ => format!("{word}: {sign} {must} / {goal}"),
        }
    });
    outcomes.collect::<Vec<_>>().join("; ")
}

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}
