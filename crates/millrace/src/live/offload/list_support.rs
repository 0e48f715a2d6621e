// SPDX-License-Identifier: BSD-3-Clause
//! Finds out in which form a NIC takes rules of access lists, and which of their bits it keeps.
//!
//! A driver that does not support a mask refuses it, or ignores it without a word. The facts about
//! NICs of the software NIC say which. A rule whose mask the NIC would ignore is not sent.

use dpdk::PortInfo;
use dpdk::flow::{Action, Attributes, Item, ItemKind, Rss, Rule, Value};
use offload::ListAction;
use std::net::IpAddr;
use std::time::Duration;
use twin::Personality;
use twin::personality::{FieldFacts, MaskRule};
use wire::header_match::{HeaderMatch, Network, PortMatch};
use wire::proto;

use super::bypass::ethernet;
use super::rule_dialect::{RuleShape, unfragmented};

/// Why a port drops no packets of denied rules.
const TRACKED: &str = "connections are tracked: an earlier packet may have reflected one";
const DROP_OFF: &str = "`nic_drop` was false at the start";

/// The form of rules of access lists for one port.
pub(crate) struct ListSupport {
    has_ethernet: bool,
    actions: ListActions,
    /// Priority of the first level. Rules of connections have priority 0.
    first_priority: u32,
    /// Levels of priority.
    pub(crate) levels: u32,
    masks: MaskFacts,
    /// Time that the port took for each removal of a rule that drops, or why it takes none.
    pub(crate) drops: Result<Vec<Duration>, String>,
}

/// The receive queues of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListQueues {
    /// Their number.
    pub(crate) queues: u16,
    /// True if the packets of a connection must all come to one of them.
    pub(crate) has_connections: bool,
    /// True if the NIC may drop packets that rules deny.
    pub(crate) may_drop: bool,
}

/// How a rule marks packets and leaves their queue to RSS.
#[derive(Clone, Copy, Debug)]
enum ListActions {
    /// As rules of connections do: there is one queue.
    Single(RuleShape),
    /// RSS over all queues, as many as these.
    MarkThenRss(u16),
    PassThenMark,
    MarkAlone,
}

/// Which partial masks a NIC keeps.
struct MaskFacts {
    driver: String,
    /// `None` if nothing is known about the driver.
    facts: Option<Box<Personality>>,
}

/// Priorities that are tried; the highest that the port takes counts.
const PRIORITIES: [u32; 8] = [1, 2, 4, 8, 16, 32, 62, 1000];

/// Rules that drop which are tried: the time to remove further ones is estimated by them.
const DROP_TRIES: u32 = 8;

impl ListSupport {
    /// Tries the forms by `try_rule`, which creates a rule and destroys it again, or returns the
    /// driver's words. `shape` is that of rules for UDP connections.
    ///
    /// # Errors
    ///
    /// The driver's words for the first refusal, if it takes no form.
    pub(crate) fn probe(
        (info, ListQueues { queues, has_connections, .. }): (&PortInfo, ListQueues),
        shape: RuleShape,
        mut try_rule: impl FnMut(&Rule) -> Result<(), String>,
    ) -> Result<Self, String> {
        let forms = match queues {
            1 => vec![ListActions::Single(shape)],
            // RSS by a rule may spread packets otherwise than the port does. Then packets of a
            // connection would go to another worker than the rest of it.
            _ if has_connections => vec![ListActions::PassThenMark, ListActions::MarkAlone],
            _ => vec![
                ListActions::MarkThenRss(queues),
                ListActions::PassThenMark,
                ListActions::MarkAlone,
            ],
        };
        let mut support = Self {
            has_ethernet: shape.has_ethernet(),
            actions: ListActions::MarkAlone,
            first_priority: 0,
            levels: 1,
            masks: MaskFacts::of(info),
            drops: Err(DROP_OFF.to_owned()),
        };
        let mut first_refusal = None;
        let mut takes = |support: &Self, priority: u32| {
            // Another port number for each try: the last rule may still be in the NIC.
            let tried = try_rule(&support.form(1, &example(priority), priority));
            let is_taken = tried.is_ok();
            first_refusal = first_refusal.take().or(tried.err());
            is_taken
        };
        let found = forms.into_iter().find(|actions| {
            support.actions = *actions;
            takes(&support, 0)
        });
        if found.is_none() {
            let words = first_refusal.unwrap_or_default();
            let form = "no rule is taken that marks packets and leaves them in their queues";
            return Err(format!("{form}: {words}"));
        }
        let highest = PRIORITIES.iter().take_while(|priority| takes(&support, **priority)).last();
        if let Some(&highest) = highest {
            (support.first_priority, support.levels) = (1, highest);
        }
        Ok(support)
    }

    /// Tries by `try_rule` whether the port takes rules that count and drop, if it may. `try_rule`
    /// returns the time that the removal of a rule took.
    pub(crate) fn probe_drops(
        &mut self,
        ListQueues { has_connections, may_drop, .. }: ListQueues,
        mut try_rule: impl FnMut(&Rule) -> Result<Duration, String>,
    ) {
        if !may_drop || has_connections {
            let reason = if may_drop { TRACKED } else { DROP_OFF };
            self.drops = Err(reason.to_owned());
            return;
        }
        // Another port number for each try: the last rule may still be in the NIC.
        let examples = (2000..2000 + DROP_TRIES).map(example);
        self.drops =
            examples.map(|header| try_rule(&self.rule(ListAction::Drop, &header, 0))).collect();
    }

    /// Says whether the NIC keeps all masks of these headers.
    ///
    /// # Errors
    ///
    /// Which mask it would ignore.
    pub(crate) fn check(&self, header: &HeaderMatch) -> Result<(), String> {
        self.masks.check(header)
    }

    /// Returns the rule for packets with these headers. If it drops them, it is for packets without
    /// tag that are not fragments: the others are judged in software, as the list says.
    pub(crate) fn rule(&self, action: ListAction, header: &HeaderMatch, level: u32) -> Rule {
        let priority = self.first_priority + level;
        let ListAction::Mark(mark) = action else {
            let ports = header.proto.map(|proto| ports(proto, [header.sport, header.dport]));
            let pattern =
                [ethernet(false), unfragmented(ip(header))].into_iter().chain(ports).collect();
            let attributes = Attributes { ingress: true, priority, ..Attributes::default() };
            return Rule { attributes, pattern, actions: vec![Action::Count(0), Action::Drop] };
        };
        self.form(mark, header, priority)
    }

    fn form(&self, mark: u32, header: &HeaderMatch, priority: u32) -> Rule {
        let ethernet = self.has_ethernet.then(|| Item::any(ItemKind::Eth));
        let ports = header.proto.map(|proto| ports(proto, [header.sport, header.dport]));
        let pattern = ethernet.into_iter().chain([ip(header)]).chain(ports).collect();
        let attributes = Attributes { ingress: true, priority, ..Attributes::default() };
        let actions = match self.actions {
            ListActions::Single(shape) => shape.actions(mark, 0),
            ListActions::MarkThenRss(queues) => {
                let queues = (0..queues).collect();
                vec![Action::Mark(mark), Action::Rss(Rss { queues, ..Rss::default() })]
            }
            ListActions::PassThenMark => vec![Action::Passthru, Action::Mark(mark)],
            ListActions::MarkAlone => vec![Action::Mark(mark)],
        };
        Rule { attributes, pattern, actions }
    }
}

/// Returns headers with addresses reserved for documentation (RFC 5737).
fn example(number: u32) -> HeaderMatch {
    let host = |last| Network { address: IpAddr::from([192, 0, 2, last]), prefix: 32 };
    let port = |value| PortMatch { value, mask: u16::MAX };
    HeaderMatch {
        src: host(1),
        dst: host(2),
        proto: Some(proto::UDP),
        sport: port(9),
        dport: port(number as u16 + 1),
    }
}

/// Writes the bits of a number and of its mask at an offset of a header.
fn write<const N: usize>(
    (spec, mask): (&mut [u8; Value::LEN], &mut [u8; Value::LEN]),
    at: usize,
    (bits, of_mask): ([u8; N], [u8; N]),
) {
    spec[at..at + N].copy_from_slice(&bits);
    mask[at..at + N].copy_from_slice(&of_mask);
}

/// Returns an item; one without a bit in its mask matches any such header.
fn item(kind: ItemKind, (spec, mask): ([u8; Value::LEN], [u8; Value::LEN])) -> Item {
    match mask == [0; Value::LEN] {
        true => Item::any(kind),
        false => {
            Item { spec: Some(Value::new(&spec)), mask: Some(Value::new(&mask)), ..Item::any(kind) }
        }
    }
}

fn ip(header: &HeaderMatch) -> Item {
    let (mut spec, mut mask) = ([0; Value::LEN], [0; Value::LEN]);
    let is_v4 = header.src.address.is_ipv4();
    for (network, at_v4, at_v6) in [(&header.src, 12, 8), (&header.dst, 16, 24)] {
        let prefix = u32::from(network.prefix);
        match network.address {
            IpAddr::V4(address) => {
                let bits = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
                write((&mut spec, &mut mask), at_v4, (address.octets(), bits.to_be_bytes()));
            }
            IpAddr::V6(address) => {
                let bits = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
                write((&mut spec, &mut mask), at_v6, (address.octets(), bits.to_be_bytes()));
            }
        }
    }
    item(if is_v4 { ItemKind::Ipv4 } else { ItemKind::Ipv6 }, (spec, mask))
}

fn ports(of: u8, ports: [PortMatch; 2]) -> Item {
    let (mut spec, mut mask) = ([0; Value::LEN], [0; Value::LEN]);
    for (PortMatch { value, mask: bits }, at) in ports.into_iter().zip([0, 2]) {
        write((&mut spec, &mut mask), at, (value.to_be_bytes(), bits.to_be_bytes()));
    }
    item(if of == proto::TCP { ItemKind::Tcp } else { ItemKind::Udp }, (spec, mask))
}

impl MaskFacts {
    fn of(info: &PortInfo) -> Self {
        let name = match info.driver.as_str() {
            "net_twin" => Some(personality_of(&info.devargs)),
            "net_i40e" => Some("x710"),
            "net_ice" => Some("e810"),
            "mlx5_pci" => Some("cx5"),
            "net_ntnic" => Some("ntnic"),
            _ => None,
        };
        let facts = name.and_then(|name| Personality::named(name).ok()).map(Box::new);
        Self { driver: info.driver.clone(), facts }
    }

    /// Says which mask of a rule the NIC would ignore.
    fn check(&self, header: &HeaderMatch) -> Result<(), String> {
        let ip = if header.src.address.is_ipv4() { "ipv4" } else { "ipv6" };
        for (field, network) in [("src", &header.src), ("dst", &header.dst)] {
            let is_partial = network.prefix > 0 && !network.is_host();
            self.check_field((ip, field), (network.prefix > 0, is_partial), || {
                format!("the prefix /{} of `{field}`", network.prefix)
            })?;
        }
        let proto = if header.proto == Some(proto::TCP) { "tcp" } else { "udp" };
        for (field, port) in [("src", header.sport), ("dst", header.dport)] {
            let is_partial = ![0, u16::MAX].contains(&port.mask);
            self.check_field((proto, field), (port.mask > 0, is_partial), || {
                format!("the range of `{}port`", &field[..1])
            })?;
        }
        Ok(())
    }

    fn check_field(
        &self,
        (item, field): (&str, &str),
        (is_named, is_partial): (bool, bool),
        words: impl Fn() -> String,
    ) -> Result<(), String> {
        let Some(facts) = &self.facts else {
            return match is_partial {
                true => Err(format!("it is not known whether {} keeps {}", self.driver, words())),
                false => Ok(()),
            };
        };
        let rule = facts.items.get(item).and_then(|item| item.fields.get(field));
        let is_ignored = match rule.map(FieldFacts::rule) {
            Some(MaskRule::FullOrIgnored) => is_partial,
            Some(MaskRule::Ignored) => is_named,
            _ => false,
        };
        match is_ignored {
            true => Err(format!("{} would ignore {}", self.driver, words())),
            false => Ok(()),
        }
    }
}

/// Returns the name or file in the devargs of a software NIC.
fn personality_of(devargs: &str) -> &str {
    let value = devargs.split(',').find_map(|part| part.strip_prefix("personality="));
    value.unwrap_or("ideal")
}
