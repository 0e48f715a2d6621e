// SPDX-License-Identifier: BSD-3-Clause
//! Finds a first rule that the NIC accepts, and which calls it supports.

use super::bench::{Bench, Stopped};
use super::chains::sets;
use super::pattern::{Bits, Pattern};
use super::subject::{Refused, RuleProbe};
use twin::{Action, Proto};

/// Returns lists of actions that NICs usually accept.
fn usual_actions() -> Vec<Vec<Action>> {
    use super::actions::action;
    let lists = [
        &["queue", "mark"][..],
        &["queue"],
        &["mark"],
        &["passthru", "mark"],
        &["mark", "queue"],
        &["drop"],
        &["rss"],
        &["mark", "rss"],
        &["queue", "count"],
        &["drop", "count"],
        &["jump"],
        &["count"],
    ];
    lists.iter().map(|list| list.iter().map(|name| action(name)).collect()).collect()
}

/// Finds a rule that the NIC accepts, and keeps its actions for further questions. Returns false if
/// the driver has no flow rules.
pub(super) fn probe(bench: &mut Bench<'_>) -> Result<bool, Stopped> {
    bench.stage("operations")?;
    let mut last: Option<Refused> = None;
    let mut is_no_call = true;
    for question in candidates(bench) {
        match bench.with(&question, |_, _| Ok(()))? {
            Ok(()) => {
                bench.usual_actions = question.actions.clone();
                operations(bench, &question);
                return Ok(true);
            }
            Err(refused) => {
                is_no_call &= refused.is_no_call();
                last = Some(refused);
            }
        }
        if is_no_call && bench.calls.create >= NO_CALLS {
            bench.draft.operations.none = true;
            return Ok(false);
        }
    }
    let last = last.unwrap_or_else(|| unreachable!("at least one rule was tried"));
    Err(Stopped::TakesNothing(last))
}

/// Number of refusals as a missing call after which there is no such call.
const NO_CALLS: u64 = 11;

/// Returns rules that NICs usually accept. Those with `rss` come last: igb takes them, and does not
/// destroy them.
fn candidates(bench: &Bench<'_>) -> Vec<RuleProbe> {
    use Proto::{Eth, Ipv4, Tcp, Udp};
    let mut candidates = Vec::new();
    for headers in [&[Eth, Ipv4, Tcp][..], &[Ipv4, Tcp], &[Eth, Ipv4], &[Eth, Ipv4, Udp], &[Eth]] {
        for set in sets(headers) {
            let pattern = set.iter().fold(Pattern::of(headers), |pattern, &(at, field)| {
                pattern.masked(at, field, Bits::Full)
            });
            let lists = usual_actions().into_iter();
            candidates.extend(lists.map(|actions| RuleProbe { actions, ..bench.about(&pattern) }));
        }
    }
    let has_rss = |rule: &RuleProbe| rule.actions.iter().any(|one| matches!(one, Action::Rss(_)));
    candidates.sort_by_key(has_rss);
    candidates
}

fn operations(bench: &mut Bench<'_>, good: &RuleProbe) {
    bench.calls.validate += 1;
    let validated = bench.subject.validate(good);
    bench.draft.operations.no_validate = validated.is_err_and(|refused| refused.is_no_call());
    if bench.seen.has_others() {
        // Isolated, the port would lose packets meanwhile.
        bench.note("isolation was not tested, because of the rules of others");
        return;
    }
    let isolated = bench.subject.isolate(true);
    match isolated {
        Err(refused) => bench.draft.operations.no_isolate = refused.is_no_call(),
        Ok(()) => {
            if bench.subject.isolate(false).is_err() {
                bench.note("the port stays isolated");
            }
        }
    }
}
