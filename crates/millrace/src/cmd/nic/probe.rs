// SPDX-License-Identifier: BSD-3-Clause
//! `millrace nic probe`: tests what a NIC does with flow rules, and writes a personality.

use super::ports::{StartedPort, start};
use crate::signals;
use crate::twin_driver;
use ::twin::Personality;
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nic::probe::{
    Extent, Found, PortIdentity, PortSubject, Side, Watchdog, WatchedPort, Watcher, print, probe,
    to_json, wait_for_link,
};
use report::output::{is_dash, write_line};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Test what a NIC does with flow rules, and write its personality
///
/// Creates thousands of rules on an idle port, one after the other. Finds out which headers, masks,
/// actions and attributes the NIC accepts, how it refuses, and how fast it is. With a peer, whose
/// packets the port receives, it also tests the effect of rules: whether marks arrive, which masks
/// are ignored, which packets are missed. The software NIC imitates the NIC by the file that -o
/// writes.
#[derive(Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProbeArgs {
    /// A PCI address or a virtual device, with arguments; no other program should use it
    #[arg(value_name = "PORT")]
    port: String,
    /// The port at the other end of the cable; not for the software NIC, whose peer is created
    #[arg(long, value_name = "PORT")]
    peer: Option<String>,
    /// Write the personality to FILE, which net_twin0,personality=FILE plays
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Also fill the NIC's table, with up to LIMIT rules
    #[arg(long, value_name = "LIMIT", value_parser = clap::value_parser!(u32).range(1..))]
    capacity: Option<u32>,
    /// Also stop and start the port, and set up a flow queue; always done with the software NIC,
    /// unless it has rules already
    #[arg(long)]
    restart: bool,
    /// Probe the port even if it receives foreign packets, or has rules already
    #[arg(long)]
    force: bool,
    /// Report a hang if a driver call takes longer than S seconds
    #[arg(long, value_name = "S", default_value_t = 20,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,
    /// Queues of the port; by default 4, or fewer if it has fewer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=256))]
    queues: Option<u16>,
}

const EXAMPLES: &str = "\
Examples:
  millrace nic probe net_twin0,personality=x710-17.02
      Probe the software NIC with the personality of an X710 under DPDK 17.02.
  millrace nic probe 0000:18:00.0 --peer 0000:18:00.1 -o mine.toml
      Probe a port that a cable connects to another. Developers without the NIC can play the file:
      millrace nic flow net_twin0,wire=w,personality=mine.toml
  millrace nic probe 0000:18:00.0 --capacity 100000 --json | jq .stages
      Measure the capacity, and the time per rule each time the number of rules doubles.
  millrace nic probe 0000:18:00.0 --restart --json | jq .by_queue
      Test rules by templates and a flow queue; setting one up stops the port.

Ctrl-C ends the probe with the results so far. Each rule is destroyed before the next test. To
verify that, the probe checks the driver's list of rules and the packets before the first rule and
after the last. The report has the result, or says that neither can be checked.

Exit status: 0 good; 1 the port cannot be used, the probe was not completed, or a rule stayed;
2 wrong use.";

/// Time without packets after which the port counts as idle.
const SILENCE: Duration = Duration::from_millis(300);

pub(super) fn run(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let (port, peer) = devargs(args)?;
    let is_twin = twin_driver::is_twin(&port);
    let devargs: Vec<_> = [Some(port.clone()), peer.clone()].into_iter().flatten().collect();
    let mut started = start(&devargs, args.queues)?.into_iter().map(side);
    let side = started.next().context("no port was started")?;
    let facts = PortIdentity {
        port,
        driver: side.port.info().driver.clone(),
        firmware: side.port.firmware(),
        dpdk: dpdk::version(),
        queues: side.rx.len() as u16,
        peer,
    };
    let mut subject = PortSubject::new(side, started.next());
    wait_for_link(&mut subject, &interrupted);
    if subject.overhear(SILENCE) > 0 && !args.force {
        bail!(
            "port {}: packets arrive, so it is in use, and rules would disturb them; --force \
             probes it anyway",
            facts.port
        );
    }
    let (restart, force) = (args.restart || is_twin, args.force);
    let extent = Extent { restart, force, capacity: args.capacity };
    let watch = Watchdog::default();
    let guard = watch.begin(Duration::from_secs(args.patience), {
        let (facts, args) = (facts.clone(), args.clone());
        move |found| give_up(&args, &facts, found)
    });
    let mut watched = WatchedPort { subject, watch: watch.clone() };
    let mut bar = Bar { bar: bar(), watch };
    let found = probe(&mut watched, extent, &mut bar, &interrupted);
    bar.bar.finish_and_clear();
    drop(guard);
    finish(args, &facts, found)
}

/// Writes the personality, and prints the report or JSON. Returns the exit status.
fn finish(args: &ProbeArgs, facts: &PortIdentity, mut found: Found) -> anyhow::Result<ExitCode> {
    facts.sign(&mut found.personality, &name_of(args.output.as_deref(), facts));
    if let Some(path) = &args.output {
        write(path, &found.personality)?;
    }
    let is_stdout_taken = args.output.as_deref().is_some_and(is_dash);
    if !is_stdout_taken {
        let mut out = BufWriter::new(io::stdout().lock());
        match args.json {
            true => writeln!(out, "{}", to_json(facts, &found))?,
            false => print(&mut out, facts, &found)?,
        }
        out.flush()?;
    }
    let port = &facts.port;
    if let Some(stopped) = &found.stopped {
        let message = "the results until then are above";
        write_line(io::stderr(), format_args!("millrace: port {port}: {stopped}; {message}"));
    }
    if found.seen.has_stayed() {
        let message = "rules of the probe are still installed: reset the port before you use it";
        write_line(io::stderr(), format_args!("millrace: port {port}: {message}"));
    }
    let is_good = found.stopped.is_none() && !found.seen.has_stayed();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(path: &Path, personality: &Personality) -> anyhow::Result<()> {
    let text = personality.to_toml();
    if is_dash(path) {
        return io::stdout().write_all(text.as_bytes()).context("cannot write the personality");
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Reports the results so far and ends the process, because a driver call hangs and cannot be
/// interrupted.
fn give_up(args: &ProbeArgs, facts: &PortIdentity, found: Found) {
    if let Err(error) = finish(args, facts, found) {
        write_line(io::stderr(), format_args!("millrace: {error:#}"));
    }
    std::process::exit(1);
}

/// Returns the devargs of the port, and of its peer if it has one. A software NIC gets a peer on
/// the same wire.
fn devargs(args: &ProbeArgs) -> anyhow::Result<(String, Option<String>)> {
    if !twin_driver::is_twin(&args.port) {
        return Ok((args.port.clone(), args.peer.clone()));
    }
    if args.peer.is_some() {
        bail!("--peer is not for the software NIC: its peer is created");
    }
    let mut parts = args.port.split(',');
    let device = parts.next().unwrap_or_default();
    let wire = parts.find_map(|part| part.strip_prefix("wire="));
    let port = match wire {
        Some(_) => args.port.clone(),
        None => format!("{},wire=probe", args.port),
    };
    let number: u32 = device.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    let peer = format!("net_twin{},wire={}", number + 1, wire.unwrap_or("probe"));
    Ok((port, Some(peer)))
}

fn side(started: StartedPort) -> Side {
    let StartedPort { port, queues: (rx, tx), mempool } = started;
    Side { port, rx, tx, mempool }
}

/// Returns the name of the personality: the stem of the file's name, or else the driver's name.
fn name_of(output: Option<&Path>, facts: &PortIdentity) -> String {
    let stem = output.filter(|path| !is_dash(path)).and_then(Path::file_stem);
    stem.map_or_else(|| facts.driver.clone(), |stem| stem.to_string_lossy().into_owned())
}

/// The progress bar on a terminal.
struct Bar {
    bar: ProgressBar,
    watch: Watchdog,
}

fn bar() -> ProgressBar {
    let template = "{msg:30} {wide_bar} {pos}/{len}";
    let style = ProgressStyle::with_template(template).expect("the template is right");
    ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
}

impl Watcher for Bar {
    fn stage(&mut self, name: &'static str, draft: &Personality) {
        self.watch.know(name, draft);
        self.bar.set_message(name);
        self.bar.set_position(0);
        self.bar.set_length(1);
    }

    fn step(&mut self, done: u64, of: u64) {
        self.bar.set_length(of);
        self.bar.set_position(done);
    }
}
