// SPDX-License-Identifier: BSD-3-Clause
//! Owns a port's bypass rules, by which the NIC itself forwards to the peer port and counts. At
//! start, tries whether the port takes such rules and in which form.
//!
//! If a NIC puts a mark on a packet of another connection, the engine detects it. If a bypass rule
//! forwards a packet of another connection, no worker sees it. So each bypass rule also says which
//! VLAN tags are present: none, or only that of the zone. Where the NIC can, it matches only
//! packets that are not fragments, because only the first fragment of a datagram has the ports. A
//! rule for TCP must exclude fragments, and packets with SYN, FIN or RST.

use crate::live::offload::port_rules::{Calls, try_counting_rule};
use crate::live::offload::rule_dialect::{
    KINDS, TCP, describe, example, ip, item, kind, ports, unfragmented_ip,
};
use dpdk::Port;
use dpdk::flow::{Action, Attributes, Item, ItemKind, Rule, Value};
use engine::FiveTuple;

/// The form of a bypass rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BypassForm {
    /// The rule matches only packets that are not fragments.
    excludes_fragments: bool,
    peer: Peer,
}

/// The action that names the peer port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    RepresentedPort,
    /// The form before DPDK 21.11.
    PortId,
}

/// All forms, the preferred one first.
const FORMS: [BypassForm; 4] = [
    BypassForm { excludes_fragments: true, peer: Peer::RepresentedPort },
    BypassForm { excludes_fragments: true, peer: Peer::PortId },
    BypassForm { excludes_fragments: false, peer: Peer::RepresentedPort },
    BypassForm { excludes_fragments: false, peer: Peer::PortId },
];

/// A value for UDP and one for TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByProtocol<T> {
    pub(crate) udp: T,
    pub(crate) tcp: T,
}

/// Forms of the rules of each kind that a port takes.
type Forms = [Option<BypassForm>; KINDS];

/// Why a port has no bypass; `None` if it has one.
pub(crate) type WithoutBypass = ByProtocol<Option<String>>;

/// The bypass rules of one port, and the forms that the port takes.
pub(crate) struct Bypass {
    /// Number of the peer port in DPDK.
    peer: u16,
    forms: Forms,
    pub(crate) without: WithoutBypass,
    pub(crate) calls: Calls,
}

impl Bypass {
    /// Tries a rule of each kind of the wanted protocols: creates it, reads its counter, destroys
    /// it.
    pub(crate) fn of(port: &mut Port, peer: u16, wanted: ByProtocol<bool>) -> Self {
        let (forms, without) =
            probe_forms((peer, wanted), |rule| try_counting_rule(port, rule).map(drop));
        Self { peer, forms, without, calls: Calls::default() }
    }

    /// Returns the rule for packets of `tuple`; `None` if the port takes none of this kind.
    pub(crate) fn rule(&self, tuple: &FiveTuple) -> Option<Rule> {
        self.forms[kind(tuple)].map(|form| form.rule(tuple, self.peer))
    }

    /// Returns the forms of the rules, for each kind that the port takes.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = String> {
        let examples = (0..KINDS).filter_map(|kind| self.rule(&example(kind, 0)));
        examples.map(|rule| describe(&rule))
    }
}

/// Returns the first form that a port takes for each kind of packets of the wanted protocols.
fn probe_forms(
    (peer, wanted): (u16, ByProtocol<bool>),
    mut try_rule: impl FnMut(&Rule) -> Result<(), String>,
) -> (Forms, WithoutBypass) {
    let mut forms = [None; KINDS];
    let mut attempt = 0;
    let mut probe = |is_tcp: bool| {
        let mut first_refusal = None;
        let mut takes = |kind: usize, form: BypassForm| {
            attempt += 1;
            let result = try_rule(&form.rule(&example(kind, attempt), peer));
            let is_taken = result.is_ok();
            first_refusal = first_refusal.take().or(result.err());
            is_taken
        };
        let kinds = (0..KINDS).filter(|kind| (kind & 1 == 1) == is_tcp);
        for kind in kinds.clone() {
            let mut usable = FORMS.into_iter().filter(|form| form.excludes_fragments || !is_tcp);
            forms[kind] = usable.find(|form| takes(kind, *form));
        }
        let is_without = kinds.clone().all(|kind| forms[kind].is_none());
        is_without.then(|| first_refusal.unwrap_or_default())
    };
    let off = |key: &str| Some(format!("`{key}` is \"off\""));
    let udp = if wanted.udp { probe(false) } else { off("bypass") };
    let tcp = if wanted.tcp { probe(true) } else { off("bypass_tcp") };
    (forms, ByProtocol { udp, tcp })
}

impl BypassForm {
    fn rule(self, tuple: &FiveTuple, peer: u16) -> Rule {
        let is_tagged = tuple.zone != 0;
        let tag = is_tagged.then(|| only_tag(tuple.zone));
        let ip = if self.excludes_fragments { unfragmented_ip(tuple) } else { ip(tuple) };
        let pattern = [ethernet(is_tagged)].into_iter().chain(tag).chain([ip, data_packets(tuple)]);
        let to_peer = match self.peer {
            Peer::RepresentedPort => Action::RepresentedPort(peer),
            Peer::PortId => Action::PortId(Some(peer.into())),
        };
        let attributes = Attributes { transfer: true, ..Attributes::default() };
        Rule { attributes, pattern: pattern.collect(), actions: vec![Action::Count(0), to_peer] }
    }
}

/// Returns an item for the ports. For TCP, it excludes packets with SYN, FIN or RST.
fn data_packets(tuple: &FiveTuple) -> Item {
    /// Byte of the TCP header with the flags, and the flags (RFC 9293 section 3.1).
    const FLAGS: usize = 13;
    const SYN_FIN_RST: u8 = 0b111;
    let mut item = ports(tuple);
    if tuple.proto == TCP {
        let mut mask = *item.mask.unwrap_or(Value::ZERO).bytes();
        mask[FLAGS] = SYN_FIN_RST;
        item.mask = Some(Value::new(&mask));
    }
    item
}

/// Returns an Ethernet item that matches only whether a tag follows.
pub(crate) fn ethernet(is_tagged: bool) -> Item {
    const BESIDE: usize = 14;
    item(ItemKind::Eth, &[(BESIDE, &[is_tagged.into()])])
}

/// Returns an item for the tag of `zone`, with no second tag behind it.
fn only_tag(zone: u16) -> Item {
    const MASK: [u8; 5] = [0x0f, 0xff, 0, 0, 1];
    let mask = Some(Value::new(&MASK));
    Item { spec: Some(Value::new(&zone.to_be_bytes())), mask, ..Item::any(ItemKind::Vlan) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic::advice::model::ModelRule;
    use twin::{Handle, Nic, Personality};
    use wire::FrameBuilder;

    fn nic(personality: Personality, has_switch: bool) -> Nic {
        let mut nic = Nic::new(personality, 1);
        nic.set_queues(1);
        nic.set_switch(has_switch);
        nic.set_started(true);
        nic
    }

    fn create(nic: &mut Nic, rule: &Rule) -> Result<Handle, String> {
        let ModelRule { attributes, items, actions } =
            ModelRule::of(rule).ok_or("it is not known")?;
        let rule = twin::Rule { attributes, items: &items, actions: &actions };
        nic.create(rule, 0).map(|made| made.value).map_err(|_| "no".to_owned())
    }

    /// Returns the bypass of a NIC; `None` if it takes no such rules.
    fn bypass(nic: &mut Nic) -> Option<Bypass> {
        let wanted = ByProtocol { udp: true, tcp: true };
        let (forms, without) = probe_forms((1, wanted), |rule| {
            let made = create(nic, rule)?;
            nic.destroy(made, 0).map(drop).map_err(|_| "it stays".to_owned())
        });
        assert_eq!(nic.len(), 0);
        let bypass = Bypass { peer: 1, forms, without, calls: Calls::default() };
        (bypass.forms != [None; KINDS]).then_some(bypass)
    }

    /// Returns the forms that a NIC of this personality takes; `None` if it takes none.
    fn shapes(name: &str, has_switch: bool) -> Option<Vec<String>> {
        let bypass = bypass(&mut nic(Personality::named(name).unwrap(), has_switch))?;
        Some(bypass.shapes().collect())
    }

    /// Time after which a rule has its effect and its counter is up to date.
    const SOON_US: u64 = 5_000_000;

    /// Returns what a NIC forwards of each kind: whole packets, first fragments, and for TCP
    /// packets with SYN, FIN or RST.
    fn forwarded(nic: &mut Nic, bypass: &Bypass) -> Vec<Vec<bool>> {
        let of_kind = |kind| {
            let tuple = example(kind, 7);
            let frame = FrameBuilder::ip(tuple.src, tuple.dst);
            let frame = match tuple.proto {
                TCP => frame.tcp(tuple.sport, tuple.dport),
                _ => frame.udp(tuple.sport, tuple.dport),
            };
            let frame = frame.payload([0; 16]);
            let frame = if tuple.zone == 0 { frame } else { frame.vlan(tuple.zone) };
            let made = create(nic, &bypass.rule(&tuple).unwrap()).unwrap();
            let mut now_us = SOON_US;
            let mut frames = vec![frame.clone(), frame.clone().fragment(0, true)];
            if tuple.proto == TCP {
                frames.extend([0x12, 0x11, 0x14, 0x18].map(|flags| frame.clone().flags(flags)));
            }
            let hits = frames.iter().map(|frame| {
                let frame = frame.build();
                nic.classify(&frame, frame.len() as u32, now_us);
                now_us += SOON_US;
                nic.query(made, true, now_us).unwrap().hits == 1
            });
            let hits = hits.collect();
            nic.destroy(made, now_us).unwrap();
            hits
        };
        (0..KINDS).filter(|kind| bypass.forms[*kind].is_some()).map(of_kind).collect()
    }

    #[test]
    fn fragments_and_changes_of_state_come_to_the_worker_where_the_nic_can_tell() {
        for name in ["ideal", "cx5", "cx6dx"] {
            let mut nic = nic(Personality::named(name).unwrap(), true);
            let bypass = bypass(&mut nic).unwrap();
            let udp = vec![true, false];
            let tcp = vec![true, false, false, false, false, true];
            let both = [udp, tcp];
            assert_eq!(forwarded(&mut nic, &bypass), [&both[..]; 4].concat(), "{name}");
        }
        // A NIC that matches addresses and ports alone takes rules without the fragment condition.
        let mut nic = nic(Personality::named("ideal").unwrap(), true);
        let plain = BypassForm { excludes_fragments: false, peer: Peer::RepresentedPort };
        let mut forms = [None; KINDS];
        forms[0] = Some(plain);
        let without = WithoutBypass::default();
        let bypass = Bypass { peer: 1, forms, without, calls: Calls::default() };
        assert_eq!(forwarded(&mut nic, &bypass), [[true, true]]);
    }

    /// A NIC that cannot match flags gets no rule for TCP, and says so.
    #[test]
    fn without_flags_tcp_is_not_bypassed() {
        let mut nic = nic(Personality::named("ideal").unwrap(), true);
        let wanted = ByProtocol { udp: true, tcp: true };
        let (forms, without) = probe_forms((1, wanted), |rule| {
            let flags = |item: &Item| item.mask.is_some_and(|mask| mask.bytes()[13] != 0);
            if rule.pattern.iter().any(|item| item.kind == ItemKind::Tcp && flags(item)) {
                return Err("flags are not supported".to_owned());
            }
            let made = create(&mut nic, rule)?;
            nic.destroy(made, 0).map(drop).map_err(|_| "it stays".to_owned())
        });
        assert!((0..KINDS).all(|kind| forms[kind].is_some() == (kind & 1 == 0)));
        let tcp = Some("flags are not supported".to_owned());
        assert_eq!(without, ByProtocol { udp: None, tcp });
        let off = ByProtocol::default();
        let (forms, without) = probe_forms((1, off), |_| panic!("nothing is wanted"));
        assert_eq!(forms, [None; KINDS]);
        assert_eq!(without.tcp.as_deref(), Some("`bypass_tcp` is \"off\""));
    }

    #[test]
    fn ports_of_a_switch_forward_by_themselves() {
        let lines = |actions: &str| {
            let headers = ["ipv4", "ipv6", "vlan / ipv4", "vlan / ipv6"];
            let rule = |ip: &str, l4: &str| format!("eth / {ip} / {l4}: count / {actions}");
            let both = headers.map(|ip| [rule(ip, "udp"), rule(ip, "tcp")]);
            Some(both.concat())
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
        let rule = BypassForm { excludes_fragments: false, peer: Peer::PortId }.rule(&tuple, 7);
        let bits = |at: usize, byte: usize| {
            let [spec, mask] = [rule.pattern[at].spec, rule.pattern[at].mask];
            let byte = |value: Option<Value>| value.unwrap().bytes()[byte] & 1;
            (byte(spec), byte(mask))
        };
        assert_eq!((bits(0, 14), bits(1, 4)), ((1, 1), (0, 1)));
        assert_eq!(rule.actions, [Action::Count(0), Action::PortId(Some(7))]);
        let plain = FORMS[0].rule(&example(0, 9), 7);
        let mask = plain.pattern[0].mask.unwrap();
        assert_eq!((plain.pattern.len(), mask.bytes()[14] & 1), (3, 1));
    }
}
