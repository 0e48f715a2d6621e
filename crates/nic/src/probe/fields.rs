// SPDX-License-Identifier: BSD-3-Clause
//! Finds which masks each field of each header may have, and whether they have an effect.
//!
//! A NIC may accept a mask and ignore it. A packet that contradicts the mask and hits the rule
//! shows that. If the NIC accepts only exact sets of fields, its answers show it without packets.

use super::bench::{Bench, Stopped};
use super::chains::{AcceptedChain, is_whole};
use super::frame::NO_ETHER_TYPE;
use super::pattern::{Bits, Pattern};
use super::subject::{Answer, Refused};
use super::witness::EffectObserver;
use std::collections::BTreeMap;
use twin::personality::{FieldFacts, ItemFacts, MaskRule, RefusalFacts};
use twin::{Field, Proto};

/// A chain for questions about one of its headers.
pub(super) struct Context<'a> {
    pub(super) chain: &'a AcceptedChain,
    /// Place of the header.
    pub(super) at: usize,
    /// True if packets hit the rule of the unchanged chain.
    is_hit: bool,
}

/// Results for a field.
struct Seen {
    rule: MaskRule,
    these: Vec<u64>,
    /// Refusal of other masks.
    refused: Option<Refused>,
    not: Vec<u64>,
    not_refused: Option<Refused>,
}

/// Returns the shortest chain with this header, and the place of the header. Chains with specific
/// refusals are preferred.
pub(super) fn context(taken: &[AcceptedChain], proto: Proto) -> Option<(&AcceptedChain, usize)> {
    let has = |chain: &&AcceptedChain| chain.headers.contains(&proto);
    let chain =
        taken.iter().filter(has).min_by_key(|chain| (chain.is_deaf, chain.headers.len()))?;
    let at = chain.headers.iter().position(|other| *other == proto)?;
    Some((chain, at))
}

/// Finds the facts of every header, and writes them into the draft.
pub(super) fn probe(
    bench: &mut Bench<'_>,
    taken: &[AcceptedChain],
    witness: Option<&EffectObserver>,
) -> Result<(), Stopped> {
    bench.stage("masks of fields")?;
    for (done, proto) in Proto::ALL.into_iter().enumerate() {
        bench.step(done as u64, Proto::ALL.len() as u64);
        let Some((chain, at)) = context(taken, proto) else { continue };
        let hit = match witness {
            Some(witness) => witness.hits(bench, &chain.pattern())?,
            None => None,
        };
        let context = Context { chain, at, is_hit: hit == Some(true) };
        if witness.is_some() && !context.is_hit && !chain.is_exact {
            bench.note(format!(
                "{}: no packet hit its rules, so ignored masks could not be detected",
                proto.name()
            ));
        }
        let facts = header(bench, &context, witness)?;
        if let Some(facts) = facts {
            bench.draft.items.insert(proto.name().to_owned(), facts);
        }
    }
    Ok(())
}

/// Returns the facts of one header; `None` if it accepts everything.
fn header(
    bench: &mut Bench<'_>,
    context: &Context<'_>,
    witness: Option<&EffectObserver>,
) -> Result<Option<ItemFacts>, Stopped> {
    let proto = context.chain.headers[context.at];
    let mut seen = Vec::new();
    for &field in proto.fields() {
        seen.push((field, context.field(bench, field, witness)?));
    }
    let never = seen.iter().filter(|(_, seen)| seen.rule == MaskRule::Never);
    let mut facts = ItemFacts {
        mask: usual(never.filter_map(|(_, seen)| seen.refused.as_ref())),
        followed: context.followed(bench)?,
        null: context.null(bench)?,
        ..ItemFacts::default()
    };
    let is_free = facts == ItemFacts::default()
        && seen.iter().all(|(_, seen)| seen.rule == MaskRule::Any && seen.not.is_empty());
    if is_free {
        return Ok(None);
    }
    for (field, seen) in seen {
        if let Some(fact) = seen.fact(facts.mask.as_ref()) {
            facts.fields.insert(field.name.to_owned(), fact);
        }
    }
    Ok(Some(facts))
}

/// Returns the most frequent refusal.
fn usual<'a>(refusals: impl Iterator<Item = &'a Refused>) -> Option<RefusalFacts> {
    let mut counts: BTreeMap<String, (usize, &Refused)> = BTreeMap::new();
    for refused in refusals {
        counts.entry(format!("{:?}", refused.to_facts())).or_insert((0, refused)).0 += 1;
    }
    counts.into_values().max_by_key(|(count, _)| *count).map(|(_, refused)| refused.to_facts())
}

impl Seen {
    /// Returns the fact for the file; `usual` is the refusal that the file has for the whole
    /// header.
    fn fact(self, usual: Option<&RefusalFacts>) -> Option<FieldFacts> {
        let refusal = self.refused.map(|refused| refused.to_facts());
        let refusal = refusal.filter(|refusal| Some(refusal) != usual);
        let value_refusal = self.not_refused.map(|refused| refused.to_facts());
        let is_plain = refusal.is_none() && self.not.is_empty() && self.these.is_empty();
        match self.rule {
            MaskRule::Never if is_plain => None,
            rule if is_plain => Some(FieldFacts::Rule(rule)),
            mask => {
                let (these, not) = (self.these, self.not);
                Some(FieldFacts::Detailed {
                    mask,
                    these,
                    told: refusal,
                    not,
                    not_told: value_refusal,
                })
            }
        }
    }
}

/// Returns masks of parts of a field that users may want to match.
fn specials(proto: Proto, field: Field) -> &'static [u64] {
    match (proto, field.name) {
        (Proto::Vlan, "tci") => &[0xe000, 0x1000, 0x0fff],
        (Proto::Ipv4, "fragment_offset") => &[0x3fff, 0x1fff, 0x2000],
        (Proto::Ipv4, "tos") | (Proto::Ipv6, "tc") => &[0xfc, 0x03],
        (Proto::Tcp, "flags") => &[0x02, 0x07, 0x3f],
        (Proto::Ipv6Frag, "frag_data") => &[0xfff8, 0x0001],
        _ => &[],
    }
}

const PARTS: [Bits; 3] = [Bits::ButLowest, Bits::Upper, Bits::Lowest];

impl Context<'_> {
    /// Returns the pattern with another mask of one field, and a value without a meaning for NICs.
    fn with(&self, field: Field, bits: Bits) -> Pattern {
        let pattern = self.chain.pattern().masked(self.at, field, bits);
        match field.name {
            "type" | "inner_type" if field.len == 16 => {
                pattern.valued(self.at, field, NO_ETHER_TYPE.into())
            }
            _ => pattern,
        }
    }

    fn ask(&self, bench: &mut Bench<'_>, field: Field, bits: Bits) -> Result<Answer, Stopped> {
        bench.ask_pattern(&self.with(field, bits))
    }

    /// True unless the answer refuses the header; it may refuse the pattern as a whole.
    fn passes(&self, answer: &Answer) -> bool {
        match answer {
            Ok(()) => true,
            Err(refused) => is_whole(refused, &self.chain.headers),
        }
    }

    fn field(
        &self,
        bench: &mut Bench<'_>,
        field: Field,
        witness: Option<&EffectObserver>,
    ) -> Result<Seen, Stopped> {
        let none = self.ask(bench, field, Bits::None)?;
        let full = self.ask(bench, field, Bits::Full)?;
        let proto = self.chain.headers[self.at];
        let mut parts = Vec::new();
        let special = specials(proto, field).iter().map(|&bits| Bits::These(bits));
        for bits in PARTS.into_iter().chain(special) {
            parts.push((bits, self.ask(bench, field, bits)?));
        }
        let passing = |(_, answer): &&(Bits, Answer)| self.passes(answer);
        let bad_part = parts.iter().find(|part| !passing(part)).and_then(|(_, a)| a.clone().err());
        let has_good_part = parts.iter().any(|part| passing(&part));
        let mut seen = Seen {
            rule: MaskRule::Any,
            these: vec![],
            refused: None,
            not: vec![],
            not_refused: None,
        };
        (seen.rule, seen.refused) = match (self.passes(&none), self.passes(&full)) {
            (false, _) => (MaskRule::Always, none.err()),
            (true, true) if bad_part.is_none() => (self.counting(bench, field, witness)?, None),
            (true, true) if !has_good_part => (MaskRule::Full, bad_part),
            (true, false) if !has_good_part => (MaskRule::Never, full.err()),
            (true, _) => {
                let good = parts.iter().filter(passing).filter_map(|(bits, _)| match bits {
                    Bits::These(bits) => Some(*bits),
                    _ => None,
                });
                let all = self.passes(&full).then_some(u64::MAX >> (64 - field.len.min(64)));
                seen.these = all.into_iter().chain(good).collect();
                (MaskRule::These, bad_part.or(full.err()))
            }
        };
        if field.len == 16 && field.name.ends_with("type") && seen.rule != MaskRule::Never {
            self.values(bench, field, &mut seen)?;
        }
        Ok(seen)
    }

    /// Finds EtherTypes that are refused as values, such as that of IPv4, which has an item of its
    /// own.
    fn values(&self, bench: &mut Bench<'_>, field: Field, seen: &mut Seen) -> Result<(), Stopped> {
        for value in [0x0800, 0x86dd, 0x8100, 0x0806] {
            let pattern = self.with(field, Bits::Full).valued(self.at, field, value);
            let answer = bench.ask_pattern(&pattern)?;
            if !self.passes(&answer) {
                seen.not.push(value);
                seen.not_refused = answer.err();
            }
        }
        Ok(())
    }

    /// Finds which masks have an effect, if all are accepted.
    fn counting(
        &self,
        bench: &mut Bench<'_>,
        field: Field,
        witness: Option<&EffectObserver>,
    ) -> Result<MaskRule, Stopped> {
        let full = self.counts(bench, field, Bits::Full, witness)?;
        let part = self.counts(bench, field, Bits::ButLowest, witness)?;
        Ok(match (full.unwrap_or(true), part.unwrap_or(true)) {
            (_, true) => MaskRule::Any,
            (true, false) => MaskRule::FullOrIgnored,
            (false, false) => MaskRule::Ignored,
        })
    }

    /// Returns whether an accepted mask has an effect; `None` if no packet can show it.
    fn counts(
        &self,
        bench: &mut Bench<'_>,
        field: Field,
        bits: Bits,
        witness: Option<&EffectObserver>,
    ) -> Result<Option<bool>, Stopped> {
        if self.chain.is_exact {
            let is_asked_for = self.chain.fields.contains(&(self.at, field));
            return Ok(Some(self.ask(bench, field, bits)?.is_ok() == is_asked_for));
        }
        let Some(witness) = witness.filter(|_| self.is_hit) else { return Ok(None) };
        let pattern = self.chain.pattern().masked(self.at, field, bits);
        let hit = witness.hits(bench, &pattern.contradicted(self.at, field))?;
        Ok(hit.map(|hit| !hit))
    }

    /// Returns the refusal of a condition that a tag or fragment header follows, or does not.
    fn followed(&self, bench: &mut Bench<'_>) -> Result<Option<RefusalFacts>, Stopped> {
        let headers = &self.chain.headers;
        let follower = match headers[self.at] {
            Proto::Eth | Proto::Vlan => Proto::Vlan,
            Proto::Ipv6 => Proto::Ipv6Frag,
            _ => return Ok(None),
        };
        let mut pattern = self.chain.pattern().given(self.at);
        let without = bench.ask_pattern(&pattern)?;
        pattern.items[self.at].followed = Some(headers.get(self.at + 1) == Some(&follower));
        let answer = bench.ask_pattern(&pattern)?;
        Ok(answer.err().filter(|_| without.is_ok()).map(|refused| refused.to_facts()))
    }

    /// Returns the refusal of a header without spec and mask, if the answer to one with zeros is
    /// different.
    fn null(&self, bench: &mut Bench<'_>) -> Result<Option<RefusalFacts>, Stopped> {
        let null = bench.ask_pattern(&self.chain.pattern().null(self.at))?;
        let zero = bench.ask_pattern(&self.chain.pattern().null(self.at).given(self.at))?;
        let is_new = null != zero && !self.passes(&null);
        Ok(null.err().filter(|_| is_new).map(|refused| refused.to_facts()))
    }
}
