// SPDX-License-Identifier: BSD-3-Clause
//! Converts a rule into the arrays of C structures of `rte_flow`, and an address in these arrays
//! back to a part of the rule.
//!
//! Structures of items begin with the header. Other members are set by name, because bit fields
//! have no offset.

use super::{Action, Attributes, Cause, HashFunction, Item, ItemKind, Rss, Rule, Value};
use crate::sys;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::null;

/// Room for the structure of an item or action, filled up with zeros. It is boxed, or in a vector
/// that no longer grows, so that its address stays valid.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Room([u8; 48]);

impl Room {
    fn of<T>(value: T) -> Self {
        const { assert!(size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= 8) };
        let mut room = Self([0; 48]);
        // SAFETY: it has the room and the alignment, by the assertion.
        unsafe { (&raw mut room).cast::<T>().write(value) };
        room
    }

    /// Returns the structure with `header` at its beginning.
    fn with(mut self, header: &[u8]) -> Self {
        self.0[..header.len()].copy_from_slice(header);
        self
    }

    fn as_ptr(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

/// A rule in the structures of `rte_flow`. They point into each other, and into the original rule.
pub(super) struct RteRule<'a> {
    attributes: sys::rte_flow_attr,
    items: Vec<sys::rte_flow_item>,
    actions: Vec<sys::rte_flow_action>,
    /// Spec, last and mask of each item.
    values: Vec<[Option<Room>; 3]>,
    /// Configuration of each action.
    confs: Vec<Option<Room>>,
    _rule: PhantomData<&'a Rule>,
}

impl<'a> RteRule<'a> {
    pub(super) fn new(rule: &'a Rule) -> Self {
        let values: Vec<_> = rule.pattern.iter().map(values_of).collect();
        let pointer = |room: &Option<Room>| room.as_ref().map_or(null(), Room::as_ptr);
        let mut items: Vec<_> = rule
            .pattern
            .iter()
            .zip(&values)
            .map(|(item, values)| {
                let [spec, last, mask] = values.each_ref().map(pointer);
                sys::rte_flow_item { type_: item_type(item.kind), spec, last, mask }
            })
            .collect();
        let end = sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_END;
        items.push(sys::rte_flow_item { type_: end, spec: null(), last: null(), mask: null() });
        let confs: Vec<_> = rule.actions.iter().map(conf_of).collect();
        let mut actions: Vec<_> = rule
            .actions
            .iter()
            .zip(&confs)
            .map(|(action, conf)| sys::rte_flow_action {
                type_: action_type(action),
                conf: pointer(conf),
            })
            .collect();
        let end = sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_END;
        actions.push(sys::rte_flow_action { type_: end, conf: null() });
        let attributes = attributes_of(&rule.attributes);
        Self { attributes, items, actions, values, confs, _rule: PhantomData }
    }

    pub(super) fn attributes(&self) -> *const sys::rte_flow_attr {
        &self.attributes
    }

    pub(super) fn items(&self) -> *const sys::rte_flow_item {
        self.items.as_ptr()
    }

    pub(super) fn actions(&self) -> *const sys::rte_flow_action {
        self.actions.as_ptr()
    }

    /// Returns the actions without their values, as the masks of a template: each rule then has its
    /// own values.
    pub(super) fn action_kinds(&self) -> Vec<sys::rte_flow_action> {
        let kind = |action: &sys::rte_flow_action| sys::rte_flow_action {
            type_: action.type_,
            conf: null(),
        };
        self.actions.iter().map(kind).collect()
    }

    /// Returns the part of the rule that contains `address`.
    pub(super) fn cause(&self, address: *const c_void) -> Option<Cause> {
        let address = address as usize;
        if place_in(std::slice::from_ref(&self.attributes), address).is_some() {
            return Some(Cause::Attributes);
        }
        let in_room = |room: &Option<Room>| {
            room.as_ref().is_some_and(|room| place_in(&room.0, address).is_some())
        };
        let item = place_in(&self.items, address)
            .or_else(|| self.values.iter().position(|values| values.iter().any(in_room)));
        let action =
            || place_in(&self.actions, address).or_else(|| self.confs.iter().position(in_room));
        item.map(Cause::Item).or_else(|| action().map(Cause::Action))
    }
}

/// Returns the index of the element of `array` that contains an address.
fn place_in<T>(array: &[T], address: usize) -> Option<usize> {
    let offset = address.checked_sub(array.as_ptr() as usize)?;
    Some(offset / size_of::<T>()).filter(|place| *place < array.len())
}

fn attributes_of(attributes: &Attributes) -> sys::rte_flow_attr {
    // SAFETY: a plain C struct of numbers.
    let mut attr: sys::rte_flow_attr = unsafe { std::mem::zeroed() };
    attr.group = attributes.group;
    attr.priority = attributes.priority;
    attr.set_ingress(attributes.ingress.into());
    attr.set_egress(attributes.egress.into());
    attr.set_transfer(attributes.transfer.into());
    attr
}

fn values_of(item: &Item) -> [Option<Room>; 3] {
    [item.spec, item.last, item.mask].map(|value| value.map(|value| room_of(item.kind, &value)))
}

fn room_of(kind: ItemKind, value: &Value) -> Room {
    let bytes = &value.bytes()[..kind.value_len()];
    match kind {
        ItemKind::Eth => {
            // SAFETY: a plain C struct of numbers.
            let mut eth: sys::rte_flow_item_eth = unsafe { std::mem::zeroed() };
            eth.set_has_vlan(u32::from(bytes[14] & 1));
            Room::of(eth).with(&bytes[..14])
        }
        ItemKind::Vlan => {
            // SAFETY: as above.
            let mut vlan: sys::rte_flow_item_vlan = unsafe { std::mem::zeroed() };
            vlan.set_has_more_vlan(u32::from(bytes[4] & 1));
            Room::of(vlan).with(&bytes[..4])
        }
        ItemKind::Ipv6 => {
            // SAFETY: as above.
            let mut ipv6: sys::rte_flow_item_ipv6 = unsafe { std::mem::zeroed() };
            ipv6.set_has_frag_ext(u32::from(bytes[40] & 1));
            Room::of(ipv6).with(&bytes[..40])
        }
        ItemKind::Any | ItemKind::Mark | ItemKind::Meta | ItemKind::PortId => {
            Room::of(value.bits(0, 32) as u32)
        }
        ItemKind::RepresentedPort | ItemKind::PortRepresentor => Room::of(value.bits(0, 16) as u16),
        ItemKind::Void
        | ItemKind::Ipv4
        | ItemKind::Ipv6FragExt
        | ItemKind::Tcp
        | ItemKind::Udp
        | ItemKind::Sctp
        | ItemKind::Icmp
        | ItemKind::Icmp6
        | ItemKind::Vxlan
        | ItemKind::Gtpu
        | ItemKind::Gre => Room::of([0u8; 0]).with(bytes),
    }
}

fn conf_of(action: &Action) -> Option<Room> {
    let room = match *action {
        Action::Void | Action::Flag | Action::Drop | Action::Passthru => return None,
        Action::Mark(id) => Room::of(sys::rte_flow_action_mark { id }),
        Action::Queue(index) => Room::of(sys::rte_flow_action_queue { index }),
        Action::Count(id) => Room::of(sys::rte_flow_action_count { id }),
        Action::Jump(group) => Room::of(sys::rte_flow_action_jump { group }),
        Action::RepresentedPort(port_id) | Action::PortRepresentor(port_id) => {
            Room::of(sys::rte_flow_action_ethdev { port_id })
        }
        Action::Rss(ref rss) => Room::of(rss_of(rss)),
        Action::PortId(id) => {
            // SAFETY: a plain C struct of numbers.
            let mut port: sys::rte_flow_action_port_id = unsafe { std::mem::zeroed() };
            port.id = id.unwrap_or(0);
            port.set_original(id.is_none().into());
            Room::of(port)
        }
        Action::Age(seconds) => {
            // SAFETY: a plain C struct of numbers; a null context asks for the rule's handle.
            let mut age: sys::rte_flow_action_age = unsafe { std::mem::zeroed() };
            age.set_timeout(seconds);
            Room::of(age)
        }
    };
    Some(room)
}

/// The hash functions that every supported DPDK has, with their numbers.
const HASHES: [(HashFunction, sys::rte_eth_hash_function); 4] = [
    (HashFunction::Default, sys::rte_eth_hash_function_RTE_ETH_HASH_FUNCTION_DEFAULT),
    (HashFunction::Toeplitz, sys::rte_eth_hash_function_RTE_ETH_HASH_FUNCTION_TOEPLITZ),
    (HashFunction::SimpleXor, sys::rte_eth_hash_function_RTE_ETH_HASH_FUNCTION_SIMPLE_XOR),
    (
        HashFunction::SymmetricToeplitz,
        sys::rte_eth_hash_function_RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ,
    ),
];

fn rss_of(rss: &Rss) -> sys::rte_flow_action_rss {
    let number = HASHES.iter().find(|(func, _)| *func == rss.func).map(|(_, number)| *number);
    sys::rte_flow_action_rss {
        func: number.expect("every function is in the table"),
        level: rss.level,
        types: rss.types,
        key_len: if rss.key.is_empty() { rss.null_key_len } else { rss.key.len() as u32 },
        queue_num: rss.queues.len() as u32,
        key: if rss.key.is_empty() { null() } else { rss.key.as_ptr() },
        queue: if rss.queues.is_empty() { null() } else { rss.queues.as_ptr() },
    }
}

/// Converts a driver's description of its RSS; an unknown hash function becomes the default.
///
/// # Safety
/// The arrays that `rss` points to are valid.
pub(super) unsafe fn rss_from(rss: &sys::rte_flow_action_rss) -> Rss {
    let func = HASHES.iter().find(|(_, number)| *number == rss.func).map(|(func, _)| *func);
    // SAFETY: by contract.
    unsafe {
        Rss {
            func: func.unwrap_or_default(),
            level: rss.level,
            types: rss.types,
            key: array(rss.key, rss.key_len),
            null_key_len: if rss.key.is_null() { rss.key_len } else { 0 },
            queues: array(rss.queue, rss.queue_num),
        }
    }
}

/// Copies an array of C; a null pointer is an empty array.
///
/// # Safety
/// `first` is null or points to `len` values.
unsafe fn array<T: Copy>(first: *const T, len: u32) -> Vec<T> {
    if first.is_null() {
        return Vec::new();
    }
    // SAFETY: by contract.
    unsafe { std::slice::from_raw_parts(first, len as usize) }.to_vec()
}

fn item_type(kind: ItemKind) -> sys::rte_flow_item_type {
    match kind {
        ItemKind::Void => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_VOID,
        ItemKind::Any => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_ANY,
        ItemKind::Eth => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_ETH,
        ItemKind::Vlan => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_VLAN,
        ItemKind::Ipv4 => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_IPV4,
        ItemKind::Ipv6 => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_IPV6,
        ItemKind::Ipv6FragExt => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT,
        ItemKind::Tcp => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_TCP,
        ItemKind::Udp => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_UDP,
        ItemKind::Sctp => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_SCTP,
        ItemKind::Icmp => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_ICMP,
        ItemKind::Icmp6 => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_ICMP6,
        ItemKind::Vxlan => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_VXLAN,
        ItemKind::Gtpu => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_GTPU,
        ItemKind::Gre => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_GRE,
        ItemKind::Mark => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_MARK,
        ItemKind::Meta => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_META,
        ItemKind::PortId => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_PORT_ID,
        ItemKind::RepresentedPort => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_REPRESENTED_PORT,
        ItemKind::PortRepresentor => sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_PORT_REPRESENTOR,
    }
}

fn action_type(action: &Action) -> sys::rte_flow_action_type {
    match action {
        Action::Void => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_VOID,
        Action::Mark(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_MARK,
        Action::Flag => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_FLAG,
        Action::Queue(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_QUEUE,
        Action::Rss(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_RSS,
        Action::Drop => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_DROP,
        Action::Count(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_COUNT,
        Action::Age(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_AGE,
        Action::Passthru => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_PASSTHRU,
        Action::Jump(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_JUMP,
        Action::PortId(_) => sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_PORT_ID,
        Action::RepresentedPort(_) => {
            sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT
        }
        Action::PortRepresentor(_) => {
            sys::rte_flow_action_type_RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let lowered = RteRule::new(&rule);
        assert_eq!((lowered.attributes.group, lowered.attributes.transfer()), (7, 1));
        assert_eq!((lowered.attributes.ingress(), lowered.attributes.egress()), (0, 0));
        assert_eq!((lowered.items.len(), lowered.actions.len()), (4, 4));
        let [eth, ipv6, mark, end] = lowered.items[..] else { unreachable!() };
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
            let rss = &*lowered.actions[1].conf.cast::<sys::rte_flow_action_rss>();
            assert!(rss.key.is_null() && rss.key_len == 40);
            assert_eq!(std::slice::from_raw_parts(rss.queue, 2), [3, 1]);
            let age = &*lowered.actions[2].conf.cast::<sys::rte_flow_action_age>();
            assert_eq!(
                (age.timeout(), age.reserved(), age.context),
                (0x00ab_cdef, 0, null::<c_void>().cast_mut())
            );
            assert_eq!(
                super::rss_from(rss),
                Rss { queues: vec![3, 1], types: 4, null_key_len: 40, ..Rss::default() }
            );
        }
        assert!(lowered.actions[0].conf.is_null());
    }

    #[test]
    fn an_address_is_traced_to_its_part() {
        let rule = rule();
        let lowered = RteRule::new(&rule);
        let address = |item: &sys::rte_flow_item| std::ptr::from_ref(item).cast::<c_void>();
        for (address, cause) in [
            (address(&lowered.items[1]), Some(Cause::Item(1))),
            (address(&lowered.items[3]), Some(Cause::Item(3))),
            (lowered.items[1].last, Some(Cause::Item(1))),
            (lowered.items[0].mask, Some(Cause::Item(0))),
            (lowered.actions[2].conf, Some(Cause::Action(2))),
            (lowered.actions().wrapping_add(1).cast(), Some(Cause::Action(1))),
            (lowered.attributes().cast(), Some(Cause::Attributes)),
            (null(), None),
            (std::ptr::from_ref(&rule).cast(), None),
        ] {
            assert_eq!(lowered.cause(address), cause);
        }
    }
}
