// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench compare`: compares the results of two searches, or of two runs of
//! `bench conntrack`.

use crate::cmd::report::PageFile;
use anyhow::Context;
use clap::error::ErrorKind;
use report::output::{JsonFile, refuse_to_overwrite, write_line};
use results::conntrack::{self, ConntrackResults};
use results::search::{SearchResults, compare};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare the results of two searches; for CI
///
/// Prints the difference of B from A in percent, with a 95 % confidence interval (Welch's t-test)
/// if both were searched with `--repeat`. Also compares results of `millrace bench conntrack`, row
/// by row, and can write A with the rows that only B has figures for.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// JSON of `millrace bench search` or `bench conntrack`: how it was
    #[arg(value_name = "A")]
    a: PathBuf,
    /// JSON of the same command with the same goals, sizes and unit: how it is now
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Percent by which B may be lower than A
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = tolerance)]
    tolerance: f64,
    /// Write A, filled with rows of B, as JSON to FILE or `-`; for results of bench conntrack
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the page of A, filled with rows of B, to FILE; for results of bench conntrack
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Draw the figures of the article into the page, which are of other hardware
    #[arg(long, requires = "html")]
    with_article: bool,
}

const EXAMPLES: &str = "\
Examples:
  millrace bench compare before.json after.json --tolerance 2
      Fails if a goal is lower by more than 2 %, and the confidence interval is below 0.
  millrace bench compare here.json big-host.json --json all.json --html all.html
      Fills rows of `bench conntrack` that this host lacks cpus for.

Exit status: 0 B is not worse; 1 B is worse, or a file cannot be read; 2 they cannot be compared.";

fn tolerance(text: &str) -> Result<f64, String> {
    let percent = text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "write a percentage from 0 to 100".to_owned())
}

pub(super) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    if [&a, &b].iter().any(|text| ConntrackResults::is_in(text)) {
        return compare_conntrack(args, [&a, &b]);
    }
    if args.json.is_some() || args.html.is_some() {
        refuse("--json and --html are for results of millrace bench conntrack: leave them out");
    }
    let parse = |path: &Path, text: &str| {
        let name = path.display();
        SearchResults::read(text).map_err(|error| anyhow::anyhow!("{name} {error}"))
    };
    let (a, b) = (parse(&args.a, &a)?, parse(&args.b, &b)?);
    let comparison = compare(&a, &b).unwrap_or_else(|error| refuse(&error.to_string()));
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

/// Ends the program: the files cannot be compared.
fn refuse(why: &str) -> ! {
    clap::Error::raw(ErrorKind::ArgumentConflict, format!("{why}\n")).exit()
}

fn compare_conntrack(args: &CompareArgs, [a, b]: [&str; 2]) -> anyhow::Result<ExitCode> {
    let parse = |path: &Path, text: &str| {
        let name = path.display();
        ConntrackResults::read(text).map_err(|error| anyhow::anyhow!("{name} {error}"))
    };
    let (a, b) = (parse(&args.a, a)?, parse(&args.b, b)?);
    let comparison = conntrack::compare(&a, &b).unwrap_or_else(|error| refuse(&error));
    let outputs = [("--json", args.json.as_deref()), ("--html", args.html.as_deref())];
    refuse_to_overwrite(&outputs, &[args.a.clone(), args.b.clone()]);
    let json = JsonFile::open(args.json.as_deref())?;
    let page = PageFile::open(args.html.as_deref())?;
    if a.origin.host.cpu != b.origin.host.cpu {
        write_line(io::stderr(), "millrace: note: A and B have different processors");
    }
    let printed = match json.is_stdout() {
        true => comparison.print(args.tolerance, &mut io::stderr().lock()),
        false => comparison.print(args.tolerance, &mut io::stdout().lock()),
    };
    page.write_page(|| conntrack::page(&comparison.merged, args.with_article))?;
    json.write(&comparison.merged)?;
    printed.context("cannot write the table")?;
    let is_worse = comparison.is_worse(args.tolerance);
    Ok(if is_worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
