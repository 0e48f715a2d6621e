// SPDX-License-Identifier: BSD-3-Clause
//! One packet in few words: lengths and TCP flags for the counters, and where its headers begin.

use super::headers;
use super::headers::{ETHERNET, VLAN_TAG};
use crate::api::VlanTags;

/// What a flow needs of every packet beside its key, in one word: TCP flags in bits 0 to 7; then,
/// where a flow adds them up, one packet, frame bytes that are not IP bytes, and frame bytes. The
/// sender is in a bit that sums leave free.
#[derive(PartialEq, Eq, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct PacketMeta(pub(super) u64);

/// What a flow needs of its first packet only: another.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct HeaderInfo {
    /// Identifiers of its VLAN tags.
    pub(crate) vlan: VlanTags,
    /// ICMP: type * 256 + code.
    pub(crate) icmp: u16,
    /// Place in the burst.
    pub(crate) position: u8,
    /// Length of the IP header with all that belongs to it, in words of 4 bytes.
    pub(crate) ip_header: u8,
}

/// What the first fragment of a segment of TCP says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpHead {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    /// Numbers that are in this fragment: data, SYN and FIN.
    pub(crate) len: u16,
}

/// How far a segment of TCP reaches that comes in fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpReach {
    pub(crate) front: TcpHead,
    /// So many numbers more are up to the end of this one.
    pub(crate) more: u16,
}

impl TcpHead {
    /// Of other protocols.
    pub(crate) const NONE: TcpHead = TcpHead { seq: 0, ack: 0, flags: 0, len: 0 };

    /// The sequence number behind it.
    pub(crate) fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len.into())
    }
}

impl TcpReach {
    pub(crate) const NONE: TcpReach = TcpReach { front: TcpHead::NONE, more: 0 };
}

impl PacketMeta {
    pub(crate) const EMPTY: PacketMeta = PacketMeta::new(0, 0, 0);

    /// Of a packet that is never just one more of a flow.
    pub(crate) const UNUSUAL: PacketMeta = PacketMeta::new(0, 0, u8::MAX);

    /// Of a frame of so many `bytes` without FCS, at most [`BYTES_MAX`], of which `overhead` are
    /// link-layer header and padding, at most [`OVERHEAD_MAX`]. `tcp_flags` are 0 for other
    /// protocols.
    #[inline(always)]
    pub(crate) const fn new(bytes: u32, overhead: u16, tcp_flags: u8) -> Self {
        let lengths = (bytes as u64) << BYTES_SHIFT | (overhead as u64) << OVERHEAD_SHIFT;
        PacketMeta(lengths | ONE_PACKET | tcp_flags as u64)
    }

    /// The same from this sender; 1: the second end of the key.
    #[inline(always)]
    pub(crate) fn sent_by(self, swapped: u8) -> Self {
        PacketMeta(self.0 & !(1 << SWAPPED_SHIFT) | u64::from(swapped) << SWAPPED_SHIFT)
    }

    /// The sender; 1: the second end of the key.
    #[inline(always)]
    pub(crate) fn swapped(self) -> u8 {
        (self.0 >> SWAPPED_SHIFT) as u8 & 1
    }

    #[inline(always)]
    pub(crate) fn tcp_flags(self) -> u8 {
        self.0 as u8
    }

    /// The same of a packet without TCP flags.
    pub(crate) fn without_flags(self) -> Self {
        PacketMeta(self.0 & !0xff)
    }

    /// Bytes of the IP packet.
    #[inline(always)]
    pub(crate) fn ip_len(self) -> u32 {
        let overhead = (self.0 >> OVERHEAD_SHIFT) as u32 & OVERHEAD_MAX as u32;
        (self.0 >> BYTES_SHIFT) as u32 - overhead
    }

    /// One packet, its overhead and its bytes, each in its place.
    #[inline(always)]
    pub(crate) fn tally(self) -> u64 {
        self.0 & !(1 << SWAPPED_SHIFT | 0xff)
    }
}

/// Where in a word, a packet's or that of a flow's counters, there is what. Above the bits of each
/// is one for the carry of its sum.
pub(crate) const PACKETS_SHIFT: u32 = 8;

/// 13 bits of packets before it.
pub(crate) const OVERHEAD_SHIFT: u32 = PACKETS_SHIFT + 14;

/// 15 bits before it.
pub(crate) const BYTES_SHIFT: u32 = OVERHEAD_SHIFT + 16;

/// The carry of packets: there is none in a packet.
pub(crate) const SWAPPED_SHIFT: u32 = OVERHEAD_SHIFT - 1;

pub(crate) const ONE_PACKET: u64 = 1 << PACKETS_SHIFT;

/// In the place of a type and code.
const QUOTES: u16 = u16::MAX;

impl HeaderInfo {
    /// No VLAN tag, not ICMP. The IP header with its options or extensions has so many bytes, a
    /// multiple of 4 and at most 1020.
    pub(crate) const fn plain(position: u8, ip_header: usize) -> Self {
        HeaderInfo { vlan: VlanTags::NONE, icmp: 0, position, ip_header: (ip_header / 4) as u8 }
    }

    /// Of an ICMP error: it stands where a packet of the connection would that it quotes, with the
    /// sequence number that is in the quote in place of tags.
    pub(crate) fn quoting(position: u8, seq: u32) -> Self {
        let ids = [(seq >> 16) as u16, seq as u16];
        HeaderInfo { vlan: VlanTags { ids }, icmp: QUOTES, ..HeaderInfo::plain(position, 0) }
    }

    /// The sequence number of what it quotes, if it is an ICMP error.
    #[inline(always)]
    pub(crate) fn quoted(&self) -> Option<u32> {
        let [high, low] = self.vlan.ids;
        let quotes = self.has_no_header() && self.icmp == QUOTES;
        quotes.then_some(u32::from(high) << 16 | u32::from(low))
    }

    /// Of a fragment that is not the first of its datagram: no header of a transport is in it.
    pub(crate) fn later_fragment(position: u8) -> Self {
        Self::plain(position, 0)
    }

    /// Whether it is such a fragment.
    #[inline(always)]
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.has_no_header() && self.icmp != QUOTES
    }

    /// Whether it is of no packet with headers of its own, of which one is that of IP.
    #[inline(always)]
    pub(crate) fn has_no_header(&self) -> bool {
        self.ip_header == 0
    }

    /// Bytes from the IP header to that of the transport.
    #[inline(always)]
    pub(crate) fn ip_header(&self) -> usize {
        usize::from(self.ip_header) * 4
    }

    /// Where in the frame the transport's header begins.
    #[inline(always)]
    pub(crate) fn l4(&self) -> usize {
        ETHERNET + self.vlan.count() * VLAN_TAG + self.ip_header()
    }
}

/// Most bytes of a packet that are accounted for. The limit is that of the counter; only a capture
/// that is not one has more.
pub(crate) const BYTES_MAX: usize = (1 << (63 - BYTES_SHIFT)) - 1;

/// Most bytes of a frame that are not IP bytes. The limit is that of the counter; even a jumbo
/// frame has few.
pub(crate) const OVERHEAD_MAX: usize = (1 << (BYTES_SHIFT - 1 - OVERHEAD_SHIFT)) - 1;

// So whoever looks at these need not look at all bytes: IPv6 says at most so many.
const _: () = assert!(headers::IPV6 + u16::MAX as usize + OVERHEAD_MAX <= BYTES_MAX);
