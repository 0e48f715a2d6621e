// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench cps`: searches for the most connections per second that a device
//! sustains, with the options of cps_ndr.py.

mod judge;
mod library;
mod options;
mod print;
mod result;
mod search;
mod settle;

pub(super) use judge::Rule;
pub(super) use library::{Range, faults, find, rate};
pub(super) use options::{ProfileArgs, number, whole};
pub(super) use settle::settle;

use crate::cmd::in_process_tester::{InProcess, WorkerArgs};
use crate::cmd::origin::origin_of_now;
use crate::ports::PortNames;
use crate::signals;
use crate::tester::{RemoteTester, SimulatedDevice, Tester, TesterError};
use anyhow::{Context, bail};
use clap::error::ErrorKind;
use options::RateArgs;
use print::Printer;
use report::output::{JsonFile, write_line};
use result::Artefact;
use search::{Search, Settings};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Port at which cps_ndr.py asks TRex.
const DAEMON_PORT: u16 = 4501;

/// Search for the most connections per second that a device sustains
///
/// Opens connections from port A through the device to port B, and halves the interval between a
/// rate that the device sustained and one that it did not. It sustains a rate if at most
/// --error-threshold percent of the connections fail, at most as many of the packets are lost,
/// connections end as fast as they begin, and the generator is not the limit. Both bounds are
/// verified, and the rate found is confirmed by a final trial.
///
/// All options of cps_ndr.py are there. Numbers may end in K, M or G. -S drives a daemon of
/// `millrace gen --daemon`; the JSON-RPC of TRex is not spoken.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CpsArgs {
    /// Ports A,B: clients are on A, servers on B
    #[arg(value_name = "PORTS", required_unless_present_any = ["server", "simulate"])]
    ports: Option<PortNames>,
    /// Measure at most N rates, and N more each time the result is refuted; by default until the
    /// rate is known to 0.5 %, and until Ctrl-C with --compat
    #[arg(long, short = 'i', value_name = "N", value_parser = options::whole::<1, 1_000_000_000>)]
    max_iterations: Option<u32>,
    /// Measure each rate for S seconds, 1 to 600
    #[arg(long, short = 'T', value_name = "S", default_value = "1",
          value_parser = options::whole::<1, 600>)]
    sample_time: u32,
    /// Accept a rate if at most this share of connections fails, and of packets is lost, in percent
    #[arg(long, short = 'e', value_name = "PERCENT", default_value = "0",
          value_parser = options::number::<0, 100>)]
    error_threshold: f64,
    /// Run COMMAND with sh between two rates, for example to empty the device's table
    #[arg(long, short = 'c', value_name = "COMMAND")]
    reset_command: Option<String>,
    /// Write the last good sample and the settings as JSON to FILE or `-`
    ///
    /// FILE must be new, empty or such results.
    #[arg(long, short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print notes about the search on standard error
    #[arg(long, short = 'v')]
    verbose: bool,
    /// Judge and print as cps_ndr.py does: failed connections are ignored while few packets are
    /// lost
    #[arg(long, value_name = "PROGRAM", value_enum)]
    compat: Option<Compat>,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    rate: RateArgs,
    #[command(flatten)]
    workers: WorkerArgs,
    /// Search on a simulated device, in simulated time
    #[arg(long, hide = true, value_name = "DEVICE", conflicts_with_all = ["ports", "server"])]
    simulate: Option<SimulatedDevice>,
}

/// The daemon to drive.
#[derive(clap::Args)]
struct ServerArgs {
    /// Drive the daemon on HOST (`millrace gen --daemon`) instead of a generator in this process
    #[arg(long, short = 'S', value_name = "HOST", conflicts_with = "ports")]
    server: Option<String>,
    /// Port of the daemon
    #[arg(long, short = 'p', value_name = "PORT", default_value_t = DAEMON_PORT)]
    sync_port: u16,
    /// Second port of TRex; accepted and not used, since the daemon has one port
    #[arg(long, short = 'P', value_name = "PORT", default_value_t = 4500)]
    async_port: u16,
    /// Give up if the daemon does not answer within S seconds, 1 to 600
    #[arg(long, short = 't', value_name = "S", default_value = "5",
          value_parser = options::whole::<1, 600>)]
    timeout: u32,
}

/// A program whose rule and lines are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Compat {
    #[value(name = "cps_ndr")]
    CpsNdr,
}

const EXAMPLES: &str = "\
Examples:
  millrace bench cps eth1,eth2 -T 30 -e 0.02 -m 1k -M 100k
      Short connections, one message of 20 bytes each way, in this process.
  millrace bench cps eth1,eth2 -T 120 -e 0.02 -u 1 -n 500 -w 50 -m 500 -M 2k
      Connections that live for 25 seconds, 1 % of them UDP.
  millrace bench cps -S 192.0.2.7 -T 30 -i 8 --compat cps_ndr
      The generator is a daemon on another host; lines and rule of cps_ndr.py.

Exit status: 0 a rate was found; 1 none was, or the search failed; 2 wrong use. With --compat
cps_ndr, 0 also if every rate was too high.";

pub(super) fn run(args: &CpsArgs) -> anyhow::Result<ExitCode> {
    args.rate.refuse_contradictions().unwrap_or_else(|fault| {
        clap::Error::raw(ErrorKind::ArgumentConflict, format!("{fault}\n")).exit()
    });
    let json = JsonFile::open(args.output.as_deref())?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let mut tester = args.open_tester(&interrupted)?;
    let settings = args.settings();
    let mut out: Box<dyn Write> = match json.is_stdout() {
        true => Box::new(io::stderr()),
        false => Box::new(io::stdout()),
    };
    let is_coloured = !json.is_stdout() && io::stdout().is_terminal();
    let printer = Printer { out: &mut *out, is_coloured, is_verbose: args.verbose };
    let mut search = Search::new(&settings, &mut *tester, printer, &interrupted);
    let ended = search.run();
    let found = search.into_found();
    if tester.is_simulated() {
        let text = "millrace: the device is simulated: these are no measurements";
        write_line(io::stderr(), text);
    }
    // The file has what was measured, also if the search failed later.
    let written = json.write(&Artefact::new(&settings, &found, &origin_of_now()));
    ended?;
    written?;
    let has_found = found.cps.is_some() || found.is_interrupted && found.best().is_some();
    Ok(match settings.rule == Rule::CpsNdr || has_found {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl CpsArgs {
    fn open_tester(&self, interrupted: &AtomicBool) -> anyhow::Result<Box<dyn Tester>> {
        let in_process = match (&self.ports, &self.server.server, self.simulate) {
            (_, Some(_), _) if self.workers.is_given() => bail!(
                "--server: the daemon has its own workers, queues, gateways and addresses: give \
                 those options to `millrace gen --daemon`"
            ),
            (_, Some(host), _) => return Ok(Box::new(self.server.connect(host)?)),
            (_, _, Some(device)) => InProcess::Simulated(device),
            (Some(ports), ..) => InProcess::Ports(ports, &self.workers),
            (None, None, None) => bail!("name PORTS, or a daemon with --server HOST"),
        };
        Ok(in_process.open(interrupted)?)
    }

    fn settings(&self) -> Settings {
        Settings {
            load: self.rate.load(&self.profile),
            min_cps: self.rate.min_cps,
            max_cps: self.rate.max_cps,
            adaptive_window_percent: self.rate.adaptive_window,
            max_iterations: self.max_iterations,
            sample_time_s: self.sample_time,
            threshold_percent: self.error_threshold,
            reset_command: self.reset_command.clone(),
            rule: match self.compat {
                Some(Compat::CpsNdr) => Rule::CpsNdr,
                None => Rule::Connections,
            },
        }
    }
}

impl ServerArgs {
    fn connect(&self, host: &str) -> Result<RemoteTester, TesterError> {
        let timeout = Duration::from_secs(u64::from(self.timeout));
        RemoteTester::connect(host, self.sync_port, timeout)
    }
}
