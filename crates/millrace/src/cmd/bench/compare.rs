// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench compare`: compares the results of two searches.

use anyhow::Context;
use clap::error::ErrorKind;
use report::output::write_line;
use results::search::{SearchResults, compare};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare the results of two searches; for CI
///
/// Prints the difference of B from A in percent, with a 95 % confidence interval (Welch's t-test)
/// if both were searched with `--repeat`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// JSON of `millrace bench search --json`: how it was
    #[arg(value_name = "A")]
    a: PathBuf,
    /// JSON of a search for the same goals, sizes and unit: how it is now
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Percent by which B may be lower than A
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = tolerance)]
    tolerance: f64,
}

const EXAMPLES: &str = "\
Examples:
  millrace bench compare before.json after.json --tolerance 2
      Fails if a goal is lower by more than 2 %, and the confidence interval is below 0.

Exit status: 0 B is not worse; 1 B is worse, or a file cannot be read; 2 they cannot be compared.";

fn tolerance(text: &str) -> Result<f64, String> {
    let percent = text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "write a percentage from 0 to 100".to_owned())
}

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    let comparison = compare(&a, &b).unwrap_or_else(|error| {
        clap::Error::raw(ErrorKind::ArgumentConflict, format!("{error}\n")).exit()
    });
    let is_other = |of: fn(&SearchResults) -> String| of(&a) != of(&b);
    let differences = [
        ("ports", is_other(|of| of.ports.clone())),
        ("streams", is_other(|of| of.streams.join(", "))),
        ("options of the generator", is_other(|of| of.generator_options.join(" "))),
        ("processors", is_other(|of| format!("{:?}", of.host.cpu))),
    ];
    for (what, _) in differences.iter().filter(|(_, is_other)| *is_other) {
        write_line(io::stderr(), format_args!("millrace: note: A and B have different {what}"));
    }
    let printed = comparison.print(args.tolerance, &mut io::stdout().lock());
    printed.context("cannot write the table")?;
    let is_worse = comparison.is_worse(args.tolerance);
    Ok(if is_worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn read(path: &Path) -> anyhow::Result<SearchResults> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    SearchResults::read(&text).map_err(|error| anyhow::anyhow!("{name} {error}"))
}
