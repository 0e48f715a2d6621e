// SPDX-License-Identifier: BSD-3-Clause
//! Runs the pass over packets of known connections: counts most of them, tracks the others.

use super::admission;
use super::admission::access::{self, QuotingError};
use super::admission::candidate::Candidate;
use super::pass::Pass;
use super::verdicts::{CtStates, Verdicts};
use crate::api::{PROTO_SCTP, PROTO_TCP, Tracking};
use crate::base::{BURST_MAX, Micros, NO_RECORD};
use crate::conn::{NoSampling, Sampler};
use crate::packet::{
    Burst, ChecksumSource, HeaderBuf, HeaderInfo, Key, PacketView, SYN, SctpChunks, SeqNumbers,
    TcpHeader,
};
use crate::tracker::{FastPathPacket, Foreseen, Step};
use wire::Packet;

/// How many packets ahead a record is loaded from the second-level cache to the first.
const NEAR: usize = 4;

impl<const W: usize> Pass<'_, W> {
    /// Counts packets of known connections.
    #[inline(always)]
    pub(super) fn track<P: Packet>(
        &mut self,
        burst: Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        match self.tracker.eval_interval() {
            Some(_) if self.batch.fragments != 0 => self.track_with_fragments(burst, verdicts),
            Some(sampler) => self.track_batch(burst, sampler, verdicts),
            None => self.track_batch(burst, NoSampling, verdicts),
        }
    }

    #[inline(never)]
    fn track_batch<P: Packet>(
        &mut self,
        burst: Burst<P>,
        sampler: impl Sampler,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let mut pass = self.reborrow();
        let len = pass.batch.len.min(BURST_MAX);
        for i in 0..len {
            // The record is in the second-level cache by now, or about to be.
            pass.tracker.table.prefetch(pass.lookup.candidates[(i + NEAR) % BURST_MAX]);
            pass.track_one((i, sampler), burst, verdicts);
        }
    }

    /// Counts packets of known connections, some of which are fragments.
    #[cold]
    fn track_with_fragments<P: Packet>(
        &mut self,
        burst: Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        for i in 0..self.batch.len.min(BURST_MAX) {
            self.track_any(i, burst, verdicts);
        }
    }

    /// Counts packet `i`, which may be a fragment. Fragments are not evaluated: NIC rules match
    /// whole packets only.
    pub(super) fn track_any<P: Packet>(
        &mut self,
        i: usize,
        burst: Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let is_fragment = self.batch.fragments >> (i % BURST_MAX) & 1 == 1;
        match self.tracker.eval_interval().filter(|_| !is_fragment) {
            Some(sampler) => self.track_one((i, sampler), burst, verdicts),
            None => self.track_one((i, NoSampling), burst, verdicts),
        }
    }

    #[inline(always)]
    fn track_one<P: Packet>(
        &mut self,
        (i, sampler): (usize, impl Sampler),
        burst: Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let (meta, HeaderInfo { position, .. }) = (self.batch.metas[i], self.batch.headers[i]);
        let candidate = self.lookup.candidates[i];
        if !self.count_one((i, candidate), sampler, burst) {
            self.track_rare(i, burst, verdicts);
        } else {
            verdicts.counted(position, || self.tracker.ct_state(candidate, meta));
        }
    }

    /// Counts packet `i` if its connection is in `record` and it changes only counters. Otherwise
    /// changes nothing and returns false.
    #[inline(always)]
    fn count_one<P: Packet>(
        &mut self,
        (i, record): (usize, u32),
        sampler: impl Sampler,
        (packets, now): Burst<P>,
    ) -> bool {
        let key = Key::from_words(&self.batch.keys, i);
        let (meta, info) = (self.batch.metas[i], &self.batch.headers[i]);
        let numbers = || {
            let packet = packets.get(usize::from(info.position))?;
            SeqNumbers::of(packet, meta, info)
        };
        self.tracker.count((record, &key), (meta, numbers), Micros::of(now), sampler)
    }

    /// Handles packet `i` if it changes more than counters: it begins, changes or ends a
    /// connection. Also if the candidate is another connection with the same tag (1 in some
    /// thousand lookups).
    #[inline(never)]
    fn track_rare<P: Packet>(
        &mut self,
        i: usize,
        (packets, now): Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let Self { batch, lookup, tracker } = self;
        let i = i % BURST_MAX;
        let key = Key::from_words(&batch.keys, i);
        let record = match lookup.candidates[i] {
            NO_RECORD => None,
            candidate if tracker.table.holds(candidate, &key) => Some(candidate),
            _ => tracker.table.find(lookup.hashes[i], &key),
        };
        match record {
            Some(record) => self.track_known((i, record), (packets, now), verdicts),
            None => lookup.miss(i),
        }
    }

    /// Tracks packet `i`, whose connection is in `record`, if the access lists permit it.
    pub(super) fn track_known<P: Packet>(
        &mut self,
        (i, record): (usize, u32),
        (packets, now): Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let is_error = self.batch.headers[i].quoted().is_some();
        if verdicts.access.is_some() && !is_error {
            let foreseen = self.foresee((i, record), (packets, now), verdicts);
            let (meta, info) = (self.batch.metas[i], &self.batch.headers[i]);
            let candidate =
                Candidate { meta, info, is_fragment: self.batch.is_fragment(i), mark: 0 };
            let was_checked = self.tracker.is_checked(record);
            if access::denies_known(self.tracker, (record, foreseen), candidate, verdicts) {
                return;
            }
            let is_decided = was_checked && !self.tracker.is_checked(record);
            if is_decided && self.count_decided((i, record), (packets, now)) {
                let state = || self.tracker.ct_state(record, meta);
                return verdicts.counted(info.position, state);
            }
        }
        let Self { batch, tracker, .. } = self;
        let (meta, info) = (batch.metas[i], &batch.headers[i]);
        if let Some(packet) = packets.get(usize::from(info.position)) {
            let is_fragment = batch.is_fragment(i);
            let seen = FastPathPacket { packet, meta, info, now, is_fragment };
            match tracker.track_fast(record, &seen, verdicts.accounts) {
                Some(Step::Tracked) => {
                    let state = || tracker.ct_state(record, meta);
                    return verdicts.counted(info.position, state);
                }
                Some(Step::NeedsAdmission(cause)) => {
                    let packet = seen.view(tracker.side());
                    return admission::reopen(tracker, (record, cause), &packet, verdicts);
                }
                _ => {}
            }
        }
        self.track_found((i, record), (packets, now), verdicts);
    }

    /// Counts packet `i`, as it would have been counted had the lists decided about its connection
    /// before: after a change of lists, each connection has such a packet.
    fn count_decided<P: Packet>(&mut self, (i, record): (usize, u32), burst: Burst<P>) -> bool {
        let is_fragment = self.batch.is_fragment(i);
        match self.tracker.eval_interval().filter(|_| !is_fragment) {
            Some(sampler) => self.count_one((i, record), sampler, burst),
            None => self.count_one((i, record), NoSampling, burst),
        }
    }

    /// Returns what packet `i` would do to the connection in `record`, if the lists judge it by
    /// that: packets that do not fit, and those that begin another connection.
    #[inline(always)]
    fn foresee<P: Packet>(
        &self,
        (i, record): (usize, u32),
        burst: Burst<P>,
        verdicts: &Verdicts<impl CtStates>,
    ) -> Foreseen {
        let meta = self.batch.metas[i];
        let may_begin = meta.tcp_flags() & SYN != 0;
        let is_asked = verdicts.accounts.drops.judges_invalid
            || may_begin && self.tracker.needs_access_check(record, meta, true);
        match is_asked && self.batch.later_fragment(i).is_none() {
            false => Foreseen::Fits,
            true => self.tracker.foresee(record, &view(self, i, burst, &mut None)),
        }
    }

    /// Tracks packet `i`, whose connection is in `record`.
    pub(super) fn track_found<P: Packet>(
        &mut self,
        (i, record): (usize, u32),
        burst: Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let (meta, HeaderInfo { position, .. }) = (self.batch.metas[i], self.batch.headers[i]);
        let zone = self.tracker.zone(record);
        let step = if self.batch.headers[i].quoted().is_some() {
            return self.relate_error((i, Some(record)), burst, verdicts);
        } else if let Some(fragment) = self.batch.later_fragment(i) {
            self.tracker.track_later_fragment(record, fragment, burst.1, verdicts.accounts)
        } else {
            let mut gathered = None;
            let pass = self.reborrow();
            let packet = view(&pass, i, burst, &mut gathered);
            match pass.tracker.track(record, &packet, verdicts.accounts) {
                Step::NeedsAdmission(cause) => {
                    return admission::reopen(pass.tracker, (record, cause), &packet, verdicts);
                }
                step => step,
            }
        };
        verdicts.write(position, zone, step, || self.tracker.ct_state(record, meta));
    }

    /// Writes the verdict of packet `i`, an ICMP error, by the record of the packet that it quotes.
    /// It is processed in its order among the packets of that connection: those before it have been
    /// tracked, those behind it not.
    pub(super) fn relate_error<P: Packet>(
        &mut self,
        (i, record): (usize, Option<u32>),
        (packets, _): Burst<P>,
        verdicts: &mut Verdicts<impl CtStates>,
    ) {
        let (meta, info) = (self.batch.metas[i], &self.batch.headers[i]);
        let seq = info.quoted().unwrap_or(0);
        let is_related = record.map(|record| self.tracker.has_sent(record, meta, seq));
        // The error goes to the sender of the quoted packet.
        let is_reply = record.is_some_and(|record| !self.tracker.is_reply(record, meta));
        if verdicts.access.is_some() {
            let frame =
                packets.get(usize::from(info.position)).map_or(&[][..], |frame| frame.head());
            let error = QuotingError { info, meta, is_related: is_related == Some(true), is_reply };
            let zone = Key::from_words(&self.batch.keys, i).zone();
            if access::denies_error((self.tracker, record), (&error, frame, zone), verdicts) {
                return;
            }
            if self.tracker.tracking(zone) == Tracking::Off {
                return verdicts.tracking_off(info.position);
            }
        }
        verdicts.error(info.position, is_related, is_reply);
    }

    #[inline(always)]
    fn reborrow(&mut self) -> Pass<'_, W> {
        Pass { batch: self.batch, lookup: &mut *self.lookup, tracker: &mut *self.tracker }
    }
}

/// Returns packet `i` with all that the tracker needs.
#[inline(always)]
pub(super) fn view<'a, P: Packet, const W: usize>(
    pass: &Pass<'a, W>,
    i: usize,
    (packets, now): Burst<'a, P>,
    gathered: &'a mut Option<HeaderBuf>,
) -> PacketView<'a> {
    let (batch, tracker) = (pass.batch, &*pass.tracker);
    let (meta, info) = (batch.metas[i], &batch.headers[i]);
    let key = Key::from_words(&batch.keys, i);
    let has_window_check = key.proto() == PROTO_TCP && tracker.checks_window(key.zone());
    let packet = packets.get(usize::from(info.position));
    let checked = packet.filter(|_| has_window_check);
    let header = checked.and_then(|packet| TcpHeader::of(packet, info, gathered));
    let checksum_source =
        packet.filter(|_| tracker.verifies()).map_or(ChecksumSource::Trusted, ChecksumSource::of);
    let is_sctp = key.proto() == PROTO_SCTP;
    let chunks = packet
        .filter(|_| is_sctp)
        .and_then(|packet| SctpChunks::of(packet, meta, info, tracker.checks_window(key.zone())));
    PacketView {
        meta,
        header_info: info,
        now,
        is_fragment: batch.is_fragment(i),
        mark: packet.map_or(0, P::mark_or_zero),
        side: tracker.side(),
        header,
        chunks,
        checksum_source,
    }
}
