// SPDX-License-Identifier: BSD-3-Clause
//! Finds which groups, priorities and directions are accepted. Rules that are wrong in two ways
//! show what is checked first.

use super::bench::{Bench, INGRESS, Stopped};
use super::chains::AcceptedChain;
use super::pattern::{Bits, Pattern};
use super::subject::{Answer, RuleProbe};
use twin::personality::Check;
use twin::{Action, Attributes, Proto};

/// Finds which attributes are accepted, and the refusals of others.
pub(super) fn probe(bench: &mut Bench<'_>, base: &AcceptedChain) -> Result<(), Stopped> {
    bench.stage("attributes")?;
    let base = base.pattern();
    let egress = with(bench, &base, Attributes { egress: true, ..INGRESS })?;
    bench.draft.attributes.egress = new_refusal(bench, &egress);
    let none = with(bench, &base, Attributes { ingress: false, ..INGRESS })?;
    bench.draft.attributes.ingress = new_refusal(bench, &none);
    // With ingress as well, ethdev would refuse it before the driver sees it.
    let between = Attributes { transfer: true, ingress: false, ..INGRESS };
    let transfer = with(bench, &base, between)?;
    bench.draft.attributes.transfer = transfer.1.is_ok();
    bench.draft.attributes.no_transfer = new_refusal(bench, &transfer);
    if egress.1.is_ok() {
        bench.note("rules for egress are taken, which the file cannot express");
    }
    let group = |group| Attributes { group, ..INGRESS };
    let most = count(bench, &base, group)?;
    bench.draft.attributes.groups = most;
    if let Some(beyond) = most {
        let beyond = with(bench, &base, group(beyond))?;
        bench.draft.attributes.group = new_refusal(bench, &beyond);
    }
    priorities(bench, &base)
}

/// Finds which priorities exist, and the refusal of others.
pub(super) fn priorities(bench: &mut Bench<'_>, base: &Pattern) -> Result<(), Stopped> {
    let priority = |priority| Attributes { priority, ..INGRESS };
    let most = count(bench, base, priority)?;
    bench.draft.attributes.priorities = most;
    if let Some(beyond) = most {
        let beyond = with(bench, base, priority(beyond))?;
        bench.draft.attributes.priority = new_refusal(bench, &beyond);
    }
    Ok(())
}

fn with(
    bench: &mut Bench<'_>,
    base: &Pattern,
    attributes: Attributes,
) -> Result<(RuleProbe, Answer), Stopped> {
    let question = RuleProbe { attributes, ..bench.about(base) };
    let answer = bench.ask(&question)?;
    Ok((question, answer))
}

fn new_refusal(
    bench: &Bench<'_>,
    (question, answer): &(RuleProbe, Answer),
) -> Option<twin::personality::RefusalFacts> {
    bench.new_refusal(question, answer)
}

/// Returns how many values of an attribute are accepted, from 0; `None` if all are.
fn count(
    bench: &mut Bench<'_>,
    base: &Pattern,
    of: impl Fn(u32) -> Attributes,
) -> Result<Option<u32>, Stopped> {
    bisect(u32::MAX, |value| Ok(with(bench, base, of(value))?.1.is_ok()))
}

/// Returns the lowest number up to `most` that is not good; `None` if all are good. Assumes that 0
/// is good, and no number above a bad one.
pub(super) fn bisect(
    most: u32,
    mut is_good: impl FnMut(u32) -> Result<bool, Stopped>,
) -> Result<Option<u32>, Stopped> {
    if is_good(most)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (0, most);
    // Most limits are small numbers, so the search starts from below.
    let mut probe = 1;
    while bad - good > 1 {
        match is_good(probe)? {
            true => good = probe,
            false => bad = probe,
        }
        let middle = good + (bad - good) / 2;
        probe = if bad == most { good.saturating_mul(2).min(middle) } else { middle };
    }
    Ok(Some(bad))
}

/// An error in a rule: the check that finds it, and the function that puts it into the rule.
type BadAttribute = (Check, fn(&mut RuleProbe));

const SINS: [BadAttribute; 8] = [
    (Check::Attributes, |question| question.attributes.egress = true),
    (Check::Attributes, |question| question.attributes.ingress = false),
    (Check::Pattern, |question| {
        let item = &mut question.items[0];
        let field = item.proto.fields()[0];
        let pattern = Pattern { items: vec![*item], frame: None };
        *item = pattern.masked(0, field, Bits::Full).items[0];
        item.given.last = true;
        item.last = item.spec.map(|byte| !byte);
    }),
    (Check::Pattern, |question| question.items = Pattern::of(&[Proto::Tcp, Proto::Eth]).items),
    (Check::Actions, |question| question.actions.clear()),
    (Check::Actions, |question| question.actions = vec![Action::Queue(u16::MAX)]),
    (Check::Actions, |question| question.actions = vec![Action::Count; 2]),
    (Check::Actions, |question| question.actions = vec![Action::Flag; 2]),
];

/// Finds the order of checks, by the refusals of rules with two errors.
pub(super) fn order(bench: &mut Bench<'_>, base: &AcceptedChain) -> Result<(), Stopped> {
    bench.stage("order of checks")?;
    let mut order = [Check::Attributes, Check::Pattern, Check::Actions];
    let pairs = [(0, 1), (0, 2), (1, 2)];
    let mut later = [0; 3];
    for (one, other) in pairs {
        match is_first(bench, base, order[one], order[other])? {
            Some(false) => later[one] += 1,
            Some(true) => later[other] += 1,
            None => {
                bench.note(format!(
                    "whether {:?} or {:?} are checked first could not be determined",
                    order[one], order[other]
                ));
                later[other] += 1;
            }
        }
    }
    let usual = order;
    let rank = |check: &Check| later[usual.iter().position(|other| other == check).unwrap_or(0)];
    order.sort_by_key(rank);
    if order != usual {
        bench.draft.order = order.to_vec();
    }
    Ok(())
}

fn is_first(
    bench: &mut Bench<'_>,
    base: &AcceptedChain,
    one: Check,
    other: Check,
) -> Result<Option<bool>, Stopped> {
    let good = bench.about(&base.pattern());
    let of = |check| SINS.into_iter().filter(move |(of, _)| *of == check);
    for ((_, sin), (_, other_sin)) in of(one).flat_map(|one| of(other).map(move |two| (one, two))) {
        let with = |sins: &[fn(&mut RuleProbe)]| {
            let mut question = good.clone();
            sins.iter().for_each(|sin| sin(&mut question));
            question
        };
        let alone = bench.ask(&with(&[sin]))?;
        let other_alone = bench.ask(&with(&[other_sin]))?;
        if alone.is_ok() || other_alone.is_ok() || alone == other_alone {
            continue;
        }
        let both = bench.ask(&with(&[other_sin, sin]))?;
        if both == alone || both == other_alone {
            return Ok(Some(both == alone));
        }
    }
    Ok(None)
}
