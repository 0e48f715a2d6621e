// SPDX-License-Identifier: BSD-3-Clause
//! Follows the program of an end, and sends what it and the windows allow.

use super::{INFLIGHT_MAX, UNACKNOWLEDGED_MAX, WINDOW_MAX};
use crate::context::{Context, Fate, STEPS_AT_ONCE};
use crate::counters::Counter;
use crate::endpoint::{Endpoint, State, flag, is_before};
use crate::frame::{Output, Segment};
use crate::program::Step;
use crate::wheel::ticks_of_us;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};

impl<O: Output> Context<'_, O> {
    /// Sends the SYN of a client, or the SYN+ACK of a server.
    pub(crate) fn send_syn(&mut self, end: &mut Endpoint) {
        let flags = if end.state == State::SynSent { SYN } else { SYN | ACK };
        let ack = if end.state == State::SynSent { 0 } else { end.rcv_nxt };
        let segment = Segment { seq: end.iss, ack, flags, window: WINDOW_MAX, mss: self.mss };
        if self.send_segment(end, &segment, 0) {
            let after = self.retransmission_ticks(end);
            end.wait_transport(self.tick(), after);
        }
    }

    /// Sends a RST. If there is no room for it, the peer learns of the end by its next packet.
    pub(crate) fn send_reset(&mut self, end: &mut Endpoint) {
        let segment =
            Segment { seq: end.nxt(), ack: end.rcv_nxt, flags: RST | ACK, window: 0, mss: 0 };
        if self.send_segment(end, &segment, 0) {
            self.count(Counter::ResetsSent);
        }
    }

    /// Sends a RST as the answer to an acknowledgement of what was never sent (RFC 9293 sections
    /// 3.10.7.3 and 3.10.7.4).
    pub(crate) fn send_refusal(&mut self, end: &mut Endpoint, ack: u32) {
        let segment = Segment { seq: ack, ack: 0, flags: RST, window: 0, mss: 0 };
        if self.out.room() > 0 && self.send_segment(end, &segment, 0) {
            self.count(Counter::ResetsSent);
        }
    }

    /// Does the steps of the program that can be done now.
    #[inline(always)]
    pub(crate) fn advance(&mut self, end: &mut Endpoint) -> Fate {
        for _ in 0..STEPS_AT_ONCE {
            if end.has(flag::PROGRAM_WAITS) {
                return Fate::Open;
            }
            match self.program().step(end.step) {
                Step::Send(len) => {
                    let outstanding = end.written.wrapping_sub(end.una);
                    if outstanding > UNACKNOWLEDGED_MAX {
                        return Fate::Open;
                    }
                    if !end.has(flag::AWAITS_RESPONSE) {
                        self.note_request(end);
                        if outstanding == 0 {
                            end.set(flag::TIMES_ROUND_TRIP);
                        }
                    }
                    end.written = end.written.wrapping_add(len);
                    end.step += 1;
                }
                Step::Receive(len) if !self.has_received(end, len) => return Fate::Open,
                Step::Receive(_) => self.end_receive(end),
                Step::Delay(min, max) => self.begin_delay(end, (min, max)),
                Step::Pace(pace) => self.begin_pace(end, pace),
                Step::Loop { level, count, start } => end.end_round(level, count, start),
                Step::Hold if self.was_released(end) => end.step += 1,
                Step::Hold => {
                    self.begin_hold(end);
                    return Fate::Open;
                }
                Step::WaitForClose if !end.has(flag::PEER_CLOSED) && !self.was_released(end) => {
                    return Fate::Open;
                }
                Step::WaitForClose => end.step += 1,
                Step::Close => {
                    // An end that has done all its rounds was not released.
                    end.clear(flag::HOLDS);
                    end.set(flag::CLOSES);
                    return Fate::Open;
                }
                Step::Reset => {
                    // The RST follows when all data is acknowledged, as a FIN does.
                    if end.una != end.written {
                        return Fate::Open;
                    }
                    self.send_reset(end);
                    return Fate::Ended(Counter::Completed);
                }
            }
        }
        if !end.has(flag::PROGRAM_WAITS) {
            // The others have their turns first.
            end.wait_program(self.tick(), 1);
        }
        Fate::Open
    }

    /// Begins a delay. The program goes on with the next step.
    pub(crate) fn begin_delay(&mut self, end: &mut Endpoint, (min, max): (u32, u32)) {
        let range = u64::from(max - min) + 1;
        let us = if min == max { min } else { min + (self.random() % range) as u32 };
        end.step += 1;
        if us > 0 {
            end.wait_program(self.tick(), ticks_of_us(us));
        }
    }

    /// Returns the window that we offer: all that the program has received is taken out of it.
    #[inline(always)]
    pub(crate) fn window(&self, end: &Endpoint) -> u16 {
        if !end.has(flag::PROGRAM_WAITS) {
            return WINDOW_MAX;
        }
        let consumed = self.program().received_before(end.step, end.loops);
        let unread = end.received().wrapping_sub(consumed);
        WINDOW_MAX.saturating_sub(unread.min(WINDOW_MAX.into()) as u16)
    }

    #[inline(always)]
    fn segment(&self, end: &Endpoint, seq: u32, flags: u8) -> Segment {
        Segment { seq, ack: end.rcv_nxt, flags, window: self.window(end), mss: 0 }
    }

    /// Sends what is due: data within the windows, a FIN, or an acknowledgement. Then sets the
    /// deadline of the transport.
    #[inline(always)]
    pub(crate) fn output(&mut self, end: &mut Endpoint) {
        // The deadline of an end without room is not that of a retransmission.
        let was_blocked = end.take(flag::BLOCKED);
        let was_idle = end.inflight == 0;
        while self.send_next(end) {
            end.clear(flag::ACK_NOW | flag::ACK_LATER);
        }
        // The deadline of a delayed acknowledgement is that of the retransmission, too.
        let is_ack_due = end.has(flag::ACK_NOW) || end.has(flag::ACK_LATER) && end.inflight > 0;
        if is_ack_due && self.send_ack(end) {
            end.clear(flag::ACK_NOW | flag::ACK_LATER);
        }
        if end.has(flag::BLOCKED) || matches!(end.state, State::TimeWait | State::Kept) {
            return;
        }
        let tick = self.tick();
        if end.inflight > 0 {
            if was_idle || was_blocked || !end.has(flag::TRANSPORT_WAITS) {
                let after = self.retransmission_ticks(end);
                end.wait_transport(tick, after);
            }
        } else if end.has(flag::ACK_LATER) {
            end.wait_transport(tick, self.waits.delayed_ack);
        } else if end.written != end.una && !end.is_fin_acknowledged_or_sent() {
            // The peer's window is closed: a probe follows.
            let after = self.retransmission_ticks(end);
            end.wait_transport(tick, after);
        } else if end.has(flag::PROGRAM_WAITS) || self.waits_for_release(end) {
            end.clear(flag::TRANSPORT_WAITS);
        } else {
            end.wait_transport(tick, self.waits.idle);
        }
    }

    fn send_ack(&mut self, end: &mut Endpoint) -> bool {
        let segment = self.segment(end, end.nxt(), ACK);
        self.send_segment(end, &segment, 0)
    }

    /// Sends the next segment of data, or the FIN; false if none is due.
    #[inline(always)]
    fn send_next(&mut self, end: &mut Endpoint) -> bool {
        let nxt = end.nxt();
        if nxt == end.written {
            // The FIN follows when all data is acknowledged, as in TRex. The acknowledgement is
            // mostly the peer's FIN, so that a short connection takes seven packets.
            let is_due = end.has(flag::CLOSES) && end.inflight == 0;
            return is_due && self.send_fin(end);
        }
        if !is_before(nxt, end.written) {
            return false;
        }
        let unsent = end.written.wrapping_sub(nxt);
        let window = end.window.min(end.cwnd).min(INFLIGHT_MAX);
        let usable = u32::from(window.saturating_sub(end.inflight));
        let len = unsent.min(end.mss.into()).min(usable);
        // A part of a segment waits while others are on their way (RFC 9293 section 3.8.6.2.1).
        if len == 0 || len < unsent && len < end.mss.into() && end.inflight > 0 {
            return false;
        }
        let flags = if len == unsent { ACK | PSH } else { ACK };
        let is_sent = self.send_data(end, nxt, (len, flags));
        if is_sent {
            end.inflight += len as u16;
        }
        is_sent
    }

    /// Sends data from a place on.
    #[inline(always)]
    fn send_data(&mut self, end: &mut Endpoint, seq: u32, (len, flags): (u32, u8)) -> bool {
        let segment = self.segment(end, seq, flags);
        self.send_segment(end, &segment, len)
    }

    fn send_fin(&mut self, end: &mut Endpoint) -> bool {
        let next = match end.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            // The FIN is sent again.
            State::FinWait1 | State::Closing | State::LastAck => end.state,
            _ => return false,
        };
        let segment = self.segment(end, end.written, FIN | ACK);
        let is_sent = self.send_segment(end, &segment, 0);
        if is_sent {
            end.state = next;
            end.inflight += 1;
        }
        is_sent
    }

    /// Sends the oldest segment that is not acknowledged once more.
    pub(crate) fn send_oldest_again(&mut self, end: &mut Endpoint) {
        let left = end.written.wrapping_sub(end.una);
        let len = left.min(end.mss.into()).min(end.inflight.into());
        let is_sent = match left {
            0 => {
                let segment = self.segment(end, end.una, FIN | ACK);
                self.send_segment(end, &segment, 0)
            }
            _ => self.send_data(end, end.una, (len, ACK | PSH)),
        };
        if is_sent {
            self.count(Counter::FastRetransmits);
        }
    }

    /// Sends one byte into a closed window. It does not count as in flight: the peer mostly drops
    /// it, and it is sent again with the data that follows it.
    pub(crate) fn send_probe(&mut self, end: &mut Endpoint) {
        if self.send_data(end, end.una, (1, ACK | PSH)) {
            end.recover = end.recover.max(1);
        }
    }
}

impl Endpoint {
    fn is_fin_acknowledged_or_sent(&self) -> bool {
        !is_before(self.nxt(), self.written)
    }

    /// Ends a round of a loop.
    pub(crate) fn end_round(&mut self, level: u8, count: u16, start: u16) {
        let done = &mut self.loops[usize::from(level)];
        *done += 1;
        if *done < count {
            self.step = start;
        } else {
            *done = 0;
            self.step += 1;
        }
    }
}
