// SPDX-License-Identifier: BSD-3-Clause
//! How fast `millrace gen` and `millrace reflect` are, beside testpmd on the same ports:
//! `cargo bench -p millrace --bench generator -- --help`.
//!
//! Every row is measured once in each repetition, so that rows which are compared run close to each
//! other in time; a row's figure is the median. `bench/README.md` says what the rows mean.
#![forbid(unsafe_code)]

mod measure;
mod rows;

use clap::Parser;
use measure::Bench;
use rows::{Bar, Row};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Speed of the generator and of the reflector.
#[derive(Parser)]
#[command(name = "generator")]
struct Args {
    /// How often every row is measured
    #[arg(long, value_name = "N", default_value_t = 5)]
    reps: usize,
    /// Seconds of one measurement
    #[arg(long, value_name = "S", default_value_t = 3)]
    seconds: u32,
    /// Only the rows with NAME in their name; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the names of the rows and end
    #[arg(long)]
    list: bool,
    /// What cargo bench passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let wanted =
        |row: &Row| args.only.is_empty() || args.only.iter().any(|it| row.name.contains(it));
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
    println!("{:44} {:>10} {:>10} {:>10}  bar", "row", "median", "least", "most");
    let mut is_good = true;
    for row in &rows {
        let Some(figures) = found.get(row.name) else { continue };
        let (least, most) = figures.iter().fold((f64::MAX, f64::MIN), |(least, most), figure| {
            (least.min(*figure), most.max(*figure))
        });
        let verdict = judge(row, &medians, &mut is_good);
        let median = medians[row.name];
        println!("{:44} {median:10.3} {least:10.3} {most:10.3}  {verdict}", row.name);
    }
    println!("\nMpps, except where the row's name says otherwise");
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says whether a row keeps its bars, and notes if it does not.
fn judge(row: &Row, medians: &BTreeMap<&str, f64>, is_good: &mut bool) -> String {
    let figure = medians[row.name];
    let verdicts = row.bars.iter().map(|bar| {
        let (value, must, goal, is_most) = match bar {
            Bar::Least { must, goal } => (figure, *must, *goal, false),
            Bar::Most { must, goal } => (figure, *must, *goal, true),
            Bar::Times { than, must, goal } => match medians.get(than) {
                Some(other) => (figure / other, *must, *goal, false),
                None => return format!("{than} is missing"),
            },
        };
        let is_kept = |bar: f64| if is_most { value <= bar } else { value >= bar };
        *is_good &= is_kept(must);
        let word = match (is_kept(must), is_kept(goal)) {
            (_, true) => "goal",
            (true, _) => "kept",
            _ => "MISSED",
        };
        let sign = if is_most { "<=" } else { ">=" };
        match bar {
            Bar::Times { than, .. } => {
                format!("{word}: {value:.2} x {than}, {sign} {must} / {goal}")
            }
            _ => format!("{word}: {sign} {must} / {goal}"),
        }
    });
    verdicts.collect::<Vec<_>>().join("; ")
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
