// SPDX-License-Identifier: BSD-3-Clause
//! The prober: sends rules and packets to an idle port, and writes a personality of its NIC.
//!
//! Each stage tests one property of a `Subject` and writes the result into a draft of the
//! personality. A fact is written only if the draft does not imply it already. At the end, the
//! software NIC's model uses the draft and gets all rules again; differences are reported. The
//! NIC's messages are compared, never interpreted.

mod actions;
mod ages;
mod ahead;
mod attributes;
mod behaviour;
mod bench;
mod capacity;
mod chains;
mod counters;
mod fields;
mod first;
mod flow_queue;
mod frame;
mod last_parser;
mod latency;
mod model;
mod narrow;
mod pairs;
mod pattern;
mod port;
mod port_state;
mod queues;
mod report;
mod rules;
mod steps;
mod subject;
mod traces;
mod watched;
mod witness;

pub use bench::{Calls, Stopped, Watcher};
pub(crate) use capacity::Stage;
pub(crate) use latency::Times;
pub use port::{PortSubject, Side};
pub(crate) use queues::{Batch, ByQueue};
pub use report::{PortIdentity, print, to_json};
pub(crate) use subject::Subject;
pub use subject::wait_for_link;
pub(crate) use traces::Seen;
pub use watched::{Watchdog, WatchedPort};

use bench::Bench;
use chains::AcceptedChain;
use model::Model;
use std::sync::atomic::AtomicBool;
use twin::Personality;

/// Optional parts of a probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extent {
    /// The port may be stopped and started.
    pub restart: bool,
    /// The port is probed even if it has rules of others.
    pub force: bool,
    /// The table is filled, with at most this number of rules.
    pub capacity: Option<u32>,
}

/// The results of a probe.
#[derive(Debug)]
pub struct Found {
    /// Facts about the NIC's rules, as far as they were found.
    pub personality: Personality,
    /// Facts that were not found, and facts that the file cannot express.
    pub(crate) notes: Vec<String>,
    /// Faults of the NIC.
    pub(crate) findings: Vec<String>,
    /// Rules of others, and rules that the probe left behind.
    pub seen: Seen,
    pub(crate) calls: Calls,
    /// Number of rules tried on an empty table.
    pub(crate) questions: usize,
    /// Rules for which the personality gives another answer than the NIC, one line each.
    pub(crate) unlike: Vec<String>,
    pub(crate) figures: Measurements,
    /// Stages that were completed. What belongs to others has its default in the personality.
    pub(crate) asked: Vec<&'static str>,
    /// The reason why the probe ended early.
    pub stopped: Option<Stopped>,
}

impl Found {
    /// Returns the results of a probe that hangs in a call.
    fn until(mut personality: Personality, asked: Vec<&'static str>, stopped: Stopped) -> Self {
        personality.placeholder = Some(format!("the probe ended early: {stopped}"));
        Self {
            personality,
            notes: Vec::new(),
            findings: Vec::new(),
            seen: Seen::default(),
            calls: Calls::default(),
            questions: 0,
            unlike: Vec::new(),
            figures: Measurements::default(),
            asked,
            stopped: Some(stopped),
        }
    }

    /// True if the stage was completed.
    pub(crate) fn has_asked(&self, stage: &str) -> bool {
        self.asked.contains(&stage)
    }
}

/// Measurements that the file has no place for.
#[derive(Debug, Default)]
pub(crate) struct Measurements {
    /// Times of `create` and `destroy`.
    pub(crate) times: [Times; 2],
    /// Times of rules by templates and a flow queue, if the NIC has them.
    pub(crate) by_queue: Option<ByQueue>,
    /// Times while a table is filled.
    pub(crate) stages: Vec<Stage>,
}

/// Probes a port. Returns the results so far even if it had to stop.
pub fn probe(
    subject: &mut dyn Subject,
    extent: Extent,
    watcher: &mut dyn Watcher,
    interrupted: &AtomicBool,
) -> Found {
    let mut bench = Bench::new(subject, watcher, interrupted);
    let mut figures = Measurements::default();
    let stopped = between_looks(&mut bench, extent, &mut figures).err();
    match &stopped {
        Some(stopped) => {
            bench.draft.placeholder = Some(format!("the probe ended early: {stopped}"));
        }
        None => bench.end_stages(),
    }
    let unlike = if stopped.is_none() { unlike(&bench) } else { Vec::new() };
    Found {
        questions: bench.answered.len(),
        unlike,
        calls: bench.calls,
        figures,
        stopped,
        asked: bench.asked,
        notes: bench.notes,
        findings: bench.findings,
        seen: bench.seen,
        personality: bench.draft,
    }
}

/// Runs a probe, then checks whether the port is as it was before, however the probe ended.
fn between_looks(
    bench: &mut Bench<'_>,
    mut extent: Extent,
    figures: &mut Measurements,
) -> Result<(), Stopped> {
    // This result is kept even if the probe ends here.
    figures.by_queue = queues::look(bench)?;
    let before = traces::before(bench, extent.force)?;
    if extent.restart && bench.seen.has_others() && !extent.force {
        bench.note(
            "the port was not stopped, because that may end rules of others; --force stops it",
        );
        extent.restart = false;
    }
    let result = run(bench, extent, &before, figures);
    if !matches!(result, Err(Stopped::DoesNotStart)) {
        traces::after(bench, &before);
    }
    result
}

fn run(
    bench: &mut Bench<'_>,
    extent: Extent,
    before: &traces::Traces,
    figures: &mut Measurements,
) -> Result<(), Stopped> {
    if !first::probe(bench)? {
        return Ok(());
    }
    let (mut taken, is_free) = chains::probe(bench)?;
    if taken.is_empty() {
        return Err(Stopped::NoneLeft);
    }
    last_parser::find(bench, &mut taken)?;
    let base = base(&taken).clone();
    attributes::probe(bench, &base)?;
    let all_lists = actions::probe(bench, &base.pattern())?;
    let is_for_root = |list: &&Vec<_>| actions::is_for_root(bench, list);
    let lists: Vec<_> = all_lists.iter().filter(is_for_root).cloned().collect();
    let witness = witness::EffectObserver::find(bench, &taken, &lists)?;
    if let Some(witness) = &witness {
        behaviour::delays(bench, &base, witness)?;
        behaviour::classes(bench, &mut taken, witness)?;
        let can_mark = lists.iter().any(|list| list.contains(&"mark"));
        behaviour::marks(bench, &base, witness, can_mark)?;
        behaviour::flags(bench, &base, &lists)?;
    } else {
        bench.note("no packet hit a rule, so tests that need packets were skipped");
        if before.has_packets() {
            bench.finding("rules are taken and packets arrive, but no packet hits a rule");
        }
    }
    if !is_free || taken.iter().any(|chain| chain.other_transports_only) {
        chains::write(bench, &taken);
    }
    attributes::order(bench, &base)?;
    fields::probe(bench, &taken, witness.as_ref())?;
    rules::probe(bench, &taken, &base, witness.as_ref())?;
    narrow::probe(bench, &mut taken)?;
    last_parser::probe(bench, &taken)?;
    pairs::probe(bench, &taken, &base, witness.as_ref())?;
    ages::probe(bench, &taken, &base, &all_lists, |bench| {
        counters::probe(bench, &base, &lists)?;
        figures.times = latency::probe(bench, &base)?;
        Ok(())
    })?;
    ahead::probe(bench, &taken, &base, &lists)?;
    if let Some(limit) = extent.capacity {
        figures.stages = capacity::probe(bench, &taken, &lists, limit)?;
    }
    if extent.restart {
        port_state::probe(bench, &base, witness.as_ref())?;
        if let Some(by_queue) = &mut figures.by_queue {
            queues::probe(bench, &taken, by_queue)?;
        }
    }
    Ok(())
}

/// Returns the chain of headers with which other properties are tested. It prefers a chain whose
/// refusals have specific messages, then plain IPv4, because every NIC recognises IPv4.
fn base(taken: &[AcceptedChain]) -> &AcceptedChain {
    use twin::Proto::{Eth, Ipv4};
    let rank = |chain: &&AcceptedChain| {
        let is_usual = chain.headers == [Eth, Ipv4] || chain.headers == [Ipv4];
        (chain.is_deaf, !is_usual, chain.headers.len())
    };
    taken.iter().min_by_key(rank).unwrap_or_else(|| unreachable!("the first rule has a chain"))
}

/// Returns the differences between the file and the NIC, one line for each rule.
fn unlike(bench: &Bench<'_>) -> Vec<String> {
    let mut unlike = Vec::new();
    for (question, answer) in &bench.answered {
        let mut model = Model::member(bench.draft.clone(), bench.subject.queues());
        let played = model.create(question).map(drop);
        let agree = match (answer, &played) {
            (Ok(()), Ok(())) => true,
            (Err(refused), Err(played)) => refused.is_same_refusal(played),
            _ => false,
        };
        if !agree {
            let say = |answer: &subject::Answer| match answer {
                Ok(()) => "taken".to_owned(),
                Err(refused) => refused.to_string(),
            };
            let actions: Vec<_> = question.actions.iter().map(twin::Action::name).collect();
            let rule = format!("{} -> {}", chains::in_words(question), actions.join(" / "));
            unlike.push(format!("{rule}: {}; the file: {}", say(answer), say(&played)));
        }
    }
    unlike
}

#[cfg(test)]
mod tests;
