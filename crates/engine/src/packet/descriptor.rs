// SPDX-License-Identifier: BSD-3-Clause
//! Owns the descriptor of a packet: lengths and TCP flags for the counters, and the position of its
//! headers.

use super::headers;
use super::headers::{ETHERNET, VLAN_TAG};
use crate::api::VlanTags;

/// Flags and lengths of a packet, which its connection counts, in one word.
///
/// TCP flags are in bits 0 to 7. Then come one packet, frame bytes that are not IP bytes, and frame
/// bytes, each where the connection's counters have it. The sender is in a bit that sums leave
/// free.
#[derive(PartialEq, Eq, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct PacketMeta(pub(super) u64);

/// Header fields that decide how a connection begins, and the packet's position, in one word.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct HeaderInfo {
    /// Identifiers of its VLAN tags.
    pub(crate) vlan: VlanTags,
    /// ICMP: type * 256 + code.
    pub(crate) icmp: u16,
    /// Position in the burst.
    pub(crate) position: u8,
    /// Length of the IP header with its options or extension headers, in words of 4 bytes.
    pub(crate) ip_header: u8,
}

/// Start of a TCP segment, as its first fragment shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpHead {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    /// Length of this fragment in sequence space: data, SYN and FIN.
    pub(crate) len: u16,
}

/// Extent of a TCP segment that comes in fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpReach {
    pub(crate) front: TcpHead,
    /// Sequence numbers from the end of `front` to the end of this fragment.
    pub(crate) more: u16,
}

impl TcpHead {
    /// Value for other protocols.
    pub(crate) const NONE: TcpHead = TcpHead { seq: 0, ack: 0, flags: 0, len: 0 };

    /// Returns the sequence number behind this fragment.
    pub(crate) fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len.into())
    }
}

impl TcpReach {
    pub(crate) const NONE: TcpReach = TcpReach { front: TcpHead::NONE, more: 0 };
}

impl PacketMeta {
    pub(crate) const EMPTY: PacketMeta = PacketMeta::new(0, 0, 0);

    /// Word of a packet that always needs full processing.
    pub(crate) const UNUSUAL: PacketMeta = PacketMeta::new(0, 0, u8::MAX);

    /// Creates the word of a packet.
    ///
    /// `bytes` are frame bytes without FCS, at most [`BYTES_MAX`]. `overhead` are link-layer header
    /// and padding, at most [`OVERHEAD_MAX`]. `tcp_flags` are 0 for other protocols.
    #[inline(always)]
    pub(crate) const fn new(bytes: u32, overhead: u16, tcp_flags: u8) -> Self {
        let lengths = (bytes as u64) << BYTES_SHIFT | (overhead as u64) << OVERHEAD_SHIFT;
        PacketMeta(lengths | ONE_PACKET | tcp_flags as u64)
    }

    /// False for a packet that needs full processing. Also for TCP with every flag set, which then
    /// gets it too.
    #[inline(always)]
    pub(crate) fn is_usual(self) -> bool {
        self.tcp_flags() != Self::UNUSUAL.tcp_flags()
    }

    /// Returns the word with this sender: 1 for the second end of the key, else 0.
    #[inline(always)]
    pub(crate) fn sent_by(self, swapped: u8) -> Self {
        PacketMeta(self.0 & !(1 << SWAPPED_SHIFT) | u64::from(swapped) << SWAPPED_SHIFT)
    }

    /// Returns 1 if the sender is the second end of the key, else 0.
    #[inline(always)]
    pub(crate) fn swapped(self) -> u8 {
        (self.0 >> SWAPPED_SHIFT) as u8 & 1
    }

    #[inline(always)]
    pub(crate) fn tcp_flags(self) -> u8 {
        self.0 as u8
    }

    /// Returns the word with TCP flags 0.
    pub(crate) fn without_flags(self) -> Self {
        PacketMeta(self.0 & !0xff)
    }

    /// Returns the number of bytes of the IP packet.
    #[inline(always)]
    pub(crate) fn ip_len(self) -> u32 {
        let overhead = (self.0 >> OVERHEAD_SHIFT) as u32 & OVERHEAD_MAX as u32;
        (self.0 >> BYTES_SHIFT) as u32 - overhead
    }

    /// Returns the number of bytes of the frame.
    pub(crate) fn frame_bytes(self) -> u64 {
        self.0 >> BYTES_SHIFT
    }

    /// Returns what is added to the counters: one packet, its overhead and its bytes, each in its
    /// place.
    #[inline(always)]
    pub(crate) fn tally(self) -> u64 {
        self.0 & !(1 << SWAPPED_SHIFT | 0xff)
    }
}

/// Lowest bit of the packet count, in a packet's word and in the counters of a connection.
///
/// Above the bits of each number, one bit is left for the carry of its sum.
pub(crate) const PACKETS_SHIFT: u32 = 8;

/// Lowest bit of the overhead, behind 13 bits of packets and a carry.
pub(crate) const OVERHEAD_SHIFT: u32 = PACKETS_SHIFT + 14;

/// Lowest bit of the bytes, behind 15 bits of overhead and a carry.
pub(crate) const BYTES_SHIFT: u32 = OVERHEAD_SHIFT + 16;

/// Bit of the sender. It is the carry of the packet count, which a single packet does not need.
pub(crate) const SWAPPED_SHIFT: u32 = OVERHEAD_SHIFT - 1;

pub(crate) const ONE_PACKET: u64 = 1 << PACKETS_SHIFT;

/// Stands for an ICMP error in place of type and code.
const QUOTES: u16 = u16::MAX;

impl HeaderInfo {
    /// Returns the word of a packet without VLAN tags that is not ICMP.
    ///
    /// `ip_header` is the length of the IP header with options or extension headers in bytes: a
    /// multiple of 4, at most 1020.
    pub(crate) const fn plain(position: u8, ip_header: usize) -> Self {
        HeaderInfo { vlan: VlanTags::NONE, icmp: 0, position, ip_header: (ip_header / 4) as u8 }
    }

    /// Returns the word of an ICMP error, which takes the place of the packet that it quotes.
    ///
    /// `seq` is the sequence number in the quote; it is stored in place of tags.
    pub(crate) fn quoting(position: u8, seq: u32) -> Self {
        let ids = [(seq >> 16) as u16, seq as u16];
        HeaderInfo { vlan: VlanTags { ids }, icmp: QUOTES, ..HeaderInfo::plain(position, 0) }
    }

    /// Returns the sequence number of the quoted packet, if this is an ICMP error.
    #[inline(always)]
    pub(crate) fn quoted(&self) -> Option<u32> {
        let [high, low] = self.vlan.ids;
        let quotes = self.has_no_header() && self.icmp == QUOTES;
        quotes.then_some(u32::from(high) << 16 | u32::from(low))
    }

    /// Returns the word of a later fragment, which has no transport header.
    pub(crate) fn later_fragment(position: u8) -> Self {
        Self::plain(position, 0)
    }

    /// True for a later fragment.
    #[inline(always)]
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.has_no_header() && self.icmp != QUOTES
    }

    /// True for a packet without IP and transport headers of its own: an ICMP error or a later
    /// fragment.
    #[inline(always)]
    pub(crate) fn has_no_header(&self) -> bool {
        self.ip_header == 0
    }

    /// Returns the bytes from the IP header to the transport header.
    #[inline(always)]
    pub(crate) fn ip_header(&self) -> usize {
        usize::from(self.ip_header) * 4
    }

    /// Returns the offset of the transport header in the frame.
    #[inline(always)]
    pub(crate) fn l4(&self) -> usize {
        ETHERNET + self.vlan.count() * VLAN_TAG + self.ip_header()
    }
}

/// Maximum number of bytes of a packet that are counted. The counter sets the limit; only an
/// invalid capture has longer packets.
pub(crate) const BYTES_MAX: usize = (1 << (63 - BYTES_SHIFT)) - 1;

/// Maximum number of frame bytes that are not IP bytes. The counter sets the limit; even a jumbo
/// frame has few.
pub(crate) const OVERHEAD_MAX: usize = (1 << (BYTES_SHIFT - 1 - OVERHEAD_SHIFT)) - 1;

// So a packet within the limit of overhead needs no check of its bytes: IPv6 limits its length.
const _: () = assert!(headers::IPV6 + u16::MAX as usize + OVERHEAD_MAX <= BYTES_MAX);
