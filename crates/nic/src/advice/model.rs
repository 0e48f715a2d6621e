// SPDX-License-Identifier: BSD-3-Clause
//! Converts a flow rule into the types of the software NIC's model.

use dpdk::flow::{Action, Item, ItemKind, Rule, Value};
use twin::rss::RssTypes;
use twin::{Age, HEADER_MAX, ItemSpec, Personality, Proto, Refusal, Spread};

/// A rule in the types of the model.
pub struct ModelRule {
    /// Group, priority and direction.
    pub attributes: twin::Attributes,
    /// The pattern, without items that match every packet.
    pub items: Vec<twin::Item>,
    /// Actions on the packets that match.
    pub actions: Vec<twin::Action>,
}

impl ModelRule {
    /// Converts a rule; returns `None` if the model does not know one of its items or actions.
    pub fn of(rule: &Rule) -> Option<Self> {
        let dpdk::flow::Attributes { group, priority, ingress, egress, transfer } = rule.attributes;
        let is_header = |item: &&Item| item.kind != ItemKind::Void && !is_port(item);
        let items = rule.pattern.iter().filter(is_header);
        let actions = rule.actions.iter().filter(|action| **action != Action::Void);
        Some(Self {
            attributes: twin::Attributes {
                group,
                priority,
                ingress,
                egress,
                transfer,
                names_port: rule.pattern.iter().any(is_port),
            },
            items: items.map(item).collect::<Option<_>>()?,
            actions: actions.map(action).collect::<Option<_>>()?,
        })
    }

    /// True if the rule matches ports or sends packets to them.
    pub(crate) fn is_about_ports(&self) -> bool {
        let twin::Attributes { transfer, names_port, .. } = self.attributes;
        transfer || names_port || self.actions.iter().any(twin::Action::is_about_port)
    }

    /// Returns the refusal of the rule by an empty table, as the NIC would give it.
    pub(crate) fn judged(&self, personality: &Personality, queues: u16) -> Result<(), Refusal> {
        let Self { attributes, items, actions } = self;
        personality.takes(twin::Rule { attributes: *attributes, items, actions }, queues)
    }
}

/// True if an item names the port at which packets arrive.
pub(super) fn is_port(item: &Item) -> bool {
    matches!(item.kind, ItemKind::PortId | ItemKind::RepresentedPort)
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
    let given = ItemSpec { spec: spec.is_some(), last: item.last.is_some(), mask: mask.is_some() };
    // has_vlan and the like: the lowest bit of the byte behind the header.
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
            // No personality refuses RSS types, so they do not matter.
            let types = RssTypes::default();
            twin::Action::Rss(Spread { types, queues: rss.queues.clone().into() })
        }
        Action::Age(seconds) => twin::Action::Age(Age { timeout_s: *seconds, context: 0 }),
        // Only the driver checks whether the port exists.
        Action::PortId(port) => twin::Action::PortId(port.map_or(0, |port| port as u16)),
        Action::RepresentedPort(port) => twin::Action::RepresentedPort(*port),
        Action::PortRepresentor(port) => twin::Action::PortRepresentor(Some(*port)),
        Action::Void | Action::Other(_) => return None,
    })
}
