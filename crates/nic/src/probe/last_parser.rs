// SPDX-License-Identifier: BSD-3-Clause
//! Finds parsers that overwrite the message of an earlier parser.
//!
//! Such a parser refuses all rules with some headers with the same message, whatever is wrong with
//! them. The message then blames items that are not wrong.

use super::bench::{Bench, INGRESS, Stopped};
use super::chains::AcceptedChain;
use super::pattern::Pattern;
use super::steps::lines_of;
use super::subject::{Refused, RuleProbe};
use std::collections::BTreeMap;
use twin::personality::{LastParser, RefusalFacts};
use twin::{Attributes, Place, Proto};

/// Sets `is_deaf` in the chains whose refusals are not specific.
pub(super) fn find(bench: &mut Bench<'_>, taken: &mut [AcceptedChain]) -> Result<(), Stopped> {
    bench.stage("overwritten messages")?;
    let mut same = Vec::new();
    for chain in taken.iter() {
        let good = bench.about(&chain.pattern());
        let egress = bench.ask(&RuleProbe { attributes: EGRESS, ..good.clone() })?;
        let empty = bench.ask(&RuleProbe { actions: Vec::new(), ..good })?;
        same.push(matches!((egress, empty), (Err(one), Err(other)) if one.is_same_refusal(&other)));
    }
    if same.contains(&false) {
        taken.iter_mut().zip(same).for_each(|(chain, is_same)| chain.is_deaf = is_same);
    }
    Ok(())
}

const EGRESS: Attributes = Attributes { egress: true, ..INGRESS };

/// The refusal for each header of a chain, with and without a spec.
#[derive(Default)]
struct Words {
    lists: Vec<Vec<&'static str>>,
    given: BTreeMap<String, RefusalFacts>,
    null: BTreeMap<String, RefusalFacts>,
    /// Headers without a refusal.
    quiet: Vec<(Proto, bool)>,
}

/// Finds the refusals of such parsers, and writes them into the draft.
pub(super) fn probe(bench: &mut Bench<'_>, taken: &[AcceptedChain]) -> Result<(), Stopped> {
    let mut parsers: Vec<Words> = Vec::new();
    for chain in taken.iter().filter(|chain| chain.is_deaf) {
        let words = words_of(bench, chain)?;
        match parsers.iter_mut().find(|parser| parser.goes_with(&words)) {
            Some(parser) => {
                parser.lists.extend(words.lists);
                parser.given.extend(words.given);
                parser.null.extend(words.null);
                parser.quiet.extend(words.quiet);
            }
            None => parsers.push(words),
        }
    }
    for Words { lists, given, null, .. } in parsers {
        let lines = lines_of(&lists).into_iter();
        let parsers =
            lines.map(|items| LastParser { items, given: given.clone(), null: null.clone() });
        bench.draft.last_parsers.extend(parsers);
    }
    Ok(())
}

fn words_of(bench: &mut Bench<'_>, chain: &AcceptedChain) -> Result<Words, Stopped> {
    let mut words = Words::default();
    words.lists.push(chain.headers.iter().map(|proto| proto.name()).collect());
    let mut pattern = Pattern::of(&chain.headers);
    for (at, &proto) in chain.headers.iter().enumerate() {
        let mut is_hidden = true;
        for is_given in [true, false] {
            let variant =
                if is_given { pattern.clone().given(at) } else { pattern.clone().null(at) };
            match refusal_at(bench, &variant, at)? {
                Some(refused) => {
                    let map = if is_given { &mut words.given } else { &mut words.null };
                    map.insert(proto.name().to_owned(), refused.to_facts());
                }
                None => {
                    words.quiet.push((proto, is_given));
                    pattern = variant;
                    is_hidden = false;
                }
            }
        }
        if is_hidden {
            // This refusal hides those of later headers.
            break;
        }
    }
    Ok(words)
}

/// Returns the refusal that points at the item at `at`, if any.
fn refusal_at(
    bench: &mut Bench<'_>,
    pattern: &Pattern,
    at: usize,
) -> Result<Option<Refused>, Stopped> {
    let question = RuleProbe { attributes: EGRESS, ..bench.about(pattern) };
    let refused = bench.ask(&question)?.err();
    Ok(refused.filter(|refused| refused.place == Some(Place::Item(at))))
}

impl Words {
    /// True if one parser can give the refusals of both.
    fn goes_with(&self, other: &Self) -> bool {
        let agree = |map: &BTreeMap<String, RefusalFacts>,
                     other: &BTreeMap<String, RefusalFacts>| {
            map.iter().all(|(name, refusal)| other.get(name).is_none_or(|other| other == refusal))
        };
        let silent = |words: &Self, other: &Self| {
            words.quiet.iter().all(|(proto, is_given)| {
                let map = if *is_given { &other.given } else { &other.null };
                !map.contains_key(proto.name())
            })
        };
        agree(&self.given, &other.given)
            && agree(&self.null, &other.null)
            && silent(self, other)
            && silent(other, self)
    }
}
