// SPDX-License-Identifier: BSD-3-Clause
//! Measures with `millrace gen`: a process of this program for each trial.

use super::loads::{Share, Traffic};
use super::measurement::{GAP_TOLERATED_NS, Measurement, Tester};
use crate::cmd::bench::testbed::{end_with_us, this_program};
use anyhow::{Context, bail};
use results::{Interval, Results};
use rustix::process::{Pid, Signal, kill_process};
use search::mlr::Counts;
use std::io;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds for which a generator may send after its time, in case it was delayed at the end.
const GRACE_S: f64 = 0.01;
/// Seconds by which the last packet may be late.
const LATENESS_S: f64 = 0.001;
/// Time between two looks for a signal.
const TURN: Duration = Duration::from_millis(20);
/// Time in which a generator ends that a signal has reached, too.
const OBEYS: Duration = Duration::from_secs(3);
/// Share of the intended rate that a tester must reach.
const RATE_MIN: f64 = 0.999;

/// The generator on its ports.
pub(super) struct Generator<'a> {
    /// The ports as the command line names them.
    pub(super) ports: &'a str,
    pub(super) traffic: &'a Traffic,
    /// Options of `millrace gen`.
    pub(super) options: &'a [String],
    /// Seed of the next trial.
    pub(super) seed: u64,
    /// Speeds of the links in Mb/s.
    pub(super) links: [Option<u32>; 2],
    pub(super) interrupted: &'a AtomicBool,
}

impl Tester for Generator<'_> {
    fn measure(&mut self, load: f64, seconds: f64) -> anyhow::Result<Measurement> {
        let begun = Instant::now();
        let share = self.traffic.share(load, seconds, self.links)?;
        let seed = self.seed;
        self.seed += 1;
        let results = self.run(&share.streams, seconds + GRACE_S, seed)?;
        Ok(Measurement {
            seed,
            whole_s: begun.elapsed().as_secs_f64(),
            ..measurement(&results, &share, seconds)
        })
    }

    fn packets_per_second(&self, load: f64) -> Option<f64> {
        self.traffic.share(load, 1.0, self.links).ok().map(|share| share.pps)
    }
}

impl Generator<'_> {
    /// Learns the speeds of the links from a short run.
    pub(super) fn learn_links(&mut self) -> anyhow::Result<()> {
        let results = self.run(&["rate=1kpps count=1".to_owned()], 1.0, self.seed)?;
        for (link, port) in self.links.iter_mut().zip(&results.ports) {
            *link = port.link_mbps;
        }
        Ok(())
    }

    fn run(&self, streams: &[String], seconds: f64, seed: u64) -> anyhow::Result<Results> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let mut generator = end_with_us(this_program()?)?;
        generator.args(["gen", self.ports, "--verify", "-q", "--json", "-"]);
        generator.args(["-d", &seconds.to_string(), "--seed", &seed.to_string()]);
        generator.args(streams.iter().flat_map(|stream| ["--stream", stream]));
        generator.args(self.options);
        let output = self.output_of(generator).context("cannot run the generator")?;
        // A trial that was cut short does not count.
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        serde_json::from_slice(&output.stdout).map_err(|_| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let message = stderr.trim().lines().last().unwrap_or("the generator has no output");
            anyhow::anyhow!("{}", message.strip_prefix("millrace: ").unwrap_or(message))
        })
    }

    /// Runs a generator; returns what it has printed. A signal that has come to this process alone
    /// ends the generator, too.
    fn output_of(&self, mut generator: Command) -> io::Result<Output> {
        generator.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let generator = generator.spawn()?;
        let process = Pid::from_child(&generator);
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut interrupted = None;
                while !has_ended.load(Ordering::Relaxed) {
                    thread::sleep(TURN);
                    if self.interrupted.load(Ordering::Relaxed) {
                        let since = *interrupted.get_or_insert_with(Instant::now);
                        if since.elapsed() > OBEYS {
                            // An error means that it has ended.
                            let _ = kill_process(process, Signal::TERM);
                            return;
                        }
                    }
                }
            });
            let output = generator.wait_with_output();
            has_ended.store(true, Ordering::Relaxed);
            output
        })
    }
}

/// Converts results of the generator to those of a trial.
fn measurement(results: &Results, share: &Share, seconds: f64) -> Measurement {
    let verified = results.verified.as_ref();
    let received = verified.map_or(0, |it| it.streams.iter().map(|of| of.received).sum());
    let sum = |of: fn(&results::PortResult) -> u64| results.ports.iter().map(of).sum::<u64>();
    let sent = results.sent.packets.saturating_sub(sum(|port| port.oerrors));
    let offered = sent.min(sent_in_time(results, share, seconds));
    let is_away = results.longest_gap_ns > GAP_TOLERATED_NS;
    let away_s = if is_away { results.longest_gap_ns as f64 / 1e9 } else { 0.0 };
    let stolen = |sum: Option<u64>, of: &Interval| Some(sum? + of.steal_ms?);
    Measurement {
        counts: Counts {
            intended: share.packets,
            offered,
            // Packets that were sent too late do not count, wherever they are.
            forwarded: received.saturating_sub(sent - offered),
            missed: sum(|port| port.imissed + port.rx_nombuf),
            delayed: (away_s * share.pps) as u64,
        },
        latency: verified.and_then(|verified| verified.latency),
        longest_gap_ns: results.longest_gap_ns,
        steal_ms: results.intervals.iter().fold(Some(0), stolen),
        ..Measurement::default()
    }
}

/// Returns the number of packets that were sent in the time of the trial. A generator that is too
/// slow sends the rest later.
fn sent_in_time(results: &Results, share: &Share, seconds: f64) -> u64 {
    let sent = results.sent;
    // The rate is that from the first packet to the last one.
    let span_s = if sent.pps > 0.0 { sent.packets as f64 / sent.pps } else { 0.0 };
    let whole_s = seconds * sent.packets as f64 / share.packets as f64;
    match span_s > whole_s / RATE_MIN + LATENESS_S {
        true => (share.packets as f64).min(sent.packets as f64 * seconds / span_s) as u64,
        false => sent.packets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Counted, Host, Pacing, PortResult, StreamResult, Verified};

    const SHARE: Share = Share { streams: Vec::new(), packets: 1000, pps: 1000.0 };

    /// Returns the results of a second in which this many packets were sent and received.
    fn results(sent: u64, received: u64, span_s: f64) -> Results {
        let stream = StreamResult {
            name: "stream0".to_owned(),
            sent,
            received,
            lost: sent - received,
            reordered: 0,
            reordering_extent_max: 0,
            duplicates: 0,
            too_late: 0,
            damaged: 0,
            jitter_ns: 0,
            latency: None,
        };
        let streams = vec![stream];
        let lost = sent - received;
        Results {
            version: String::new(),
            kind: results::KIND.to_owned(),
            dpdk: String::new(),
            started_unix_s: None,
            command: Vec::new(),
            host: Host::default(),
            seed: 1,
            duration_s: 1.0,
            ports: vec![PortResult::default()],
            sent: Counted::new(sent, sent * 60, (span_s * 1e9) as u64),
            received: Counted::default(),
            senders: Vec::new(),
            queues: Vec::new(),
            workers: Vec::new(),
            unsent: 0,
            port_full: 0,
            put_off_s: 0.0,
            verified: Some(Verified { lost, damaged: 0, foreign: None, latency: None, streams }),
            pacing: Pacing::default(),
            longest_gap_ns: 0,
            intervals: Vec::new(),
            intervals_left_out: 0,
        }
    }

    #[test]
    fn what_a_device_loses_is_not_the_tester_s() {
        let measured = measurement(&results(1000, 900, 0.999), &SHARE, 1.0);
        assert_eq!((measured.counts.unsent(), measured.counts.lost()), (0, 100));
        assert!(measured.reasons().is_empty() && measured.counts.loss_ratio_of_device() == 0.1);
    }

    #[test]
    fn a_slow_tester_is_recognised_by_number_and_by_time() {
        let few = measurement(&results(800, 800, 1.0), &SHARE, 1.0);
        assert_eq!((few.counts.unsent(), few.counts.lost()), (200, 0));
        assert_eq!(few.reasons(), ["it offered 80.0 % of the load"]);
        // It has sent all packets, but took longer.
        let long = measurement(&results(1000, 1000, 1.25), &SHARE, 1.0);
        assert_eq!((long.counts.unsent(), long.counts.lost()), (200, 0));
        assert_eq!(long.reasons(), ["it offered 80.0 % of the load"]);
        let whole = measurement(&results(1000, 1000, 1.0), &SHARE, 1.0);
        assert_eq!(whole.counts.unsent(), 0);
    }

    #[test]
    fn a_tester_that_drops_or_does_not_run_is_recognised() {
        let mut results = results(1000, 990, 0.999);
        results.ports[0].imissed = 10;
        let missed = measurement(&results, &SHARE, 1.0);
        assert_eq!(missed.reasons(), ["its ports dropped 10 packets"]);
        assert_eq!(missed.counts.loss_ratio_of_device(), 0.0);
        results.ports[0].imissed = 0;
        results.longest_gap_ns = 5_000_000;
        let away = measurement(&results, &SHARE, 1.0);
        assert_eq!(away.counts.delayed, 5);
        assert_eq!(away.reasons(), ["its receiver did not run for 5.00 ms"]);
        assert_eq!(away.counts.loss_ratio_of_device(), 0.005);
    }
}
