// SPDX-License-Identifier: BSD-3-Clause
//! Owns the view of an Ethernet II header, and EtherType numbers.

use crate::be16;

/// EtherType numbers (IEEE).
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// Customer VLAN tag, IEEE 802.1Q.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MPLS unicast.
    pub const MPLS: u16 = 0x8847;
    /// Service VLAN tag, IEEE 802.1ad (QinQ).
    pub const QINQ: u16 = 0x88a8;
    /// LLDP.
    pub const LLDP: u16 = 0x88cc;
    /// Service tag of equipment older than 802.1ad.
    pub const QINQ_OLD: u16 = 0x9100;
    /// Smallest EtherType; smaller values are an IEEE 802.3 length, at most 1500.
    pub const MIN: u16 = 0x0600;
}

/// Minimum length of a frame on a cable in bytes, without FCS; shorter ones are padded with zeros.
pub const MIN_FRAME: usize = 60;

/// View of an Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a> {
    header: &'a [u8; Ethernet::LEN],
    payload: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// Length of the header in bytes.
    pub const LEN: usize = 14;

    /// Creates a view of the header at the start of `frame`. `None` if `frame` ends inside it.
    pub fn new(frame: &'a [u8]) -> Option<Self> {
        let (header, payload) = frame.split_first_chunk()?;
        Some(Self { header, payload })
    }

    /// Returns the destination address.
    pub fn dst(&self) -> [u8; 6] {
        [0, 1, 2, 3, 4, 5].map(|i| self.header[i])
    }

    /// Returns the source address.
    pub fn src(&self) -> [u8; 6] {
        [6, 7, 8, 9, 10, 11].map(|i| self.header[i])
    }

    /// Returns the EtherType, or a length if below [`ether_type::MIN`].
    pub fn ether_type(&self) -> u16 {
        be16(self.header, 12)
    }

    /// Returns the bytes behind the header, including padding.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_fields_and_refuses_less_than_a_header() {
        let frame = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 7, 0x08, 0x06, 0xaa];
        let ethernet = Ethernet::new(&frame).unwrap();
        assert_eq!(ethernet.dst(), [2, 0, 0, 0, 0, 9]);
        assert_eq!(ethernet.src(), [2, 0, 0, 0, 0, 7]);
        assert_eq!(ethernet.ether_type(), ether_type::ARP);
        assert_eq!(ethernet.payload(), [0xaa]);
        assert!(Ethernet::new(&frame[..13]).is_none());
    }
}
