// SPDX-License-Identifier: BSD-3-Clause
//! Finds whether the NIC reports aged rules, in its list of them and in queries.
//!
//! This needs the one long wait of a probe, so the next stages run meanwhile.

use super::actions::question;
use super::bench::{Bench, Stopped};
use super::capacity::unique;
use super::chains::AcceptedChain;
use super::subject::{RuleId, RuleProbe};

/// Timeout of rules from [`super::actions::action`]: the shortest that exists.
const TIMEOUT_US: u64 = 1_000_000;
/// Longest wait for the NIC's report after the timeout.
const PATIENCE_US: u64 = 1_500_000;
const POLL_US: u64 = 10_000;
/// Resolution of drivers' clocks.
const GRAIN_US: u64 = 100_000;

/// Finds how aged rules are reported and writes it into the draft. Calls `meanwhile` during the
/// wait, or after it if the rule could interfere.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    base: &AcceptedChain,
    lists: &[Vec<&'static str>],
    meanwhile: impl FnOnce(&mut Bench<'_>) -> Result<(), Stopped>,
) -> Result<(), Stopped> {
    let Some(list) = lists.iter().find(|list| list.contains(&"age")) else {
        return meanwhile(bench);
    };
    bench.stage("ages")?;
    let mut meanwhile = Some(meanwhile);
    let apart = apart(bench, taken, list);
    let is_apart = apart.is_some();
    let question = apart.unwrap_or_else(|| question(bench, &base.pattern(), list));
    let made = bench.with(&question, |bench, rule| {
        let from = bench.subject.now_us();
        if let Some(meanwhile) = meanwhile.take_if(|_| is_apart) {
            meanwhile(bench)?;
        }
        bench.stage("aged rules")?;
        look(bench, rule, from)
    })?;
    if let Err(refused) = made {
        bench.note(format!("whether aged rules are reported was not tested: {refused}"));
    }
    meanwhile.map_or(Ok(()), |meanwhile| meanwhile(bench))
}

/// Returns a rule with `age` that excludes no other rule; `None` if rules of this NIC may exclude
/// each other.
fn apart(bench: &Bench<'_>, taken: &[AcceptedChain], list: &[&str]) -> Option<RuleProbe> {
    let draft = &bench.draft;
    if draft.pattern.other_fields.is_some() || !draft.conflicts.is_empty() {
        return None;
    }
    let (pattern, at, field) = unique(bench, taken)?;
    Some(question(bench, &pattern.valued(at, field, u64::MAX - 1), list))
}

/// Waits until the list of aged rules has the rule, then checks that the query reports it too.
fn look(bench: &mut Bench<'_>, rule: RuleId, from: u64) -> Result<(), Stopped> {
    let until = from + TIMEOUT_US + PATIENCE_US;
    loop {
        let age_us = bench.subject.now_us() - from;
        match bench.subject.aged() {
            Ok(aged) if aged.contains(&rule) => {
                if age_us + GRAIN_US < TIMEOUT_US {
                    bench.note("a rule was reported as aged before its timeout");
                }
                break;
            }
            Ok(_) if bench.subject.now_us() < until => {}
            Ok(_) => {
                bench.draft.age.never_told = true;
                break;
            }
            Err(refused) => {
                bench.draft.age.never_told = true;
                bench.note(format!("the list of aged rules is refused: {refused}"));
                bench.wait(TIMEOUT_US.saturating_sub(age_us));
                break;
            }
        }
        bench.go_on()?;
        bench.step(age_us, TIMEOUT_US);
        bench.wait(POLL_US);
    }
    match bench.subject.query_age(rule) {
        Ok(age) if !age.is_over => {
            bench.note("a query does not report a rule as aged after its timeout")
        }
        Err(refused) if !refused.is_no_call() => {
            bench.draft.age.no_query = Some(refused.to_facts());
        }
        _ => {}
    }
    Ok(())
}
