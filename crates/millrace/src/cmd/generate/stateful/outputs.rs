// SPDX-License-Identifier: BSD-3-Clause
//! Writes the intervals of stateful traffic to the outputs that are named: lines, CSV, a view on
//! the terminal, metrics, and a page.

use super::super::csv_file::CsvFile;
use super::super::outputs::Outputs;
use super::super::terminal::Terminal;
use super::lines::Lines;
use super::{GenArgs, rows};
use crate::cmd::report::PageFile;
use crate::connections::Totals;
use report::output::{JsonFile, write_line, write_line_at_once};
use results::connections::{ConnectionsRun, ConnectionsStep};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

/// Lines of intervals on the terminal.
const VIEW_LINES: usize = 20;

/// Outputs of a run, and what they show.
pub(super) struct IntervalOutputs {
    outputs: Outputs,
    /// The latest lines, for the terminal.
    view: VecDeque<String>,
    lines: Lines,
    is_quiet: bool,
    /// Intervals for the page.
    steps: Vec<ConnectionsStep>,
    interval_s: f64,
    /// True if an output could not be written.
    has_failed: bool,
}

impl IntervalOutputs {
    /// Opens all outputs that `args` name. `inputs` are not overwritten.
    pub(super) fn open(args: &GenArgs, inputs: &[PathBuf]) -> anyhow::Result<Self> {
        let outputs = Outputs::open(args, inputs, |path| CsvFile::open_with(path, rows::BEGIN))?;
        let is_quiet = args.quiet || outputs.json.is_stdout() || outputs.terminal.is_some();
        Ok(Self {
            outputs,
            view: VecDeque::new(),
            lines: Lines::new(args.interval),
            is_quiet,
            steps: Vec::new(),
            interval_s: args.interval.as_secs_f64(),
            has_failed: false,
        })
    }

    /// Begins the output of intervals.
    pub(super) fn begin(&mut self) {
        if let Err(error) =
            self.outputs.csv.begin().and_then(|()| self.outputs.csv.write_values(&rows::heading()))
        {
            self.fail(&error);
        }
        if !self.is_quiet {
            write_line_at_once(Lines::HEADING);
        }
        self.draw();
    }

    /// Says that an output could not be written. The others go on.
    fn fail(&mut self, error: &anyhow::Error) {
        self.has_failed = true;
        write_line(io::stderr(), format_args!("millrace: {error:#}"));
    }

    /// Answers requests for metrics. Returns true if the user has ended the run on the terminal.
    pub(super) fn turn(&mut self, totals: &Totals) -> bool {
        if let Some(metrics) = &self.outputs.metrics {
            metrics.answer(|| rows::scrape(totals).into_text());
        }
        self.outputs.terminal.as_ref().is_some_and(Terminal::is_quit_pressed)
    }

    /// Writes interval `number`. Returns the connections that were open at its end.
    pub(super) fn write(&mut self, number: u64, totals: &Totals) -> u64 {
        let line = self.lines.line(number, totals);
        let start_s = number as f64 * self.interval_s;
        let open = self.lines.open();
        if self.outputs.terminal.is_some() {
            self.view.push_back(line);
            self.view.drain(..self.view.len().saturating_sub(VIEW_LINES));
            self.draw();
        } else if !self.is_quiet {
            write_line_at_once(line);
        }
        if let Err(error) = self.outputs.csv.write_values(&rows::values(start_s, totals, open)) {
            self.fail(&error);
        }
        if self.steps.len() < super::INTERVALS_MAX {
            self.steps.push(rows::step((start_s, self.interval_s), totals, open));
        }
        open
    }

    fn draw(&mut self) {
        let Some(terminal) = &mut self.outputs.terminal else { return };
        let width = terminal.width();
        let heading = ["millrace gen --stateful  (q ends)", Lines::HEADING];
        let lines = heading.into_iter().chain(self.view.iter().map(String::as_str));
        let cut = |line: &str| line.chars().take(width).collect();
        terminal.draw(&lines.map(cut).collect::<Vec<_>>());
    }

    /// Writes the page, and gives the terminal back. Returns the JSON file, which is left to write,
    /// and true if all outputs were written.
    pub(super) fn finish(mut self, figures: Vec<[String; 2]>) -> (JsonFile, bool) {
        drop(self.outputs.terminal.take());
        let run = ConnectionsRun { figures, steps: std::mem::take(&mut self.steps) };
        let page = std::mem::replace(&mut self.outputs.page, PageFile::none());
        if let Err(error) = page.write_page(|| run.page("millrace gen --stateful")) {
            self.fail(&error);
        }
        (self.outputs.json, !self.has_failed)
    }
}
