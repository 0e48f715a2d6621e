// SPDX-License-Identifier: BSD-3-Clause
//! Prints the lines of a search: those of cps_ndr.py, and by default more about each sample.

use super::judge::Verdict;
use crate::tester::{LatencyPercentiles, TesterStatistics};
use report::output::write_line;
use search::{Outcome, Short, Statistics};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Sequences of ECMA-48 that begin red and green text, and that end it.
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const PLAIN: &str = "\x1b[0m";

/// Where the lines go.
pub(super) struct Printer<'a> {
    pub(super) out: &'a mut dyn Write,
    /// True if the marks of good and bad samples have colours.
    pub(super) is_coloured: bool,
    /// True if notes are printed on standard error.
    pub(super) is_verbose: bool,
}

impl Printer<'_> {
    /// Prints a line at once.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// Prints the figures of a sample in the line of cps_ndr.py.
    pub(super) fn sample(&mut self, of: &TesterStatistics, is_good: bool) -> io::Result<()> {
        let line = figures(of).line(is_good);
        let line = self.paint(&line, if is_good { GREEN } else { RED });
        self.line(&line)
    }

    /// Prints the packets that were dropped, as cps_ndr.py does, if some were.
    pub(super) fn dropped(&mut self, outcome: Outcome) -> io::Result<()> {
        match outcome.to_string().as_str() {
            "" => Ok(()),
            line => {
                let line = self.paint(line, RED);
                self.line(&line)
            }
        }
    }

    /// Prints why a sample is good or bad.
    pub(super) fn verdict(&mut self, of: &TesterStatistics, verdict: &Verdict) -> io::Result<()> {
        self.line(&format!("    {}", connections_and_packets(of, verdict)))?;
        if let Some(setup) = &of.setup {
            self.line(&format!("    {}", setup_times(setup)))?;
        }
        if let Some(growth) = verdict.growth() {
            self.line(&format!("    {growth}"))?;
        }
        for limit in &verdict.tester_limits {
            self.line(&format!("    the generator is the limit: {limit}"))?;
        }
        for limit in &verdict.link_limits {
            self.line(&format!("    the device or the link is the limit: {limit}"))?;
        }
        Ok(())
    }

    /// Prints a note on standard error, with `--verbose`.
    pub(super) fn note(&self, text: &str) {
        if self.is_verbose {
            write_line(io::stderr(), format_args!("millrace: {text}"));
        }
    }

    /// Gives the first word of a line this colour on a terminal.
    fn paint(&self, line: &str, colour: &str) -> String {
        match line.split_once(' ') {
            Some((mark, rest)) if self.is_coloured => format!("{colour}{mark}{PLAIN} {rest}"),
            _ => line.to_owned(),
        }
    }
}

/// Returns the figures of the line of cps_ndr.py. Rates are those of layer 2: frames with FCS.
fn figures(of: &TesterStatistics) -> Statistics {
    let rates = of.rates();
    let payload = of.client.sent.payload_bytes + of.client.received.payload_bytes;
    let segments = of.client.sent.tcp_packets + of.client.received.tcp_packets;
    Statistics {
        active: of.client.active as f64,
        opened: rates.opened_cps,
        sent: [rates.sent_bps, rates.sent_pps],
        received: [rates.received_bps, rates.received_pps],
        size: if segments > 0 { payload as f64 / segments as f64 } else { 0.0 },
    }
}

/// Returns the share of connections that succeeded, causes of failures, and packets that were lost.
fn connections_and_packets(of: &TesterStatistics, verdict: &Verdict) -> String {
    let Some(failed_percent) = verdict.failed_percent else {
        return "no connection was attempted".to_owned();
    };
    let attempted = Short(of.client.attempted as f64);
    let mut text = format!("success: {:.4}% of {attempted} connections", 100.0 - failed_percent);
    let sides = [of.client.failed.by_cause(), of.server.failed.by_cause()];
    for (cause, (name, count)) in sides[0].into_iter().enumerate() {
        let count = count.max(sides[1][cause].1);
        if count > 0 {
            let _ = write!(text, ", {name}: {}", Short(count as f64));
        }
    }
    if let Some(share) = verdict.lost_percent {
        let waiting = of.unsuccessful().saturating_sub(of.failed());
        if waiting > 0 {
            let _ = write!(text, ", unanswered at the end: {}", Short(waiting as f64));
        }
        let sent = of.sent().packets;
        let lost = sent.saturating_sub(of.received().packets);
        let [lost, sent] = [lost, sent].map(|count| Short(count as f64));
        let _ = write!(text, "; lost: {lost} of {sent} packets ~ {share:.4}%");
    }
    text
}

fn setup_times(setup: &LatencyPercentiles) -> String {
    let LatencyPercentiles { p50_us, p99_us, p999_us, max_us } = setup;
    format!(
        "setup: median {p50_us:.1} us, 99 % {p99_us:.1} us, 99.9 % {p999_us:.1} us, longest \
         {max_us:.1} us"
    )
}
