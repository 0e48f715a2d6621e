// SPDX-License-Identifier: BSD-3-Clause
//! Examines patterns as a whole: ranges, missing masks, patterns that match every packet, headers
//! that exclude each other.

use super::bench::{Bench, Stopped};
use super::chains::{AcceptedChain, is_whole};
use super::fields::context;
use super::pattern::{Bits, Pattern};
use super::witness::EffectObserver;
use twin::personality::{Exclusive, FieldFacts, MaskRule, RefusalFacts};
use twin::{Field, Proto};

/// Finds these facts and writes them into the draft.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    base: &AcceptedChain,
    witness: Option<&EffectObserver>,
) -> Result<(), Stopped> {
    bench.stage("patterns as a whole")?;
    empty(bench, taken)?;
    ranges(bench, base)?;
    mask_alone(bench, taken)?;
    default_mask(bench, taken, witness)?;
    exclusives(bench, taken)
}

fn empty(bench: &mut Bench<'_>, taken: &[AcceptedChain]) -> Result<(), Stopped> {
    for chain in taken.iter().filter(|chain| !chain.is_exact && !chain.fields.is_empty()) {
        let answer = bench.ask_pattern(&Pattern::of(&chain.headers))?;
        if let Some(refused) = answer.err().filter(|refused| is_whole(refused, &chain.headers)) {
            bench.draft.pattern.empty = Some(refused.to_facts());
            return Ok(());
        }
    }
    Ok(())
}

fn ranges(bench: &mut Bench<'_>, base: &AcceptedChain) -> Result<(), Stopped> {
    let is_ip = |proto: &Proto| matches!(proto, Proto::Ipv4 | Proto::Ipv6);
    let at = base.headers.iter().position(is_ip).unwrap_or(0);
    let Some(field) = maskable(bench, base.headers[at]) else { return Ok(()) };
    let mut pattern = base.pattern().masked(at, field, Bits::Full);
    let item = &mut pattern.items[at];
    item.given.last = true;
    item.last = item.spec;
    let same = bench.ask_pattern(&pattern)?;
    let item = &mut pattern.items[at];
    item.last = item.spec.map(|byte| !byte);
    let question = bench.about(&pattern);
    let range = bench.ask(&question)?;
    bench.draft.pattern.never_last = same.is_err();
    bench.draft.pattern.range = bench.new_refusal(&question, &range);
    if range.is_ok() {
        bench.note("ranges are taken, which the file cannot express");
    }
    Ok(())
}

/// True if a full mask of the field has an effect.
pub(super) fn is_maskable(bench: &Bench<'_>, proto: Proto, field: Field) -> bool {
    let facts = bench.draft.items.get(proto.name());
    match facts.map(|facts| facts.fields.get(field.name)) {
        None => true,
        Some(Some(FieldFacts::Rule(mask) | FieldFacts::Detailed { mask, .. })) => {
            use MaskRule::{Always, Any, Full, FullOrIgnored};
            matches!(mask, Any | Full | FullOrIgnored | Always)
        }
        Some(None) => false,
    }
}

/// Returns a field of the header whose full mask has an effect.
pub(super) fn maskable(bench: &Bench<'_>, proto: Proto) -> Option<Field> {
    let is_good = |field: &&Field| is_maskable(bench, proto, **field);
    let usual = ["src", "dst", "tci", "vni", "teid", "type"];
    let named = usual.iter().filter_map(|name| proto.field(name)).find(|field| is_good(&field));
    named.or_else(|| proto.fields().iter().find(is_good).copied())
}

fn has_null_words(bench: &Bench<'_>, proto: Proto) -> bool {
    bench.draft.items.get(proto.name()).is_some_and(|facts| facts.null.is_some())
}

fn mask_alone(bench: &mut Bench<'_>, taken: &[AcceptedChain]) -> Result<(), Stopped> {
    for proto in [Proto::Ipv4, Proto::Ipv6, Proto::Tcp, Proto::Eth] {
        let Some((chain, at)) = context(taken, proto) else { continue };
        let null = bench.ask_pattern(&chain.pattern().null(at))?;
        let passes = null.is_ok() || null.is_err_and(|words| is_whole(&words, &chain.headers));
        let field = maskable(bench, proto).or(proto.fields().first().copied());
        let Some(field) = field.filter(|_| passes && !has_null_words(bench, proto)) else {
            continue;
        };
        let mut pattern = chain.pattern().null(at).masked(at, field, Bits::Full);
        pattern.items[at].given.spec = false;
        let answer = bench.ask_pattern(&pattern)?;
        let refused = answer.err().filter(|refused| !is_whole(refused, &chain.headers));
        bench.draft.pattern.mask_alone = refused.map(|refused| refused.to_facts());
        return Ok(());
    }
    Ok(())
}

/// Finds whether a spec without a mask is matched with the default mask, or ignored.
fn default_mask(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    witness: Option<&EffectObserver>,
) -> Result<(), Stopped> {
    for proto in [Proto::Ipv4, Proto::Ipv6, Proto::Tcp, Proto::Udp, Proto::Eth] {
        let Some((chain, at)) = context(taken, proto) else { continue };
        let Some(field) = proto.field("dst").filter(|_| !has_null_words(bench, proto)) else {
            continue;
        };
        let control = chain.pattern().null(at);
        let mut pattern = control.clone().masked(at, field, Bits::Full).contradicted(at, field);
        let full = bench.ask_pattern(&pattern)?;
        pattern.items[at].given.mask = false;
        pattern.items[at].mask = [0; twin::HEADER_MAX];
        let answer = bench.ask_pattern(&pattern)?;
        match (answer, full) {
            (Err(refused), Err(full)) if refused.is_same_refusal(&full) => return Ok(()),
            (Err(refused), Ok(())) if is_whole(&refused, &chain.headers) && !chain.is_exact => {
                bench.draft.pattern.no_default_mask = true;
                return Ok(());
            }
            (Ok(()), _) => {
                let Some(witness) = witness else { continue };
                if witness.hits(bench, &control)? == Some(true) {
                    let hit = witness.hits(bench, &pattern)?;
                    bench.draft.pattern.no_default_mask = hit == Some(true);
                    return Ok(());
                }
            }
            _ => {}
        }
    }
    bench.note("whether a spec without a mask has the default mask could not be determined");
    Ok(())
}

fn exclusives(bench: &mut Bench<'_>, taken: &[AcceptedChain]) -> Result<(), Stopped> {
    let mut chains: Vec<_> =
        taken.iter().filter(|chain| !chain.is_exact && !chain.is_deaf).collect();
    chains.sort_by_key(|chain| chain.headers.len());
    let mut seen: Vec<(Proto, Proto)> = Vec::new();
    for chain in chains {
        for other in 1..chain.headers.len() {
            for one in 0..other {
                let pair = (chain.headers[one], chain.headers[other]);
                if pair.0 == pair.1 || seen.contains(&pair) {
                    continue;
                }
                seen.push(pair);
                if let Some(refusal) = exclusive(bench, chain, one, other)? {
                    add(&mut bench.draft.exclusives, pair, refusal);
                }
            }
        }
    }
    Ok(())
}

/// Returns the refusal of masks in both of two headers, if each alone may have one.
fn exclusive(
    bench: &mut Bench<'_>,
    chain: &AcceptedChain,
    one: usize,
    other: usize,
) -> Result<Option<RefusalFacts>, Stopped> {
    let fields = [one, other].map(|at| maskable(bench, chain.headers[at]));
    let [Some(field), Some(other_field)] = fields else { return Ok(None) };
    let null = Pattern::of(&chain.headers);
    let first = null.clone().masked(one, field, Bits::Full);
    let second = null.masked(other, other_field, Bits::Full);
    let both = first.clone().masked(other, other_field, Bits::Full);
    let Err(refused) = bench.ask_pattern(&both)? else { return Ok(None) };
    let are_good = bench.ask_pattern(&first)?.is_ok() && bench.ask_pattern(&second)?.is_ok();
    Ok(are_good.then(|| refused.to_facts()))
}

fn add(exclusives: &mut Vec<Exclusive>, (one, other): (Proto, Proto), refusal: RefusalFacts) {
    let (one, other) = (vec![one.name().to_owned()], other.name().to_owned());
    match exclusives.iter_mut().find(|known| known.one == one && known.told == refusal) {
        Some(known) => known.other.push(other),
        None => exclusives.push(Exclusive { one, other: vec![other], told: refusal }),
    }
}
