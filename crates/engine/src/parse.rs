// SPDX-License-Identifier: BSD-3-Clause
//! Bytes to flow key: every byte bounds-checked, never a panic, one [`Reason`] for whatever has no
//! key.
//!
//! Two ways to the same result. The short one takes what nearly every packet is: untagged IPv4
//! without options, not a fragment, TCP or UDP, all headers in the first segment. The long one
//! takes everything. A property test holds the one against the other, and both against a parser
//! that is not ours.

use crate::burst::Lane;
use crate::flow::{PROTO_ICMP, PROTO_ICMPV6, PROTO_TCP, PROTO_UDP};
use crate::key::{Key4, Key6, Ports, key4, key6, zone_proto};
use crate::record::VlanTags;
use crate::{Reason, ZoneFrom};
use wire::Packet;

mod general;

/// What the flow needs of a packet beside its key.
#[derive(Clone, Copy)]
pub(crate) struct Meta {
    /// Frame bytes without FCS.
    pub(crate) bytes: u32,
    /// Frame bytes that are not IP bytes: link-layer header and padding.
    pub(crate) overhead: u16,
    /// TCP flags; 0 for other protocols.
    pub(crate) tcp_flags: u8,
    /// 1: the sender is the second end of the key.
    pub(crate) swapped: u8,
    /// ICMP: type * 256 + code.
    pub(crate) icmp: u16,
    /// Identifiers of its VLAN tags.
    pub(crate) vlan: VlanTags,
    /// Place in the burst.
    pub(crate) position: u8,
}

impl Meta {
    pub(crate) const EMPTY: Meta = Meta {
        bytes: 0,
        overhead: 0,
        tcp_flags: 0,
        swapped: 0,
        icmp: 0,
        vlan: VlanTags::NONE,
        position: 0,
    };
}

/// Bytes of a frame that are not IP bytes, of which there are few even in a jumbo frame; the limit
/// is that of the counter.
#[inline(always)]
fn overhead(bytes: usize, ip_len: usize) -> u16 {
    bytes.saturating_sub(ip_len).min(0x7fff) as u16
}

/// The parsed packets of one burst, by IP version.
pub(crate) struct Lanes {
    pub(crate) v4: Lane<2>,
    pub(crate) v6: Lane<5>,
}

const ETHERNET: usize = 14;
const ETHERTYPE_IPV4: u16 = 0x0800;
const IPV4_MIN: usize = 20;
const TCP_MIN: usize = 20;
const UDP: usize = 8;

/// Puts key and metadata of a packet into its lane, or says why it has none.
#[inline(always)]
pub(crate) fn parse<P: Packet>(
    packet: &P,
    position: u8,
    zone: ZoneFrom,
    lanes: &mut Lanes,
) -> Result<(), Reason> {
    let head = packet.head();
    let (frame_len, bytes) = (packet.frame_len(), packet.wire_len());
    match short_way(head, frame_len, bytes) {
        Some((key, meta)) => {
            lanes.v4.push(key, Meta { position, ..meta });
            Ok(())
        }
        None => general::parse(packet, position, zone, lanes),
    }
}

/// Ethernet, IPv4 without options, TCP or UDP, nothing wrong; `None` is for the long way to judge.
#[inline(always)]
fn short_way(head: &[u8], frame_len: usize, bytes: usize) -> Option<(Key4, Meta)> {
    let head: &[u8; ETHERNET + IPV4_MIN + TCP_MIN] = head.first_chunk()?;
    let u16_at = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let u32_at =
        |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let total_len = usize::from(u16_at(16));
    let is_plain = u16_at(12) == ETHERTYPE_IPV4 && head[14] == 0x45 && u16_at(20) & 0x3fff == 0;
    if !is_plain || ETHERNET + total_len > frame_len {
        return None;
    }
    let proto = head[23];
    let l4_len = total_len.checked_sub(IPV4_MIN)?;
    let (is_sound, tcp_flags) = match proto {
        PROTO_TCP => {
            let header_len = usize::from(head[46] >> 4) * 4;
            (header_len >= TCP_MIN && header_len <= l4_len, head[47])
        }
        PROTO_UDP => {
            let udp_len = usize::from(u16_at(38));
            (udp_len >= UDP && udp_len <= l4_len, 0)
        }
        _ => return None,
    };
    if !is_sound {
        return None;
    }
    let ports = Ports::Pair(u16_at(34), u16_at(36));
    let (key, swapped) = key4(u32_at(26), u32_at(30), ports, zone_proto(0, proto));
    let meta = Meta {
        bytes: bytes as u32,
        overhead: overhead(bytes, total_len),
        tcp_flags,
        swapped: u8::from(swapped),
        ..Meta::EMPTY
    };
    Some((key, meta))
}

#[cfg(test)]
mod tests;
