// SPDX-License-Identifier: BSD-3-Clause
//! Runs the generator: ports, workers, and the control thread's part.

use super::csv_file::CsvFile;
use super::profile::LoadedProfile;
use super::report::{Meter, Results};
use super::{GenArgs, selftest};
use crate::output::{JsonFile, tell, tell_at_once};
use crate::ports::OpenPorts;
use crate::signals;
use anyhow::{Context, bail};
use dpdk::Job;
use generator::{
    Clock, Ledger, Phase, Receiver, ReceiverReport, Sender, SenderReport, Stage, Task, mailbox,
    run_tasks,
};
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use traffic::stream::{StreamSetup, StreamSpec, Streams};
use traffic::{Side, Source, StampKey, Verifier};

/// How often the control thread looks.
const TURN: Duration = Duration::from_millis(10);
/// Reports of a worker in an interval.
const REPORTS: u64 = 10;
/// How long packets may be on their way when sending is over; later ones are lost.
const DRAIN: Duration = Duration::from_millis(500);
/// Latest packets of a stream among which duplicates are found: 64 Ki for one, less for many.
const WINDOW_MAX: usize = 1 << 16;
const WINDOWS_TOTAL: usize = 1 << 24;

pub(crate) fn run(args: &GenArgs) -> anyhow::Result<ExitCode> {
    let Some(names) = &args.ports else {
        let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
        return selftest::run(args.seed, &interrupted);
    };
    args.profile.refuse_what_does_not_fit(args.verify)?;
    let profile = args.profile.load(names.count())?;
    let specs = match &profile {
        Some(profile) => profile.probes.clone(),
        None => args.specs()?,
    };
    if names.count() == 1 && specs.iter().any(|spec| spec.side == Side::B) {
        bail!("side=b needs a port B: name two ports, A,B");
    }
    let json = JsonFile::open(args.json.as_deref())?;
    let is_verified = args.verify || profile.is_some();
    let csv = CsvFile::open(args.csv.as_deref(), args.interval, is_verified)?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let cpus = crate::host::Cpus::of_this_host().usable().len();
    let workers = args.workers.map_or(cpus.clamp(1, 2), usize::from);
    let of_profile = profile.as_ref().map_or(0, LoadedProfile::mtu);
    let needed_mtu = specs.iter().map(StreamSpec::mtu).fold(of_profile, usize::max);
    let mut open = names.open(workers, args.mtu, needed_mtu)?;
    let clock = Clock::new(&open.eal);
    let phase = Phase::new();
    for note in profile.iter().flat_map(|profile| &profile.notes) {
        tell(io::stderr(), format_args!("millrace: {note}"));
    }
    let setup = setup(args, is_verified, &open)?;
    let streams = Streams::new(&specs, &setup)?;
    let (tasks, ledger) = match &profile {
        Some(profile) => {
            let source = profile.source(streams, setup.macs)?;
            tasks(&setup, source, &mut open, (clock, args.interval))
        }
        None => tasks(&setup, streams, &mut open, (clock, args.interval)),
    };
    let jobs = launch(tasks, &mut open, clock, &phase);
    let is_printed = !args.quiet && !json.is_stdout();
    let meter = Meter::new(is_verified, args.interval);
    let begun = Instant::now();
    let mut control = Control { ledger, phase, begun, meter, csv, is_printed };
    let duration = args.duration.or(profile.as_ref().and_then(|profile| profile.duration));
    let sent_for = control.watch(duration, &interrupted);
    control.poll_for(DRAIN);
    control.phase.set(Stage::End);
    jobs.into_iter().for_each(|job| _ = job.join());
    control.ledger.poll();
    control.close_intervals(u64::MAX);
    let results = Results::new(args, (&specs, control.ledger.totals()), &open.ports, sent_for);
    open.close();
    if !json.is_stdout() {
        results.print(&mut io::stdout().lock()).context("cannot write the results")?;
    }
    json.write(&results)?;
    Ok(if results.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The tasks of the workers, and what adds up their reports.
fn tasks<S: Source + Send + 'static>(
    setup: &StreamSetup,
    source: S,
    open: &mut OpenPorts,
    (clock, interval): (Clock, Duration),
) -> ([Box<dyn Task>; 2], Ledger) {
    let lanes = source.lanes();
    let interval_ns = interval.as_nanos() as u64;
    let report_ns = interval_ns / REPORTS;
    let mut queues = open.queues.drain(..);
    let mut next =
        || queues.next().map(|(mut rx, mut tx)| (rx.pop(), tx.pop())).unwrap_or_default();
    let ((a_rx, a_tx), (b_rx, b_tx)) = (next(), next());
    drop(queues);
    let (outbox, sent) = mailbox(report_ns, || SenderReport::new(lanes));
    let sender = Sender::new(source, [a_tx, b_tx], open.mempool, outbox, interval_ns);
    let (outbox, received) = mailbox(report_ns, || ReceiverReport::new(lanes));
    let queues = a_rx.into_iter().chain(b_rx).collect();
    let mut receiver = Receiver::new(queues, clock, outbox, interval_ns);
    if setup.is_stamped {
        let window = (WINDOWS_TOTAL / lanes).clamp(64, WINDOW_MAX);
        receiver = receiver.verifying(Verifier::new(setup.seed, setup.key), lanes, window);
    }
    ([Box::new(sender), Box::new(receiver)], Ledger::new(vec![sent], vec![received], lanes))
}

fn setup(args: &GenArgs, is_stamped: bool, open: &OpenPorts) -> anyhow::Result<StreamSetup> {
    let run = getrandom::u64().context("cannot get random numbers from the system")?;
    // Nobody's: a locally administered address.
    const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 1];
    let mac = |number: usize| open.ports.get(number).map_or(NOBODY, |port| port.info().mac);
    let speed = |number: usize| open.ports.get(number).and_then(|port| port.link().speed_mbps);
    Ok(StreamSetup {
        macs: [mac(0), mac(1)],
        link_mbps: [speed(0), speed(1)],
        seed: args.seed,
        key: StampKey::new(run),
        is_stamped,
    })
}

/// Gives each worker its tasks: one has both, or each has one.
fn launch(
    tasks: [Box<dyn Task>; 2],
    open: &mut OpenPorts,
    clock: Clock,
    phase: &Phase,
) -> Vec<Job<()>> {
    let mut lcores = std::mem::take(&mut open.lcores);
    let mut shares: Vec<Vec<Box<dyn Task>>> = lcores.iter().map(|_| Vec::new()).collect();
    for (number, task) in tasks.into_iter().enumerate() {
        let worker = number % shares.len();
        shares[worker].push(task);
    }
    let jobs = lcores.drain(..).zip(shares).map(|(lcore, tasks)| {
        let phase = phase.clone();
        lcore.launch(move || drop(run_tasks(tasks, clock, &phase)))
    });
    jobs.collect()
}

/// The control thread's part of a run.
struct Control {
    ledger: Ledger,
    phase: Phase,
    begun: Instant,
    meter: Meter,
    csv: CsvFile,
    is_printed: bool,
}

impl Control {
    /// Waits until sending is over; returns how long it took.
    fn watch(&mut self, duration: Option<Duration>, interrupted: &AtomicBool) -> Duration {
        if self.is_printed {
            tell_at_once(Meter::HEADING);
        }
        loop {
            self.ledger.poll();
            let elapsed = self.begun.elapsed();
            self.close_intervals(self.meter.intervals_over(elapsed));
            let is_over = duration.is_some_and(|duration| elapsed >= duration);
            if is_over || interrupted.load(Ordering::Relaxed) || self.ledger.is_all_sent() {
                self.phase.set(Stage::Drain);
                return elapsed;
            }
            std::thread::sleep(duration.map_or(TURN, |it| TURN.min(it - elapsed)));
        }
    }

    /// Prints and writes the intervals below `number`.
    fn close_intervals(&mut self, number: u64) {
        while let Some((number, interval)) = self.ledger.take_interval(number) {
            if self.is_printed {
                tell_at_once(self.meter.line(number, &interval));
            }
            if let Err(error) = self.csv.write(number, &interval) {
                tell(io::stderr(), format_args!("millrace: cannot write intervals: {error}"));
            }
        }
    }

    /// Takes reports for so long.
    fn poll_for(&mut self, duration: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < duration {
            std::thread::sleep(TURN);
            self.ledger.poll();
        }
    }
}
