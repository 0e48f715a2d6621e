// SPDX-License-Identifier: BSD-3-Clause
//! Structures that drivers get.

use super::super::{
    Action, ActionData, Item, ItemKind, LongValues, OtherAction, OtherActionKind, OtherItem, Rss,
    Value,
};
use super::*;
use std::ptr::null;

fn item(kind: ItemKind, spec: &[u8]) -> Item {
    Item { spec: Some(Value::new(spec)), ..Item::any(kind) }
}

fn rule() -> Rule {
    let mut eth = item(ItemKind::Eth, &[2, 0, 0, 0, 0, 1]);
    eth.mask = Some(Value::ZERO);
    eth.spec.as_mut().unwrap().set_bits(14 * 8 + 7, 1, 1);
    let mut ipv6 = Item::any(ItemKind::Ipv6);
    ipv6.last = Some(Value::new(&[0xff; 41]));
    let mark = item(ItemKind::Mark, &[0, 0, 1, 2]);
    let rss = Rss { queues: vec![3, 1], types: 4, null_key_len: 40, ..Rss::default() };
    Rule {
        attributes: Attributes { group: 7, transfer: true, ..Attributes::default() },
        pattern: vec![eth, ipv6, mark],
        actions: vec![Action::Drop, Action::Rss(rss), Action::Age(0x00ab_cdef)],
    }
}

#[test]
fn a_rule_arrives_as_it_was_meant() {
    let rule = rule();
    let lowered = RteRule::new(&rule).unwrap();
    assert_eq!((lowered.attributes.group, lowered.attributes.transfer()), (7, 1));
    assert_eq!((lowered.attributes.ingress(), lowered.attributes.egress()), (0, 0));
    assert_eq!((lowered.pattern.items.len(), lowered.actions.actions.len()), (4, 4));
    let [eth, ipv6, mark, end] = lowered.pattern.items[..] else { unreachable!() };
    assert_eq!(end.type_, sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_END);
    assert!(eth.last.is_null() && ipv6.spec.is_null() && ipv6.mask.is_null());
    // SAFETY: these are the structures that the items are documented to have.
    unsafe {
        let spec = &*eth.spec.cast::<sys::rte_flow_item_eth>();
        let bytes = eth.spec.cast::<[u8; 14]>().read();
        assert_eq!((spec.has_vlan(), spec.reserved()), (1, 0));
        assert_eq!(bytes[..7], [2, 0, 0, 0, 0, 1, 0]);
        assert_eq!((*eth.mask.cast::<sys::rte_flow_item_eth>()).has_vlan(), 0);
        let last = &*ipv6.last.cast::<sys::rte_flow_item_ipv6>();
        assert_eq!((last.has_frag_ext(), last.has_hop_ext(), last.reserved()), (1, 0, 0));
        assert_eq!(ipv6.last.cast::<[u8; 40]>().read(), [0xff; 40]);
        assert_eq!(mark.spec.cast::<u32>().read(), 0x0102);
        let rss = &*lowered.actions.actions[1].conf.cast::<sys::rte_flow_action_rss>();
        assert!(rss.key.is_null() && rss.key_len == 40);
        assert_eq!(std::slice::from_raw_parts(rss.queue, 2), [3, 1]);
        let age = &*lowered.actions.actions[2].conf.cast::<sys::rte_flow_action_age>();
        assert_eq!(
            (age.timeout(), age.reserved(), age.context),
            (0x00ab_cdef, 0, null::<c_void>().cast_mut())
        );
        assert_eq!(
            rss_from(rss),
            Rss { queues: vec![3, 1], types: 4, null_key_len: 40, ..Rss::default() }
        );
    }
    assert!(lowered.actions.actions[0].conf.is_null());
}

#[test]
fn an_address_is_traced_to_its_part() {
    let rule = rule();
    let lowered = RteRule::new(&rule).unwrap();
    let address = |item: &sys::rte_flow_item| std::ptr::from_ref(item).cast::<c_void>();
    for (address, cause) in [
        (address(&lowered.pattern.items[1]), Some(Cause::Item(1))),
        (address(&lowered.pattern.items[3]), Some(Cause::Item(3))),
        (lowered.pattern.items[1].last, Some(Cause::Item(1))),
        (lowered.pattern.items[0].mask, Some(Cause::Item(0))),
        (lowered.actions.actions[2].conf, Some(Cause::Action(2))),
        (lowered.actions().wrapping_add(1).cast(), Some(Cause::Action(1))),
        (lowered.attributes().cast(), Some(Cause::Attributes)),
        (null(), None),
        (std::ptr::from_ref(&rule).cast(), None),
    ] {
        assert_eq!(lowered.cause(address), cause);
    }
}

fn other(name: &str) -> ItemKind {
    let found = OtherItem::all().find(|other| other.name() == name);
    ItemKind::Other(found.unwrap_or_else(|| panic!("{name}")))
}

fn action(name: &str, conf: &[u8], data: ActionData) -> Action {
    let kind = OtherActionKind::all().find(|kind| kind.name() == name).unwrap();
    Action::Other(Box::new(OtherAction { kind, conf: conf.to_vec(), data }))
}

/// Numbers are in the machine's byte order, and pointers lead to padded bytes.
#[test]
fn other_items_arrive_in_the_structures_of_dpdk() {
    let long = LongValues { spec: b"abc".to_vec(), mask: vec![0xff], ..LongValues::default() };
    let mut raw = item(other("raw"), &[0, 0, 0, 3, 0xff, 0xff, 0xff, 0xfe, 0, 7]);
    (raw.mask, raw.long) = (Some(Value::ZERO), Some(Box::new(long)));
    let integrity = item(other("integrity"), &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let esp = item(other("esp"), &[1, 2, 3, 4]);
    let rule = Rule { pattern: vec![raw, integrity, esp], ..Rule::default() };
    let lowered = RteRule::new(&rule).unwrap();
    let items = &lowered.pattern.items;
    // SAFETY: these are the structures that the items are documented to have.
    unsafe {
        let spec = &*items[0].spec.cast::<sys::rte_flow_item_raw>();
        assert_eq!((spec.relative(), spec.search(), spec.reserved()), (1, 1, 0));
        assert_eq!((spec.offset, spec.limit, spec.length), (-2, 7, 3));
        assert_eq!(std::slice::from_raw_parts(spec.pattern, 5), b"abc\0\0");
        let mask = &*items[0].mask.cast::<sys::rte_flow_item_raw>();
        assert_eq!((mask.limit, mask.length), (0, u16::MAX));
        assert_eq!(std::slice::from_raw_parts(mask.pattern, 3), [0xff, 0, 0]);
        let spec = &*items[1].spec.cast::<sys::rte_flow_item_integrity>();
        assert_eq!((spec.level, spec.__bindgen_anon_1.value), (2, 9));
        assert_eq!(items[2].spec.cast::<[u8; 4]>().read(), [1, 2, 3, 4]);
    }
    assert_eq!(items[2].type_, sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_ESP);
    assert_eq!(lowered.cause(items[1].spec), Some(Cause::Item(1)));
}

#[test]
fn other_actions_arrive_in_the_structures_of_dpdk() {
    let vf = action("vf", &[0, 0, 0, 1, 0, 0, 1, 2], ActionData::None);
    let encap = action("raw_encap", &[], ActionData::Bytes(vec![7; 14]));
    let vxlan = action("vxlan_encap", &[], ActionData::Items(vec![Item::any(ItemKind::Eth)]));
    let inner = ActionData::Actions(vec![Action::Queue(3)]);
    let sample = action("sample", &[0, 0, 0, 2], inner);
    let mut conf = [0; 47];
    (conf[0], conf[1], conf[11], conf[21], conf[40]) = (1, 7, 25, 0xaa, 8);
    let modify = action("modify_field", &conf[..41], ActionData::None);
    let conntrack = action("conntrack", &[[0, 1, 0, 9], [0; 4]].concat(), ActionData::None);
    let mut rule = Rule { actions: vec![vf, encap, vxlan, sample, modify], ..Rule::default() };
    let lowered = RteRule::new(&rule).unwrap();
    let conf = |place: usize| lowered.actions.actions[place].conf;
    // SAFETY: these are the structures that the actions are documented to have.
    unsafe {
        let vf = &*conf(0).cast::<sys::rte_flow_action_vf>();
        assert_eq!((vf.original(), vf.id), (1, 0x0102));
        let encap = &*conf(1).cast::<sys::rte_flow_action_raw_encap>();
        assert_eq!((encap.size, encap.preserve.is_null()), (14, true));
        assert_eq!(encap.data.read(), 7);
        let vxlan = &*conf(2).cast::<sys::rte_flow_action_vxlan_encap>();
        assert_eq!((*vxlan.definition).type_, item_type_of(ItemKind::Eth));
        let sample = &*conf(3).cast::<sys::rte_flow_action_sample>();
        assert_eq!(sample.ratio, 2);
        assert_eq!((*(*sample.actions).conf.cast::<sys::rte_flow_action_queue>()).index, 3);
        let modify = &*conf(4).cast::<sys::rte_flow_action_modify_field>();
        assert_eq!((modify.operation, modify.width), (1, 8));
        assert_eq!((modify.dst.field, modify.src.field), (7, 25));
    }
    assert_eq!(lowered.cause(conf(1)), Some(Cause::Action(1)));
    rule.actions.push(conntrack);
    let error = RteRule::new(&rule).map(drop).unwrap_err();
    assert_eq!((error.kind, error.cause), (ErrorKind::Action, Some(Cause::Action(5))));
}

fn item_type_of(kind: ItemKind) -> u32 {
    let rule = Rule { pattern: vec![Item::any(kind)], ..Rule::default() };
    RteRule::new(&rule).unwrap().pattern.items[0].type_
}

#[test]
fn an_item_of_another_release_is_refused_with_that_release() {
    for (name, word) in [("pf", "DPDK had it up to 22.07"), ("flex", "names a flex item")] {
        let pattern = vec![Item::any(ItemKind::Eth), Item::any(other(name))];
        let rule = Rule { pattern, ..Rule::default() };
        let error = RteRule::new(&rule).map(drop).unwrap_err();
        assert_eq!((error.kind, error.cause), (ErrorKind::Item, Some(Cause::Item(1))));
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// The item for ARP has the header's bytes, or members of the same values.
#[test]
fn arp_arrives_in_the_layout_of_this_dpdk() {
    let bytes: Vec<u8> = (1..=28).collect();
    let rule = Rule { pattern: vec![item(other("arp_eth_ipv4"), &bytes)], ..Rule::default() };
    let lowered = RteRule::new(&rule).unwrap();
    // SAFETY: the structure has at least this length.
    let found = unsafe { lowered.pattern.items[0].spec.cast::<[u8; 32]>().read() };
    let (spa, tpa) = if sys::BIND_ARP_IS_PADDED { (16, 28) } else { (14, 24) };
    assert_eq!(found[8..14], [9, 10, 11, 12, 13, 14]);
    assert_eq!((&found[spa..spa + 4], &found[tpa..tpa + 4]), (&bytes[14..18], &bytes[24..]));
}

/// Structures of items and actions that have the length of their entries in the lists.
#[test]
fn the_lists_have_the_lengths_of_dpdk() {
    let items = [
        ("e_tag", size_of::<sys::rte_flow_item_e_tag>()),
        ("nvgre", size_of::<sys::rte_flow_item_nvgre>()),
        ("mpls", size_of::<sys::rte_flow_item_mpls>()),
        ("gtp", size_of::<sys::rte_flow_item_gtp>()),
        ("geneve", size_of::<sys::rte_flow_item_geneve>()),
        ("vxlan-gpe", size_of::<sys::rte_flow_item_vxlan_gpe>()),
        ("icmp6_nd_ns", size_of::<sys::rte_flow_item_icmp6_nd_ns>()),
        ("gre_option", size_of::<sys::rte_flow_item_gre_opt>()),
        ("pppoes", size_of::<sys::rte_flow_item_pppoe>()),
        ("tag", size_of::<sys::rte_flow_item_tag>()),
        ("ah", size_of::<sys::rte_flow_item_ah>()),
        ("pfcp", size_of::<sys::rte_flow_item_pfcp>()),
        ("ecpri", size_of::<sys::rte_flow_item_ecpri>()),
        ("integrity", size_of::<sys::rte_flow_item_integrity>()),
        ("l2tpv2", size_of::<sys::rte_flow_item_l2tpv2>()),
    ];
    for (name, len) in items {
        assert_eq!(other(name).value_len(), len, "{name}");
    }
    let actions = [
        ("vf", size_of::<sys::rte_flow_action_vf>()),
        ("set_tag", size_of::<sys::rte_flow_action_set_tag>()),
        ("set_meta", size_of::<sys::rte_flow_action_set_meta>()),
        ("conntrack", size_of::<sys::rte_flow_action_conntrack>()),
        ("conntrack_update", size_of::<sys::rte_flow_modify_conntrack>()),
        ("age_update", size_of::<sys::rte_flow_update_age>()),
    ];
    for (name, len) in actions {
        let kind = OtherActionKind::all().find(|kind| kind.name() == name).unwrap();
        assert_eq!(kind.conf_len(), len, "{name}");
    }
}
