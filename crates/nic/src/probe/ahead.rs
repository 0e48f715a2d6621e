// SPDX-License-Identifier: BSD-3-Clause
//! Finds a second engine, which the driver tries before the one that accepts the usual rules. A
//! priority that only the second engine accepts reveals it. With that priority it is examined
//! alone, like any engine.
//!
//! If the usual engine refuses without a message, the application reads the message of the second
//! engine.

use super::actions::{self, of};
use super::bench::{Bench, INGRESS, Stopped};
use super::chains::{self, AcceptedChain};
use super::fields::{self, context};
use super::pattern::Bits;
use super::subject::RuleProbe;
use super::witness::EffectObserver;
use super::{attributes, behaviour, narrow, pairs, rules};
use std::mem::replace;
use twin::personality::{AttributeFacts, FieldFacts, Latency, MarkFacts, Operations, RefusalFacts};
use twin::{Action, Attributes, Kind, Personality, Proto};

/// Finds the second engine, if there is one, and writes it into the draft.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    base: &AcceptedChain,
    lists: &[Vec<&'static str>],
) -> Result<(), Stopped> {
    bench.stage("another engine")?;
    let Some(priority) = bench.draft.attributes.priorities else { return Ok(()) };
    let attributes = Attributes { priority, ..INGRESS };
    let mut found = None;
    for list in lists {
        let question = RuleProbe { attributes, actions: of(list), ..bench.about(&base.pattern()) };
        if bench.ask(&question)?.is_ok() {
            found = Some(of(list));
            break;
        }
    }
    let Some(actions) = found else { return Ok(()) };
    let port = &bench.draft.attributes;
    let alone = Personality {
        attributes: AttributeFacts { priorities: None, priority: None, ..port.clone() },
        operations: bench.draft.operations.clone(),
        latency: bench.draft.latency.clone(),
        ..Personality::default()
    };
    let port = replace(&mut bench.draft, alone);
    let usual_actions = replace(&mut bench.usual_actions, actions);
    bench.attributes = attributes;
    let result = look(bench);
    bench.attributes = INGRESS;
    bench.usual_actions = usual_actions;
    let ahead = replace(&mut bench.draft, port);
    result?;
    // Facts about the port are only in the main part of the file.
    bench.draft.ahead = Some(Box::new(Personality {
        name: "ahead".to_owned(),
        operations: Operations::default(),
        latency: Latency::default(),
        mark: MarkFacts::default(),
        ..ahead
    }));
    silences(bench, taken, base)
}

/// Examines the second engine, with the priority that only it accepts.
fn look(bench: &mut Bench<'_>) -> Result<(), Stopped> {
    let (mut taken, is_free) = chains::probe(bench)?;
    let base = super::base(&taken).clone();
    attributes::priorities(bench, &base.pattern())?;
    let lists = actions::probe(bench, &base.pattern())?;
    let witness = EffectObserver::find(bench, &taken, &lists)?;
    if let Some(witness) = &witness {
        behaviour::classes(bench, &mut taken, witness)?;
    }
    if !is_free || taken.iter().any(|chain| chain.other_transports_only) {
        chains::write(bench, &taken);
    }
    fields::probe(bench, &taken, witness.as_ref())?;
    rules::probe(bench, &taken, &base, witness.as_ref())?;
    narrow::probe(bench, &mut taken)?;
    pairs::probe(bench, &taken, &base, witness.as_ref())
}

/// Finds refusals that the usual engine gives without a message. The application then sees the
/// message of the engine ahead for the same rule.
fn silences(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    base: &AcceptedChain,
) -> Result<(), Stopped> {
    let priority = bench.draft.attributes.priorities.unwrap_or(0);
    let attributes = Attributes { priority, ..INGRESS };
    let question = RuleProbe { attributes, ..bench.about(&base.pattern()) };
    if is_silent(bench, &question)? {
        bench.draft.attributes.priority = Some(SILENT);
    }
    for proto in Proto::ALL {
        let Some((chain, at)) = context(taken, proto) else { continue };
        for &field in proto.fields() {
            let facts = bench.draft.items.get(proto.name());
            let refusal = facts.and_then(|facts| match facts.fields.get(field.name)? {
                FieldFacts::Detailed { told: refusal, .. } => refusal.as_ref(),
                FieldFacts::Rule(_) => None,
            });
            if refusal.is_none() {
                continue;
            }
            let question = bench.about(&chain.pattern().masked(at, field, Bits::ButLowest));
            if is_silent(bench, &question)? {
                let facts = bench.draft.items.get_mut(proto.name());
                let fact = facts.and_then(|facts| facts.fields.get_mut(field.name));
                if let Some(FieldFacts::Detailed { told: refusal, .. }) = fact {
                    *refusal = Some(SILENT);
                }
            }
        }
    }
    Ok(())
}

const SILENT: RefusalFacts =
    RefusalFacts::Full { errno: None, kind: Some(Kind::None), message: None };

/// True if the refusal of a rule has the message of the engine ahead. The rule is tried with two
/// lists of actions, for which the messages of that engine differ.
fn is_silent(bench: &mut Bench<'_>, question: &RuleProbe) -> Result<bool, Stopped> {
    let beyond = vec![Action::Queue(bench.subject.queues())];
    let other = RuleProbe { actions: beyond, ..question.clone() };
    let answers = [bench.ask(question)?.err(), bench.ask(&other)?.err()];
    let [Some(first), Some(second)] = answers else { return Ok(false) };
    let answers = [question, &other].map(|question| bench.drafted_ahead(question));
    let [Err(first_said), Err(second_said)] = answers else { return Ok(false) };
    Ok(first_said.is_same_refusal(&first) && second_said.is_same_refusal(&second))
}
