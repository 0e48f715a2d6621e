// SPDX-License-Identifier: BSD-3-Clause
//! Finds rules that the NIC refuses while another rule exists: the same rule again, a rule on other
//! fields of the same packets, a rule on other packets.

use super::actions::MARK;
use super::bench::{Bench, Stopped};
use super::chains::{AcceptedChain, in_words};
use super::model::Model;
use super::pattern::{Bits, Pattern};
use super::steps::lines_of;
use super::subject::{Answer, RuleProbe, Subject};
use super::witness::EffectObserver;
use twin::personality::{CONFLICTS_MAX, Conflict, Duplicate, RefusalFacts, Steps};
use twin::{Action, Proto};

/// Finds these rules and writes them into the draft.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    base: &AcceptedChain,
    witness: Option<&EffectObserver>,
) -> Result<(), Stopped> {
    bench.stage("pairs of rules")?;
    duplicate(bench, base, witness)?;
    other_fields(bench, taken)?;
    conflicts(bench, taken)
}

/// Returns the answer of the model, playing the draft, for a rule after others.
fn drafted_after(bench: &Bench<'_>, before: &[RuleProbe], question: &RuleProbe) -> Answer {
    let mut model = Model::member(bench.draft.clone(), bench.subject.queues());
    for question in before {
        // If it is refused, the model has one rule less, as the NIC.
        let _ = model.create(question);
    }
    model.create(question).map(drop)
}

fn duplicate(
    bench: &mut Bench<'_>,
    base: &AcceptedChain,
    witness: Option<&EffectObserver>,
) -> Result<(), Stopped> {
    let pattern = base.pattern();
    let first = match witness {
        Some(witness) => witness.question(bench, &pattern),
        None => bench.about(&pattern),
    };
    let mut second = first.clone();
    for action in &mut second.actions {
        if let Action::Mark(mark) = action {
            *mark += 1;
        }
    }
    let kind = bench.with(&first, |bench, _| {
        let validated = match bench.draft.operations.no_validate {
            true => None,
            false => Some(bench.subject.validate(&second)),
        };
        let taken = bench.with(&second, |bench, _| {
            let frame = pattern.frame.as_ref().filter(|_| bench.subject.has_wire());
            Ok(frame.and_then(|frame| bench.deliver(frame)).and_then(|delivery| delivery.mark))
        })?;
        Ok(match taken {
            Err(refused) => {
                let is_usual = drafted_after(bench, std::slice::from_ref(&first), &second)
                    .is_err_and(|drafted| drafted.is_same_refusal(&refused));
                let knows = validated.is_none_or(|answer| answer.is_err());
                let refusal = || Duplicate::Refused(refused.to_facts());
                if is_usual && knows { Duplicate::Exists } else { refusal() }
            }
            Ok(Some(MARK)) => Duplicate::FirstWins,
            Ok(Some(mark)) if mark == MARK + 1 => Duplicate::LastWins,
            Ok(_) => {
                bench.note("which of two equal rules is in effect could not be determined");
                Duplicate::FirstWins
            }
        })
    })?;
    bench.draft.table.duplicate = kind.unwrap_or_default();
    Ok(())
}

fn other_fields(bench: &mut Bench<'_>, taken: &[AcceptedChain]) -> Result<(), Stopped> {
    let has_ip = |chain: &&AcceptedChain| {
        let last = chain.headers.last();
        !chain.is_exact && matches!(last, Some(Proto::Ipv4 | Proto::Ipv6))
    };
    let Some(chain) = taken.iter().filter(has_ip).min_by_key(|chain| chain.headers.len()) else {
        return Ok(());
    };
    let at = chain.headers.len() - 1;
    let with = |name: &str| {
        let pattern = Pattern::of(&chain.headers);
        chain.headers[at].field(name).map(|field| pattern.masked(at, field, Bits::Full))
    };
    let (Some(src), Some(dst)) = (with("src"), with("dst")) else { return Ok(()) };
    let (src, dst) = (bench.about(&src), bench.about(&dst));
    let alone = bench.ask(&dst)?;
    let after = bench.with(&src, |bench, _| bench.with(&dst, |_, _| Ok(())))?;
    if let (Ok(()), Ok(Err(refused))) = (alone, after) {
        bench.draft.pattern.other_fields = Some(refused.to_facts());
    }
    Ok(())
}

/// Finds lists of headers that exclude each other, by creating rules for all of them.
fn conflicts(bench: &mut Bench<'_>, taken: &[AcceptedChain]) -> Result<(), Stopped> {
    let begins = |first: Proto| taken.iter().any(|chain| chain.headers[0] == first);
    let is_usual = |chain: &&AcceptedChain| chain.headers[0] == Proto::Eth || !begins(Proto::Eth);
    let chains: Vec<_> = taken.iter().filter(is_usual).collect();
    let questions: Vec<_> = chains.iter().map(|chain| bench.about(&chain.pattern())).collect();
    let mut pairs: Vec<(usize, usize, RefusalFacts)> = Vec::new();
    for at in unexplained(bench, &questions)? {
        for before in 0..at {
            let (one, other) = (&questions[before], &questions[at]);
            let answer = bench.with(one, |bench, _| bench.with(other, |_, _| Ok(())))?;
            let Ok(Err(refused)) = answer else { continue };
            let drafted = drafted_after(bench, std::slice::from_ref(one), other);
            if drafted.is_ok() {
                pairs.push((before, at, refused.to_facts()));
            }
        }
    }
    let names = |at: usize| {
        let words = chains[at].headers.iter().map(|proto| proto.name());
        words.collect::<Vec<_>>()
    };
    for conflict in grouped(&pairs, names) {
        if bench.draft.conflicts.len() == CONFLICTS_MAX {
            bench.note("more rules exclude each other than the file can express");
            break;
        }
        bench.draft.conflicts.push(conflict);
    }
    Ok(())
}

/// Returns the questions that are refused after the ones before them, and that the draft does not
/// refuse.
fn unexplained(bench: &mut Bench<'_>, questions: &[RuleProbe]) -> Result<Vec<usize>, Stopped> {
    let mut rules = Vec::new();
    let mut there: Vec<RuleProbe> = Vec::new();
    let mut found = Vec::new();
    for (at, question) in questions.iter().enumerate() {
        bench.step(at as u64, questions.len() as u64);
        match bench.create(question) {
            Ok(rule) => {
                rules.push(rule);
                there.push(question.clone());
            }
            Err(_) if drafted_after(bench, &there, question).is_ok() => found.push(at),
            Err(refused) => bench.notes.extend(
                (bench.draft.pattern.other_fields.is_none())
                    .then(|| format!("{}: {refused} after other rules", in_words(question))),
            ),
        }
    }
    // Even if one fails, the others are destroyed.
    let destroyed: Vec<_> = rules.into_iter().map(|rule| bench.destroy(rule)).collect();
    destroyed.into_iter().collect::<Result<(), _>>()?;
    Ok(found)
}

fn grouped(
    pairs: &[(usize, usize, RefusalFacts)],
    names: impl Fn(usize) -> Vec<&'static str>,
) -> Vec<Conflict> {
    // A list, a refusal, and the lists that it excludes with that refusal.
    let mut ones: Vec<(usize, RefusalFacts, Vec<usize>)> = Vec::new();
    for (one, other, refusal) in pairs {
        match ones.iter_mut().find(|(known, words, _)| known == one && words == refusal) {
            Some((_, _, others)) => others.push(*other),
            None => ones.push((*one, refusal.clone(), vec![*other])),
        }
    }
    let lines =
        |places: &[usize]| lines_of(&places.iter().map(|&at| names(at)).collect::<Vec<_>>());
    let conflict = |(one, refusal, others): (usize, RefusalFacts, Vec<usize>)| {
        let both = |other: Steps| {
            lines(&[one]).pop().map(|one| Conflict { one, other, told: refusal.clone() })
        };
        lines(&others).into_iter().filter_map(both).collect::<Vec<_>>()
    };
    ones.into_iter().flat_map(conflict).collect()
}
