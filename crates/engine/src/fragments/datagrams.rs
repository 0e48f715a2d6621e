// SPDX-License-Identifier: BSD-3-Clause
//! Owns the datagrams of one IP version that have arrived in part: which parts, and the connection
//! once the first fragment has arrived.
//!
//! The table has a fixed size. When it is full, the oldest datagram makes room. Fragments of one
//! datagram arrive close together. To displace a datagram that is still in use, an attacker must
//! send a table full of others in between. A complete datagram leaves at once, because its number
//! is soon used again.

use super::hold::{DatagramId, HeldFragment, HoldQueue};
use super::ranges::{RangeOutcome, RangeSet};
use super::sources::Sources;
use crate::api::{Config, UntrackedReason};
use crate::base::{
    CuckooIndex, HugeRegion, KeyDomain, KeyedHasher, Links, List, MemoryUse, NONE, Nanos, derive,
};
use crate::packet::{FragmentHeader, Key, TcpHead, TcpReach, key_of};

/// Connection of a datagram: the last word of its key, the sender, and the extent of its TCP
/// segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DatagramConn {
    pub(crate) last_word: u64,
    pub(crate) swapped: u8,
    extent: TcpExtent,
}

/// What the first fragment says of a TCP segment, and where that fragment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpExtent {
    pub(crate) front: TcpHead,
    first_end: u16,
}

impl TcpExtent {
    /// Returns how far the segment reaches with a fragment that ends at byte `end` of the datagram.
    pub(crate) fn reach(self, end: u16) -> TcpReach {
        TcpReach { front: self.front, more: end.saturating_sub(self.first_end) }
    }
}

/// State of a datagram that is known in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatagramState {
    /// The first fragment has not arrived. Later fragments wait for it.
    Waiting,
    /// The first fragment has not arrived, and the wait for it is over.
    GivenUp,
    /// The first fragment has arrived.
    Known(DatagramConn),
    /// Fragments overlap or disagree. All later ones are refused.
    Invalid,
}

#[derive(Clone, Copy)]
struct Datagram<const W: usize> {
    pub(crate) datagram_key: Key<W>,
    state: DatagramState,
    begun: Nanos,
    spans: RangeSet,
    pub(crate) source: u32,
    /// Slots of the first and last waiting packet, and the number of packets that wait.
    first_held: u32,
    last_held: u32,
    held: u32,
}

/// Result for a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FragmentOutcome<const W: usize> {
    /// It is the first fragment, processed like a whole packet.
    First,
    /// It belongs to the connection with this key, sent by this end, with this reach.
    Of(Key<W>, u8, TcpReach),
    /// It may wait for the first fragment of the datagram with this number.
    Waits(u32),
    /// It has no connection, for this reason.
    Refused(UntrackedReason),
}

/// Packets that waited for the first fragment at `position` of the burst. They are counted directly
/// behind it.
#[derive(Clone, Copy)]
pub(crate) struct ReadyFragments<const W: usize> {
    pub(crate) position: u8,
    pub(crate) key: Key<W>,
    pub(crate) swapped: u8,
    pub(crate) extent: TcpExtent,
    pub(crate) first_held: u32,
}

/// Table of the datagrams of one IP version that are known in part.
pub(crate) struct Datagrams<const W: usize> {
    index: CuckooIndex,
    datagrams: HugeRegion<Datagram<W>>,
    free: Vec<u32>,
    /// All datagrams in the table, the oldest first.
    ages: List,
    links: Links,
    sources: Sources,
    hasher: KeyedHasher,
    per_source: u32,
    /// Most packets of one sender that may wait.
    held_per_source: u32,
    timeout: Nanos,
}

impl<const W: usize> Datagrams<W> {
    pub(super) fn new(config: &Config) -> Self {
        let limits = &config.fragments;
        let len = limits.datagrams as usize;
        let datagram_key = Key([0; W]);
        let none = Datagram {
            datagram_key,
            state: DatagramState::GivenUp,
            begun: 0,
            spans: RangeSet::NONE,
            source: NONE,
            first_held: NONE,
            last_held: NONE,
            held: 0,
        };
        let words = W as u64;
        Self {
            index: CuckooIndex::new(limits.datagrams, false),
            datagrams: HugeRegion::new(len, none, false),
            free: (0..limits.datagrams).rev().collect(),
            ages: List::EMPTY,
            links: Links::new(len),
            sources: Sources::new(
                limits.datagrams,
                derive(config.secret, KeyDomain::Senders(words)),
            ),
            hasher: KeyedHasher::new(derive(config.secret, KeyDomain::Datagrams(words))),
            per_source: limits.per_source,
            held_per_source: (u32::from(limits.hold) / SHARE_OF_HOLD).max(1),
            timeout: limits.timeout,
        }
    }

    pub(super) fn memory(&self) -> MemoryUse {
        let parts = [self.index.memory(), self.datagrams.memory(), self.links.memory()];
        parts.into_iter().chain([self.sources.memory()]).sum()
    }

    /// Adds a fragment to its datagram and returns its result.
    ///
    /// `conn` is the connection key and the sender if the fragment is a first one. For each
    /// datagram that loses its waiting packets, this calls `on_drop` with the slot of the first of
    /// them and the reason.
    pub(crate) fn take(
        &mut self,
        header: &FragmentHeader<W>,
        conn: Option<(Key<W>, u8)>,
        (now, may_wait): (Nanos, bool),
        on_drop: &mut impl FnMut(u32, UntrackedReason),
    ) -> FragmentOutcome<W> {
        let hash = self.hasher.hash_one(&header.datagram_key.0);
        let known = self.find(hash, &header.datagram_key, now, on_drop);
        if known.is_none() && conn.is_none() && !may_wait {
            return FragmentOutcome::Refused(UntrackedReason::Fragment);
        }
        let Some(number) = known.or_else(|| self.begin(hash, header, now, on_drop)) else {
            return FragmentOutcome::Refused(UntrackedReason::FragmentFull);
        };
        let datagram = &mut self.datagrams[number as usize];
        if datagram.state == DatagramState::Invalid {
            return FragmentOutcome::Refused(UntrackedReason::FragmentOverlap);
        }
        let extent = TcpExtent { front: header.front, first_end: header.span.end };
        let conn =
            conn.map(|(key, swapped)| DatagramConn { last_word: key.0[W - 1], swapped, extent });
        let fit = datagram.spans.add(header.span);
        let is_other = match (datagram.state, conn) {
            // RFC 1858 section 4: a second copy of the first fragment must have the same ports.
            (DatagramState::Known(known), Some(conn)) => {
                known != DatagramConn { extent: known.extent, ..conn }
            }
            _ => false,
        };
        match fit {
            RangeOutcome::New | RangeOutcome::Copy if !is_other => {}
            RangeOutcome::TooMany => {
                return FragmentOutcome::Refused(UntrackedReason::FragmentFull);
            }
            // RFC 5722 section 4, RFC 8200 section 4.5.
            _ => {
                datagram.state = DatagramState::Invalid;
                self.drop_held(number, UntrackedReason::FragmentOverlap, on_drop);
                return FragmentOutcome::Refused(UntrackedReason::FragmentOverlap);
            }
        }
        self.resolve_fragment(number, header, conn)
    }

    /// Returns the result for a fragment that overlaps no other.
    fn resolve_fragment(
        &mut self,
        number: u32,
        header: &FragmentHeader<W>,
        conn: Option<DatagramConn>,
    ) -> FragmentOutcome<W> {
        let datagram = &mut self.datagrams[number as usize];
        if let Some(conn) = conn {
            datagram.state = DatagramState::Known(conn);
        }
        match (datagram.state, conn) {
            (DatagramState::Known(DatagramConn { last_word, swapped, extent }), conn) => {
                // Waiting packets must be counted before the datagram ends.
                if datagram.spans.is_complete() && datagram.held == 0 {
                    self.end(number);
                }
                match conn {
                    Some(_) => FragmentOutcome::First,
                    None => {
                        let reach = extent.reach(header.span.end);
                        FragmentOutcome::Of(
                            key_of(&header.datagram_key, last_word, swapped),
                            swapped,
                            reach,
                        )
                    }
                }
            }
            (DatagramState::Waiting, _) => FragmentOutcome::Waits(number),
            _ => FragmentOutcome::Refused(UntrackedReason::Fragment),
        }
    }

    /// Takes the packets that waited for this first fragment, which is at `position` of the burst.
    /// Returns `None` if none waited.
    pub(crate) fn ready(
        &mut self,
        header: &FragmentHeader<W>,
        position: u8,
        hold: &mut HoldQueue,
    ) -> Option<ReadyFragments<W>> {
        let hash = self.hasher.hash_one(&header.datagram_key.0);
        let number = self.number(hash, &header.datagram_key)?;
        let Datagram { state, first_held, .. } = self.datagrams[number as usize];
        let DatagramState::Known(DatagramConn { last_word, swapped, extent }) = state else {
            return None;
        };
        if first_held == NONE {
            return None;
        }
        hold.end_wait(first_held);
        self.forget_held(number);
        if self.datagrams[number as usize].spans.is_complete() {
            self.end(number);
        }
        let key = key_of(&header.datagram_key, last_word, swapped);
        Some(ReadyFragments { position, key, swapped, extent, first_held })
    }

    /// Holds a packet until its first fragment arrives; returns its slot.
    pub(crate) fn hold(
        &mut self,
        number: u32,
        hold: &mut HoldQueue,
        (waiting, now): (HeldFragment, Nanos),
    ) -> Result<u16, UntrackedReason> {
        let datagram = &mut self.datagrams[number as usize];
        if datagram.state != DatagramState::Waiting {
            return Err(UntrackedReason::Fragment);
        }
        let source = self.sources.get(datagram.source);
        if source.waiting >= self.held_per_source {
            return Err(UntrackedReason::FragmentFull);
        }
        let owner = DatagramId { is_v6: W > 2, datagram: number };
        let slot = hold
            .hold(owner, datagram.last_held, waiting, now)
            .ok_or(UntrackedReason::FragmentFull)?;
        source.waiting += 1;
        datagram.held += 1;
        datagram.last_held = slot.into();
        if datagram.first_held == NONE {
            datagram.first_held = slot.into();
        }
        Ok(slot)
    }

    /// Gives up the wait for the first fragment of a datagram.
    pub(crate) fn expire_held(
        &mut self,
        number: u32,
        on_drop: &mut impl FnMut(u32, UntrackedReason),
    ) {
        self.datagrams[number as usize].state = DatagramState::GivenUp;
        self.drop_held(number, UntrackedReason::Fragment, on_drop);
    }

    fn drop_held(
        &mut self,
        number: u32,
        reason: UntrackedReason,
        on_drop: &mut impl FnMut(u32, UntrackedReason),
    ) {
        let first_held = self.datagrams[number as usize].first_held;
        if first_held != NONE {
            self.forget_held(number);
            on_drop(first_held, reason);
        }
    }

    fn forget_held(&mut self, number: u32) {
        let datagram = &mut self.datagrams[number as usize];
        self.sources.get(datagram.source).waiting -= datagram.held;
        (datagram.first_held, datagram.last_held, datagram.held) = (NONE, NONE, 0);
    }

    fn number(&self, hash: u64, datagram_key: &Key<W>) -> Option<u32> {
        self.index
            .find(hash, |number| self.datagrams[number as usize].datagram_key == *datagram_key)
    }

    /// Returns the datagram with this key; evicts it if its timeout has passed.
    fn find(
        &mut self,
        hash: u64,
        datagram_key: &Key<W>,
        now: Nanos,
        on_drop: &mut impl FnMut(u32, UntrackedReason),
    ) -> Option<u32> {
        let number = self.number(hash, datagram_key)?;
        if self.datagrams[number as usize].begun.saturating_add(self.timeout) > now {
            return Some(number);
        }
        self.evict(number, on_drop);
        None
    }

    /// Starts a datagram with this fragment; evicts older ones if there is no room. Returns `None`
    /// if an index has no room.
    fn begin(
        &mut self,
        hash: u64,
        header: &FragmentHeader<W>,
        now: Nanos,
        on_drop: &mut impl FnMut(u32, UntrackedReason),
    ) -> Option<u32> {
        let source_key = header.source();
        if let Some(oldest) = self.sources.oldest_of(&source_key, self.per_source) {
            self.evict(oldest, on_drop);
        }
        if self.free.is_empty() {
            self.evict(self.ages.first, on_drop);
        }
        let number = *self.free.last()?;
        if !self.index.insert(hash, number) {
            return None;
        }
        let Some(source) = self.sources.add(source_key, number) else {
            self.index.remove(hash, number);
            return None;
        };
        self.free.pop();
        self.links.push(&mut self.ages, number);
        let (datagram_key, spans, state) =
            (header.datagram_key, RangeSet::NONE, DatagramState::Waiting);
        let (first_held, last_held, held) = (NONE, NONE, 0);
        self.datagrams[number as usize] = Datagram {
            datagram_key,
            state,
            begun: now,
            spans,
            source,
            first_held,
            last_held,
            held,
        };
        Some(number)
    }

    fn evict(&mut self, number: u32, on_drop: &mut impl FnMut(u32, UntrackedReason)) {
        self.drop_held(number, UntrackedReason::Fragment, on_drop);
        self.end(number);
    }

    fn end(&mut self, number: u32) {
        let Datagram { datagram_key, source, .. } = self.datagrams[number as usize];
        self.index.remove(self.hasher.hash_one(&datagram_key.0), number);
        self.sources.remove(source, number);
        self.links.remove(&mut self.ages, number);
        self.free.push(number);
    }
}

/// One sender may have this fraction of the packets that wait: one in `SHARE_OF_HOLD`.
pub(super) const SHARE_OF_HOLD: u32 = 4;
