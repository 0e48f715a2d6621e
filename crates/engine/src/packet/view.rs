// SPDX-License-Identifier: BSD-3-Clause
//! Owns the view of a packet that may do more to its connection than being counted.

use super::checksum::ChecksumSource;
use super::descriptor::{HeaderInfo, PacketMeta};
use super::icmp::is_reply;
use super::key::Key;
use super::sctp::SctpChunks;
use super::tcp::{RST, TcpHeader, TcpSegment, has_valid_flags, is_syn};
use crate::api::{Anomaly, PROTO_SCTP, PROTO_TCP, Side};
use crate::base::{Nanos, prefetch};

/// Everything about a packet that can decide the state of its connection.
#[derive(Clone, Copy)]
pub(crate) struct PacketView<'a> {
    pub(crate) meta: PacketMeta,
    pub(crate) header_info: &'a HeaderInfo,
    pub(crate) now: Nanos,
    /// True for a fragment.
    pub(crate) is_fragment: bool,
    /// The mark that the NIC has given it; 0 for none.
    pub(crate) mark: u32,
    /// The port at which it arrived, if there are two.
    pub(crate) side: Option<Side>,
    /// TCP header, if the zone has a window check and the capture has the header.
    pub(crate) header: Option<TcpHeader<'a>>,
    /// SCTP chunks, if the capture has them.
    pub(crate) chunks: Option<SctpChunks>,
    /// Source from which checksums are verified.
    pub(crate) checksum_source: ChecksumSource<'a>,
}

impl PacketView<'_> {
    /// Creates the view of a later fragment. It has no transport header, and its checksum cannot be
    /// verified.
    pub(crate) fn of_fragment(meta: PacketMeta, info: &HeaderInfo, now: Nanos) -> PacketView<'_> {
        let (side, header, chunks) = (None, None, None);
        PacketView {
            meta,
            header_info: info,
            now,
            is_fragment: true,
            mark: 0,
            side,
            header,
            chunks,
            checksum_source: ChecksumSource::Trusted,
        }
    }

    /// Returns the TCP segment, if the view has its header.
    #[inline(always)]
    pub(crate) fn segment(&self) -> Option<TcpSegment> {
        self.header.map(|header| header.read(self.meta, self.header_info))
    }

    /// True for an ICMP reply.
    pub(crate) fn is_icmp_reply<const W: usize>(&self, key: &Key<W>) -> bool {
        let [kind, _] = self.header_info.icmp.to_be_bytes();
        key.proto() == Key::<W>::ICMP && is_reply(key.proto(), kind)
    }

    /// Returns the anomaly of a packet that can begin no connection.
    ///
    /// Flags of TCP are checked only with a window check, chunks of SCTP only with a tag check.
    pub(crate) fn anomaly<const W: usize>(&self, key: &Key<W>) -> Option<Anomaly> {
        let is_sound = match &self.chunks {
            Some(chunks) => chunks.has_valid_chunks(),
            None => self.header.is_none() || has_valid_flags(self.meta.tcp_flags()),
        };
        match is_sound {
            true => self.is_icmp_reply(key).then_some(Anomaly::IcmpReply),
            false if self.chunks.is_some() => Some(Anomaly::SctpChunk),
            false => Some(Anomaly::TcpFlags),
        }
    }

    /// True if no connection can begin with this packet, though its connection is unknown.
    pub(crate) fn starts_nothing<const W: usize>(&self, key: &Key<W>) -> bool {
        let is_last = match (key.proto(), &self.chunks) {
            (PROTO_TCP, _) => self.meta.tcp_flags() & RST != 0,
            (_, Some(chunks)) => chunks.main_chunk().ends(),
            _ => false,
        };
        is_last || self.anomaly(key).is_some()
    }

    /// Returns the anomaly of a packet that may not begin a connection, because nothing is picked
    /// up.
    pub(crate) fn unsolicited<const W: usize>(&self, key: &Key<W>) -> Option<Anomaly> {
        match (key.proto(), &self.chunks) {
            (PROTO_TCP, _) if !is_syn(self.meta.tcp_flags()) => Some(Anomaly::TcpNoSyn),
            (PROTO_SCTP, Some(chunks)) if !chunks.is_init() => Some(Anomaly::SctpNoInit),
            _ if self.is_icmp_reply(key) => Some(Anomaly::IcmpReply),
            _ => None,
        }
    }

    /// True if the checksums are right, or cannot be verified.
    pub(crate) fn is_intact<const W: usize>(&self, key: &Key<W>) -> bool {
        self.checksum_source.is_right(self.header_info, key.proto(), W > 2)
    }
}

/// Prefetches the first bytes of a frame.
#[inline(always)]
pub(crate) fn prefetch_head<P: wire::Packet>(packet: &P) {
    prefetch(packet.head().as_ptr());
}

/// Starts to load the headers of the packets of a burst from this place on. Returns those of them
/// that have a mark: bit `i` for packet `i` of the burst.
#[inline(always)]
pub(crate) fn prefetch_heads<P: wire::Packet>(packets: &[P], from: usize) -> u64 {
    let mut set = 0;
    for (place, packet) in packets.iter().enumerate().skip(from) {
        prefetch_head(packet);
        set |= u64::from(packet.is_marked()) << (place % 64);
    }
    set
}
