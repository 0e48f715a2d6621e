// SPDX-License-Identifier: BSD-3-Clause
//! Finds limits of a list of headers as a whole: fields that may have no mask in it, and the number
//! of bytes of all masks.

use super::bench::{Bench, Stopped};
use super::chains::{AcceptedChain, write};
use super::frame::NO_ETHER_TYPE;
use super::pattern::{Bits, Pattern};
use super::rules::is_maskable;
use twin::personality::{FieldFacts, MaskRule};
use twin::{Field, Item};

/// Finds these limits and writes them into the draft.
pub(super) fn probe(bench: &mut Bench<'_>, taken: &mut [AcceptedChain]) -> Result<(), Stopped> {
    // These are many questions, and without validate each would create a rule.
    if bench.draft.operations.no_validate {
        return Ok(());
    }
    if !bench.draft.chains.is_empty() {
        bench.stage("fields of lists")?;
        let count = taken.len() as u64;
        for (done, chain) in taken.iter_mut().enumerate().filter(|(_, chain)| !chain.is_exact) {
            bench.step(done as u64, count);
            chain.only = allowed(bench, chain)?;
        }
        if taken.iter().any(|chain| chain.only.is_some()) {
            write(bench, taken);
        }
    }
    width(bench, taken)
}

/// Returns the fields of all headers of a list that may be masked in some list.
fn maskable(bench: &Bench<'_>, chain: &AcceptedChain) -> Vec<(usize, Field)> {
    let headers = chain.headers.iter().enumerate();
    let fields = headers.flat_map(|(at, proto)| {
        let is_good = |field: &&Field| is_maskable(bench, *proto, **field);
        proto.fields().iter().filter(is_good).map(move |&field| (at, field))
    });
    fields.collect()
}

/// Returns the fields that may have only a few masks, each with one of these masks.
fn with_special_masks(bench: &Bench<'_>, chain: &AcceptedChain) -> Vec<(usize, Field, u64)> {
    let headers = chain.headers.iter().enumerate();
    let fields = headers.flat_map(|(at, proto)| {
        let facts = bench.draft.items.get(proto.name());
        proto.fields().iter().filter_map(move |&field| match facts?.fields.get(field.name)? {
            FieldFacts::Detailed { mask: MaskRule::These, these, .. } => {
                these.first().map(|&mask| (at, field, mask))
            }
            _ => None,
        })
    });
    fields.collect()
}

/// Returns the pattern with a full mask of the field, and a value without a meaning for NICs.
fn masked(pattern: Pattern, at: usize, field: Field) -> Pattern {
    let pattern = pattern.masked(at, field, Bits::Full);
    match field.name {
        "type" | "inner_type" if field.len == 16 => pattern.valued(at, field, NO_ETHER_TYPE.into()),
        _ => pattern,
    }
}

/// Returns the names of the fields that may be masked; `None` if all may.
fn allowed(bench: &mut Bench<'_>, chain: &AcceptedChain) -> Result<Option<Vec<String>>, Stopped> {
    let (mut names, mut refused) = (Vec::new(), Vec::new());
    let pattern = Pattern::of(&chain.headers);
    let full = maskable(bench, chain).into_iter();
    let full = full.map(|(at, field)| (at, field, masked(pattern.clone(), at, field)));
    let special = with_special_masks(bench, chain).into_iter();
    let special = special
        .map(|(at, field, mask)| (at, field, pattern.clone().masked(at, field, Bits::These(mask))));
    for (at, field, pattern) in full.chain(special).collect::<Vec<_>>() {
        let question = bench.about(&pattern);
        let answer = bench.ask(&question)?;
        // If the draft refuses it too, the refusal has another reason.
        let is_news = answer.is_err() && bench.drafted(&question).is_ok();
        let list = if is_news { &mut refused } else { &mut names };
        list.push(chain.name(at, field));
        if is_news && bench.draft.pattern.not_exactly.is_none() {
            bench.draft.pattern.not_exactly = answer.err().map(|refused| refused.to_facts());
        }
    }
    names.retain(|name| !refused.contains(name));
    names.dedup();
    Ok((!refused.is_empty()).then_some(names))
}

/// Finds how many bytes of masks are accepted, with the smallest list that has too many.
fn width(bench: &mut Bench<'_>, taken: &[AcceptedChain]) -> Result<(), Stopped> {
    let widest = |bench: &Bench<'_>, chain: &AcceptedChain| {
        let fields = maskable(bench, chain).into_iter().filter(|&(at, field)| {
            chain.only.as_ref().is_none_or(|names| names.contains(&chain.name(at, field)))
        });
        fields.fold(Pattern::of(&chain.headers), |pattern, (at, field)| masked(pattern, at, field))
    };
    let mut patterns: Vec<_> =
        taken.iter().filter(|chain| !chain.is_exact).map(|chain| widest(bench, chain)).collect();
    patterns.sort_by_key(bytes);
    for pattern in patterns {
        let question = bench.about(&pattern);
        let answer = bench.ask(&question)?;
        if answer.is_err() && bench.drafted(&question).is_ok() {
            bench.draft.pattern.bytes_max = most_bytes(bench, &pattern)?;
            bench.draft.pattern.too_wide = bench.new_refusal(&question, &answer);
            return Ok(());
        }
    }
    Ok(())
}

/// Finds how many bytes of a pattern's masks are accepted, by shortening the masks.
fn most_bytes(bench: &mut Bench<'_>, pattern: &Pattern) -> Result<Option<usize>, Stopped> {
    let mut most = None;
    for left in 0..=bytes(pattern) {
        let cut = cut(pattern, left);
        if bytes(&cut) == left && bench.ask_pattern(&cut)?.is_ok() {
            most = Some(left);
        }
    }
    if most.is_none() {
        bench.note("the number of bytes that masks of a rule may have could not be determined");
    }
    Ok(most)
}

fn bytes(pattern: &Pattern) -> usize {
    let in_mask = |item: &Item| item.mask.iter().filter(|&&byte| byte != 0).count();
    pattern.items.iter().map(in_mask).sum()
}

/// Returns the pattern with only `left` bytes of the masks, from the front.
fn cut(pattern: &Pattern, left: usize) -> Pattern {
    let mut pattern = pattern.clone();
    let masks = pattern.items.iter_mut().flat_map(|item| &mut item.mask);
    masks.filter(|byte| **byte != 0).skip(left).for_each(|byte| *byte = 0);
    pattern
}
