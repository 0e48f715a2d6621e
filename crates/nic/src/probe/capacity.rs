// SPDX-License-Identifier: BSD-3-Clause
//! Counts how many rules fit: adds rules with different keys until one is refused or the limit is
//! reached.
//!
//! If calls take much longer from some rule on, the guaranteed capacity of the table ends there.

use super::actions::action;
use super::bench::{Bench, INGRESS, Stopped};
use super::chains::AcceptedChain;
use super::latency::Times;
use super::model::Model;
use super::pattern::{Bits, Pattern};
use super::rules::maskable;
use super::subject::{Refused, RuleId, RuleProbe, Subject};
use twin::personality::RefusalFacts;
use twin::{Field, Proto};

/// Number of consecutive calls whose median is compared to find the end of the guarantee.
const WINDOW: usize = 16;
/// Number of consecutive calls that must all be long; fewer may have waited for the cpu.
const FEW: usize = 4;
/// A call that is longer by this factor, and by this time, inserts into another kind of entry.
const CLIFF_TIMES: u64 = 5;
const CLIFF_US: u64 = 100;

/// The rules that were created since the previous stage.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Stage {
    /// Number of rules at its end.
    pub(crate) rules: u64,
    #[serde(flatten)]
    pub(crate) create: Times,
}

/// A table that was filled.
struct FillResult {
    rules: u64,
    refused: Option<Refused>,
    create_us: Vec<u64>,
    /// True if another group still accepted a rule.
    has_more_in_others: bool,
}

/// Returns stages by doubling: up to 1, 2, 4, 8 ... rules, the last up to all of them.
fn stages(create_us: &[u64]) -> Vec<Stage> {
    let mut stages = Vec::new();
    let (mut from, mut until) = (0, 1);
    while from < create_us.len() {
        until = until.min(create_us.len());
        let create = Times::of(&create_us[from..until]);
        stages.push(Stage { rules: until as u64, create });
        (from, until) = (until, 2 * until);
    }
    stages
}

/// Fills the table, without and with counters; writes the results into the draft.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    lists: &[Vec<&'static str>],
    limit: u32,
) -> Result<Vec<Stage>, Stopped> {
    bench.stage("capacity")?;
    let Some((pattern, at, field)) = unique(bench, taken) else {
        bench.note(
            "the table was not filled: no list of headers has an address to tell rules apart",
        );
        return Ok(Vec::new());
    };
    let numbered = |number: u64| pattern.clone().valued(at, field, number);
    let filled = fill(bench, limit, |bench, number| bench.about(&numbered(number)))?;
    let stages = stages(&filled.create_us);
    let Some(refused) = &filled.refused else {
        bench.note(format!("more than {limit} rules fit"));
        counters(bench, lists, limit, numbered)?;
        return Ok(stages);
    };
    let rules = u32::try_from(filled.rules).unwrap_or(u32::MAX);
    bench.draft.table.full = full(bench, &numbered(0), refused);
    if filled.has_more_in_others {
        bench.draft.table.root = Some(rules);
        bench.note("the capacity of groups other than 0 was not tested");
    } else {
        let guaranteed = cliff(&filled.create_us).unwrap_or(filled.rules as usize);
        let (before, after) = filled.create_us.split_at(guaranteed);
        bench.draft.table.guaranteed = u32::try_from(guaranteed).ok();
        bench.draft.table.best_effort = Some(rules - guaranteed as u32).filter(|&more| more > 0);
        if !after.is_empty() && !before.is_empty() {
            let average = Times::of(after).average_us as u32;
            bench.draft.latency.best_effort_create_us = Some(average);
        }
    }
    let limit = limit.min(rules);
    counters(bench, lists, limit, numbered)?;
    Ok(stages)
}

/// Returns a pattern with a field whose values make rules different.
pub(super) fn unique(
    bench: &Bench<'_>,
    taken: &[AcceptedChain],
) -> Option<(Pattern, usize, Field)> {
    let mut chains: Vec<_> = taken.iter().collect();
    chains.sort_by_key(|chain| (chain.headers.first() != Some(&Proto::Eth), chain.headers.len()));
    chains.into_iter().find_map(|chain| {
        let is_ip = |proto: &Proto| matches!(proto, Proto::Ipv4 | Proto::Ipv6);
        let at = chain.headers.iter().position(is_ip)?;
        let field = maskable(bench, chain.headers[at])?;
        let is_wide = field.len >= 32;
        is_wide.then(|| (chain.pattern().masked(at, field, Bits::Full), at, field))
    })
}

/// Makes rules until one is refused, and destroys them.
fn fill(
    bench: &mut Bench<'_>,
    limit: u32,
    question: impl Fn(&Bench<'_>, u64) -> RuleProbe,
) -> Result<FillResult, Stopped> {
    let mut rules: Vec<RuleId> = Vec::new();
    let mut refused = None;
    let first = bench.create_us.len();
    let mut interrupted = Ok(());
    while rules.len() < limit as usize && refused.is_none() && interrupted.is_ok() {
        bench.step(rules.len() as u64, limit.into());
        let question = question(bench, rules.len() as u64);
        match bench.create(&question) {
            Ok(rule) => rules.push(rule),
            Err(words) => refused = Some(words),
        }
        interrupted = bench.go_on();
    }
    let create_us = bench.create_us.split_off(first);
    let mut has_more_in_others = false;
    if refused.is_some() && bench.draft.attributes.groups.is_none_or(|groups| groups > 1) {
        let mut question = question(bench, rules.len() as u64);
        question.attributes.group = INGRESS.group + 1;
        has_more_in_others = bench.with(&question, |_, _| Ok(())).is_ok_and(|made| made.is_ok());
    }
    let count = rules.len() as u64;
    let mut destroyed = Ok(());
    for (done, rule) in rules.into_iter().enumerate() {
        bench.step(done as u64, count);
        destroyed = destroyed.and(bench.destroy(rule));
    }
    interrupted.and(destroyed)?;
    Ok(FillResult { rules: count, refused, create_us, has_more_in_others })
}

/// Returns the refusal of a rule by the full table; `None` if it equals that of the model.
fn full(bench: &Bench<'_>, pattern: &Pattern, refused: &Refused) -> Option<RefusalFacts> {
    let mut draft = bench.draft.clone();
    draft.table.guaranteed = Some(0);
    let mut model = Model::member(draft, bench.subject.queues());
    let is_usual =
        model.create(&bench.about(pattern)).is_err_and(|usual| usual.is_same_refusal(refused));
    (!is_usual).then(|| refused.to_facts())
}

/// Returns the index from which calls take much longer than the first ones.
fn cliff(create_us: &[u64]) -> Option<usize> {
    let median = |times: &[u64]| Times::of(times).median_us;
    let usual = median(create_us.get(..WINDOW)?);
    let is_long = |&us: &u64| us > CLIFF_TIMES * usual && us > usual + CLIFF_US;
    // A few calls may have waited for the cpu, also the last one before the cliff.
    let is_cliff = |times: &[u64]| times[..FEW].iter().all(is_long) && is_long(&median(times));
    create_us.windows(WINDOW).position(is_cliff)
}

/// Finds the number of rules with counters, if it is smaller than the capacity.
fn counters(
    bench: &mut Bench<'_>,
    lists: &[Vec<&'static str>],
    limit: u32,
    numbered: impl Fn(u64) -> Pattern,
) -> Result<(), Stopped> {
    let Some(list) = lists.iter().find(|list| list.contains(&"count")) else { return Ok(()) };
    bench.stage("number of counters")?;
    let filled = fill(bench, limit, |bench, number| RuleProbe {
        actions: list.iter().map(|name| action(name)).collect(),
        ..bench.about(&numbered(number))
    })?;
    if let Some(refused) = filled.refused {
        bench.draft.count.max = u32::try_from(filled.rules).ok();
        bench.draft.count.full = Some(refused.to_facts());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cliff_is_where_calls_stay_long() {
        let mut times = [vec![20; 64], vec![10_000; 100]].concat();
        assert_eq!(cliff(&times), Some(64));
        // Some calls waited for the cpu.
        for at in [10, 11, 60, 61] {
            times[at] = 9000;
        }
        times[70] = 40_000;
        assert_eq!(cliff(&times), Some(64));
        assert_eq!(cliff(&times[..64]), None);
        assert_eq!(cliff(&[10_000; 100]), None, "all of them are alike");
        assert_eq!(cliff(&times[..8]), None, "too few to tell");
    }

    #[test]
    fn stages_double() {
        let rules = |count: usize| {
            let stages = stages(&vec![1; count]);
            stages.iter().map(|stage| (stage.rules, stage.create.calls)).collect::<Vec<_>>()
        };
        assert_eq!(rules(0), []);
        assert_eq!(rules(1), [(1, 1)]);
        assert_eq!(rules(7), [(1, 1), (2, 1), (4, 2), (7, 3)]);
        assert_eq!(rules(8).last(), Some(&(8, 4)));
    }
}
