// SPDX-License-Identifier: BSD-3-Clause
//! `millrace replay`: the engine over captures, with the captures' own clock and no DPDK.
//!
//! A capture with a fault gives everything up to the fault; the others are still replayed, and the
//! exit status is 1. Standard output carries the report, or data where `-` asks for it.

mod player;

use crate::capture::{Capture, Fault};
use crate::records::{RecordSink, RecordWriter, Target};
use crate::summary::Summary;
use crate::top::Top;
use crate::units;
use anyhow::Context;
use clap::error::ErrorKind;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use player::{Played, Player};
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Run the engine over captures with their own clock
///
/// Reads pcap and pcapng files, plain or gzip-compressed, in the order given, as one stream: time
/// is that of the packets, and never runs backwards, so give the oldest capture first. Prints what
/// became of the packets and the busiest flows.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// Captures; `-` is standard input
    #[arg(required = true, value_name = "CAPTURE")]
    captures: Vec<PathBuf>,
    /// Write one flow record per flow: JSON Lines to FILE.jsonl or `-`, CSV to FILE.csv
    #[arg(long, value_name = "FILE")]
    flows: Option<Target>,
    /// Write the summary as JSON to FILE, or `-`
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Flows of each IP version that the table holds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CAPACITY_MAX))]
    capacity: Option<u32>,
    /// Busiest flows to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: u16,
}

const CAPACITY_MAX: i64 = engine::MAX_CAPACITY as i64;

const EXAMPLES: &str = "\
Examples:
  millrace replay office.pcapng
      What became of the packets, and the ten busiest flows.
  millrace replay --flows flows.csv monday.pcap.gz tuesday.pcap.gz
      One row for each flow of two days.
  tcpdump -w - -i eth0 | millrace replay --flows - - | jq .dport
      Flow records from a capture that is still being made.

Exit status: 0 good; 1 a capture could not be read to its end, or the ledger is not balanced;
2 wrong use.";

/// Captures of less than this many bytes are done before a bar is of use.
const PROGRESS_MIN_BYTES: u64 = 64 << 20;

pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let outputs = Outputs::open(args)?;
    let interrupted = interrupt_flag().context("cannot catch signals")?;
    let records = RecordSink::new(outputs.flows, Top::new(usize::from(args.top)));
    let mut player = Player::new(&engine_config(args)?, records);
    let started = Instant::now();
    let good =
        play_all(&mut player, &args.captures, &interrupted).with_context(|| writing(args))?;
    let (summary, records) = player.finish().with_context(|| writing(args))?;
    let top = records.finish().with_context(|| writing(args))?;
    if let Some(mut json) = outputs.json {
        summary.write_json(&mut json).context("cannot write the summary")?;
    }
    if outputs.report {
        print_report(&summary, top, started).context("cannot write the report")?;
    }
    if !summary.ledger.balanced {
        anyhow::bail!("the ledger is not balanced, which is a fault of Millrace itself");
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What an error of the player is about: all it writes are flow records.
fn writing(args: &ReplayArgs) -> String {
    let target = args.flows.as_ref().map(Target::to_string).unwrap_or_default();
    format!("cannot write flow records to {target}")
}

/// Plays every capture; returns whether all of them could be read to their end.
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
            Err(fault) => Played::faulty(fault),
        };
        progress.suspend(|| report_capture(&name, &played));
        good &= played.fault.is_none();
    }
    progress.finish_and_clear();
    Ok(good)
}

/// What the engine is built from: the defaults and the flags.
fn engine_config(args: &ReplayArgs) -> anyhow::Result<engine::Config> {
    let random = || getrandom::u64().context("cannot get random numbers from the system");
    let mut config = engine::Config { secret: [random()?, random()?], ..Default::default() };
    if let Some(capacity) = args.capacity {
        (config.capacity_ipv4, config.capacity_ipv6) = (capacity, capacity);
    }
    Ok(config)
}

/// Set by the first SIGINT or SIGTERM, which end the replay with its summary. A second one ends the
/// program at once: a read from a silent pipe does not notice the first.
fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for &signal in TERM_SIGNALS {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&interrupted))?;
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
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

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn display_name(path: &Path) -> String {
    if is_dash(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Bytes of the files read so far, on a terminal, where there are many.
fn progress_bar(captures: &[PathBuf]) -> ProgressBar {
    let lengths = captures.iter().filter_map(|path| path.metadata().ok());
    let total: u64 = lengths.map(|metadata| metadata.len()).sum();
    if total < PROGRESS_MIN_BYTES {
        return ProgressBar::hidden();
    }
    let template = "{wide_bar} {decimal_bytes}/{decimal_total_bytes} {eta}";
    let style = ProgressStyle::with_template(template).expect("the template is right");
    // Hidden by itself where stderr is no terminal.
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style)
}

/// Says on stderr what a capture's user should know about it.
fn report_capture(name: &str, played: &Played) {
    for (link_type, packets) in &played.unread {
        let packets = units::thousands(*packets);
        eprintln!("millrace: {name}: link type {link_type} is not read; packets passed: {packets}");
    }
    if played.backwards > 0 {
        eprintln!(
            "millrace: {name}: packets older than one before them, which were given its time: {} \
             (older by up to {})",
            units::thousands(played.backwards),
            units::duration(played.backwards_ns)
        );
    }
    if let Some(fault) = &played.fault {
        eprintln!("millrace: {fault}");
    }
}

fn print_report(summary: &Summary, top: Top, started: Instant) -> io::Result<()> {
    let out = &mut BufWriter::new(io::stdout().lock());
    let seconds = started.elapsed().as_secs_f64();
    let packets = summary.ledger.rx;
    writeln!(
        out,
        "replayed {} packets of {:.3} s in {seconds:.3} s ({} packets/s)",
        units::thousands(packets),
        summary.duration_s,
        units::thousands((packets as f64 / seconds) as u64)
    )?;
    summary.print(out)?;
    top.print(out)?;
    out.flush()
}

/// What is written besides stderr, opened before work begins.
struct Outputs {
    flows: Option<RecordWriter>,
    json: Option<Box<dyn Write>>,
    /// Whether stdout is free for the report.
    report: bool,
}

impl Outputs {
    fn open(args: &ReplayArgs) -> anyhow::Result<Self> {
        let flows_on_stdout = args.flows == Some(Target::Stdout);
        let json_on_stdout = args.json.as_deref().is_some_and(is_dash);
        if flows_on_stdout && json_on_stdout {
            let message = "--flows and --json cannot both write to standard output\n";
            clap::Error::raw(ErrorKind::ArgumentConflict, message).exit();
        }
        let create_flows = |target| {
            RecordWriter::create(target).with_context(|| format!("cannot create {target}"))
        };
        let flows = args.flows.as_ref().map(create_flows).transpose()?;
        let json = args.json.as_deref().map(create_json).transpose()?;
        Ok(Self { flows, json, report: !flows_on_stdout && !json_on_stdout })
    }
}

fn create_json(path: &Path) -> anyhow::Result<Box<dyn Write>> {
    if is_dash(path) {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(Box::new(file))
}
