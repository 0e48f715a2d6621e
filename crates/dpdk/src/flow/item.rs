// SPDX-License-Identifier: BSD-3-Clause
//! Defines items: the headers and values that a flow rule matches, one header after the other.
//!
//! The value of an item is the header's bytes as they are in a packet. Bits that DPDK has beside
//! the header, such as `has_vlan`, are in one byte behind it. Numbers that are in no packet (mark,
//! port) are big-endian too. So every field of every item is a range of bits.

use super::OtherItem;
use std::fmt;

/// Kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // The header's name says it.
pub enum ItemKind {
    Void,
    Any,
    Eth,
    Vlan,
    Ipv4,
    Ipv6,
    Ipv6FragExt,
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
    Vxlan,
    Gtpu,
    Gre,
    Mark,
    Meta,
    PortId,
    RepresentedPort,
    PortRepresentor,
    /// An item that only the flow shell uses.
    Other(OtherItem),
}

impl ItemKind {
    /// Every kind but the others.
    pub const ALL: [ItemKind; 20] = [
        ItemKind::Void,
        ItemKind::Any,
        ItemKind::Eth,
        ItemKind::Vlan,
        ItemKind::Ipv4,
        ItemKind::Ipv6,
        ItemKind::Ipv6FragExt,
        ItemKind::Tcp,
        ItemKind::Udp,
        ItemKind::Sctp,
        ItemKind::Icmp,
        ItemKind::Icmp6,
        ItemKind::Vxlan,
        ItemKind::Gtpu,
        ItemKind::Gre,
        ItemKind::Mark,
        ItemKind::Meta,
        ItemKind::PortId,
        ItemKind::RepresentedPort,
        ItemKind::PortRepresentor,
    ];

    /// Returns the name that DPDK's programs use for it.
    pub const fn name(self) -> &'static str {
        match self {
            ItemKind::Void => "void",
            ItemKind::Any => "any",
            ItemKind::Eth => "eth",
            ItemKind::Vlan => "vlan",
            ItemKind::Ipv4 => "ipv4",
            ItemKind::Ipv6 => "ipv6",
            ItemKind::Ipv6FragExt => "ipv6_frag_ext",
            ItemKind::Tcp => "tcp",
            ItemKind::Udp => "udp",
            ItemKind::Sctp => "sctp",
            ItemKind::Icmp => "icmp",
            ItemKind::Icmp6 => "icmp6",
            ItemKind::Vxlan => "vxlan",
            ItemKind::Gtpu => "gtpu",
            ItemKind::Gre => "gre",
            ItemKind::Mark => "mark",
            ItemKind::Meta => "meta",
            ItemKind::PortId => "port_id",
            ItemKind::RepresentedPort => "represented_port",
            ItemKind::PortRepresentor => "port_representor",
            ItemKind::Other(other) => other.name(),
        }
    }

    /// Returns the length of the item's value in bytes, including the byte of bits beside the
    /// header.
    pub const fn value_len(self) -> usize {
        match self {
            ItemKind::Void => 0,
            ItemKind::RepresentedPort | ItemKind::PortRepresentor => 2,
            ItemKind::Any | ItemKind::Icmp6 | ItemKind::Gre => 4,
            ItemKind::Mark | ItemKind::Meta | ItemKind::PortId => 4,
            ItemKind::Vlan => 5,
            ItemKind::Ipv6FragExt | ItemKind::Udp | ItemKind::Icmp => 8,
            ItemKind::Vxlan | ItemKind::Gtpu => 8,
            ItemKind::Sctp => 12,
            ItemKind::Eth => 15,
            ItemKind::Ipv4 | ItemKind::Tcp => 20,
            ItemKind::Ipv6 => 41,
            ItemKind::Other(other) => other.value_len(),
        }
    }

    /// Returns every kind, the others last.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(OtherItem::all().map(Self::Other))
    }
}

/// The value, range end or mask of an item: [`ItemKind::value_len`] bytes, then zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Value([u8; Value::LEN]);

impl Value {
    /// Bytes of the longest value.
    pub const LEN: usize = ItemKind::Ipv6.value_len();
    /// All bits zero.
    pub const ZERO: Value = Value([0; Value::LEN]);

    /// Returns a value that begins with `bytes`; the rest is zero.
    ///
    /// # Panics
    /// If there are more than [`Value::LEN`].
    pub fn new(bytes: &[u8]) -> Self {
        let mut value = Self::ZERO;
        value.0[..bytes.len()].copy_from_slice(bytes);
        value
    }

    /// Returns the bytes of the value.
    pub fn bytes(&self) -> &[u8; Value::LEN] {
        &self.0
    }

    /// Returns the number in `width` bits from bit `first` on; bit 0 is the highest of the first
    /// byte.
    ///
    /// # Panics
    /// If the bits are not within the value, or more than 128.
    pub fn bits(&self, first: usize, width: usize) -> u128 {
        bits_of(&self.0, first, width)
    }

    /// Sets `width` bits from bit `first` on to the lowest `width` bits of `bits`.
    ///
    /// # Panics
    /// As [`Value::bits`].
    pub fn set_bits(&mut self, first: usize, width: usize, bits: u128) {
        set_bits_of(&mut self.0, first, width, bits);
    }
}

/// Returns the number in `width` bits of `bytes` from bit `first` on; bit 0 is the highest of the
/// first byte.
///
/// # Panics
/// If the bits are not within the bytes, or more than 128.
pub fn bits_of(bytes: &[u8], first: usize, width: usize) -> u128 {
    assert!(width <= 128, "{width} bits are no number");
    let bit = |number: usize| u128::from(bytes[number / 8] >> (7 - number % 8) & 1);
    (first..first + width).fold(0, |bits, number| bits << 1 | bit(number))
}

/// Sets `width` bits of `bytes` from bit `first` on to the lowest `width` bits of `bits`.
///
/// # Panics
/// As [`bits_of`].
pub fn set_bits_of(bytes: &mut [u8], first: usize, width: usize, bits: u128) {
    assert!(width <= 128, "{width} bits are no number");
    for (place, number) in (first..first + width).rev().enumerate() {
        let mask = 0x80 >> (number % 8);
        let byte = &mut bytes[number / 8];
        *byte = if bits >> place & 1 == 1 { *byte | mask } else { *byte & !mask };
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        self.0[..len].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One item of a pattern. `None` reaches the driver as a null pointer, which drivers treat
/// differently from zeros.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// The header.
    pub kind: ItemKind,
    /// Values that the header must have, where the mask has ones.
    pub spec: Option<Value>,
    /// Last values of ranges that begin at `spec`.
    pub last: Option<Value>,
    /// Bits that are compared.
    pub mask: Option<Value>,
    /// Values of any length, of items that have them ([`OtherItem::pointer`]).
    pub long: Option<Box<LongValues>>,
}

/// Bytes that spec, last and mask of an item point to, such as the pattern of `raw`. Without bytes,
/// the pointer is null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LongValues {
    /// Bytes of the spec.
    pub spec: Vec<u8>,
    /// Bytes of the last.
    pub last: Vec<u8>,
    /// Bytes of the mask.
    pub mask: Vec<u8>,
}

impl Item {
    /// Returns an item that matches the header with any values: no spec, no last, no mask.
    pub const fn any(kind: ItemKind) -> Self {
        Self { kind, spec: None, last: None, mask: None, long: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_as_in_a_header() {
        let mut value = Value::ZERO;
        value.set_bits(4, 12, 0xabc);
        assert_eq!(value, Value::new(&[0x0a, 0xbc]));
        value.set_bits(8, 4, 0);
        assert_eq!(value.bits(0, 16), 0x0a0c);
        value.set_bits(64, 128, u128::MAX);
        assert_eq!(value.bits(63, 128), u128::MAX >> 1);
        assert_eq!(format!("{:?}", Value::new(&[1, 0x80, 0])), "0180");
    }

    #[test]
    fn no_kind_is_left_out() {
        let names: std::collections::BTreeSet<_> = ItemKind::all().map(ItemKind::name).collect();
        assert_eq!(names.len(), ItemKind::all().count());
        assert!(ItemKind::all().all(|kind| kind.value_len() <= Value::LEN));
    }
}
