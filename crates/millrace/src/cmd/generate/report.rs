// SPDX-License-Identifier: BSD-3-Clause
//! Turns counters of the generator into results, prints them per interval, and writes them at the
//! end.

use super::csv_file::CsvFile;
use super::figures::{
    counted, delays, latency, pacing, port_interval, queue, queue_interval, sender,
    stream_interval, verified, with_frames,
};
use super::outputs::Outputs;
use super::steal::Steal;
use super::terminal::Terminal;
use super::{GenArgs, Stats};
use crate::is_closed_pipe;
use anyhow::Context;
use doctor::host::{Processor, Software};
use generator::Totals;
use report::output::{write_line, write_line_at_once};
use results::live::LiveView;
use results::metrics::Scrape;
use results::workers::WorkerResult;
use results::{Count, Host, Interval, IntervalLines, KIND, PortResult, Results, Run};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use traffic::stream::StreamSpec;

/// Extra time before an interval is closed, for its reports to arrive. Workers report ten times
/// per interval, and the control thread reads reports every 10 ms.
const REPORTING: Duration = Duration::from_millis(50);
/// Maximum number of intervals kept for the results: a day of seconds, 30 MB.
const INTERVALS_MAX: usize = 86_400;

/// Opens the outputs of a run of streams.
pub(super) fn open_outputs(args: &GenArgs) -> anyhow::Result<Outputs> {
    let stream_file = args.profile.stream_file();
    let folder = stream_file.and_then(Path::parent).unwrap_or(Path::new(""));
    let mut inputs: Vec<PathBuf> = stream_file.into_iter().map(Path::to_owned).collect();
    inputs.extend(args.trex_cfg.clone());
    for (key, value) in args.pairs()?.into_iter().flatten() {
        inputs.extend((key == "pcap").then(|| folder.join(value)));
    }
    Outputs::open(args, &inputs, CsvFile::open)
}

/// The run that is measured.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) args: &'a GenArgs,
    pub(super) specs: &'a [StreamSpec],
    /// Reads the counters of the ports, without frames sent and received.
    pub(super) ports: &'a dyn Fn() -> anyhow::Result<Vec<PortResult>>,
    /// Cpus of the workers.
    pub(super) cpus: &'a [u32],
    pub(super) is_verified: bool,
}

/// Prints, writes and keeps intervals.
pub(super) struct Reporter<'a> {
    subject: Subject<'a>,
    port_names: Vec<String>,
    outputs: Outputs,
    view: LiveView,
    steal: Steal,
    pub(super) interval: Duration,
    /// Time after its end at which an interval is closed: its packets have arrived by then, or are
    /// late.
    late: Duration,
    lines: Option<IntervalLines>,
    started: SystemTime,
    intervals: Vec<Interval>,
    left_out: u64,
    /// True once sending has begun.
    has_begun: bool,
    /// True if an output could not be written.
    has_failed: bool,
}

impl<'a> Reporter<'a> {
    /// Makes a reporter of a run that starts now.
    pub(super) fn new(subject: Subject<'a>, outputs: Outputs) -> anyhow::Result<Self> {
        let Subject { args, ports, cpus, .. } = subject;
        let is_free = !outputs.json.is_stdout() && outputs.terminal.is_none();
        let is_printed = is_free && !args.quiet && args.stats != Stats::Off;
        let port_names: Vec<_> = ports()?.into_iter().map(|port| port.name).collect();
        let lines = IntervalLines::new(args.interval.as_secs_f64());
        Ok(Self {
            subject,
            view: LiveView::new("millrace gen".to_owned(), port_names.clone()),
            port_names,
            outputs,
            steal: Steal::new(cpus.to_vec()),
            interval: args.interval,
            late: args.late + REPORTING,
            lines: is_printed.then_some(lines),
            started: SystemTime::now(),
            intervals: Vec::new(),
            left_out: 0,
            has_begun: false,
            has_failed: false,
        })
    }

    /// Begins the output of intervals: empties the CSV file, and prints the heading of the lines.
    pub(super) fn begin(&mut self) {
        self.has_begun = true;
        if let Err(error) = self.outputs.csv.begin() {
            self.fail(&error);
        }
        if self.lines.is_some() {
            write_line_at_once(IntervalLines::HEADING);
        }
        self.draw();
    }

    /// Prints that an output could not be written. The other outputs continue.
    pub(super) fn fail(&mut self, error: &anyhow::Error) {
        self.has_failed = true;
        write_line(io::stderr(), format_args!("millrace: {error:#}"));
    }

    fn draw(&mut self) {
        if let Some(terminal) = &mut self.outputs.terminal {
            terminal.draw(&self.view.lines(terminal.width()));
        }
    }

    /// Records stolen time and answers requests for metrics, `elapsed` after the start. Returns
    /// true if the user has ended the run on the terminal.
    pub(super) fn turn(&mut self, totals: &Totals, elapsed: Duration) -> bool {
        self.steal.note((elapsed.as_nanos() / self.interval.as_nanos()) as u64);
        if let Some(metrics) = &self.outputs.metrics {
            metrics.answer(|| {
                // If the counters of a port cannot be read, the other metrics are still useful.
                let ports = (self.subject.ports)().unwrap_or_default();
                self.scrape(ports, totals, elapsed).into_text()
            });
        }
        self.outputs.terminal.as_ref().is_some_and(Terminal::is_quit_pressed)
    }

    /// Returns the number of intervals that can be closed `elapsed` after the start.
    pub(super) fn intervals_over(&self, elapsed: Duration) -> u64 {
        (elapsed.saturating_sub(self.late).as_nanos() / self.interval.as_nanos()) as u64
    }

    /// Prints, writes and keeps interval `number`, which is complete.
    pub(super) fn close(&mut self, number: u64, counters: &generator::Interval) {
        let steal_ms = self.steal.take(number);
        let interval = Interval { steal_ms, ..self.interval(number, counters) };
        if let Some(lines) = &self.lines {
            write_line_at_once(lines.line(&interval));
        }
        self.view.add(&interval);
        self.draw();
        if let Err(error) = self.outputs.csv.write(&interval) {
            self.fail(&error);
        }
        match self.intervals.len() < INTERVALS_MAX {
            true => self.intervals.push(interval),
            false => self.left_out += 1,
        }
    }

    fn interval(&self, number: u64, counters: &generator::Interval) -> Interval {
        let length_s = self.interval.as_secs_f64();
        let verified = |count: u64| self.subject.is_verified.then_some(count);
        Interval {
            start_s: number as f64 * length_s,
            length_s,
            sent: Count {
                packets: counters.sent.iter().sum(),
                bytes: counters.sent_bytes.iter().sum(),
            },
            received: Count {
                packets: counters.received.iter().sum(),
                bytes: counters.received_bytes.iter().sum(),
            },
            stamped: verified(counters.made),
            lost: verified(counters.lost()),
            damaged: verified(counters.damaged),
            foreign: verified(counters.foreign),
            latency: latency(&counters.latency_of_all()),
            longest_gap_ns: counters.longest_gap_ns,
            steal_ms: None,
            ports: (0..self.port_names.len()).map(|port| port_interval(counters, port)).collect(),
            queues: counters.queues.iter().map(queue_interval).collect(),
            streams: counters.streams.iter().map(stream_interval).collect(),
        }
    }

    /// Returns the values of a scrape of metrics.
    fn scrape(&self, ports: Vec<PortResult>, totals: &Totals, elapsed: Duration) -> Scrape {
        Scrape {
            results: self.results(ports, totals, elapsed),
            latency: delays(&totals.latency_of_all()),
            late: delays(&totals.lateness),
            gap_error: delays(&totals.gap_error),
        }
    }

    /// Returns the results of the run so far, without its intervals.
    fn results(&self, ports: Vec<PortResult>, totals: &Totals, sent_for: Duration) -> Results {
        let Subject { args, specs, is_verified, .. } = self.subject;
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let ports = ports.into_iter().enumerate();
        Results {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kind: KIND.to_owned(),
            dpdk: dpdk::version(),
            started_unix_s: Some(started.as_millis() as f64 / 1e3),
            command: std::env::args_os().map(|word| word.to_string_lossy().into()).collect(),
            host: Host {
                cpu: Processor::name_of_this_host(),
                kernel: Software::kernel_of_this_host(),
            },
            seed: args.seed(),
            duration_s: sent_for.as_secs_f64(),
            ports: ports.map(|(number, port)| with_frames(port, number, totals)).collect(),
            sent: counted(totals.sent, totals.sent_bytes, totals.sent_span),
            received: counted(totals.received, totals.received_bytes, totals.received_span),
            senders: totals.senders.iter().map(|it| sender(it, &self.port_names)).collect(),
            queues: totals.queues.iter().map(|it| queue(it, &self.port_names)).collect(),
            workers: Vec::new(),
            unsent: totals.unsent(),
            port_full: totals.port_full(),
            put_off_s: totals.put_off_ns as f64 / 1e9,
            verified: is_verified.then(|| verified(specs, totals, args.is_verified())),
            pacing: pacing(totals, args.send_on_time),
            longest_gap_ns: totals.longest_gap_ns,
            intervals: Vec::new(),
            intervals_left_out: self.left_out,
        }
    }

    /// Writes the results: files first, then the text. An output that fails does not stop the
    /// others. Returns the exit status: 1 if an output failed or the results are not good. A closed
    /// standard output is no failure. A run that ended before it sent anything writes no results.
    pub(super) fn finish(
        mut self,
        totals: &Totals,
        sent_for: Duration,
        workers: Vec<WorkerResult>,
    ) -> ExitCode {
        if !self.has_begun && totals.sent == [0, 0] {
            let message = "millrace: interrupted before sending began: nothing was sent, and files \
                           are unchanged";
            write_line(io::stderr(), message);
            return ExitCode::FAILURE;
        }
        let intervals = std::mem::take(&mut self.intervals);
        let ports = (self.subject.ports)().unwrap_or_else(|error| {
            self.fail(&error);
            let named = |name: &String| PortResult { name: name.clone(), ..PortResult::default() };
            self.port_names.iter().map(named).collect()
        });
        let results = Results { intervals, workers, ..self.results(ports, totals, sent_for) };
        let Outputs { json, page, terminal, .. } = self.outputs;
        drop(terminal);
        let is_stdout = json.is_stdout();
        let text = || {
            if is_stdout {
                return Ok(());
            }
            results.print(&mut io::stdout().lock()).context("cannot write to standard output")
        };
        let page = page.write("millrace gen", &[Run::new("this run", &results)]);
        let json = json.write(&results);
        let written = [(page, false), (json, is_stdout), (text(), true)];
        let mut is_good = results.is_good() && !self.has_failed;
        for (written, is_stdout) in written {
            match written {
                Err(error) if !(is_stdout && is_closed_pipe(&error)) => {
                    is_good = false;
                    write_line(io::stderr(), format_args!("millrace: {error:#}"));
                }
                _ => {}
            }
        }
        if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
