// SPDX-License-Identifier: BSD-3-Clause
//! Runs the generator: opens ports, starts workers, and does the control thread's part.

use super::figures::port_result;
use super::neighbours::{Senders, resolve_all};
use super::on_time::OnTimeSending;
use super::pcapng::PcapngFile;
use super::profile::LoadedProfile;
use super::reflector_queries::ReflectorQueries;
use super::report::{Reporter, Subject, open_outputs};
use super::tasks::{self, Plan, TaskCounts};
use super::trex_cfg::LinkSettings;
use super::{GenArgs, Payload, Stats, selftest, sockets};
use crate::backend::Backend;
use crate::ports::{LinkWatch, OpenOptions, OpenPorts, PortNames};
use crate::signals;
use crate::worker_cycles::join_lcores;
use anyhow::{Context, bail};
use generator::{Clock, Ledger, Phase, Stage, StreamTotals, Totals};
use report::output::write_line;
use results::workers::WorkerResult;
use std::cell::Cell;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use traffic::stream::{Rate, StreamSetup, StreamSpec, check_sizes};
use traffic::{Part, PayloadFormat, Side, StampKey};

/// Time from the start of the workers until senders begin. All workers run by then.
pub(super) const START: Duration = Duration::from_millis(20);
/// A wait of up to this length for late packets needs no message.
const LATE_TOLERATED: Duration = Duration::from_secs(2);
/// Time to wait for duplicates once every packet has arrived.
const DUPLICATES: Duration = Duration::from_millis(500);
/// Time between two turns of the control thread.
const TURN: Duration = Duration::from_millis(10);

pub(super) fn run(args: &GenArgs, link: &LinkSettings) -> anyhow::Result<ExitCode> {
    if args.backend.backend != Backend::Dpdk {
        return sockets::run(args);
    }
    let Some(names) = &args.ports else {
        if !args.selftest {
            bail!("--backend dpdk needs PORTS");
        }
        let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
        return selftest::run(args.seed(), &interrupted);
    };
    run_on(names, args, link)
}

/// The traffic of a run.
struct Load {
    profile: Option<LoadedProfile>,
    /// The streams; with a profile, its probes.
    specs: Vec<StreamSpec>,
    is_verified: bool,
}

impl Load {
    fn of(args: &GenArgs, ports: usize) -> anyhow::Result<Self> {
        args.profile.refuse_contradictions(args.is_verified())?;
        if args.reflector && args.has_profile() {
            bail!("--reflector works with streams only, not with a TRex profile");
        }
        let profile = args.profile.load(ports)?;
        let specs = match &profile {
            Some(profile) => profile.probes.clone(),
            None => args.specs()?,
        };
        if ports == 1 && specs.iter().any(|spec| spec.side == Side::B) {
            bail!("side=b needs a port B: name two ports, A,B");
        }
        // The packets of captures at their own speed have times.
        let has_times = |spec: &StreamSpec| {
            spec.rate != Rate::Max || spec.playback.as_ref().is_some_and(|it| it.speed.is_some())
        };
        if args.send_on_time && !specs.iter().all(has_times) {
            bail!(
                "--send-on-time: packets at rate max have no times: name a rate, or leave it out"
            );
        }
        let is_verified = args.is_verified() || profile.is_some() && !specs.is_empty();
        check_sizes(&specs, is_verified)?;
        Ok(Self { profile, specs, is_verified })
    }

    /// Returns the MTU that the longest frame needs.
    fn mtu(&self) -> usize {
        let of_profile = self.profile.as_ref().map_or(0, LoadedProfile::mtu);
        self.specs.iter().map(StreamSpec::mtu).fold(of_profile, usize::max)
    }

    fn duration(&self) -> Option<Duration> {
        self.profile.as_ref().and_then(|profile| profile.duration)
    }
}

/// Runs the generator on these ports.
fn run_on(names: &PortNames, args: &GenArgs, link: &LinkSettings) -> anyhow::Result<ExitCode> {
    let load = Load::of(args, names.count())?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let outputs = open_outputs(args)?;
    let pcapng = args.pcapng.open()?;
    let counts = TaskCounts::new(args);
    let mut open = names.open(&OpenOptions {
        workers: counts.workers,
        rx_queues: counts.receivers.max(1),
        tx_queues: counts.senders,
        mtu: args.mtu,
        needed_mtu: load.mtu(),
        sends_on_time: args.send_on_time,
        tuning: &link.tuning,
    })?;
    open.wait_for_links(&interrupted);
    for note in load.profile.iter().flat_map(|profile| profile.notes(counts.senders)) {
        write_line(io::stderr(), format_args!("millrace: {note}"));
    }
    let Load { profile, specs, is_verified } = &load;
    let senders = Senders { specs, profile: profile.as_ref() };
    let on_time = OnTimeSending::begin((args, link), &open)?;
    let clock = Clock::measured();
    let gateways = resolve_all(&args.gateways, &senders, &mut open, clock, &interrupted)?;
    let setup = setup((args, link), (*is_verified, counts.senders), &open)?;
    let gateways = link.next_hops(gateways);
    let mut queries = match args.reflector {
        true => ReflectorQueries::new(&senders, open.ports.len(), setup.macs, gateways),
        false => ReflectorQueries::default(),
    };
    let delay = START + queries.delay();
    let plan = Plan {
        counts,
        specs,
        profile: profile.as_ref(),
        setup,
        gateways,
        mempool: open.mempool,
        bursts: args.bursts.sizes(),
        is_timed: args.stats != Stats::Off,
        on_time,
        clock: clock.starting_in(delay),
        interval_ns: args.interval.as_nanos() as u64,
    };
    let begun = Instant::now() + delay;
    let prepare = |file| args.pcapng.prepare(file, &open.ports, plan.clock, delay);
    let mut pcapng = pcapng.map(prepare);
    let phase = Phase::new();
    let (workers, ledger) = plan.tasks(&mut open, &mut queries, pcapng.as_mut())?;
    let jobs = tasks::launch(workers, &mut open, plan.clock, &phase);
    queries.begin();
    let reflectors = Cell::new([None; 2]);
    let ports = || {
        let both = open.ports.iter().zip(reflectors.get());
        Ok(both.map(|(port, reflector)| port_result(port, reflector)).collect())
    };
    let subject =
        Subject { args, specs, ports: &ports, cpus: &open.cpus, is_verified: *is_verified };
    let mut control = Control::new((ledger, phase), Reporter::new(subject, outputs)?, begun);
    control.pcapng = pcapng;
    control.links = Some(LinkWatch::new(&open.ports));
    let sent_for = control.conduct(args.duration.or(load.duration()), args.late, &interrupted);
    reflectors.set(queries.end());
    control.end_workers();
    let status = control.finish(sent_for, join_lcores(jobs, &open.cpus));
    open.close();
    Ok(status)
}

/// Returns the payload format of this run. Stamps have a random key that other runs do not have.
/// Fails if `--payload` is given without verification.
pub(super) fn payload_format(args: &GenArgs, senders: u16) -> anyhow::Result<PayloadFormat> {
    if args.payload != Payload::Stamped && !args.is_verified() {
        bail!("--payload is for verified streams: give --verify too");
    }
    let run = getrandom::u64().context("cannot get random numbers from the system")?;
    Ok(match args.payload {
        Payload::Stamped => PayloadFormat::Stamped(StampKey::new(run)),
        Payload::DpdkProject => PayloadFormat::DpdkProject { seed: args.seed(), senders },
    })
}

fn setup(
    (args, link): (&GenArgs, &LinkSettings),
    (is_stamped, senders): (bool, u16),
    open: &OpenPorts,
) -> anyhow::Result<StreamSetup> {
    let seed = args.seed();
    // A locally administered address that no device has.
    const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 1];
    let of_port = |number: usize| open.ports.get(number).map_or(NOBODY, |port| port.info().mac);
    let mac = |number: usize| link.src_macs[number].unwrap_or_else(|| of_port(number));
    let speed = |number: usize| open.ports.get(number).and_then(|port| port.link().speed_mbps);
    Ok(StreamSetup {
        macs: [mac(0), mac(1)],
        link_mbps: [speed(0), speed(1)],
        seed,
        format: payload_format(args, senders)?,
        is_stamped,
        part: Part::default(),
        ramp_ns: args.ramp_ns(),
    })
}

/// True if every packet sent was stamped and has arrived.
fn has_all_arrived(streams: &[StreamTotals], sent: [u64; 2]) -> bool {
    let has_all = |stream: &StreamTotals| stream.sent == stream.received.received();
    let of_streams: u64 = streams.iter().map(|stream| stream.sent).sum();
    of_streams > 0 && of_streams == sent[0] + sent[1] && streams.iter().all(has_all)
}

/// The control thread's part of a run.
pub(super) struct Control<'a> {
    ledger: Ledger,
    phase: Phase,
    begun: Instant,
    reporter: Reporter<'a>,
    pub(super) links: Option<LinkWatch<'a>>,
    pcapng: Option<PcapngFile>,
}

impl<'a> Control<'a> {
    /// Makes the control of workers that begin to send at `begun`.
    pub(super) fn new(
        (ledger, phase): (Ledger, Phase),
        reporter: Reporter<'a>,
        begun: Instant,
    ) -> Self {
        Self { ledger, phase, begun, reporter, links: None, pcapng: None }
    }

    /// Waits until sending ends, then up to `late` for late packets. Returns the duration of
    /// sending.
    pub(super) fn conduct(
        &mut self,
        duration: Option<Duration>,
        late: Duration,
        interrupted: &AtomicBool,
    ) -> Duration {
        if !self.wait_for_begin(interrupted) {
            self.phase.set(Stage::Drain);
            return Duration::ZERO;
        }
        let sent_for = self.watch(duration, interrupted);
        if late > LATE_TOLERATED {
            let end = match interrupted.load(Ordering::Relaxed) {
                true => "Ctrl-C again ends the run at once",
                false => "Ctrl-C ends the wait",
            };
            let late = late.as_secs_f64();
            let message =
                format_args!("millrace: waiting up to {late} s for packets on their way; {end}");
            write_line(io::stderr(), message);
        }
        self.poll_for(late, interrupted);
        sent_for
    }

    /// Ends the workers.
    pub(super) fn end_workers(&self) {
        self.phase.set(Stage::End);
    }

    /// Takes the last reports of the ended workers, and writes the results. Returns the exit
    /// status.
    pub(super) fn finish(mut self, sent_for: Duration, workers: Vec<WorkerResult>) -> ExitCode {
        self.ledger.poll();
        self.close_intervals(u64::MAX);
        self.finish_pcapng();
        self.reporter.finish(self.ledger.totals(), sent_for, workers)
    }

    /// Waits until senders begin; false if a signal comes before. Output files then keep their
    /// contents.
    fn wait_for_begin(&mut self, interrupted: &AtomicBool) -> bool {
        while !interrupted.load(Ordering::Relaxed) {
            self.poll();
            let left = self.begun.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(TURN));
        }
        false
    }

    /// Waits until sending ends; returns its duration.
    fn watch(&mut self, duration: Option<Duration>, interrupted: &AtomicBool) -> Duration {
        self.reporter.begin();
        self.with_pcapng(PcapngFile::begin);
        loop {
            self.poll();
            let elapsed = self.begun.elapsed();
            let is_quit = self.reporter.turn(self.ledger.totals(), elapsed);
            self.close_intervals(self.reporter.intervals_over(elapsed));
            let is_over = is_quit || duration.is_some_and(|duration| elapsed >= duration);
            if is_over || interrupted.load(Ordering::Relaxed) || self.ledger.is_all_sent() {
                self.phase.set(Stage::Drain);
                return elapsed;
            }
            std::thread::sleep(duration.map_or(TURN, |it| TURN.min(it - elapsed)));
        }
    }

    /// Closes the intervals below `number`.
    fn close_intervals(&mut self, number: u64) {
        while let Some((number, interval)) = self.ledger.take_interval(number) {
            self.reporter.close(number, &interval);
        }
    }

    /// Takes reports for `duration`. Ends earlier once every stamped packet has arrived, or at a
    /// signal if none came before.
    fn poll_for(&mut self, duration: Duration, interrupted: &AtomicBool) {
        let was_interrupted = interrupted.load(Ordering::Relaxed);
        let (begun, sent_for) = (Instant::now(), self.begun.elapsed());
        // By then, all workers have reported after they stopped sending.
        let reported = self.reporter.interval + DUPLICATES;
        while begun.elapsed() < duration {
            std::thread::sleep(TURN);
            self.poll();
            self.reporter.turn(self.ledger.totals(), sent_for);
            let Totals { streams, sent, .. } = self.ledger.totals();
            let is_complete = begun.elapsed() > reported && has_all_arrived(streams, *sent);
            if is_complete || !was_interrupted && interrupted.load(Ordering::Relaxed) {
                break;
            }
        }
    }

    /// Takes reports and copied frames, and checks links.
    fn poll(&mut self) {
        self.ledger.poll();
        self.links.as_mut().into_iter().for_each(LinkWatch::print_changes);
        self.with_pcapng(PcapngFile::write);
    }

    /// Runs `act` on the capture, if there is one. After an error, the capture ends.
    fn with_pcapng(&mut self, act: fn(&mut PcapngFile) -> anyhow::Result<()>) {
        if let Err(error) = self.pcapng.as_mut().map_or(Ok(()), act) {
            self.reporter.fail(&error);
            self.pcapng = None;
        }
    }

    /// Writes the rest of the copied frames.
    fn finish_pcapng(&mut self) {
        match self.pcapng.take().map_or(Ok(0), PcapngFile::finish) {
            Ok(0) => {}
            Ok(missed) => write_line(
                io::stderr(),
                format_args!(
                    "millrace: --pcapng: {missed} packets were not copied: they came too fast"
                ),
            ),
            Err(error) => self.reporter.fail(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use generator::LaneReport;

    #[test]
    fn nothing_is_on_its_way_once_every_stamped_packet_has_come() {
        let stream = |sent, received| StreamTotals {
            sent,
            received: LaneReport { good: received, ..LaneReport::default() },
        };
        assert!(has_all_arrived(&[stream(5, [2, 3]), stream(0, [0, 0])], [5, 0]));
        assert!(has_all_arrived(&[stream(5, [5, 0]), stream(1, [0, 1])], [4, 2]));
        assert!(!has_all_arrived(&[stream(5, [2, 2])], [5, 0]), "one is missing");
        assert!(!has_all_arrived(&[stream(5, [3, 3])], [5, 0]), "the sender has not reported");
        assert!(!has_all_arrived(&[stream(5, [5, 0])], [9, 0]), "others are not stamped");
        assert!(!has_all_arrived(&[], [0, 0]), "nothing was sent");
    }
}
