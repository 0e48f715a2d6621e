// SPDX-License-Identifier: BSD-3-Clause
//! Converts a pattern. Structures of items begin with the header. Other members are set by name,
//! because bit fields have no offset.

use super::super::{Item, ItemKind, LongValues, OtherItem, Value};
use super::{Room, is_in_room, place_in, to_native};
use crate::sys;
use std::ptr::null;

/// Bytes behind each pointer at least: more than a driver reads for any length that an item has.
pub(super) const LONG_MIN: usize = 1024;

/// A pattern in the structures of `rte_flow`.
pub(super) struct RteItems {
    /// The items, and the end.
    pub(super) items: Vec<sys::rte_flow_item>,
    /// Spec, last and mask of each item.
    values: Vec<[Option<Room>; 3]>,
    /// Bytes that values point to.
    _long: Vec<Box<[u8]>>,
}

impl RteItems {
    /// Fails with the place of an item that this DPDK does not have, and the reason.
    pub(super) fn new(pattern: &[Item]) -> Result<Self, (usize, String)> {
        let mut long = Vec::new();
        let values: Vec<_> = pattern.iter().map(|item| values_of(item, &mut long)).collect();
        let pointer = |room: &Option<Room>| room.as_ref().map_or(null(), Room::as_ptr);
        let mut items = Vec::with_capacity(pattern.len() + 1);
        for (place, (item, values)) in pattern.iter().zip(&values).enumerate() {
            let [spec, last, mask] = values.each_ref().map(pointer);
            let type_ = item_type(item.kind).map_err(|reason| (place, reason))?;
            items.push(sys::rte_flow_item { type_, spec, last, mask });
        }
        let end = sys::rte_flow_item_type_RTE_FLOW_ITEM_TYPE_END;
        items.push(sys::rte_flow_item { type_: end, spec: null(), last: null(), mask: null() });
        Ok(Self { items, values, _long: long })
    }

    pub(super) fn as_ptr(&self) -> *const sys::rte_flow_item {
        self.items.as_ptr()
    }

    /// Returns the place of the item that contains `address`.
    pub(super) fn place_of(&self, address: usize) -> Option<usize> {
        let has = |values: &[Option<Room>; 3]| {
            values.iter().flatten().any(|room| is_in_room(room, address))
        };
        place_in(&self.items, address).or_else(|| self.values.iter().position(has))
    }
}

/// Returns spec, last and mask; bytes that they point to are added to `long`.
fn values_of(item: &Item, long: &mut Vec<Box<[u8]>>) -> [Option<Room>; 3] {
    let values = [item.spec, item.last, item.mask];
    let mut rooms = values.map(|value| value.map(|value| room_of(item.kind, &value)));
    if let (ItemKind::Other(other), Some(given)) = (item.kind, &item.long) {
        point(other, given, &mut rooms, long);
    }
    rooms
}

/// Sets the pointers of `rooms` to padded copies of the given bytes, and the length of `raw`.
fn point(
    other: OtherItem,
    given: &LongValues,
    rooms: &mut [Option<Room>; 3],
    long: &mut Vec<Box<[u8]>>,
) {
    let Some(offset) = other.pointer() else { return };
    let given = [&given.spec, &given.last, &given.mask];
    let len = given.iter().map(|bytes| bytes.len()).max().unwrap_or(0).max(LONG_MIN);
    for (is_mask, (room, bytes)) in [false, false, true].iter().zip(rooms.iter_mut().zip(given)) {
        let Some(room) = room.as_mut().filter(|_| !bytes.is_empty()) else { continue };
        let mut padded = vec![0; len].into_boxed_slice();
        padded[..bytes.len()].copy_from_slice(bytes);
        room.0[offset..offset + size_of::<usize>()]
            .copy_from_slice(&(padded.as_ptr() as usize).to_ne_bytes());
        if other.name() == "raw" {
            let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
            room.0[10..12].copy_from_slice(&if *is_mask { u16::MAX } else { len }.to_ne_bytes());
        }
        long.push(padded);
    }
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
        ItemKind::Other(other) if other.name() == "arp_eth_ipv4" && sys::BIND_ARP_IS_PADDED => {
            let parts = [&bytes[..14], &[0; 2], &bytes[14..24], &[0; 2], &bytes[24..]];
            Room::of([0u8; 0]).with(&parts.concat())
        }
        ItemKind::Other(other) => {
            let mut room = Room::of([0u8; 0]).with(bytes);
            to_native(&mut room.0, other.native());
            room
        }
    }
}

/// Returns the number of an item, or the reason why this DPDK has none.
fn item_type(kind: ItemKind) -> Result<sys::rte_flow_item_type, String> {
    Ok(match kind {
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
        ItemKind::Other(other) => other.number()?,
    })
}
