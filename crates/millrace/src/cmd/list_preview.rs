// SPDX-License-Identifier: BSD-3-Clause
//! Prints what a change of access lists would do.

use crate::cmd::ct::line::format_connection;
use control::{AccessChangeLine, AccessDecisionLine, AccessOverlapLine, Line};
use results::units;
use serde::Serialize;
use serde_json::json;
use std::io::{self, Write};

/// What a change of access lists would do.
#[derive(Default, Serialize)]
pub(super) struct ListPreview {
    changes: Vec<AccessChangeLine>,
    overlaps: Vec<AccessOverlapLine>,
    decisions: Vec<AccessDecisionLine>,
}

impl ListPreview {
    /// Adds a line of the answer.
    pub(super) fn add(&mut self, line: Line) {
        match line {
            Line::AccessChange(line) => self.changes.push(line),
            Line::AccessOverlap(line) => self.overlaps.push(line),
            Line::AccessDecision(line) => self.decisions.push(line),
            _ => {}
        }
    }

    /// Prints the preview as text or JSON.
    pub(super) fn print(&self, out: &mut impl Write, is_json: bool) -> io::Result<()> {
        if is_json {
            let Self { changes, overlaps, decisions } = self;
            let preview = json!({
                "dry_run": true,
                "changes": changes,
                "overlaps": overlaps,
                "decisions": decisions,
            });
            return writeln!(out, "{preview:#}");
        }
        if self.changes.is_empty() {
            writeln!(out, "no rule of an access list would change")?;
        }
        self.changes.iter().try_for_each(|line| print_change(out, line))?;
        self.overlaps.iter().try_for_each(|line| print_overlap(out, line))?;
        self.decisions.iter().try_for_each(|line| print_decision(out, line))?;
        if self.decisions.is_empty() {
            writeln!(out, "connections: the decision about each stays as it is")?;
        }
        writeln!(out, "nothing has changed: this was a dry run")
    }
}

fn print_change(out: &mut impl Write, line: &AccessChangeLine) -> io::Result<()> {
    let AccessChangeLine { change, list, from, handle, text } = line;
    match (from, handle) {
        (Some(from), Some(handle)) => writeln!(out, "{change} {from} to {handle}: {text}"),
        (Some(handle), None) | (None, Some(handle)) => writeln!(out, "{change} {handle}: {text}"),
        (None, None) => writeln!(out, "{change} in list {list:?}: {text}"),
    }
}

fn print_overlap(out: &mut impl Write, line: &AccessOverlapLine) -> io::Result<()> {
    let (state, share) = match line.unreachable {
        true => ("is unreachable", "all"),
        false => ("overlaps", "some"),
    };
    writeln!(out, "warning: {} {state}: {}", line.handle, line.text)?;
    writeln!(out, "  {} takes {share} of its packets: {}", line.earlier, line.earlier_text)
}

fn print_decision(out: &mut impl Write, line: &AccessDecisionLine) -> io::Result<()> {
    let AccessDecisionLine { now, then, connections, examples } = line;
    let count = units::thousands(*connections);
    writeln!(out, "connections: {count} {now} now would be {then}, such as")?;
    examples.iter().try_for_each(|example| writeln!(out, "  {}", format_connection(example)))
}
