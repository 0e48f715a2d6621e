// SPDX-License-Identifier: BSD-3-Clause
//! Lists the facts of a personality that explain a refusal, as sentences.

use super::ModelRule;
use std::collections::BTreeMap;
use twin::personality::{
    ActionFacts, Capacity, Chain, Duplicate, FieldFacts, ItemFacts, MaskRule, Steps,
};
use twin::{Kind, Personality, Place, Refusal};

/// Returns what the NIC accepts at the place of the refusal, one sentence for each fact. If the
/// rule alone is valid, returns why other rules may exclude it.
pub(super) fn of(
    personality: &Personality,
    rule: &ModelRule,
    refusal: Option<Refusal>,
) -> Vec<String> {
    let title = &personality.title;
    let Some(refusal) = refusal else {
        let mut lines =
            vec![format!("{title} takes such rules; other rules may exclude this one:")];
        lines.extend(in_the_way(personality, rule));
        return lines;
    };
    let mut lines = Vec::new();
    if let Some(placeholder) = &personality.placeholder {
        lines.push(format!("{title}: {placeholder}"));
    }
    match refusal.kind {
        Kind::AttrGroup | Kind::AttrPriority => lines.extend(attributes(personality)),
        Kind::AttrIngress | Kind::AttrEgress | Kind::AttrTransfer | Kind::Attr => {
            lines.push(format!("{title} takes rules for {}", directions(personality)));
        }
        Kind::Action | Kind::ActionConf | Kind::ActionNum => lines.extend(actions(personality)),
        _ => match refusal.place {
            Place::Action(_) => lines.extend(actions(personality)),
            Place::Item(_) => lines.extend(pattern(personality, rule, refusal)),
            Place::Rule => {}
        },
    }
    lines.extend(personality.ahead.as_deref().map(ahead));
    lines
}

/// Returns what the engine ahead accepts.
fn ahead(engine: &Personality) -> String {
    let actions: Vec<_> = engine.actions.accepted.iter().map(Steps::to_string).collect();
    let title = if engine.title.is_empty() { "another engine" } else { &engine.title };
    let priorities = match engine.attributes.priorities {
        Some(count) => format!(" and priorities 0 to {}", count.saturating_sub(1)),
        None => String::new(),
    };
    format!(
        "{title} checks rules first: it takes other masks{priorities}, with {} only",
        actions.join("; or ")
    )
}

fn in_the_way(personality: &Personality, rule: &ModelRule) -> Vec<String> {
    let mut lines = vec![format!("- {}", space(personality))];
    if rule.is_about_ports() {
        let why = "packets go between the ports of one switch only (of the software NIC, those \
                   with the same switch=), and a rule is created on the port where they arrive";
        lines.push(format!("- {why}"));
    }
    if personality.table.duplicate != Duplicate::FirstWins
        && personality.table.duplicate != Duplicate::LastWins
    {
        lines.push("- a rule for exactly these packets may exist already".to_owned());
    }
    if personality.pattern.other_fields.is_some() {
        let why = "it matches one set of fields at a time for each kind of packets (IP version \
                   and transport): an existing rule may match others";
        lines.push(format!("- {why}"));
    }
    for conflict in &personality.conflicts {
        let (one, other) = (&conflict.one, &conflict.other);
        lines.push(format!("- rules on {one} and rules on {other} exclude each other"));
    }
    if let Some(max) = personality.count.max {
        lines.push(format!("- it has {max} counters"));
    }
    if personality.port.stopped.is_some() {
        lines.push("- it takes rules only while its port is started".to_owned());
    }
    lines
}

/// Returns how many rules fit.
fn space(personality: &Personality) -> String {
    let Capacity { guaranteed, best_effort } = personality.table.capacity();
    match (guaranteed, best_effort) {
        (u64::MAX, _) => "its table takes any number of rules".to_owned(),
        (guaranteed, 0) => format!("its table takes {guaranteed} rules"),
        (guaranteed, best_effort) => format!(
            "its table takes {guaranteed} rules for sure, and {best_effort} more if other ports \
             of the device leave room"
        ),
    }
}

fn directions(personality: &Personality) -> &'static str {
    if personality.attributes.transfer {
        "ingress, or transfer with `switch=`"
    } else {
        "ingress only"
    }
}

fn attributes(personality: &Personality) -> Vec<String> {
    let range = |count: Option<u32>, noun: &str| match count {
        None => format!("any {noun}"),
        Some(0 | 1) => format!("{noun} 0 only"),
        Some(count) => format!("{noun} 0 to {}", count - 1),
    };
    let facts = &personality.attributes;
    let (groups, priorities) = (range(facts.groups, "group"), range(facts.priorities, "priority"));
    vec![format!("{} takes {groups}, {priorities}", personality.title)]
}

fn actions(personality: &Personality) -> Vec<String> {
    let ActionFacts { accepted, accepted_transfer, any_order, .. } = &personality.actions;
    if accepted.is_empty() {
        return Vec::new();
    }
    let lists = |accepted: &[Steps]| {
        let lists: Vec<_> = accepted.iter().map(Steps::to_string).collect();
        lists.join("; or ")
    };
    let order = if *any_order { "in any order" } else { "in this order" };
    let title = &personality.title;
    let mut lines = vec![format!("{title} takes these actions, {order}: {}", lists(accepted))];
    if !accepted_transfer.is_empty() {
        lines.push(format!("with transfer, instead: {}", lists(accepted_transfer)));
    }
    if let Some(max) = personality.mark.max {
        lines.push(format!("marks go up to {max}"));
    }
    lines
}

fn pattern(personality: &Personality, rule: &ModelRule, refusal: Refusal) -> Vec<String> {
    let names = || rule.items.iter().map(|item| item.proto.name());
    let chains = &personality.chains;
    let title = &personality.title;
    let chain = chains.iter().find(|chain| chain.items.takes(names()));
    let mut lines = Vec::new();
    match chain {
        None if !chains.is_empty() => {
            let lists: Vec<_> = chains.iter().map(|chain| chain.items.to_string()).collect();
            lines.push(format!("{title} takes these headers: {}", lists.join("; or ")));
            return lines;
        }
        Some(Chain { exactly: Some(exactly), .. }) => lines.push(format!(
            "with these headers {title} requires {}, each with all bits of its mask, and no other \
             field",
            exactly.join(", ")
        )),
        _ => {}
    }
    let item = match refusal.place {
        Place::Item(place) => rule.items.get(place),
        _ => None,
    };
    if let Some(item) = item {
        let name = item.proto.name();
        lines.extend(personality.items.get(name).map(|facts| fields(name, facts, chain)));
    }
    for exclusive in &personality.exclusives {
        let (one, other) = (exclusive.one.join(" or "), exclusive.other.join(", "));
        let is_about =
            item.is_some_and(|item| exclusive.other.iter().any(|name| name == item.proto.name()));
        if is_about {
            lines.push(format!("a rule may match {one}, or {other}, not both"));
        }
    }
    lines
}

/// Returns which fields of a header may be masked in this list of headers: `in ipv4 it takes src,
/// dst with all bits of the mask; ...`.
fn fields(name: &str, facts: &ItemFacts, chain: Option<&Chain>) -> String {
    let mut by_rule: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (field, facts) in &facts.fields {
        if facts.rule() != MaskRule::Ignored && !chain.is_none_or(|chain| chain.has(name, field)) {
            continue;
        }
        by_rule.entry(words(facts)).or_default().push(field);
    }
    let parts = by_rule.iter().map(|(words, fields)| format!("{} {words}", fields.join(", ")));
    let parts: Vec<_> = parts.collect();
    match parts.is_empty() {
        true => format!("in {name} it matches no field: leave it without fields"),
        false => format!("in {name} it takes {}", parts.join("; ")),
    }
}

fn words(facts: &FieldFacts) -> &'static str {
    let rule = match facts {
        FieldFacts::Rule(rule) | FieldFacts::Detailed { mask: rule, .. } => rule,
    };
    match rule {
        MaskRule::Any => "with any mask",
        MaskRule::Full => "with all bits of the mask",
        MaskRule::Always => "with all bits of the mask, always",
        MaskRule::FullOrIgnored => {
            "with all bits of the mask (other masks are accepted, but ignored)"
        }
        MaskRule::Ignored => "with any mask, but ignores it",
        MaskRule::Never => "without a mask",
        MaskRule::These => "with a few masks only",
    }
}
