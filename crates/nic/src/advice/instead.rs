// SPDX-License-Identifier: BSD-3-Clause
//! Finds a rule close to a refused one that the NIC accepts.
//!
//! Step by step, it changes attributes, headers, fields and actions to what the NIC accepts.
//! Missing values are made up; addresses are those reserved for documentation (RFC 5737, RFC 3849).
//! A result that the model refuses is not proposed.

use super::ModelRule;
use super::model::is_port;
use dpdk::flow::{Action, Item, ItemKind, Rule, Value};
use twin::personality::{ActionFacts, Chain, FieldFacts, MaskRule, Ports, Steps};
use twin::{Field, Personality, Proto};

/// Returns a rule that the model accepts, `None` if there is none. If the engine ahead supports all
/// actions of `rule`, its facts are tried first.
pub(super) fn find(personality: &Personality, rule: &Rule, queues: u16) -> Option<Rule> {
    let by = |engine: &Personality| {
        let close = closest(engine, rule, queues);
        let good = ModelRule::of(&close)?.judged(personality, queues).is_ok();
        (good && close != *rule).then_some(close)
    };
    let has_all = |engine: &&Personality| {
        let mut names = rule.actions.iter().map(Action::name);
        let steps = || engine.actions.accepted.iter().flat_map(Steps::steps);
        names.all(|name| steps().any(|step| step.has(name)))
    };
    let ahead = personality.ahead.as_deref().filter(has_all);
    ahead.and_then(by).or_else(|| by(personality))
}

/// Returns `rule`, changed to what the facts of an engine allow.
fn closest(personality: &Personality, rule: &Rule, queues: u16) -> Rule {
    let mut close = rule.clone();
    close.pattern.retain(|item| item.kind != ItemKind::Void);
    close.actions.retain(|action| *action != Action::Void);
    set_attributes(personality, &mut close);
    // Lists of headers have no items for ports.
    let ports: Vec<_> = close.pattern.iter().filter(|item| is_port(item)).cloned().collect();
    close.pattern.retain(|item| !is_port(item));
    set_headers(personality, &mut close);
    let chain = chain_of(personality, &close);
    for item in &mut close.pattern {
        set_fields(personality, chain, item);
    }
    set_exclusive(personality, &mut close);
    if personality.pattern.empty.is_some() && close.pattern.iter().all(is_empty) {
        let ip = close.pattern.iter_mut().rfind(|item| is_ip(item.kind));
        ip.into_iter().for_each(|item| mask_whole(item, "src"));
    }
    set_actions(personality, &mut close, queues);
    if close.attributes.transfer || personality.pattern.ports == Ports::Always {
        close.pattern.splice(0..0, ports);
    }
    close
}

fn is_ip(kind: ItemKind) -> bool {
    matches!(kind, ItemKind::Ipv4 | ItemKind::Ipv6)
}

fn is_empty(item: &Item) -> bool {
    item.spec.is_none() || item.mask.is_none_or(|mask| mask == Value::ZERO)
}

fn set_attributes(personality: &Personality, rule: &mut Rule) {
    let facts = &personality.attributes;
    let attributes = &mut rule.attributes;
    let beyond = |number: u32, count: Option<u32>| count.is_some_and(|count| number >= count);
    if beyond(attributes.group, facts.groups) {
        attributes.group = 0;
    }
    if beyond(attributes.priority, facts.priorities) {
        attributes.priority = 0;
    }
    attributes.egress = false;
    attributes.transfer &= facts.transfer;
    attributes.ingress |= !attributes.transfer;
}

fn names(rule: &Rule) -> impl Iterator<Item = &'static str> {
    rule.pattern.iter().map(|item| item.kind.name())
}

fn chain_of<'a>(personality: &'a Personality, rule: &Rule) -> Option<&'a Chain> {
    personality.chains.iter().find(|chain| chain.items.takes(names(rule)))
}

/// Changes the headers to the nearest list that the NIC accepts.
fn set_headers(personality: &Personality, rule: &mut Rule) {
    let wanted: Vec<&str> = names(rule).collect();
    if personality.chains.is_empty() {
        let headers = &personality.pattern.headers;
        let is_known = |item: &Item| headers.iter().any(|name| name == item.kind.name());
        rule.pattern.retain(|item| headers.is_empty() || is_known(item));
        if personality.pattern.structure.l4_without_l3.is_some() {
            put_ip_below(rule);
        }
        return;
    }
    let lists = personality.chains.iter().flat_map(|chain| spelt_out(&chain.items));
    let nearest = lists.min_by_key(|list| {
        // Leaving headers out is worse than adding headers.
        let lost = wanted.iter().filter(|name| !list.contains(name)).count();
        let distance = strsim::generic_levenshtein(list, &wanted);
        4 * lost + distance
    });
    let kinds = nearest.into_iter().flatten().filter_map(kind_of);
    let mut given = std::mem::take(&mut rule.pattern);
    rule.pattern.extend(kinds.map(|kind| {
        let place = given.iter().position(|item| item.kind == kind);
        place.map_or(Item::any(kind), |place| given.remove(place))
    }));
}

fn kind_of(name: &str) -> Option<ItemKind> {
    ItemKind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// Adds IPv4 before a transport header that has no IP header.
fn put_ip_below(rule: &mut Rule) {
    let is_transport = |item: &Item| {
        matches!(item.kind, ItemKind::Tcp | ItemKind::Udp | ItemKind::Sctp | ItemKind::Icmp)
    };
    let Some(place) = rule.pattern.iter().position(is_transport) else { return };
    if !rule.pattern[..place].iter().any(|item| is_ip(item.kind)) {
        rule.pattern.insert(place, Item::any(ItemKind::Ipv4));
    }
}

/// Returns every list of words that matches the steps.
fn spelt_out(steps: &Steps) -> Vec<Vec<&str>> {
    steps.steps().iter().fold(vec![Vec::new()], |lists, step| {
        let longer = lists.iter().flat_map(|list| {
            step.words.iter().map(|word| [list.as_slice(), &[word.as_str()]].concat())
        });
        let longer: Vec<_> = longer.collect();
        if step.optional { [lists, longer].concat() } else { longer }
    })
}

fn set_fields(personality: &Personality, chain: Option<&Chain>, item: &mut Item) {
    let name = item.kind.name();
    if item.last.is_some() {
        item.last = None;
    }
    if item.spec.is_none() {
        item.mask = None;
    }
    let facts = personality.items.get(name);
    if let Some(chain) = chain {
        let bad = fields(item.kind).iter().filter(|field| !chain.has(name, field.name));
        bad.for_each(|field| clear_mask(item, field));
    }
    if let Some(exactly) = chain.and_then(|chain| chain.exactly.as_ref()) {
        let is_wanted = |field: &Field| {
            exactly.iter().any(|wanted| wanted.split_once('.') == Some((name, field.name)))
        };
        for field in fields(item.kind) {
            match is_wanted(field) {
                true => mask_whole(item, field.name),
                false => clear_mask(item, field),
            }
        }
        if is_empty(item) && facts.is_some_and(|facts| facts.fields.is_empty()) {
            *item = Item::any(item.kind);
        }
        return;
    }
    let Some(facts) = facts else { return };
    for field in fields(item.kind) {
        let mask = item.mask.map_or(0, |mask| mask.bits(field.bit, field.len));
        let full = u128::MAX >> (128 - field.len);
        let rule = facts.fields.get(field.name);
        match rule.map_or(MaskRule::Never, FieldFacts::rule) {
            MaskRule::Always => mask_whole(item, field.name),
            MaskRule::Full | MaskRule::FullOrIgnored if mask != 0 && mask != full => {
                mask_whole(item, field.name);
            }
            MaskRule::Never => clear_mask(item, field),
            _ => {}
        }
    }
    if is_empty(item) && facts.null.is_none() {
        *item = Item::any(item.kind);
    }
}

fn fields(kind: ItemKind) -> &'static [Field] {
    Proto::of_name(kind.name()).map_or(&[], Proto::fields)
}

/// Clears a field's mask, and its value, which has no effect without the mask.
fn clear_mask(item: &mut Item, field: &Field) {
    for bits in item.mask.iter_mut().chain(&mut item.spec) {
        bits.set_bits(field.bit, field.len, 0);
    }
}

/// Sets all bits of a field's mask; makes up a value if the field had neither.
fn mask_whole(item: &mut Item, name: &str) {
    let Some(field) = fields(item.kind).iter().find(|field| field.name == name) else { return };
    let had = item.mask.is_some_and(|mask| mask.bits(field.bit, field.len) != 0);
    let spec = item.spec.get_or_insert(Value::ZERO);
    if !had && spec.bits(field.bit, field.len) == 0 {
        spec.set_bits(field.bit, field.len, made_up(item.kind, name));
    }
    item.mask.get_or_insert(Value::ZERO).set_bits(field.bit, field.len, u128::MAX);
}

fn made_up(kind: ItemKind, name: &str) -> u128 {
    let number = |v4: [u8; 4]| u128::from(u32::from_be_bytes(v4));
    match (kind, name) {
        (ItemKind::Ipv4, "src") => number([192, 0, 2, 1]),
        (ItemKind::Ipv4, "dst") => number([198, 51, 100, 1]),
        (ItemKind::Ipv6, "src") => 0x2001_0db8 << 96 | 1,
        (ItemKind::Ipv6, "dst") => 0x2001_0db8 << 96 | 2,
        (ItemKind::Eth, "src" | "dst") => 0x0200_0000_0001,
        (_, "src") => 49152,
        (_, "dst") => 443,
        _ => 1,
    }
}

/// Removes spec and mask of one of two headers that exclude each other.
fn set_exclusive(personality: &Personality, rule: &mut Rule) {
    for exclusive in &personality.exclusives {
        let is_in = |names: &[String], item: &Item| names.iter().any(|n| n == item.kind.name());
        let other =
            rule.pattern.iter().any(|item| is_in(&exclusive.other, item) && !is_empty(item));
        let ones = rule.pattern.iter_mut().filter(|item| other && is_in(&exclusive.one, item));
        ones.for_each(|item| *item = Item::any(item.kind));
    }
}

/// Changes the actions to the accepted list that keeps most of them.
fn set_actions(personality: &Personality, rule: &mut Rule, queues: u16) {
    for action in &mut rule.actions {
        match action {
            Action::Queue(queue) => *queue = (*queue).min(queues.saturating_sub(1)),
            Action::Mark(mark) => *mark = (*mark).min(personality.mark.max.unwrap_or(u32::MAX)),
            _ => {}
        }
    }
    let ActionFacts { accepted, accepted_transfer, .. } = &personality.actions;
    let lists = match rule.attributes.transfer && !accepted_transfer.is_empty() {
        true => accepted_transfer,
        false => accepted,
    };
    let lists = lists.iter().map(|list| fitted(list, &rule.actions));
    if let Some(best) = lists.max_by_key(|(kept, _)| *kept).map(|(_, actions)| actions) {
        rule.actions = best;
    }
}

/// Returns how many of `actions` fit into a list, and the list with these and made-up actions.
fn fitted(list: &Steps, actions: &[Action]) -> (usize, Vec<Action>) {
    let mut rest = actions.to_vec();
    let mut kept = 0;
    let mut fit = Vec::new();
    for step in list.steps() {
        let has = |action: &Action| step.words.iter().any(|word| word == action.name());
        if let Some(place) = rest.iter().position(has) {
            fit.push(rest.remove(place));
            kept += 1;
        } else if !step.optional {
            fit.extend(step.words.first().and_then(|word| made_up_action(word)));
        }
    }
    (kept, fit)
}

fn made_up_action(word: &str) -> Option<Action> {
    Some(match word {
        "queue" => Action::Queue(0),
        "drop" => Action::Drop,
        "passthru" => Action::Passthru,
        "mark" => Action::Mark(1),
        "count" => Action::Count(0),
        _ => return None,
    })
}
