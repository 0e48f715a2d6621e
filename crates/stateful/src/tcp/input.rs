// SPDX-License-Identifier: BSD-3-Clause
//! Receives segments (RFC 9293 section 3.10.7).

use super::{INFLIGHT_MAX, WINDOW_MAX};
use crate::context::{Context, Fate};
use crate::counters::Counter;
use crate::endpoint::{Endpoint, State, flag, is_before};
use crate::frame::Output;
use crate::packet::Headers;
use crate::wheel::tick_of;
use wire::tcp::{ACK, FIN, RST, SYN};

/// Duplicate acknowledgements after which a segment counts as lost (RFC 5681 section 3.2).
const DUPLICATES: u8 = 3;

impl<O: Output> Context<'_, O> {
    /// Receives a segment for an end, and sends what follows from it.
    #[inline(always)]
    pub(crate) fn receive(&mut self, end: &mut Endpoint, headers: &Headers, data: &[u8]) -> Fate {
        self.count(Counter::SegmentsReceived);
        if end.state == State::SynSent {
            return self.receive_in_syn_sent(end, headers);
        }
        if let Some(fate) = self.refuse(end, headers) {
            return fate;
        }
        match end.state {
            State::SynReceived if headers.ack != end.iss.wrapping_add(1) => {
                self.send_refusal(end, headers.ack);
                return Fate::Open;
            }
            State::SynReceived => self.establish_server(end),
            State::TimeWait | State::Kept => {
                // A FIN that comes again: the peer has not received our acknowledgement. A plain
                // acknowledgement gets no answer, or two ends in this state would answer each other
                // forever.
                if end.has(flag::ACK_NOW) || headers.sequence_len() > 0 {
                    self.answer_at_once(end);
                    if end.state == State::TimeWait && !end.has(flag::BLOCKED) {
                        return Fate::Closed(Counter::Completed);
                    }
                }
                return Fate::Open;
            }
            _ => {}
        }
        self.receive_ack(end, headers);
        if !data.is_empty() {
            self.receive_data(end, headers, data);
            if end.has(flag::WRONG_DATA) {
                self.send_reset(end);
                return Fate::Ended(Counter::WrongData);
            }
        }
        let fate = self.advance(end);
        if fate != Fate::Open {
            return fate;
        }
        if headers.flags & FIN != 0 {
            self.receive_fin(end, headers);
            // The program may wait for it.
            let fate = self.advance(end);
            if fate != Fate::Open {
                return fate;
            }
        }
        self.close_or_go_on(end)
    }

    /// Decides what follows from the FINs of both ends; sends what is due if the end goes on.
    #[inline(always)]
    pub(crate) fn close_or_go_on(&mut self, end: &mut Endpoint) -> Fate {
        let is_acknowledged = end.has(flag::CLOSES) && end.is_fin_acknowledged();
        match end.state {
            State::CloseWait if !end.has(flag::CLOSES) && self.waits_for_data(end) => {
                let fate = self.close_early(end);
                if fate != Fate::Open {
                    return fate;
                }
            }
            State::FinWait1 if is_acknowledged => end.state = State::FinWait2,
            State::LastAck if is_acknowledged => return Fate::Ended(Counter::Completed),
            _ => {}
        }
        if end.has(flag::PEER_CLOSED)
            && (end.state == State::FinWait2 || end.state == State::Closing && is_acknowledged)
        {
            end.state = State::TimeWait;
        }
        self.output(end);
        match end.state {
            State::TimeWait if !end.has(flag::BLOCKED) => Fate::Closed(Counter::Completed),
            _ => Fate::Open,
        }
    }

    fn waits_for_data(&self, end: &Endpoint) -> bool {
        let (received, total) = (end.received(), self.program().received());
        match u32::try_from(total) {
            Ok(total) if total < 1 << 31 => is_before(received, total),
            // Sequence numbers do not order what is further apart.
            _ => received != total as u32,
        }
    }

    /// Decides about an end whose peer has closed before all data has come.
    fn close_early(&mut self, end: &mut Endpoint) -> Fate {
        if !self.is_client && self.template.client.pace().is_some() && end.has(flag::PROGRAM_WAITS)
        {
            // It is decided after the delay: the last messages may have arrived before it began.
            return Fate::Open;
        }
        if !self.is_between_messages(end) {
            self.send_reset(end);
            return Fate::Ended(Counter::ClosedEarly);
        }
        self.leave_rounds(end);
        self.advance(end)
    }

    /// Receives a segment of a client that has sent its SYN (section 3.10.7.3).
    fn receive_in_syn_sent(&mut self, end: &mut Endpoint, headers: &Headers) -> Fate {
        let acknowledges = headers.flags & ACK != 0 && headers.ack == end.iss.wrapping_add(1);
        if headers.flags & RST != 0 {
            return match acknowledges {
                true => Fate::Ended(Counter::Reset),
                false => Fate::Open,
            };
        }
        if headers.flags & ACK != 0 && !acknowledges {
            // The peer still has an earlier connection of these ports: the RST ends it, and the SYN
            // that is sent again opens the new one.
            self.send_refusal(end, headers.ack);
            return Fate::Open;
        }
        if !acknowledges || headers.flags & SYN == 0 {
            return Fate::Open;
        }
        let elapsed = (self.now_us as u32).wrapping_sub(end.timed_at);
        self.latencies.setup.saturating_record(elapsed.into());
        self.count(Counter::Established);
        if end.retries == 0 {
            self.note_round_trip(end, tick_of(elapsed.into()));
        }
        end.retries = 0;
        end.state = State::Established;
        (end.irs, end.rcv_nxt) = (headers.seq, headers.seq.wrapping_add(1));
        (end.una, end.inflight) = (headers.ack, 0);
        end.window = headers.window;
        end.begin_windows(headers.mss, self.mss);
        end.clear(flag::TRANSPORT_WAITS);
        end.set(flag::ACK_NOW);
        let fate = self.advance(end);
        if fate == Fate::Open {
            self.output(end);
        }
        fate
    }

    /// Begins the connection of a server: it has the record of a SYN.
    pub(crate) fn accept(&mut self, end: &mut Endpoint, headers: &Headers) {
        (end.irs, end.rcv_nxt) = (headers.seq, headers.seq.wrapping_add(1));
        (end.una, end.inflight) = (end.iss, 1);
        end.written = end.iss.wrapping_add(1);
        end.window = headers.window;
        end.begin_windows(headers.mss, self.mss);
        end.timed_at = self.now_us as u32;
        self.send_syn(end);
    }

    /// Drops segments that are not acceptable; returns what becomes of the end then.
    #[inline(always)]
    fn refuse(&mut self, end: &mut Endpoint, headers: &Headers) -> Option<Fate> {
        let ahead = headers.seq.wrapping_sub(end.rcv_nxt);
        if headers.flags & (RST | SYN | ACK) == ACK && ahead <= WINDOW_MAX.into() {
            return self.refuse_ack(end, headers);
        }
        if headers.flags & RST != 0 {
            // Only at exactly the expected number. Elsewhere in the window, a peer that means it
            // answers our acknowledgement with a RST at this number (RFC 5961 section 3.2).
            if ahead == 0 {
                return Some(self.reset(end, headers));
            }
            if ahead < WINDOW_MAX.into() {
                self.answer_at_once(end);
            }
            return Some(Fate::Open);
        }
        if headers.flags & SYN != 0 {
            if end.state == State::SynReceived && headers.seq == end.irs {
                self.count(Counter::SynRetransmits);
                self.send_syn(end);
            } else {
                self.answer_at_once(end);
            }
            return Some(Fate::Open);
        }
        if headers.flags & ACK == 0 {
            return Some(Fate::Open);
        }
        // Data that has come before, in whole or in part, or a keepalive.
        let finish = headers.sequence_len();
        if !is_before(headers.seq, end.rcv_nxt) {
            // Beyond our window.
            self.answer_at_once(end);
            return Some(Fate::Open);
        }
        if is_before(end.rcv_nxt, headers.seq.wrapping_add(finish)) {
            return self.refuse_ack(end, headers);
        }
        if finish > 0 {
            self.count(Counter::DuplicateSegments);
        }
        end.set(flag::ACK_NOW);
        self.refuse_ack(end, headers)
    }

    /// Drops segments that acknowledge what was never sent (section 3.10.7.4, RFC 5961 section 5).
    #[inline(always)]
    fn refuse_ack(&mut self, end: &mut Endpoint, headers: &Headers) -> Option<Fate> {
        let ahead = headers.ack.wrapping_sub(end.una);
        let sent = u32::from(end.inflight.max(end.recover));
        if ahead <= sent || ahead > u32::MAX - u32::from(WINDOW_MAX) {
            return None;
        }
        if end.state != State::SynReceived {
            self.answer_at_once(end);
        }
        Some(Fate::Open)
    }

    fn answer_at_once(&mut self, end: &mut Endpoint) {
        if end.state == State::Kept && self.out.room() == 0 {
            // The deadline is that of the record. The peer sends again what it waits for.
            return end.clear(flag::ACK_NOW);
        }
        end.set(flag::ACK_NOW);
        self.output(end);
    }

    fn reset(&mut self, end: &Endpoint, headers: &Headers) -> Fate {
        match end.state {
            State::TimeWait | State::Kept => Fate::Open,
            State::SynReceived => Fate::Ended(Counter::NoSynAck),
            // All data was exchanged, and the peer has forgotten the connection before us: no reset
            // to tell of (section 3.10.7.4).
            State::Closing | State::LastAck => Fate::Ended(Counter::Completed),
            _ if self.is_planned_reset(end, headers) => Fate::Ended(Counter::Completed),
            _ => Fate::Ended(Counter::Reset),
        }
    }

    /// True if the peer's program ends by a reset, this end has sent and received everything, and
    /// the peer has it.
    fn is_planned_reset(&self, end: &Endpoint, headers: &Headers) -> bool {
        let acknowledged = if headers.flags & ACK == 0 { end.una } else { headers.ack };
        self.program_of_peer().is_ended_by_reset()
            && self.program().has_no_message_from(end.step)
            && !is_before(acknowledged, end.written)
    }

    fn establish_server(&mut self, end: &mut Endpoint) {
        let elapsed = (self.now_us as u32).wrapping_sub(end.timed_at);
        if end.retries == 0 {
            self.note_round_trip(end, tick_of(elapsed.into()));
        }
        end.state = State::Established;
        end.retries = 0;
        self.count(Counter::Established);
    }

    #[inline(always)]
    fn receive_ack(&mut self, end: &mut Endpoint, headers: &Headers) {
        let acked = headers.ack.wrapping_sub(end.una);
        if acked == 0 {
            let is_duplicate = end.inflight > 0
                && headers.payload_len == 0
                && headers.flags & (FIN | SYN) == 0
                && headers.window == end.window;
            end.window = headers.window;
            if is_duplicate {
                self.receive_duplicate_ack(end);
            } else if end.window == 0 && end.inflight == 0 {
                // A peer that answers probes is there: the connection stays open as long as it does
                // (RFC 9293 section 3.8.6.1).
                end.retries = end.retries.min(self.waits.retries.saturating_sub(1));
            }
            return;
        }
        if acked > u32::from(end.inflight.max(end.recover)) {
            // An old acknowledgement.
            return;
        }
        let acked = acked as u16;
        end.una = headers.ack;
        end.inflight = end.inflight.saturating_sub(acked);
        end.recover = end.recover.saturating_sub(acked);
        end.window = headers.window;
        end.retries = 0;
        end.clear(flag::TRANSPORT_WAITS);
        if end.take(flag::TIMES_ROUND_TRIP) {
            let elapsed = (self.now_us as u32).wrapping_sub(end.timed_at);
            self.note_round_trip(end, tick_of(elapsed.into()));
        }
        self.open_window(end, acked);
    }

    /// Adapts the congestion window to newly acknowledged data.
    #[inline(always)]
    fn open_window(&mut self, end: &mut Endpoint, acked: u16) {
        end.dup_acks = 0;
        if end.has(flag::RECOVERS) {
            if end.recover == 0 {
                end.clear(flag::RECOVERS);
                end.cwnd = end.ssthresh;
            } else {
                // A partial acknowledgement: the next hole is lost, too (RFC 6582 section 3.2).
                end.cwnd = end.cwnd.saturating_sub(acked).saturating_add(end.mss);
                self.send_oldest_again(end);
            }
            return;
        }
        let more = match end.cwnd < end.ssthresh {
            true => acked.min(end.mss),
            false => (u32::from(end.mss).pow(2) / u32::from(end.cwnd.max(1))).max(1) as u16,
        };
        end.cwnd = end.cwnd.saturating_add(more).min(INFLIGHT_MAX);
    }

    fn receive_duplicate_ack(&mut self, end: &mut Endpoint) {
        self.count(Counter::DuplicateAcks);
        end.dup_acks = end.dup_acks.saturating_add(1);
        if end.has(flag::RECOVERS) {
            end.cwnd = end.cwnd.saturating_add(end.mss).min(INFLIGHT_MAX);
        } else if end.dup_acks == DUPLICATES && end.recover == 0 {
            // Before the data of the last loss is acknowledged, duplicates mostly follow from
            // segments that were sent again and had arrived (RFC 6582 section 3.2).
            end.ssthresh = (end.inflight / 2).max(end.mss.saturating_mul(2));
            end.recover = end.recover.max(end.inflight);
            end.set(flag::RECOVERS);
            end.clear(flag::TIMES_ROUND_TRIP);
            self.send_oldest_again(end);
            end.cwnd = end.ssthresh.saturating_add(end.mss.saturating_mul(3)).min(INFLIGHT_MAX);
        }
    }

    /// Receives data that is new at least in part.
    #[inline(always)]
    fn receive_data(&mut self, end: &mut Endpoint, headers: &Headers, data: &[u8]) {
        if end.has(flag::PEER_CLOSED) {
            end.set(flag::ACK_NOW);
            return;
        }
        let is_keepalive = data.len() == 1 && headers.seq == end.rcv_nxt.wrapping_sub(1);
        if is_keepalive {
            // Its byte may be any (RFC 9293 section 3.8.4).
            return;
        }
        if !self.expected().has(end.offset_received(headers.seq), data) {
            end.set(flag::WRONG_DATA);
            return;
        }
        let ahead = headers.seq.wrapping_sub(end.rcv_nxt);
        if ahead == 0 && end.early == 0 {
            end.rcv_nxt = end.rcv_nxt.wrapping_add(data.len() as u32);
            self.note_received(end, data.len() as u16);
            // At least every second segment is acknowledged at once (section 3.8.6.3).
            let is_second = end.has(flag::ACK_LATER);
            end.set(if is_second { flag::ACK_NOW } else { flag::ACK_LATER });
            return;
        }
        end.set(flag::ACK_NOW);
        if ahead == 0 || is_before(headers.seq, end.rcv_nxt) {
            let old = end.rcv_nxt.wrapping_sub(headers.seq).min(data.len() as u32);
            if old as usize == data.len() {
                return;
            }
            self.fill_gap(end, data.len() as u16 - old as u16);
        } else {
            self.count(Counter::EarlySegments);
            end.keep_early(ahead as u16, data.len() as u16);
        }
    }

    /// Moves on by `len` new bytes, and by the early ones that follow.
    fn fill_gap(&mut self, end: &mut Endpoint, len: u16) {
        let mut moved = len;
        if end.early > 0 {
            match end.gap <= len {
                true => {
                    moved = len.max(end.gap.saturating_add(end.early));
                    (end.gap, end.early) = (0, 0);
                }
                false => end.gap -= len,
            }
        }
        end.rcv_nxt = end.rcv_nxt.wrapping_add(moved.into());
        self.note_received(end, moved);
    }

    fn receive_fin(&mut self, end: &mut Endpoint, headers: &Headers) {
        end.set(flag::ACK_NOW);
        let fin = headers.seq.wrapping_add(headers.payload_len.into());
        if end.has(flag::PEER_CLOSED) || fin != end.rcv_nxt {
            return;
        }
        end.rcv_nxt = end.rcv_nxt.wrapping_add(1);
        end.set(flag::PEER_CLOSED);
        end.state = match end.state {
            State::Established => State::CloseWait,
            State::FinWait1 if !end.is_fin_acknowledged() => State::Closing,
            other => other,
        };
    }
}

impl Endpoint {
    /// Keeps the place of data behind a gap. Of two ranges that do not touch, the first is kept:
    /// the peer sends the other one again.
    fn keep_early(&mut self, ahead: u16, len: u16) {
        let (begin, end) = (u32::from(self.gap), u32::from(self.gap) + u32::from(self.early));
        let (first, last) = (u32::from(ahead), u32::from(ahead) + u32::from(len));
        let last = last.min(WINDOW_MAX.into());
        if self.early == 0 {
            (self.gap, self.early) = (ahead, (last - first) as u16);
        } else if first <= end && last >= begin {
            let (first, last) = (first.min(begin), last.max(end));
            (self.gap, self.early) = (first as u16, (last - first) as u16);
        }
    }
}
