// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace gen --stateful`: opens connections by a profile, and prints what became of
//! them.

mod faults;
mod impair;
mod json;
mod lines;
mod outputs;
mod rows;
mod summary;
mod targets;

use super::GenArgs;
use super::trex_cfg::LinkSettings;
use crate::connections::{
    Balance, Ends, Finished, ProfileOptions, REPORT_NS_MAX, Session, SessionOptions, TaskQueues,
    Totals, read_profile,
};
use crate::signals;
use crate::tester::OfferedProfile;
use anyhow::{Context, bail};
use faults::is_unanswered;
use generator::BadLink;
use json::{Interval, Results};
use outputs::IntervalOutputs;
use report::output::write_line;
use stateful::{Counters, Pauses, Profile};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use targets::{Plan, TargetArgs, number};

/// Connections of each end at a time, by default.
const CAPACITY: u32 = 1_000_000;
/// Time between two turns of the control thread.
const TURN: Duration = Duration::from_millis(10);
/// Extra time before an interval is closed, for its reports to arrive.
const REPORTING: Duration = Duration::from_millis(150);
/// Intervals that are kept for the results: a day of seconds.
const INTERVALS_MAX: usize = 86_400;
/// Longest wait for open connections at the end.
const DRAIN: Duration = Duration::from_secs(2);

/// Options of stateful traffic.
#[derive(clap::Args)]
pub(super) struct StatefulArgs {
    /// Open TCP connections and UDP exchanges by a profile: a TOML file, an ASTF profile (.py), or
    /// a capture (.pcap, .pcapng)
    ///
    /// A profile in Python is a program: it runs with your rights. Of a capture, each session is
    /// replayed once a second: --cps changes that. Clients are at port A, servers at port B. With
    /// one port, --ends says which of them.
    #[arg(long, value_name = "PROFILE",
          conflicts_with_all = ["streams", "rate", "profile", "verify", "stats", "selftest",
                                "backend", "pcapng", "reflector", "send_on_time", "receivers",
                                "late", "payload"])]
    stateful: Option<PathBuf>,
    #[command(flatten)]
    targets: TargetArgs,
    /// Pass an argument to an ASTF profile, as TRex does with -t; may be given several times
    #[arg(long = "tunable", value_name = "KEY=VALUE", requires = "stateful")]
    tunables: Vec<String>,
    /// Replay these sessions of a capture: a list such as tcp/80,udp,3-5
    ///
    /// Numbers count the sessions of the capture, from 1, by their first packets.
    #[arg(long, value_name = "LIST", requires = "stateful")]
    sessions: Option<String>,
    /// Pauses of a capture to keep: all (by default), udp, or none
    ///
    /// Those below a millisecond are always left out.
    #[arg(long, value_name = "WHICH", value_parser = pauses, requires = "stateful")]
    pauses: Option<Pauses>,
    /// Ends of connections at the ports
    #[arg(long, value_name = "ENDS", value_enum, requires = "stateful")]
    ends: Option<Ends>,
    /// Have up to N connections open at a time; each takes 94 bytes at each end
    #[arg(long, value_name = "N", value_parser = number)]
    capacity: Option<f64>,
    /// Impair frames between the ends and their ports, in both directions
    ///
    /// KEY=VALUE with commas: loss=1%, dup=1%, reorder=1%, corrupt=0.1% are shares of the IP
    /// packets, delay=1ms the time that each frame takes. --seed determines which are impaired.
    #[arg(long, value_name = "SHARES", value_parser = impair::parse, requires = "stateful")]
    impair: Option<BadLink>,
}

/// Reads which pauses are kept.
fn pauses(text: &str) -> Result<Pauses, String> {
    match text {
        "all" => Ok(Pauses::All),
        "udp" => Ok(Pauses::Udp),
        "none" => Ok(Pauses::None),
        _ => Err("must be all, udp or none".to_owned()),
    }
}

impl StatefulArgs {
    /// Reads the profile; returns it with what follows from the options.
    fn profile(&self, path: &Path) -> anyhow::Result<(Profile, Plan)> {
        let options = ProfileOptions {
            tunables: &self.tunables,
            sessions: self.sessions.as_deref(),
            pauses: self.pauses,
        };
        let mut profile = read_profile(path, &options)?;
        let plan = self.targets.apply(&mut profile)?;
        Ok((profile, plan))
    }

    /// Returns the profile that a daemon offers, with the rates of the options, if the command line
    /// names one.
    pub(super) fn profile_of_daemon(&self) -> anyhow::Result<Option<OfferedProfile>> {
        let Some(path) = &self.stateful else { return Ok(None) };
        let (mut profile, plan) = self.profile(path)?;
        profile.templates.iter_mut().for_each(|template| template.cps *= plan.multiplier);
        let capacity = self.capacity(&plan);
        Ok(Some(OfferedProfile { profile: Arc::new(profile), capacity }))
    }

    /// Returns how many connections may be open at a time, if the command line says so.
    pub(super) fn given_capacity(&self) -> Option<u32> {
        self.capacity.map(|it| it as u32)
    }

    /// True if the traffic is stateful.
    pub(super) fn is_given(&self) -> bool {
        self.stateful.is_some()
    }

    fn capacity(&self, plan: &Plan) -> u32 {
        let planned = plan.records.map_or(0, |it| it as u32);
        self.capacity.map_or(CAPACITY.max(planned), |it| it as u32)
    }
}

pub(super) fn run(args: &GenArgs, link: &LinkSettings) -> anyhow::Result<ExitCode> {
    let stateful = &args.stateful;
    let path = stateful.stateful.as_ref().context("--stateful needs a profile")?;
    let (profile, plan) = stateful.profile(path)?;
    let profile = Arc::new(profile);
    let names = args.ports.as_ref().context("--stateful needs PORTS: A,B, or one with --ends")?;
    let ends = match (stateful.ends, names.count()) {
        (Some(ends), _) => ends,
        (None, 2) => Ends::Both,
        (None, _) => bail!("one port: say which end is there, --ends client or --ends server"),
    };
    let options = SessionOptions {
        profile: Arc::clone(&profile),
        ends,
        capacity: stateful.capacity(&plan),
        next_hops: link.next_hops([None; 2]),
        gateways: &args.gateways,
        tasks: args.senders.unwrap_or(1),
        queues: TaskQueues::ONE,
        workers: args.workers.map(usize::from),
        tuning: &link.tuning,
        mtu: args.mtu,
        bursts: args.bursts.sizes(),
        interval: args.interval,
        seed: args.seed(),
        bad_link: stateful.impair,
    };
    let outputs = IntervalOutputs::open(args, std::slice::from_ref(path))?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let mut session = Session::open(names, &options, &interrupted)?;
    session.start(plan.multiplier, args.ramp.unwrap_or_default())?;
    let mut control = Control { args, outputs, kept: Vec::new(), interrupted: &interrupted };
    control.watch(&mut session);
    let opened_for = session.elapsed();
    let overdue = session.poll().client.as_ref().map_or(0, |client| client.overdue);
    session.stop()?;
    control.drain(&mut session);
    let bytes = session.bytes_per_connection;
    let mut finished = session.finish();
    finished.intervals.iter().for_each(|(number, interval)| control.print(*number, interval));
    if let Some(client) = &mut finished.totals.client {
        client.overdue = overdue;
    }
    let Control { outputs, kept, .. } = control;
    let (json, is_written) = outputs.finish(summary::figures(&finished, opened_for));
    if !json.is_stdout() {
        summary::print(&finished, opened_for, bytes).context("cannot write the results")?;
    }
    if let Some(fault) = faults::fault(&finished) {
        write_line(io::stderr(), format_args!("millrace: {fault}"));
    }
    json.write(&Results::new(path, &finished, opened_for, bytes, &kept))?;
    Ok(if is_good(&finished) && is_written { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// True if connections were established, none failed, and the ports have sent what the ends say.
fn is_good(finished: &Finished) -> bool {
    let ends = [&finished.totals.client, &finished.totals.server];
    !is_unanswered(finished)
        && ends.into_iter().flatten().all(|end| end.counters.failures() == 0)
        && finished.balances().iter().all(Balance::is_kept)
}

/// The control thread's part of a run.
struct Control<'a> {
    args: &'a GenArgs,
    outputs: IntervalOutputs,
    kept: Vec<Interval>,
    interrupted: &'a AtomicBool,
}

impl Control<'_> {
    /// Prints intervals until the run is over, or a signal comes.
    fn watch(&mut self, session: &mut Session) {
        self.outputs.begin();
        let begun = Instant::now();
        let is_over = || self.args.duration.is_some_and(|duration| begun.elapsed() >= duration);
        let mut is_quit = false;
        while !is_over() && !is_quit && !self.interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(TURN);
            self.poll(session);
            is_quit = self.outputs.turn(session.poll());
        }
    }

    /// Waits until all connections have ended; up to two seconds, or until a signal comes.
    fn drain(&mut self, session: &mut Session) {
        let was_interrupted = self.interrupted.load(Ordering::Relaxed);
        let (begun, mut is_open) = (Instant::now(), false);
        // By then, all tasks have reported after they stopped.
        let reported = self.args.interval.min(2 * Duration::from_nanos(REPORT_NS_MAX));
        while begun.elapsed() < DRAIN {
            std::thread::sleep(TURN);
            self.poll(session);
            let totals = session.poll();
            self.outputs.turn(totals);
            let ends = [&totals.client, &totals.server];
            let is_active = |counters: &Counters| counters.active() > 0;
            let mut ends = ends.into_iter().flatten().peekable();
            // Servers over UDP do not see that a client has gone.
            is_open = ends.peek().is_some_and(|end| is_active(&end.counters));
            let is_any = ends.any(|end| is_active(&end.counters));
            let is_signalled = !was_interrupted && self.interrupted.load(Ordering::Relaxed);
            if is_signalled || !is_any && begun.elapsed() > reported {
                return;
            }
        }
        if is_open {
            let text = "millrace: connections are still open after 2 s: they are cut off";
            write_line(io::stderr(), text);
        }
    }

    fn poll(&mut self, session: &mut Session) {
        session.poll();
        let over = session.elapsed().saturating_sub(REPORTING).as_nanos();
        let number = (over / self.args.interval.as_nanos()) as u64;
        while let Some((number, interval)) = session.take_interval(number) {
            self.print(number, &interval);
        }
    }

    /// Prints and keeps an interval.
    fn print(&mut self, number: u64, totals: &Totals) {
        let open = self.outputs.write(number, totals);
        if self.args.json.is_some() && self.kept.len() < INTERVALS_MAX {
            self.kept.push(Interval::new(number, self.args.interval, totals, open));
        }
    }
}
