// SPDX-License-Identifier: BSD-3-Clause
//! Owns the batch: the parsed packets of one burst and one IP version, in columns.
//!
//! It records the positions of ICMP errors, and of fragments whose connection is yet unknown.
//! Packets that cannot be tracked here are removed from the batch.

use super::descriptor::{HeaderInfo, PacketMeta, TcpReach};
use super::fragment::FragmentHeader;
use super::key::Key;
use crate::base::{BURST_MAX, Columns, Nanos};

/// The parsed packets of one burst with keys of `W` words, in packet order.
pub(crate) struct Batch<const W: usize> {
    pub(crate) len: usize,
    pub(crate) keys: Columns<W>,
    pub(crate) metas: [PacketMeta; BURST_MAX],
    pub(crate) headers: [HeaderInfo; BURST_MAX],
    /// Extents of later fragments, by their position in the burst.
    reaches: [TcpReach; BURST_MAX],
    /// Fragments whose connection is to be found, and their index in the batch.
    fragments_found: Vec<(FragmentHeader<W>, u8)>,
    /// Packets to remove from the batch, a bit for each index.
    removed: u64,
    /// ICMP errors, a bit for each index.
    errors: u64,
    /// Fragments, a bit for each index.
    pub(crate) fragments: u64,
}

const _: () = assert!(BURST_MAX <= u64::BITS as usize);

/// The packets of a burst by position, and their time of arrival.
pub(crate) type Burst<'a, P> = (&'a [P], Nanos);

impl<const W: usize> Batch<W> {
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            keys: [[0; BURST_MAX]; W],
            metas: [PacketMeta::EMPTY; BURST_MAX],
            headers: [HeaderInfo::plain(0, 0); BURST_MAX],
            reaches: [TcpReach::NONE; BURST_MAX],
            fragments_found: Vec::with_capacity(BURST_MAX),
            removed: 0,
            errors: 0,
            fragments: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.fragments_found.clear();
        (self.errors, self.fragments) = (0, 0);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, key: Key<W>, meta: PacketMeta, info: HeaderInfo) {
        let at = self.len % BURST_MAX;
        key.to_words(&mut self.keys, at);
        self.metas[at] = meta;
        self.headers[at] = info;
        self.len += 1;
    }

    /// Appends `N` packets. `words` are the keys, column by column.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn push_group<const N: usize>(
        &mut self,
        words: [[u64; N]; W],
        metas: [PacketMeta; N],
        infos: [HeaderInfo; N],
    ) {
        let at = self.len.min(BURST_MAX - N);
        for (column, words) in self.keys.iter_mut().zip(words) {
            column[at..at + N].copy_from_slice(&words);
        }
        self.metas[at..at + N].copy_from_slice(&metas);
        self.headers[at..at + N].copy_from_slice(&infos);
        self.len += N;
    }

    /// Returns the key of the first packet, and its word for the counters.
    ///
    /// `None` if the batch is empty. Also `None` for an ICMP error or a later fragment, which RSS
    /// distributes otherwise than the connection.
    pub(crate) fn first(&self) -> Option<(Key<W>, PacketMeta)> {
        let is_packet = self.len > 0 && !self.headers[0].has_no_header();
        is_packet.then(|| (Key::from_words(&self.keys, 0), self.metas[0]))
    }

    /// Assigns zones to the packets from index `from` on. If `zone` returns `None`, a packet keeps
    /// its zone.
    ///
    /// A later fragment has no key yet; it gets the zone of its connection.
    pub(crate) fn assign_zones(&mut self, from: usize, zone: impl Fn(&Key<W>) -> Option<u16>) {
        for i in from..self.len.min(BURST_MAX) {
            let key = Key::from_words(&self.keys, i);
            if let Some(zone) = zone(&key).filter(|_| !self.headers[i].is_later_fragment()) {
                key.in_zone(zone).to_words(&mut self.keys, i);
            }
        }
    }

    /// Returns the number of packets in the batch.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the position in the burst of packet `i` of the batch; [`usize::MAX`] if there is
    /// none.
    pub(crate) fn position(&self, i: usize) -> usize {
        let info = self.headers.get(i).filter(|_| i < self.len);
        info.map_or(usize::MAX, |info| info.position.into())
    }

    /// Appends a packet that may be a fragment.
    ///
    /// A first fragment has the key of its connection; the key of a later fragment is meaningless.
    pub(crate) fn push_maybe_fragment(
        &mut self,
        key: Key<W>,
        meta: PacketMeta,
        info: HeaderInfo,
        header: Option<FragmentHeader<W>>,
    ) {
        if let Some(header) = header {
            self.fragments_found.push((header, self.len as u8));
            self.fragments |= 1 << (self.len % BURST_MAX);
        }
        self.push(key, meta, info);
    }

    /// Appends a packet that another worker has parsed. `reach` is the extent of a later fragment.
    pub(crate) fn push_parsed(
        &mut self,
        key: Key<W>,
        meta: PacketMeta,
        info: HeaderInfo,
        reach: TcpReach,
    ) {
        self.reaches[usize::from(info.position) % BURST_MAX] = reach;
        self.push(key, meta, info);
    }

    /// Appends an ICMP error.
    pub(crate) fn push_error(&mut self, key: Key<W>, meta: PacketMeta, info: HeaderInfo) {
        self.errors |= 1 << (self.len % BURST_MAX);
        self.push(key, meta, info);
    }

    /// True if the batch has unresolved fragments or ICMP errors.
    #[inline(always)]
    pub(crate) fn has_detached(&self) -> bool {
        !self.fragments_found.is_empty() || self.errors != 0
    }

    /// Returns the ICMP errors in the batch, a bit for each index, and forgets them.
    pub(crate) fn take_errors(&mut self) -> u64 {
        std::mem::take(&mut self.errors)
    }

    /// Returns the unresolved fragment with this number.
    pub(crate) fn fragment(&self, nth: usize) -> Option<BatchFragment<W>> {
        let (header, at) = self.fragments_found.get(nth)?;
        let at = usize::from(*at) % BURST_MAX;
        let (meta, position) = (self.metas[at], self.headers[at].position);
        let conn = header.is_first().then(|| (Key::from_words(&self.keys, at), meta.swapped()));
        Some(BatchFragment { header: *header, position, conn, meta: meta.without_flags() })
    }

    /// Returns the index in the batch of the unresolved fragment with this number.
    pub(crate) fn index_of_fragment(&self, nth: usize) -> usize {
        self.fragments_found.get(nth).map_or(0, |(_, at)| usize::from(*at)) % BURST_MAX
    }

    /// Assigns an unresolved fragment to a connection. `swapped` is 1 if the second end of the key
    /// sent it.
    pub(crate) fn attach(&mut self, nth: usize, (key, swapped): (Key<W>, u8), reach: TcpReach) {
        let at = self.index_of_fragment(nth);
        key.to_words(&mut self.keys, at);
        self.metas[at] = self.metas[at].sent_by(swapped);
        let position = self.headers[at].position;
        self.headers[at] = HeaderInfo::later_fragment(position);
        self.reaches[usize::from(position) % BURST_MAX] = reach;
    }

    /// True if the packet at this index is a fragment.
    pub(crate) fn is_fragment(&self, at: usize) -> bool {
        self.fragments >> (at % BURST_MAX) & 1 == 1
    }

    /// Returns the packet at this index if it is a later fragment.
    pub(crate) fn later_fragment(&self, at: usize) -> Option<LaterFragment> {
        let HeaderInfo { position, .. } = self.headers[at];
        let reach = self.reaches[usize::from(position) % BURST_MAX];
        self.headers[at].is_later_fragment().then(|| LaterFragment {
            meta: self.metas[at],
            position,
            reach,
        })
    }

    /// Marks an unresolved fragment for removal.
    pub(crate) fn remove(&mut self, nth: usize) {
        self.remove_at(self.index_of_fragment(nth));
    }

    /// Marks the packet at this index for removal.
    pub(crate) fn remove_at(&mut self, at: usize) {
        self.removed |= 1 << (at % BURST_MAX);
    }

    /// Ends the resolution of fragments and errors: removes the packets that are marked for it.
    pub(crate) fn resolved(&mut self) {
        self.fragments_found.clear();
        self.errors = 0;
        if self.removed == 0 {
            return;
        }
        let (mut len, fragments) = (0, std::mem::take(&mut self.fragments));
        for at in 0..self.len.min(BURST_MAX) {
            if self.removed >> at & 1 == 0 {
                Key::from_words(&self.keys, at).to_words(&mut self.keys, len);
                (self.metas[len], self.headers[len]) = (self.metas[at], self.headers[at]);
                self.fragments |= (fragments >> at & 1) << len;
                len += 1;
            }
        }
        self.len = len;
        self.removed = 0;
    }

    /// Marks all packets as fragments, because all came from another worker. Only fragments and
    /// ICMP errors do.
    pub(crate) fn mark_all_as_fragments(&mut self) {
        self.fragments = u64::MAX;
    }
}

/// A fragment in a batch.
pub(crate) struct BatchFragment<const W: usize> {
    pub(crate) header: FragmentHeader<W>,
    /// Position in the burst.
    pub(crate) position: u8,
    /// For a first fragment: its key and its sender.
    pub(crate) conn: Option<(Key<W>, u8)>,
    pub(crate) meta: PacketMeta,
}

/// The parsed packets of one burst, by IP version.
pub(crate) struct Batches {
    pub(crate) v4: Batch<2>,
    pub(crate) v6: Batch<5>,
}

impl Batches {
    /// Not inlined, because it takes much of the stack on the way to the heap.
    #[inline(never)]
    pub(crate) fn new() -> Box<Self> {
        Box::new(Batches { v4: Batch::new(), v6: Batch::new() })
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.v4.clear();
        self.v6.clear();
    }

    /// True if a batch has ICMP errors or fragments whose connections are to be found.
    #[inline(always)]
    pub(crate) fn have_detached(&self) -> bool {
        self.v4.has_detached() | self.v6.has_detached()
    }
}

/// Gives access to the batch for keys of `W` words.
pub(crate) trait FamilyBatch<const W: usize> {
    /// Returns the batch.
    fn batch(&self) -> &Batch<W>;
}

impl FamilyBatch<2> for Batches {
    fn batch(&self) -> &Batch<2> {
        &self.v4
    }
}

impl FamilyBatch<5> for Batches {
    fn batch(&self) -> &Batch<5> {
        &self.v6
    }
}

/// A later fragment, as a packet of its datagram's connection.
#[derive(Clone, Copy)]
pub(crate) struct LaterFragment {
    pub(crate) meta: PacketMeta,
    /// Position in the burst.
    pub(crate) position: u8,
    pub(crate) reach: TcpReach,
}
