// SPDX-License-Identifier: BSD-3-Clause
//! Looks for rules that others made before the probe, and rules that the probe left behind. Before
//! the first rule and after the last, it reads the driver's dump and sends packets.
//!
//! No dump proves that a NIC is empty, and not every driver has one, so packets are the better
//! sign.

use super::bench::{Bench, Stopped};
use super::chains::sensible;
use super::frame::Frame;
use super::subject::Delivery;

/// Visible signs of existing rules.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// Lines of the driver's dump; `None` if it has no dump.
    lines: Option<usize>,
    /// The delivery of each frame; empty if the link is down.
    deliveries: Vec<Option<Delivery>>,
}

/// Signs of rules before the first rule and after the last. `None` if it could not be observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Seen {
    /// Lines of the driver's dump before the first rule; each stands for a rule.
    pub(crate) lines_before: Option<usize>,
    /// Frames that arrived with a mark or a flag before the first rule.
    pub(crate) marked_before: usize,
    /// Number of additional lines of the dump after the last rule.
    pub(crate) lines_left: Option<usize>,
    /// Number of frames that are treated differently after the last rule.
    pub(crate) packets_left: Option<usize>,
}

impl Seen {
    /// True if rules of another program may be there.
    pub(super) fn has_others(&self) -> bool {
        self.lines_before.is_some_and(|lines| lines > 0) || self.marked_before > 0
    }

    /// True if rules of the probe stayed.
    pub fn has_stayed(&self) -> bool {
        [self.lines_left, self.packets_left].iter().flatten().any(|&left| left > 0)
    }

    /// Returns the signs of rules that stayed, as text.
    fn words(&self) -> String {
        let lines = self.lines_left.map(|lines| format!("the dump has {lines} more lines"));
        let packets = self.packets_left;
        let packets =
            packets.map(|kinds| format!("{kinds} kinds of packets are treated differently"));
        lines.into_iter().chain(packets).collect::<Vec<_>>().join(", and ")
    }
}

/// Number of frames after which sending stops if none has arrived.
const FIRST_FRAMES: usize = 8;
/// Longest time that a destroyed rule may stay in effect without being reported.
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
    /// Reads the dump and sends frames. Frames that did not arrive `before` are not sent again.
    fn look(bench: &mut Bench<'_>, before: Option<&Self>) -> Self {
        let lines = bench.subject.dump_lines().ok();
        let mut deliveries = Vec::new();
        if bench.has_link() {
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

    /// True if any packet arrives.
    pub(super) fn has_packets(&self) -> bool {
        self.deliveries.iter().any(Option::is_some)
    }

    /// Returns the number of additional lines, and of deliveries that differ from `before`.
    fn since(&self, before: &Self) -> (Option<usize>, Option<usize>) {
        let lines = self.lines.zip(before.lines);
        let pairs = self.deliveries.iter().zip(&before.deliveries);
        let is_seen = before.has_packets() && !self.deliveries.is_empty();
        (
            lines.map(|(now, before)| now.saturating_sub(before)),
            is_seen.then(|| pairs.filter(|(now, before)| now != before).count()),
        )
    }
}

/// Looks for traces before the first rule. Packets with marks end the probe, unless `goes_on`.
pub(super) fn before(bench: &mut Bench<'_>, goes_on: bool) -> Result<Traces, Stopped> {
    bench.stage("existing rules")?;
    let traces = Traces::look(bench, None);
    let is_marked =
        |delivery: &&Option<Delivery>| delivery.is_some_and(|one| one.flag || one.mark.is_some());
    bench.seen.lines_before = traces.lines.filter(|_| bench.subject.lists_only_rules());
    bench.seen.marked_before = traces.deliveries.iter().filter(is_marked).count();
    if traces.lines.is_none() && !traces.has_packets() {
        bench.note(
            "whether rules existed before or stayed is not known: the driver does not list rules, \
             and no packets arrive",
        );
    }
    if bench.seen.has_others() {
        bench.note(
            "rules of others seem to exist; their effects could not be distinguished from \
             properties of the NIC",
        );
    }
    if bench.seen.marked_before > 0 && !goes_on {
        return Err(Stopped::HasRules(bench.seen.marked_before));
    }
    Ok(traces)
}

/// Looks for traces after the last rule. Flushes rules that stayed, unless there may be rules of
/// others.
pub(super) fn after(bench: &mut Bench<'_>, before: &Traces) {
    look_again(bench, before);
    if before.has_packets() && bench.seen.packets_left.is_none() {
        bench.note("the link is down, so it is not known whether packets still hit rules");
    }
    if !bench.seen.has_stayed() {
        return;
    }
    let finding = format!("destroyed rules stayed: {}", bench.seen.words());
    if bench.seen.has_others() {
        bench.finding(finding);
        return;
    }
    let flushed = bench.subject.flush();
    look_again(bench, before);
    let end = match (bench.seen.has_stayed(), flushed) {
        (false, _) => "a flush removed them".to_owned(),
        (true, Ok(())) => "a flush did not remove them".to_owned(),
        (true, Err(refused)) => format!("a flush was refused: {refused}"),
    };
    bench.finding(format!("{finding}; {end}"));
}

/// Looks for traces until there are none, at most as long as a destroyed rule may stay in effect.
fn look_again(bench: &mut Bench<'_>, before: &Traces) {
    for wait_us in [0, LATE_US] {
        bench.wait(wait_us);
        let (lines, packets) = Traces::look(bench, Some(before)).since(before);
        (bench.seen.lines_left, bench.seen.packets_left) = (lines, packets);
        if !bench.seen.has_stayed() {
            return;
        }
    }
}
