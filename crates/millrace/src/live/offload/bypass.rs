// SPDX-License-Identifier: BSD-3-Clause
//! Rules by which a NIC forwards to the peer port by itself and counts: whether a port makes such
//! rules, how it wants to be asked, and those that it has.
//!
//! They say of every tag whether it is there. A mark on a packet of another connection is found
//! out; what is forwarded by the rule of another connection, nobody sees.

use super::nic::Calls;
use super::shape::{KINDS, example, ip, item, kind, line, ports};
use dpdk::Port;
use dpdk::flow::{Action, Attributes, Item, ItemKind, Rule, Value};
use engine::Tuple;

/// How the peer is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    RepresentedPort,
    /// As it was before DPDK 21.11.
    PortId,
}

const WAYS: [Way; 2] = [Way::RepresentedPort, Way::PortId];

/// What a port forwards by itself.
pub(super) struct Bypass {
    /// Number of the peer port.
    peer: u16,
    ways: [Option<Way>; KINDS],
    pub(super) calls: Calls,
}

impl Bypass {
    /// Asks a port: a rule of each kind comes, is counted, and goes.
    ///
    /// # Errors
    ///
    /// Its words for the first, if it takes none.
    pub(super) fn of(port: &mut Port, peer: u16) -> Result<Self, String> {
        let ways = learn(peer, |rule| {
            let made = port.flow_create(rule).map_err(|error| error.of(Some(rule)))?;
            let count = port.flow_query_count(&made, false);
            // One that stays is for packets that nobody sends, and goes with the port.
            let _ = port.flow_destroy(made);
            let count = count.map_err(|error| format!("its counter: {}", error.of(None)))?;
            match (count.hits, count.bytes) {
                (Some(_), Some(_)) => Ok(()),
                _ => Err("its counter does not count both packets and bytes".to_owned()),
            }
        })?;
        Ok(Self { peer, ways, calls: Calls::default() })
    }

    /// The rule for packets of `tuple`, if there is a way.
    pub(super) fn rule(&self, tuple: &Tuple) -> Option<Rule> {
        self.ways[kind(tuple)].map(|way| way.rule(tuple, self.peer))
    }

    /// What is asked for, kind by kind.
    pub(super) fn shapes(&self) -> impl Iterator<Item = String> {
        let examples = (0..KINDS).filter_map(|kind| self.rule(&example(kind, 0)));
        examples.map(|rule| line(&rule))
    }
}

/// How a port likes to be asked for each kind of packets that it forwards; of TCP it is to forward
/// none.
fn learn(
    peer: u16,
    mut ask: impl FnMut(&Rule) -> Result<(), String>,
) -> Result<[Option<Way>; KINDS], String> {
    let (mut attempt, mut first_words) = (0, None);
    let mut takes = |kind: usize, way: Way| {
        attempt += 1;
        let answer = ask(&way.rule(&example(kind, attempt), peer));
        let is_taken = answer.is_ok();
        first_words = first_words.take().or(answer.err());
        is_taken
    };
    let is_udp = |kind: usize| kind & 1 == 0;
    let way = |kind| WAYS.into_iter().find(|way| is_udp(kind) && takes(kind, *way));
    let ways: [_; KINDS] = std::array::from_fn(way);
    if ways == [None; KINDS] { Err(first_words.unwrap_or_default()) } else { Ok(ways) }
}

impl Way {
    fn rule(self, tuple: &Tuple, peer: u16) -> Rule {
        let is_tagged = tuple.zone != 0;
        let tag = is_tagged.then(|| only_tag(tuple.zone));
        let pattern = [ethernet(is_tagged)].into_iter().chain(tag).chain([ip(tuple), ports(tuple)]);
        let to_peer = match self {
            Way::RepresentedPort => Action::RepresentedPort(peer),
            Way::PortId => Action::PortId(Some(peer.into())),
        };
        let attributes = Attributes { transfer: true, ..Attributes::default() };
        Rule { attributes, pattern: pattern.collect(), actions: vec![Action::Count(0), to_peer] }
    }
}

/// A header of which only counts whether there is a tag behind it.
fn ethernet(is_tagged: bool) -> Item {
    const BESIDE: usize = 14;
    item(ItemKind::Eth, &[(BESIDE, &[is_tagged.into()])])
}

/// The tag that the zone is from, with none behind it.
fn only_tag(zone: u16) -> Item {
    const MASK: [u8; 5] = [0x0f, 0xff, 0, 0, 1];
    let mask = Some(Value::new(&MASK));
    Item { kind: ItemKind::Vlan, spec: Some(Value::new(&zone.to_be_bytes())), last: None, mask }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic::advice::model::Modelled;
    use twin::{Nic, Personality};

    /// The kinds that a NIC of this personality forwards, and how; `None`: it does not.
    fn shapes(name: &str, has_switch: bool) -> Option<Vec<String>> {
        let mut nic = Nic::new(Personality::named(name).unwrap(), 1);
        nic.set_queues(1);
        nic.set_switch(has_switch);
        nic.set_started(true);
        let ways = learn(1, |rule| {
            let Modelled { attributes, items, actions } =
                Modelled::of(rule).ok_or("it is not known")?;
            let rule = twin::Rule { attributes, items: &items, actions: &actions };
            let made = nic.create(rule, 0).map_err(|_| "no".to_owned())?;
            nic.destroy(made.value, 0).map(drop).map_err(|_| "it stays".to_owned())
        });
        assert_eq!(nic.len(), 0);
        let bypass = Bypass { peer: 1, ways: ways.ok()?, calls: Calls::default() };
        Some(bypass.shapes().collect())
    }

    #[test]
    fn ports_of_a_switch_forward_by_themselves() {
        let lines = |actions: &str| {
            let headers = ["ipv4", "ipv6", "vlan / ipv4", "vlan / ipv6"];
            Some(headers.map(|ip| format!("eth / {ip} / udp: count / {actions}")).to_vec())
        };
        for name in ["ideal", "cx5", "cx6dx"] {
            assert_eq!(shapes(name, true), lines("represented_port"), "{name}");
            assert_eq!(shapes(name, false), None, "{name}");
        }
        for name in ["x710", "e810"] {
            assert_eq!(shapes(name, true), None, "{name}");
        }
    }

    #[test]
    fn a_rule_says_of_every_tag_whether_it_is_there() {
        let tuple = example(4, 9);
        let rule = Way::PortId.rule(&tuple, 7);
        let bits = |at: usize, byte: usize| {
            let [spec, mask] = [rule.pattern[at].spec, rule.pattern[at].mask];
            let byte = |value: Option<Value>| value.unwrap().bytes()[byte] & 1;
            (byte(spec), byte(mask))
        };
        assert_eq!((bits(0, 14), bits(1, 4)), ((1, 1), (0, 1)));
        assert_eq!(rule.actions, [Action::Count(0), Action::PortId(Some(7))]);
        let plain = Way::RepresentedPort.rule(&example(0, 9), 7);
        let mask = plain.pattern[0].mask.unwrap();
        assert_eq!((plain.pattern.len(), mask.bytes()[14] & 1), (3, 1));
    }
}
