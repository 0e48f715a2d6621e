// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace bench baseline`. It sends the same packets to a reflector and back over the
//! kernel's sockets, over DPDK on a Linux interface, over AF_XDP and over memif.

use super::highest_rate::{LOSS_MAX, TRIALS, Trial, highest_rate};
use super::testbed::{ADDRESSES, End, INTERFACES, Running, Testbed, end_with_us, this_program};
use crate::cmd::report::PageFile;
use crate::cpu_locks;
use crate::signals;
use anyhow::{Context, bail};
use report::output::write_line;
use results::{Results, Run, table, units};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Compare the kernel with DPDK: the same packets, to a reflector and back, in five ways
///
/// Searches for the highest rate of each way with at most 1 % loss, and measures at that rate and
/// at a fixed rate. Makes two network namespaces with a veth pair between them, which needs root.
/// Without root, only DPDK over memif is measured.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BaselineArgs {
    /// Measure for S seconds at each rate
    #[arg(long, short, value_name = "S", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(2..))]
    duration: u32,
    /// The fixed rate, in packets per second
    #[arg(long, value_name = "PPS", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Frame size with FCS, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(64..=1518))]
    size: u16,
    /// Try at most N rates of each way to find the highest
    #[arg(long, value_name = "N", default_value_t = TRIALS,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    trials: u32,
    /// Measure only the ways with NAME in their name; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Plot the runs at the highest rates of all ways in one chart, on an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep the results of every run as JSON in this directory
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  sudo millrace bench baseline --html baseline.html
      All ways, each for 10 seconds at its highest rate and at 1 Mpps.
  millrace bench baseline --only memif
      DPDK to DPDK, without root.";

/// Cpus that a sender, a receiver and a reflector need to have one each.
const CPUS: usize = 3;
/// Seconds of a trial of the search.
const TRIAL_S: u32 = 1;
/// Time until a reflector is ready.
const READY: Duration = Duration::from_secs(3);

/// A way to carry packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    SocketsToSockets,
    SocketsToDpdk,
    DpdkToSockets,
    AfXdp,
    Memif,
}

impl Way {
    const ALL: [Self; 5] = [
        Self::SocketsToSockets,
        Self::SocketsToDpdk,
        Self::DpdkToSockets,
        Self::AfXdp,
        Self::Memif,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::SocketsToSockets => "sockets to sockets",
            Self::SocketsToDpdk => "sockets to DPDK",
            Self::DpdkToSockets => "DPDK to sockets",
            Self::AfXdp => "AF_XDP to AF_XDP",
            Self::Memif => "DPDK to DPDK, memif",
        }
    }

    /// Returns the arguments of `millrace gen`, without rate and stream.
    fn generator(self) -> Vec<String> {
        let [interface, _] = INTERFACES;
        match self {
            Self::SocketsToSockets | Self::SocketsToDpdk => split_words("--backend sockets"),
            Self::DpdkToSockets => split_words(&format!("{interface} --gateway {}", ADDRESSES[1])),
            Self::AfXdp => split_words(&format!("net_af_xdp0,iface={interface}")),
            Self::Memif => vec![memif("client")],
        }
    }

    /// Returns the arguments of `millrace reflect`.
    fn reflector(self) -> Vec<String> {
        let [_, interface] = INTERFACES;
        match self {
            Self::SocketsToSockets | Self::DpdkToSockets => {
                split_words(&format!("--backend sockets {}:7", ADDRESSES[1]))
            }
            Self::SocketsToDpdk => split_words(interface),
            Self::AfXdp => split_words(&format!("net_af_xdp0,iface={interface}")),
            Self::Memif => vec![memif("server")],
        }
    }
}

fn split_words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Returns the devargs of an end of a memif. The name of its socket is abstract (unix(7)), so there
/// is no file to remove.
fn memif(role: &str) -> String {
    let id = std::process::id();
    format!("net_memif0,role={role},socket=millrace-bench-{id},socket-abstract=yes,rsize=14")
}

/// Results of a way.
struct Measured {
    way: Way,
    /// The run at the highest rate with few losses; `None` if every rate had more.
    highest: Option<Results>,
    /// The run at the fixed rate; `None` if a signal or an error ended the measurement before.
    fixed: Option<Results>,
}

pub(super) fn run(args: &BaselineArgs) -> anyhow::Result<ExitCode> {
    let ways = ways(&args.only)?;
    let page = PageFile::open(args.html.as_deref())?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let bed = match rustix::process::geteuid().is_root() {
        true => Some(Testbed::new()?),
        false => None,
    };
    let runner = Runner { args, bed, interrupted: &interrupted };
    let mut measured = Vec::new();
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    for way in ways {
        let mut found = Measured { way, highest: None, fixed: None };
        match runner.measure(&mut found) {
            Err(error) if !is_interrupted() => {
                write_line(io::stderr(), format_args!("millrace: {}: {error:#}", way.name()));
            }
            _ => {}
        }
        if found.highest.is_some() || found.fixed.is_some() {
            measured.push(found);
        }
        if is_interrupted() {
            break;
        }
    }
    if is_interrupted() {
        let rest = if measured.is_empty() {
            "nothing was measured"
        } else {
            "these are the results so far"
        };
        write_line(io::stderr(), format_args!("millrace: interrupted; {rest}"));
    }
    if measured.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let runs = measured.iter().filter_map(|it| Some((it.way, it.highest.as_ref()?)));
    let runs: Vec<Run> = runs.map(|(way, results)| Run::new(way.name(), results)).collect();
    // Write the page first: the reader of the table may close the pipe before its end.
    let page = if runs.is_empty() { Ok(()) } else { page.write("Kernel and DPDK", &runs) };
    let table = print(&measured, args);
    page?;
    table.context("cannot write the results")?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the ways that have one of these texts in their names; all ways if `only` is empty.
fn ways(only: &[String]) -> anyhow::Result<Vec<Way>> {
    let has = |way: &Way, text: &String| way.name().to_lowercase().contains(&text.to_lowercase());
    if let Some(text) = only.iter().find(|text| !Way::ALL.iter().any(|way| has(way, text))) {
        let names = Way::ALL.map(|way| format!("{:?}", way.name())).join(", ");
        bail!("--only {text}: no way has that in its name; the ways are {names}");
    }
    let is_selected = |way: &Way| only.is_empty() || only.iter().any(|text| has(way, text));
    Ok(Way::ALL.into_iter().filter(is_selected).collect())
}

/// Runs generator and reflector.
struct Runner<'a> {
    args: &'a BaselineArgs,
    bed: Option<Testbed>,
    interrupted: &'a AtomicBool,
}

impl Runner<'_> {
    /// Measures a way. Results from before an error stay in `found`.
    fn measure(&self, found: &mut Measured) -> anyhow::Result<()> {
        let way = found.way;
        let report = |message: &str| {
            write_line(io::stderr(), format_args!("millrace: {}: {message}", way.name()));
        };
        let mut reflector = self.command(way, End::Reflector)?;
        reflector.arg("reflect").args(way.reflector()).arg("-q");
        let mut reflector = Running::start(&mut reflector)?;
        thread::sleep(READY);
        report("searching for the highest rate");
        let highest = highest_rate(self.args.trials, |rate| {
            reflector.check()?;
            let results = self.run(way, rate, TRIAL_S)?;
            Ok::<_, anyhow::Error>(trial(&results, rate))
        })?;
        if let Some(rate) = highest {
            report(&format!("measuring at {:.3} Mpps", rate / 1e6));
            let results = self.run(way, Some(rate), self.args.duration)?;
            self.keep(way, "highest", &results)?;
            found.highest = Some(results);
        }
        report(&format!("measuring at {:.3} Mpps", f64::from(self.args.rate) / 1e6));
        let fixed = self.run(way, Some(self.args.rate.into()), self.args.duration)?;
        self.keep(way, "fixed", &fixed)?;
        let highest = found.highest.as_ref().map(|highest| trial(highest, None));
        if is_fixed_highest(highest, trial(&fixed, None)) {
            report("the fixed rate carried more packets than the rate found: it is the highest");
            self.keep(way, "highest", &fixed)?;
            found.highest = Some(fixed.clone());
        }
        found.fixed = Some(fixed);
        reflector.check()
    }

    /// Runs a generator for `seconds`, at the maximum rate if `rate` is `None`.
    fn run(&self, way: Way, rate: Option<f64>, seconds: u32) -> anyhow::Result<Results> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let mut generator = self.command(way, End::Generator)?;
        let rate = rate.map_or("max".to_owned(), |rate| format!("{rate:.0}pps"));
        let [src, dst] = ADDRESSES;
        let stream = format!("dst={dst} dport=7 size={}", self.args.size);
        let stream = match way {
            Way::SocketsToSockets | Way::SocketsToDpdk => stream,
            _ => format!("src={src} {stream}"),
        };
        generator.arg("gen").args(way.generator());
        generator.args(["--verify", "--interval", "0.1", "-q", "--json", "-"]);
        // The reflector needs a cpu, too.
        if cpu_locks::cpus_of_this_host().usable().len() < CPUS {
            generator.args(["--workers", "1"]);
        }
        generator.args(["-d", &seconds.to_string(), "--rate", &rate, "--stream", &stream]);
        let output = generator.output().context("cannot run the generator")?;
        // The signal has ended the generator, too. A run that was cut short does not count.
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        serde_json::from_slice(&output.stdout).map_err(|_| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            anyhow::anyhow!("{}", stderr.lines().last().unwrap_or("the generator has no output"))
        })
    }

    /// Returns a command that runs this program at an end of the way.
    fn command(&self, way: Way, end: End) -> anyhow::Result<Command> {
        match (way, &self.bed) {
            (Way::Memif, _) => end_with_us(this_program()?),
            (_, Some(bed)) => bed.command(end, this_program()?),
            (_, None) => bail!("needs root, to make network namespaces"),
        }
    }

    fn keep(&self, way: Way, which: &str, results: &Results) -> anyhow::Result<()> {
        let Some(dir) = &self.args.keep else { return Ok(()) };
        let name = way.name().replace([' ', ','], "-");
        let path = dir.join(format!("{name}-{which}.json"));
        let write = |path: &Path| {
            std::fs::create_dir_all(dir)?;
            std::fs::write(path, serde_json::to_vec_pretty(results)?)
        };
        write(&path).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Converts results to a trial of the search. Without a rate, all packets due were sent.
fn trial(results: &Results, rate: Option<f64>) -> Trial {
    let duration = results.duration_s.max(1e-3);
    let good = results
        .verified
        .as_ref()
        .map_or(0, |verified| results.sent.packets.saturating_sub(verified.lost));
    let sent = results.sent.packets as f64 / duration;
    Trial { due: rate.unwrap_or(sent), sent, received: good as f64 / duration }
}

/// True if the run at the fixed rate lost few packets and carried more than the run at the highest
/// rate found. Then the search was disturbed.
fn is_fixed_highest(highest: Option<Trial>, fixed: Trial) -> bool {
    fixed.loss() <= LOSS_MAX && fixed.received > highest.map_or(0.0, |highest| highest.received)
}

/// Returns the standard deviation of the packets received in 0.1 s, as a share of their mean. The
/// first interval and the last ones are not whole and left out.
fn unsteadiness(results: &Results) -> Option<f64> {
    let counts: Vec<f64> =
        results.intervals.iter().map(|interval| interval.received.packets as f64).collect();
    let whole = counts.get(1..counts.len().checked_sub(8)?)?;
    let mean = whole.iter().sum::<f64>() / whole.len() as f64;
    let variance = whole.iter().map(|count| (count - mean).powi(2)).sum::<f64>();
    (mean > 0.0).then(|| (variance / whole.len() as f64).sqrt() / mean)
}

fn print(measured: &[Measured], args: &BaselineArgs) -> io::Result<()> {
    let row = |way: Way, rate: &str, results: &Results| {
        let verified = results.verified.as_ref();
        let latency = verified.and_then(|verified| verified.latency.as_ref());
        let shown = |nanos: Option<u64>| nanos.map_or("-".to_owned(), units::duration);
        let lost = trial(results, None).loss() * 100.0;
        [
            way.name().to_owned(),
            rate.to_owned(),
            format!("{:.3}", results.sent.pps / 1e6),
            format!("{lost:.3}"),
            shown(latency.map(|latency| latency.p50_ns)),
            shown(latency.map(|latency| latency.p99_ns)),
            unsteadiness(results).map_or("-".to_owned(), |it| format!("{:.1}", it * 100.0)),
        ]
    };
    let mut rows = Vec::new();
    for Measured { way, highest, fixed } in measured {
        match highest {
            Some(results) => rows.push(row(*way, "highest", results)),
            None => write_line(
                io::stderr(),
                format_args!(
                    "millrace: {}: loses more than {} % at every rate",
                    way.name(),
                    LOSS_MAX * 100.0
                ),
            ),
        }
        let rate = format!("{:.3} Mpps", f64::from(args.rate) / 1e6);
        rows.extend(fixed.as_ref().map(|results| row(*way, &rate, results)));
    }
    let headings = ["way", "rate", "sent Mpps", "lost %", "p50", "p99", "deviation %"];
    table::print(&mut io::stdout().lock(), headings, &(2..7), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_no_name_is_refused_with_the_names() {
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|text| (*text).to_owned()).collect();
            ways(&only).map_err(|error| error.to_string())
        };
        assert_eq!(names(&[]).unwrap(), Way::ALL);
        assert_eq!(names(&["MEMIF", "xdp"]).unwrap(), [Way::AfXdp, Way::Memif]);
        let refused = names(&["memif", "nothing"]).unwrap_err();
        assert!(refused.starts_with("--only nothing: no way has that in its name"), "{refused}");
        assert!(refused.ends_with("\"DPDK to DPDK, memif\""), "{refused}");
    }

    #[test]
    fn a_fixed_run_that_carries_more_is_the_highest() {
        let run = |sent, received| Trial { due: sent, sent, received };
        let fixed = run(967e3, 967e3);
        assert!(is_fixed_highest(Some(run(8e3, 8e3)), fixed));
        assert!(is_fixed_highest(None, fixed));
        assert!(!is_fixed_highest(Some(run(1.2e6, 1.19e6)), fixed));
        assert!(!is_fixed_highest(Some(run(8e3, 8e3)), run(967e3, 940e3)));
        assert!(!is_fixed_highest(None, run(0.0, 0.0)));
    }
}
