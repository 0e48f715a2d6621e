// SPDX-License-Identifier: BSD-3-Clause
//! Owns the view of a VLAN tag, IEEE 802.1Q and 802.1ad: the four bytes after its EtherType.

use crate::be16;
use crate::ethernet::ether_type;

/// Largest VLAN identifier: 12 bits.
pub const MAX_ID: u16 = 0x0fff;

/// True for the EtherTypes that announce a [`Vlan`] tag.
pub const fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, ether_type::VLAN | ether_type::QINQ | ether_type::QINQ_OLD)
}

/// View of a VLAN tag: its control information and the EtherType behind it.
#[derive(Clone, Copy, Debug)]
pub struct Vlan<'a> {
    tag: &'a [u8; Vlan::LEN],
    payload: &'a [u8],
}

impl<'a> Vlan<'a> {
    /// Length of the tag in bytes.
    pub const LEN: usize = 4;

    /// Creates a view of the tag at the start of `bytes`. `None` if `bytes` end inside it.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (tag, payload) = bytes.split_first_chunk()?;
        Some(Self { tag, payload })
    }

    /// Returns the VLAN identifier.
    pub fn id(&self) -> u16 {
        be16(self.tag, 0) & MAX_ID
    }

    /// Returns the priority code point, 0 to 7.
    pub fn priority(&self) -> u8 {
        self.tag[0] >> 5
    }

    /// Returns the EtherType of the payload.
    pub fn ether_type(&self) -> u16 {
        be16(self.tag, 2)
    }

    /// Returns the bytes behind the tag.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_fields_and_refuses_less_than_a_tag() {
        let bytes = [0xa1, 0x23, 0x86, 0xdd, 0x60];
        let vlan = Vlan::new(&bytes).unwrap();
        assert_eq!(vlan.id(), 0x123);
        assert_eq!(vlan.priority(), 5);
        assert_eq!(vlan.ether_type(), ether_type::IPV6);
        assert_eq!(vlan.payload(), [0x60]);
        assert!(Vlan::new(&bytes[..3]).is_none());
        assert!(is_tag(ether_type::QINQ) && !is_tag(ether_type::IPV4));
    }
}
