// SPDX-License-Identifier: BSD-3-Clause
//! Tracks the usual TCP segments: those that take a connection to the state that nearly always
//! follows.

use super::Tracker;
use super::step::{ReopenCause, Step};
use super::track::StateChange;
use crate::account::Accounts;
use crate::api::Side;
use crate::base::Nanos;
use crate::conn::State;
use crate::packet::{
    ChecksumSource, HeaderInfo, PacketMeta, PacketView, TcpHeader, is_plain_tcp_right,
};
use wire::Packet;

/// A parsed packet.
pub(crate) struct FastPathPacket<'a, P> {
    pub(crate) packet: &'a P,
    pub(crate) meta: PacketMeta,
    pub(crate) info: &'a HeaderInfo,
    pub(crate) now: Nanos,
    /// True for a fragment.
    pub(crate) is_fragment: bool,
}

impl<P: Packet> FastPathPacket<'_, P> {
    /// Returns its TCP header, if all its bytes lie in one segment.
    #[inline(always)]
    fn header(&self) -> Option<TcpHeader<'_>> {
        let bytes = self.packet.head();
        let is_whole = bytes.len() == self.packet.frame_len();
        is_whole.then(|| TcpHeader::of_whole(bytes, self.info)).flatten()
    }

    /// Returns the view of this packet for the tracker. It arrived at this side, and its checksum
    /// is right or is not to be verified.
    pub(crate) fn view(&self, side: Option<Side>) -> PacketView<'_> {
        let &FastPathPacket { meta, info, now, is_fragment, .. } = self;
        PacketView {
            meta,
            header_info: info,
            now,
            is_fragment,
            mark: self.packet.mark_or_zero(),
            side,
            header: self.header(),
            chunks: None,
            checksum_source: ChecksumSource::Trusted,
        }
    }

    /// True if its checksum is right, or is not to be verified. False also if that takes more work
    /// to say.
    #[inline(always)]
    fn is_intact<const W: usize>(&self, verifies: bool) -> bool {
        !verifies
            || self.packet.is_verified()
            || is_plain_tcp_right(self.packet.head(), self.info, W > 2)
    }
}

impl<const W: usize> Tracker<W> {
    /// Tracks a packet of the connection in `record` if it is a usual TCP segment. `None`: nothing
    /// has changed, and the packet may be anything.
    #[inline(always)]
    pub(crate) fn track_fast<P: Packet>(
        &mut self,
        record: u32,
        seen: &FastPathPacket<P>,
        accounts: &mut Accounts,
    ) -> Option<Step> {
        let &FastPathPacket { meta, info, now, .. } = seen;
        let hot = &self.table.hot[record as usize];
        let before = hot.state();
        let next = hot.fast_next_state(meta)?;
        let header = seen.header()?;
        if next == State::TcpSynSent {
            return seen
                .is_intact::<W>(self.verifies)
                .then_some(Step::NeedsAdmission(ReopenCause::PortReuse));
        }
        let (verifies, segment) = (self.verifies, header.read(meta, info));
        let hot = &mut self.table.hot[record as usize];
        if !hot.apply_fast(next, (meta, segment), || seen.is_intact::<W>(verifies)) {
            return None;
        }
        self.entered(record);
        self.finish(record, (meta, info, now), Some(StateChange::From(before)), accounts);
        Some(Step::Tracked)
    }
}
