// SPDX-License-Identifier: BSD-3-Clause
//! Finds out in which form a NIC takes rules that mark packets.
//!
//! Drivers differ in the headers that a rule must name, and in the actions beside the mark. A
//! combination is a shape. At start, each kind of packet is tried in one shape after the other
//! until the driver takes one. These rules use addresses reserved for documentation (RFC 5737, RFC
//! 3849).

use dpdk::flow::{Action, Attributes, Item, ItemKind, Rss, Rule, Value};
use engine::FiveTuple;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The form of a rule for one kind of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleShape {
    /// The rule names the Ethernet header, without matching anything in it.
    has_ethernet: bool,
    actions: ActionList,
}

/// The actions of a rule in their order, with the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActionList {
    QueueThenMark,
    MarkThenQueue,
    /// RSS over a single queue.
    MarkThenRss,
    PassThenMark,
    MarkAlone,
}

/// Returns every shape; first those that most drivers take and that are most explicit.
fn shapes() -> impl Iterator<Item = RuleShape> {
    use ActionList::{MarkAlone, MarkThenQueue, MarkThenRss, PassThenMark, QueueThenMark};
    let action_lists = [QueueThenMark, MarkThenQueue, MarkThenRss, PassThenMark, MarkAlone];
    let with = |actions| [true, false].map(|has_ethernet| RuleShape { has_ethernet, actions });
    action_lists.into_iter().flat_map(with)
}

impl RuleShape {
    /// Returns the rule that puts `mark` on packets of `tuple` and leaves them to `queue`.
    pub(crate) fn rule(self, tuple: &FiveTuple, mark: u32, queue: u16) -> Rule {
        let ethernet = self.has_ethernet.then(|| Item::any(ItemKind::Eth));
        let pattern = ethernet.into_iter().chain(vlan(tuple.zone)).chain([ip(tuple), ports(tuple)]);
        let attributes = Attributes { ingress: true, ..Attributes::default() };
        Rule { attributes, pattern: pattern.collect(), actions: self.actions(mark, queue) }
    }

    /// Returns the actions that put `mark` on packets and leave them to `queue`.
    pub(crate) fn actions(self, mark: u32, queue: u16) -> Vec<Action> {
        let (mark, queue_action) = (Action::Mark(mark), Action::Queue(queue));
        match self.actions {
            ActionList::QueueThenMark => vec![queue_action, mark],
            ActionList::MarkThenQueue => vec![mark, queue_action],
            ActionList::MarkThenRss => {
                vec![mark, Action::Rss(Rss { queues: vec![queue], ..Rss::default() })]
            }
            ActionList::PassThenMark => vec![Action::Passthru, mark],
            ActionList::MarkAlone => vec![mark],
        }
    }

    /// True if the rule names the Ethernet header.
    pub(crate) fn has_ethernet(self) -> bool {
        self.has_ethernet
    }
}

/// Returns an item that matches only these `fields` of a header (offset and bytes).
pub(crate) fn item(kind: ItemKind, fields: &[(usize, &[u8])]) -> Item {
    let (mut spec, mut mask) = ([0; Value::LEN], [0; Value::LEN]);
    for (at, bytes) in fields {
        spec[*at..at + bytes.len()].copy_from_slice(bytes);
        mask[*at..at + bytes.len()].fill(0xff);
    }
    let [spec, mask] = [spec, mask].map(|bytes| Some(Value::new(&bytes)));
    Item { spec, mask, ..Item::any(kind) }
}

/// Returns an item for the tag that the zone comes from; `None` for zone 0.
fn vlan(zone: u16) -> Option<Item> {
    const IDENTIFIER: [u8; 2] = [0x0f, 0xff];
    let spec = Some(Value::new(&zone.to_be_bytes()));
    let mask = Some(Value::new(&IDENTIFIER));
    (zone != 0).then_some(Item { spec, mask, ..Item::any(ItemKind::Vlan) })
}

/// Returns an item for the IP header of packets that are not fragments.
pub(crate) fn unfragmented_ip(tuple: &FiveTuple) -> Item {
    unfragmented(ip(tuple))
}

/// Limits an item for an IP header to packets that are not fragments.
pub(crate) fn unfragmented(item: Item) -> Item {
    let (at, bits): (_, &[u8]) = match item.kind {
        // More-fragments flag and fragment offset.
        ItemKind::Ipv4 => (6, &[0x3f, 0xff]),
        // Whether a fragment header follows; the field lies behind the header.
        _ => (40, &[1]),
    };
    let mut mask = *item.mask.unwrap_or(Value::ZERO).bytes();
    mask[at..at + bits.len()].copy_from_slice(bits);
    let spec = item.spec.or(Some(Value::ZERO));
    Item { spec, mask: Some(Value::new(&mask)), ..item }
}

pub(crate) fn ip(tuple: &FiveTuple) -> Item {
    match (tuple.src, tuple.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            item(ItemKind::Ipv4, &[(12, &src.octets()), (16, &dst.octets())])
        }
        (src, dst) => {
            let [src, dst] = [src, dst].map(as_v6);
            item(ItemKind::Ipv6, &[(8, &src), (24, &dst)])
        }
    }
}

fn as_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

pub(crate) fn ports(tuple: &FiveTuple) -> Item {
    let kind = if tuple.proto == TCP { ItemKind::Tcp } else { ItemKind::Udp };
    item(kind, &[(0, &tuple.sport.to_be_bytes()), (2, &tuple.dport.to_be_bytes())])
}

pub(crate) const TCP: u8 = 6;
const UDP: u8 = 17;

/// Number of kinds of packets: two IP versions, two protocols, with and without a tag.
pub(crate) const KINDS: usize = 8;

pub(crate) fn kind(tuple: &FiveTuple) -> usize {
    usize::from(tuple.zone != 0) << 2
        | usize::from(tuple.src.is_ipv6()) << 1
        | usize::from(tuple.proto == TCP)
}

/// Returns a five-tuple of a kind, with addresses reserved for documentation.
pub(crate) fn example(kind: usize, attempt: u16) -> FiveTuple {
    let host = |last: u8| match kind >> 1 & 1 {
        0 => IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)),
        _ => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into())),
    };
    FiveTuple {
        src: host(1),
        dst: host(2),
        proto: if kind & 1 == 1 { TCP } else { UDP },
        sport: 9,
        // A new port for each try, so that leftovers of the last rule in the NIC do no harm.
        dport: attempt,
        zone: u16::from(kind >> 2 == 1),
    }
}

/// Widths of marks that NICs have, in bits.
const WIDTHS: [u32; 4] = [32, 24, 16, 12];

/// Returns the highest mark of `width` bits that is used: some NICs reserve the last sixteen.
fn highest_mark(width: u32) -> u32 {
    (u32::MAX >> (32 - width)) - 16
}

/// The shapes that one port takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleDialect {
    shapes: [Option<RuleShape>; KINDS],
    /// Width of the port's marks in bits.
    pub(crate) mark_bits: u32,
}

impl RuleDialect {
    /// Tries the shapes by `try_rule`, which creates a rule and destroys it again, or returns the
    /// driver's words.
    ///
    /// # Errors
    ///
    /// The driver's words for the first refusal, if it takes no shape or no width of marks.
    pub(crate) fn probe(
        mut try_rule: impl FnMut(&Rule) -> Result<(), String>,
    ) -> Result<Self, String> {
        let (mut attempt, mut first_refusal) = (0, None);
        let mut takes = |shape: RuleShape, kind: usize, mark: u32| {
            attempt += 1;
            let result = try_rule(&shape.rule(&example(kind, attempt), mark, 0));
            let is_taken = result.is_ok();
            first_refusal = first_refusal.take().or(result.err());
            is_taken
        };
        let mut of_kind = |kind| shapes().find(|shape| takes(*shape, kind, 1));
        let shapes: [_; KINDS] = std::array::from_fn(&mut of_kind);
        let taken = (0..KINDS).find_map(|kind| Some((kind, shapes[kind]?)));
        let width = taken.and_then(|(kind, shape)| {
            WIDTHS.into_iter().find(|width| takes(shape, kind, highest_mark(*width)))
        });
        match width {
            Some(mark_bits) => Ok(Self { shapes, mark_bits }),
            None => Err(first_refusal.unwrap_or_default()),
        }
    }

    /// Returns the shape of rules for packets of `tuple`; `None` if the port takes none.
    pub(crate) fn shape(&self, tuple: &FiveTuple) -> Option<RuleShape> {
        self.shapes[kind(tuple)]
    }

    /// Returns an example rule of each kind that the port takes.
    pub(crate) fn examples(&self) -> impl Iterator<Item = Rule> {
        let taken = self.shapes.into_iter().enumerate();
        taken.filter_map(|(kind, shape)| Some(shape?.rule(&example(kind, 0), 1, 0)))
    }

    /// Returns the shape of each kind, such as `eth / ipv4 / udp: queue / mark`.
    pub(crate) fn shapes(&self) -> Vec<String> {
        self.examples().map(|rule| describe(&rule)).collect()
    }
}

/// Describes the items and actions of a rule, such as `eth / ipv4 / udp: queue / mark`.
pub(crate) fn describe(rule: &Rule) -> String {
    let items: Vec<_> = rule.pattern.iter().map(|item| item.kind.name()).collect();
    let actions: Vec<_> = rule.actions.iter().map(Action::name).collect();
    format!("{}: {}", items.join(" / "), actions.join(" / "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic::advice::model::ModelRule;
    use twin::{Nic, Personality};

    /// Returns the shapes that a NIC of this personality takes, and the width of its marks.
    fn dialect(name: &str) -> Result<(Vec<String>, u32), String> {
        let mut nic = Nic::new(Personality::named(name).unwrap(), 1);
        nic.set_queues(1);
        nic.set_started(true);
        let words = |refusal: twin::Refusal| {
            refusal.message.map_or(String::new(), |words| words.to_string_lossy().into())
        };
        let dialect = RuleDialect::probe(|rule| {
            let ModelRule { attributes, items, actions } = ModelRule::of(rule).unwrap();
            let rule = twin::Rule { attributes, items: &items, actions: &actions };
            let taken = nic.create(rule, 0).map_err(words)?;
            nic.destroy(taken.value, 0).map(drop).map_err(words)
        })?;
        assert_eq!(nic.len(), 0);
        Ok((dialect.shapes(), dialect.mark_bits))
    }

    /// Returns all kinds of packets in one shape; `kinds` of eight, of which the last four have a
    /// tag.
    fn all(before: &str, kinds: usize, actions: &str) -> Vec<String> {
        let tags = ["", "vlan / "].map(|tag| {
            let lines = ["ipv4 / udp", "ipv4 / tcp", "ipv6 / udp", "ipv6 / tcp"];
            lines.map(|line| format!("{before}{tag}{line}: {actions}"))
        });
        tags.into_iter().flatten().take(kinds).collect()
    }

    #[test]
    fn each_personality_takes_its_own_shape() {
        let eth = |kinds| all("eth / ", kinds, "queue / mark");
        assert_eq!(dialect("ideal"), Ok((eth(8), 32)));
        assert_eq!(dialect("x710-17.02"), Ok((eth(4), 32)));
        assert_eq!(dialect("x710"), Ok((eth(8), 32)));
        assert_eq!(dialect("e810"), Ok((eth(4), 32)));
        assert_eq!(dialect("cx5"), Ok((eth(8), 24)));
        assert_eq!(dialect("cx6dx"), Ok((eth(8), 24)));
        assert_eq!(dialect("ntnic"), Ok((eth(8), 32)));
        assert_eq!(dialect("ntacc"), Ok((eth(8), 32)));
        assert!(dialect("n6010").is_err());
    }

    #[test]
    fn unusual_shapes_are_found() {
        let of = |text: &str| {
            let personality = Personality::parse(text, "odd").unwrap();
            let mut nic = Nic::new(personality, 1);
            nic.set_queues(1);
            nic.set_started(true);
            let dialect = RuleDialect::probe(|rule| {
                let ModelRule { attributes, items, actions } = ModelRule::of(rule).unwrap();
                let rule = twin::Rule { attributes, items: &items, actions: &actions };
                nic.create(rule, 0).map(drop).map_err(|_| "no".to_owned())
            });
            dialect.map(|dialect| (dialect.shapes(), dialect.mark_bits))
        };
        let bare = "[[chain]]\nitems = \"ipv4|ipv6 / tcp|udp\"\n";
        let actions = |accepted: &str| format!("{bare}[actions]\naccepted = [\"{accepted}\"]\n");
        assert_eq!(of(&actions("mark / rss")), Ok((all("", 4, "mark / rss"), 32)));
        assert_eq!(of(&actions("passthru / mark")), Ok((all("", 4, "passthru / mark"), 32)));
        let narrow = format!("{}[mark]\nmax = 65533\n", actions("mark"));
        assert_eq!(of(&narrow), Ok((all("", 4, "mark"), 16)));
        assert_eq!(of(&actions("drop")), Err("no".to_owned()));
    }
}
