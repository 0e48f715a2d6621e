// SPDX-License-Identifier: BSD-3-Clause
//! `millrace replay`: runs the engine over captures, by their time stamps and without DPDK.
//!
//! A capture with a fault is replayed up to the fault. The other captures are still replayed, and
//! the exit status is 1. Standard output gets the report, or the data if an output is `-`.

mod player;

pub(crate) use player::Player;

use crate::cmd::problems::print_problems;
use crate::cmd::run::secret;
use crate::signals;
use anyhow::Context;
use capture::{Capture, Fault};
use config::plan::{EngineArgs, engine_bytes};
use doctor::host::Memory;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use player::ReplayTotals;
use report::output::{Command, OutputArgs, is_dash, write_line};
use report::records::WrittenRecords;
use report::summary::Summary;
use results::units;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Track the connections in captures, by the time stamps of the packets
///
/// Reads pcap and pcapng files, plain or gzip-compressed, in the order given, as one stream. Time
/// never runs backwards, so give the oldest capture first. Prints how many packets were tracked,
/// passed and dropped, and the busiest flows.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// Captures; `-` is standard input
    #[arg(required = true, value_name = "CAPTURE")]
    captures: Vec<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  millrace replay office.pcapng
      How many packets were tracked, passed and dropped, and the ten busiest flows.
  millrace replay --flows flows.csv monday.pcap.gz tuesday.pcap.gz
      One row for each flow of two days.
  millrace replay --config bump.toml office.pcapng
      With the table, policy and timeouts of a configuration for `millrace run`.
  tcpdump -w - -i eth0 | millrace replay --flows - - | jq .dport
      Flow records from a capture that is still being made.

Exit status: 0 good; 1 the configuration is refused, a capture could not be read to its end, or the
ledger is not balanced; 2 wrong use.";

/// Least bytes of captures for a progress bar; fewer are read too fast.
const PROGRESS_MIN_BYTES: u64 = 64 << 20;

pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let mut config = match args.engine.engine_config() {
        Ok(config) => config,
        Err(problems) => {
            print_problems(&problems);
            return Ok(problems.exit_code());
        }
    };
    Memory::refuse_more_than_there_is(engine_bytes(&config))?;
    config.secret = secret()?;
    let inputs = [args.captures.as_slice(), args.engine.files()].concat();
    let (mut outputs, mut records) = args.output.open(Command::Replay, &inputs)?;
    let writing = || args.output.writing();
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    records.wait_until(std::sync::Arc::clone(&interrupted));
    let mut player = Player::new(&config, records);
    let started = Instant::now();
    let good = play_all(&mut player, &args.captures, &interrupted).with_context(writing)?;
    let (summary, records) = player.finish().with_context(writing)?;
    let WrittenRecords { top, result, .. } = records.finish();
    result.with_context(writing)?;
    // Zeros of captures that could not be read are no result.
    outputs.report &= good || summary.ledger.rx > 0;
    outputs.finish(&title(&summary, started), &summary, top)?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays all captures. Returns true if each could be read to its end.
fn play_all(
    player: &mut Player,
    captures: &[PathBuf],
    interrupted: &AtomicBool,
) -> io::Result<bool> {
    let progress = progress_bar(captures);
    let mut good = true;
    for path in captures {
        let name = display_name(path);
        let played = match open(path, &name, &progress) {
            Ok(mut capture) => player.play(&mut capture, interrupted)?,
            Err(fault) => ReplayTotals::faulty(fault),
        };
        progress.suspend(|| report_capture(&name, &played));
        good &= played.fault.is_none();
    }
    progress.finish_and_clear();
    Ok(good)
}

fn open(path: &Path, name: &str, progress: &ProgressBar) -> Result<Capture, Fault> {
    if is_dash(path) {
        return Capture::new(name, io::stdin());
    }
    match File::open(path) {
        Ok(file) => Capture::new(name, progress.wrap_read(file)),
        Err(error) => Err(Capture::unreadable(name, error)),
    }
}

fn display_name(path: &Path) -> String {
    if is_dash(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Returns the bar for the bytes read so far; hidden for few bytes, and without a terminal.
fn progress_bar(captures: &[PathBuf]) -> ProgressBar {
    let lengths = captures.iter().filter_map(|path| path.metadata().ok());
    let total: u64 = lengths.map(|metadata| metadata.len()).sum();
    if total < PROGRESS_MIN_BYTES {
        return ProgressBar::hidden();
    }
    let template = "{wide_bar} {decimal_bytes}/{decimal_total_bytes} {eta}";
    let style = ProgressStyle::with_template(template).expect("the template is right");
    // The library hides it if standard error is no terminal.
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style)
}

/// Prints warnings about a capture: link types not read, packets out of order in time, its fault.
fn report_capture(name: &str, played: &ReplayTotals) {
    for (link_type, packets) in &played.unread {
        let packets = units::thousands(*packets);
        let warning = format!("link type {link_type} is not read; packets passed: {packets}");
        write_line(io::stderr(), format_args!("millrace: {name}: {warning}"));
    }
    if played.backwards > 0 {
        let warning = format!(
            "millrace: {name}: packets older than an earlier packet, and given its time: {} \
             (older by up to {})",
            units::thousands(played.backwards),
            units::duration(played.backwards_ns)
        );
        write_line(io::stderr(), warning);
    }
    if let Some(fault) = &played.fault {
        write_line(io::stderr(), format_args!("millrace: {fault}"));
    }
}

/// Returns the first line of the report.
fn title(summary: &Summary, started: Instant) -> String {
    let seconds = started.elapsed().as_secs_f64();
    let packets = summary.ledger.rx;
    format!(
        "replayed {} packets of {:.3} s in {seconds:.3} s ({} packets/s)",
        units::thousands(packets),
        summary.duration_s,
        units::thousands((packets as f64 / seconds) as u64)
    )
}
