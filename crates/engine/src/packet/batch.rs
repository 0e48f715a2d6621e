// SPDX-License-Identifier: BSD-3-Clause
//! The parsed packets of one burst and one IP version, column by column.
//!
//! Fragments whose connection is not known yet, and ICMP errors, are noted by their place; what
//! cannot be tracked here leaves the batch again.

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
    /// Of fragments behind the first, by their place in the burst.
    reaches: [TcpReach; BURST_MAX],
    /// Fragments whose connection is to be found, and which packets they are.
    fragments_found: Vec<(FragmentHeader<W>, u8)>,
    /// Those that have none.
    removed: u64,
    /// Places of ICMP errors.
    errors: u64,
    /// Places of fragments.
    pub(crate) fragments: u64,
}

const _: () = assert!(BURST_MAX <= u64::BITS as usize);

/// The packets of a burst, by their positions, and when they came.
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
    pub(crate) fn push(&mut self, key: Key<W>, meta: PacketMeta, opening: HeaderInfo) {
        let at = self.len % BURST_MAX;
        key.to_words(&mut self.keys, at);
        self.metas[at] = meta;
        self.headers[at] = opening;
        self.len += 1;
    }

    /// Four at once; the words of their keys one after the other.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn push_four(
        &mut self,
        words: [[u64; 4]; W],
        metas: [PacketMeta; 4],
        openings: [HeaderInfo; 4],
    ) {
        let at = self.len.min(BURST_MAX - 4);
        for (column, words) in self.keys.iter_mut().zip(words) {
            column[at..at + 4].copy_from_slice(&words);
        }
        self.metas[at..at + 4].copy_from_slice(&metas);
        self.headers[at..at + 4].copy_from_slice(&openings);
        self.len += 4;
    }

    /// Key of the first packet, and what its flow needs of it. An ICMP error is no packet of the
    /// connection that it stands with.
    pub(crate) fn first(&self) -> Option<(Key<W>, PacketMeta)> {
        let is_packet = self.len > 0 && !self.headers[0].has_no_header();
        is_packet.then(|| (Key::from_words(&self.keys, 0), self.metas[0]))
    }

    /// Puts packets into zones, from this one on; where there is none they stay in theirs. A
    /// fragment behind the first has no key yet, and goes where that is.
    pub(crate) fn assign_zones(&mut self, from: usize, zone: impl Fn(&Key<W>) -> Option<u16>) {
        for i in from..self.len.min(BURST_MAX) {
            let key = Key::from_words(&self.keys, i);
            if let Some(zone) = zone(&key).filter(|_| !self.headers[i].is_later_fragment()) {
                key.in_zone(zone).to_words(&mut self.keys, i);
            }
        }
    }

    /// Packets in the burst.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Place in the burst of packet `i` of the batch; beyond all if there is none.
    pub(crate) fn position(&self, i: usize) -> usize {
        let opening = self.headers.get(i).filter(|_| i < self.len);
        opening.map_or(usize::MAX, |opening| opening.position.into())
    }

    /// The same of a packet that may be a fragment: a first one with the key of its connection,
    /// another with anything in its place.
    pub(crate) fn push_maybe_fragment(
        &mut self,
        key: Key<W>,
        meta: PacketMeta,
        opening: HeaderInfo,
        piece: Option<FragmentHeader<W>>,
    ) {
        if let Some(piece) = piece {
            self.fragments_found.push((piece, self.len as u8));
            self.fragments |= 1 << (self.len % BURST_MAX);
        }
        self.push(key, meta, opening);
    }

    /// The same of a packet that was parsed elsewhere; a segment reaches so far if it is another
    /// fragment of it.
    pub(crate) fn push_parsed(
        &mut self,
        key: Key<W>,
        meta: PacketMeta,
        opening: HeaderInfo,
        reach: TcpReach,
    ) {
        self.reaches[usize::from(opening.position) % BURST_MAX] = reach;
        self.push(key, meta, opening);
    }

    /// The same of an ICMP error.
    pub(crate) fn push_error(&mut self, key: Key<W>, meta: PacketMeta, opening: HeaderInfo) {
        self.errors |= 1 << (self.len % BURST_MAX);
        self.push(key, meta, opening);
    }

    /// Whether there are any.
    #[inline(always)]
    pub(crate) fn has_detached(&self) -> bool {
        !self.fragments_found.is_empty() || self.errors != 0
    }

    /// ICMP errors in the batch, a bit for each place, that were not taken before.
    pub(crate) fn take_errors(&mut self) -> u64 {
        std::mem::take(&mut self.errors)
    }

    /// One of them.
    pub(crate) fn fragment(&self, which: usize) -> Option<BatchFragment<W>> {
        let (piece, at) = self.fragments_found.get(which)?;
        let at = usize::from(*at) % BURST_MAX;
        let (meta, position) = (self.metas[at], self.headers[at].position);
        let way = piece.is_first().then(|| (Key::from_words(&self.keys, at), meta.swapped()));
        Some(BatchFragment { piece: *piece, position, way, meta: meta.without_flags() })
    }

    /// Where in the batch one of them is.
    pub(crate) fn index_of_fragment(&self, which: usize) -> usize {
        self.fragments_found.get(which).map_or(0, |(_, at)| usize::from(*at)) % BURST_MAX
    }

    /// One of them belongs to this connection and comes from this end of it. A segment reaches so
    /// far with it.
    pub(crate) fn attach(&mut self, which: usize, (key, swapped): (Key<W>, u8), reach: TcpReach) {
        let at = self.index_of_fragment(which);
        key.to_words(&mut self.keys, at);
        self.metas[at] = self.metas[at].sent_by(swapped);
        let position = self.headers[at].position;
        self.headers[at] = HeaderInfo::later_fragment(position);
        self.reaches[usize::from(position) % BURST_MAX] = reach;
    }

    /// The packet at this place, if it is a fragment behind the first of its datagram.
    pub(crate) fn later_fragment(&self, at: usize) -> Option<LaterFragment> {
        let HeaderInfo { position, .. } = self.headers[at];
        let reach = self.reaches[usize::from(position) % BURST_MAX];
        self.headers[at].is_later_fragment().then(|| LaterFragment {
            meta: self.metas[at],
            position,
            reach,
        })
    }

    /// One of them has none.
    pub(crate) fn remove(&mut self, which: usize) {
        self.remove_at(self.index_of_fragment(which));
    }

    /// The packet at this place leaves the batch.
    pub(crate) fn remove_at(&mut self, at: usize) {
        self.removed |= 1 << (at % BURST_MAX);
    }

    /// All of them are known: takes those out that have no connection here.
    pub(crate) fn resolved(&mut self) {
        self.fragments_found.clear();
        self.errors = 0;
        if self.removed == 0 {
            return;
        }
        let (mut kept, fragments) = (0, std::mem::take(&mut self.fragments));
        for at in 0..self.len.min(BURST_MAX) {
            if self.removed >> at & 1 == 0 {
                Key::from_words(&self.keys, at).to_words(&mut self.keys, kept);
                (self.metas[kept], self.headers[kept]) = (self.metas[at], self.headers[at]);
                self.fragments |= (fragments >> at & 1) << kept;
                kept += 1;
            }
        }
        self.len = kept;
        self.removed = 0;
    }

    /// All of them have come by way of another worker: there are no others that do.
    pub(crate) fn mark_all_as_fragments(&mut self) {
        self.fragments = u64::MAX;
    }
}

/// A fragment in a batch.
pub(crate) struct BatchFragment<const W: usize> {
    pub(crate) piece: FragmentHeader<W>,
    /// Place in the burst.
    pub(crate) position: u8,
    /// Of a first one: its key and its sender.
    pub(crate) way: Option<(Key<W>, u8)>,
    pub(crate) meta: PacketMeta,
}

/// The parsed packets of one burst, by IP version.
pub(crate) struct Batches {
    pub(crate) v4: Batch<2>,
    pub(crate) v6: Batch<5>,
}

impl Batches {
    /// A function of its own, as it takes much of the stack on the way to the heap.
    #[inline(never)]
    pub(crate) fn new() -> Box<Self> {
        Box::new(Batches { v4: Batch::new(), v6: Batch::new() })
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.v4.clear();
        self.v6.clear();
    }

    /// Whether there are packets that may be of another worker's connections, or fragments whose
    /// connections are to be found.
    #[inline(always)]
    pub(crate) fn have_detached(&self) -> bool {
        self.v4.has_detached() | self.v6.has_detached()
    }
}

/// Has a batch for keys of `W` words.
pub(crate) trait FamilyBatch<const W: usize> {
    /// That batch.
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

/// A fragment behind the first of its datagram, as a packet of the connection of that.
#[derive(Clone, Copy)]
pub(crate) struct LaterFragment {
    pub(crate) meta: PacketMeta,
    /// Place in the burst.
    pub(crate) position: u8,
    pub(crate) reach: TcpReach,
}
