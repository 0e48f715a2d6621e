// SPDX-License-Identifier: BSD-3-Clause
//! A packet that may do more to its flow than to be counted, with all that decides it.

use super::checksum::ChecksumSource;
use super::descriptor::{HeaderInfo, PacketMeta};
use super::icmp::is_reply;
use super::key::Key;
use super::sctp::SctpChunks;
use super::tcp::{RST, TcpHeader, TcpSegment, has_valid_flags, is_syn};
use crate::api::{Anomaly, PROTO_SCTP, PROTO_TCP, Side};
use crate::base::{Nanos, prefetch};

/// What a flow learns from one of its packets.
#[derive(Clone, Copy)]
pub(crate) struct PacketView<'a> {
    pub(crate) meta: PacketMeta,
    pub(crate) header_info: &'a HeaderInfo,
    pub(crate) now: Nanos,
    /// The port by which it came, if there are two.
    pub(crate) side: Option<Side>,
    /// Of TCP that is judged by its numbers, if it is not cut.
    pub(crate) header: Option<TcpHeader<'a>>,
    /// Of SCTP, if they are not cut.
    pub(crate) chunks: Option<SctpChunks>,
    /// That it came as it was sent.
    pub(crate) evidence: ChecksumSource<'a>,
}

impl PacketView<'_> {
    /// Of a fragment that is not the first: there is no header to be read, and no sum to be made.
    pub(crate) fn of_fragment(
        meta: PacketMeta,
        opening: &HeaderInfo,
        now: Nanos,
    ) -> PacketView<'_> {
        let (side, header, chunks) = (None, None, None);
        PacketView {
            meta,
            header_info: opening,
            now,
            side,
            header,
            chunks,
            evidence: ChecksumSource::Trusted,
        }
    }

    /// What its header says, if there is one.
    #[inline(always)]
    pub(crate) fn segment(&self) -> Option<TcpSegment> {
        self.header.map(|header| header.read(self.meta, self.header_info))
    }

    /// Whether it is a reply of ICMP.
    pub(crate) fn is_icmp_reply<const W: usize>(&self, key: &Key<W>) -> bool {
        let [kind, _] = self.header_info.icmp.to_be_bytes();
        key.proto() == Key::<W>::ICMP && is_reply(key.proto(), kind)
    }

    /// What is to be said of it if no flow can begin with it: where that is judged, its flags do
    /// not come together.
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

    /// Whether it is the first packet that is seen of its connection, and none begins with it.
    pub(crate) fn starts_nothing<const W: usize>(&self, key: &Key<W>) -> bool {
        let is_last = match (key.proto(), &self.chunks) {
            (PROTO_TCP, _) => self.meta.tcp_flags() & RST != 0,
            (_, Some(chunks)) => chunks.main_chunk().ends(),
            _ => false,
        };
        is_last || self.anomaly(key).is_some()
    }

    /// What is to be said of it where nothing is picked up, if it does not ask for a connection.
    pub(crate) fn unsolicited<const W: usize>(&self, key: &Key<W>) -> Option<Anomaly> {
        match (key.proto(), &self.chunks) {
            (PROTO_TCP, _) if !is_syn(self.meta.tcp_flags()) => Some(Anomaly::TcpNoSyn),
            (PROTO_SCTP, Some(chunks)) if !chunks.is_init() => Some(Anomaly::SctpNoInit),
            _ if self.is_icmp_reply(key) => Some(Anomaly::IcmpReply),
            _ => None,
        }
    }

    /// Whether it came as it was sent, as far as checksums tell.
    pub(crate) fn is_intact<const W: usize>(&self, key: &Key<W>) -> bool {
        self.evidence.is_right(self.header_info, key.proto(), W > 2)
    }
}

/// Starts to load the first bytes of a frame.
#[inline(always)]
pub(crate) fn prefetch_head<P: wire::Packet>(packet: &P) {
    prefetch(packet.head().as_ptr());
}
