// SPDX-License-Identifier: BSD-3-Clause
//! Owns sizes and numbers of link and network headers, and header parsing that several files need.

use crate::api::{VlanTags, ZoneSource};

pub(crate) const ETHERNET: usize = 14;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;

pub(crate) const IPV4_MIN: usize = 20;

pub(crate) const TCP_MIN: usize = 20;

pub(crate) const UDP: usize = 8;

pub(crate) const VLAN_TAG: usize = 4;

pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;

/// 802.1Q, 802.1ad, and the value that switches used before 802.1ad.
pub(crate) const ETHERTYPE_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Smallest EtherType: smaller values are the length of an 802.3 frame.
pub(crate) const ETHERTYPE_MIN: u16 = 0x0600;

const VLAN_TAGS_MAX: usize = 2;

pub(crate) const IPV6: usize = 40;

pub(crate) const EXTENSION_BYTES_MAX: usize = 256;

pub(crate) const HOP_BY_HOP: u8 = 0;

pub(crate) const ROUTING: u8 = 43;

pub(crate) const FRAGMENT: u8 = 44;

pub(crate) const AUTHENTICATION: u8 = 51;

pub(crate) const DESTINATION: u8 = 60;

pub(crate) const SCTP: usize = 12;

/// Length of the longest chain of headers that is parsed: two tags, IPv6 with 256 bytes of
/// extension headers, and the fixed TCP header.
pub(crate) const HEADERS_MAX: usize =
    ETHERNET + VLAN_TAGS_MAX * VLAN_TAG + IPV6 + EXTENSION_BYTES_MAX + TCP_MIN;

/// Returns the zone of packets with these tags.
pub(crate) fn zone_of(vlan: &VlanTags, from: ZoneSource) -> u16 {
    let id = match from {
        ZoneSource::None | ZoneSource::Fixed(_) => None,
        ZoneSource::OuterVlan => vlan.ids().first(),
        ZoneSource::InnerVlan => vlan.ids().last(),
    };
    id.copied().unwrap_or(from.untagged())
}

/// Returns the length of the IPv4 packet whose header begins at `l3` of a frame of `frame_len`
/// bytes.
///
/// A host that leaves segmentation to its NIC also leaves the length to it. A capture on that host
/// has 0 there. The packet is then as long as the frame, unless it is a fragment: no NIC segments
/// those.
pub(crate) fn total_len4(header: &[u8; IPV4_MIN], frame_len: usize, l3: usize) -> usize {
    let [_, _, len @ .., _, _, a, b] = *header.first_chunk::<8>().expect("8 bytes of 20");
    let is_fragment = u16::from_be_bytes([a, b]) & 0x3fff != 0;
    match u16::from_be_bytes(len) {
        0 if !is_fragment => frame_len.saturating_sub(l3),
        len => usize::from(len),
    }
}

/// Returns the length of an extension header in bytes. `units` is its length field.
pub(crate) fn extension_len(proto: u8, units: u8) -> usize {
    match proto {
        FRAGMENT => 8,
        // RFC 4302 section 2.2: in 4-byte units, minus 2.
        AUTHENTICATION => (usize::from(units) + 2) * 4,
        _ => (usize::from(units) + 1) * 8,
    }
}
