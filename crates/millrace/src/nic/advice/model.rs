// SPDX-License-Identifier: BSD-3-Clause
//! A flow rule in the terms of the twin's model.

use dpdk::flow::{Action, Item, ItemKind, Rule, Value};
use twin::rss::RssTypes;
use twin::{Age, Given, HEADER_MAX, Personality, Proto, Refusal, Spread};

/// A rule that the model understands.
pub(crate) struct Modelled {
    pub(crate) attributes: twin::Attributes,
    pub(crate) items: Vec<twin::Item>,
    pub(crate) actions: Vec<twin::Action>,
}

impl Modelled {
    /// `None` if the rule has an item or an action that the model does not know.
    pub(crate) fn of(rule: &Rule) -> Option<Self> {
        let dpdk::flow::Attributes { group, priority, ingress, egress, transfer } = rule.attributes;
        let items = rule.pattern.iter().filter(|item| item.kind != ItemKind::Void);
        let actions = rule.actions.iter().filter(|action| **action != Action::Void);
        Some(Self {
            attributes: twin::Attributes { group, priority, ingress, egress, transfer },
            items: items.map(item).collect::<Option<_>>()?,
            actions: actions.map(action).collect::<Option<_>>()?,
        })
    }

    /// What the NIC would say of the rule alone.
    pub(crate) fn judged(&self, personality: &Personality, queues: u16) -> Result<(), Refusal> {
        let Self { attributes, items, actions } = self;
        personality.takes(twin::Rule { attributes: *attributes, items, actions }, queues)
    }
}

fn item(item: &Item) -> Option<twin::Item> {
    let proto = Proto::of_name(item.kind.name())?;
    let bytes = |value: Option<Value>| {
        let mut bytes = [0; HEADER_MAX];
        let len = proto.header_len();
        bytes[..len].copy_from_slice(&value.unwrap_or(Value::ZERO).bytes()[..len]);
        bytes
    };
    let (spec, mask) = (item.spec, item.mask);
    let given = Given { spec: spec.is_some(), last: item.last.is_some(), mask: mask.is_some() };
    // The bit beside the header is the last of the byte behind it.
    let beside = |value: Option<Value>| match proto {
        Proto::Eth | Proto::Vlan | Proto::Ipv6 => {
            value.is_some_and(|value| value.bytes()[proto.header_len()] & 1 != 0)
        }
        _ => false,
    };
    let followed = beside(mask).then(|| beside(spec));
    let (spec, last, mask) = (bytes(spec), bytes(item.last), bytes(mask));
    Some(twin::Item { proto, given, spec, last, mask, followed })
}

fn action(action: &Action) -> Option<twin::Action> {
    Some(match action {
        Action::Mark(mark) => twin::Action::Mark(*mark),
        Action::Flag => twin::Action::Flag,
        Action::Queue(queue) => twin::Action::Queue(*queue),
        Action::Drop => twin::Action::Drop,
        Action::Count(_) => twin::Action::Count,
        Action::Passthru => twin::Action::Passthru,
        Action::Jump(group) => twin::Action::Jump(*group),
        Action::Rss(rss) => {
            // Which packets are hashed is not refused by what is known.
            let types = RssTypes::default();
            twin::Action::Rss(Spread { types, queues: rss.queues.clone().into() })
        }
        Action::Age(seconds) => twin::Action::Age(Age { timeout_s: *seconds, context: 0 }),
        Action::Void | Action::PortId(_) | Action::RepresentedPort(_) => {
            return None;
        }
    })
}
