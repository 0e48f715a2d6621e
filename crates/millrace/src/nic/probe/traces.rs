// SPDX-License-Identifier: BSD-3-Clause
//! Rules that others made before the probe, and rules that it left behind: what the driver's dump
//! and packets say of them, before the first rule and after the last.
//!
//! No dump proves that a NIC is empty, and not every driver has one; packets are believed more.

use super::bench::{Bench, Stopped};
use super::chains::sensible;
use super::frame::Frame;
use super::subject::Delivery;

/// What is seen from outside of the rules that are there.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// Lines of the driver's dump; `None` where there is none.
    lines: Option<usize>,
    /// Of each frame, what came out.
    deliveries: Vec<Option<Delivery>>,
}

/// Rules that were there before, and those that are there after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Strangers {
    /// Lines of the driver's dump before the first rule; none where there is no dump.
    pub(crate) lines_before: Option<usize>,
    /// Frames that arrived with a mark or a flag before the first rule.
    pub(crate) marked_before: usize,
    /// Lines that the dump has more after the last rule.
    pub(crate) lines_left: usize,
    /// Frames that are treated otherwise after the last rule.
    pub(crate) packets_left: usize,
}

impl Strangers {
    /// Whether somebody else's rules may be there.
    pub(super) fn are_there(&self) -> bool {
        self.lines_before.is_some_and(|lines| lines > 0) || self.marked_before > 0
    }

    /// Whether rules of the probe stayed.
    pub(crate) fn has_left(&self) -> bool {
        self.lines_left > 0 || self.packets_left > 0
    }
}

/// Frames to begin with; where none of them arrives, others hardly will.
const FIRST_FRAMES: usize = 8;
/// Longest time for a rule to go that was destroyed.
const LATE_US: u64 = 200_000;

fn frames() -> impl Iterator<Item = Vec<u8>> {
    let mut frames: Vec<_> = sensible()
        .iter()
        .filter_map(|headers| Frame::of(headers))
        .map(|frame| frame.bytes)
        .collect();
    frames.sort();
    frames.dedup();
    frames.into_iter()
}

impl Traces {
    /// Frames that did not arrive `before` are not sent again.
    fn look(bench: &mut Bench<'_>, before: Option<&Self>) -> Self {
        let lines = bench.subject.dump_lines().ok();
        let mut deliveries = Vec::new();
        if bench.subject.has_wire() {
            for (place, frame) in frames().enumerate() {
                let known = before.map(|before| before.deliveries.get(place));
                let is_lost = matches!(known, Some(None | Some(None)));
                deliveries.push(if is_lost { None } else { bench.deliver(&frame) });
                let is_deaf = deliveries.iter().all(Option::is_none);
                if is_deaf && deliveries.len() == FIRST_FRAMES {
                    break;
                }
            }
        }
        Self { lines, deliveries }
    }

    /// Whether packets come in at all.
    pub(super) fn has_packets(&self) -> bool {
        self.deliveries.iter().any(Option::is_some)
    }

    /// How many more lines, and how many other deliveries there are than before.
    fn since(&self, before: &Self) -> (usize, usize) {
        let lines = self.lines.unwrap_or(0).saturating_sub(before.lines.unwrap_or(0));
        let pairs = self.deliveries.iter().zip(&before.deliveries);
        (lines, pairs.filter(|(now, before)| now != before).count())
    }
}

/// Looks before the first rule. Others' rules end the probe unless it goes on beside them.
pub(super) fn before(bench: &mut Bench<'_>, goes_on: bool) -> Result<Traces, Stopped> {
    bench.stage("rules that are there")?;
    let traces = Traces::look(bench, None);
    let is_marked =
        |delivery: &&Option<Delivery>| delivery.is_some_and(|one| one.flag || one.mark.is_some());
    bench.strangers.lines_before = traces.lines;
    bench.strangers.marked_before = traces.deliveries.iter().filter(is_marked).count();
    if bench.strangers.are_there() {
        bench.note(
            "rules of others seem to be there: what they take or forbid was not told from what \
             the NIC does",
        );
    }
    if bench.strangers.marked_before > 0 && !goes_on {
        return Err(Stopped::HasRules(bench.strangers.marked_before));
    }
    Ok(traces)
}

/// Looks after the last rule. What stayed is flushed, unless that would hit others.
pub(super) fn after(bench: &mut Bench<'_>, before: &Traces) {
    let (lines, packets) = left(bench, before);
    (bench.strangers.lines_left, bench.strangers.packets_left) = (lines, packets);
    if !bench.strangers.has_left() {
        return;
    }
    let what = format!(
        "the dump has {lines} lines more, and {packets} kinds of packets are treated otherwise"
    );
    if bench.strangers.are_there() {
        bench.finding(format!("rules stayed that were destroyed: {what}"));
        return;
    }
    let flushed = bench.subject.flush();
    let (lines, packets) = left(bench, before);
    (bench.strangers.lines_left, bench.strangers.packets_left) = (lines, packets);
    let end = match (bench.strangers.has_left(), flushed) {
        (false, _) => "; a flush took them away".to_owned(),
        (true, Ok(())) => "; a flush left them".to_owned(),
        (true, Err(refused)) => format!("; a flush was refused: {refused}"),
    };
    bench.finding(format!("rules stayed that were destroyed: {what}{end}"));
}

/// What stays different for longer than a rule that is late.
fn left(bench: &mut Bench<'_>, before: &Traces) -> (usize, usize) {
    let seen = Traces::look(bench, Some(before)).since(before);
    if seen == (0, 0) {
        return seen;
    }
    bench.wait(LATE_US);
    Traces::look(bench, Some(before)).since(before)
}
