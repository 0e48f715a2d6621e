// SPDX-License-Identifier: BSD-3-Clause
//! UDP exchanges: each message is a datagram. A datagram that is lost is not sent again; the client
//! gives up when no answer comes.

use crate::context::{Context, Fate, STEPS_AT_ONCE};
use crate::counters::Counter;
use crate::endpoint::{Endpoint, flag};
use crate::frame::Output;
use crate::packet::Headers;
use crate::program::Step;

impl Endpoint {
    /// Begins an exchange. Streams begin at 0.
    pub(crate) fn begin_udp(&mut self) {
        (self.iss, self.irs) = (u32::MAX, u32::MAX);
    }
}

impl<O: Output> Context<'_, O> {
    /// Receives a datagram. One whose bytes are not the next ones is dropped: it has come twice, or
    /// after a later one.
    pub(crate) fn receive_udp(
        &mut self,
        end: &mut Endpoint,
        headers: &Headers,
        data: &[u8],
    ) -> Fate {
        let place = end.received();
        if data.is_empty()
            || is_behind(place, self.expected().len())
            || !self.expected().has(place, data)
        {
            self.count(Counter::UnexpectedDatagrams);
            if self.is_wrong(end, data) {
                end.set(flag::WRONG_DATA);
            }
            return Fate::Open;
        }
        if !end.has(flag::HAS_RECEIVED) {
            end.set(flag::HAS_RECEIVED);
            self.count(Counter::Established);
        }
        end.rcv_nxt = end.rcv_nxt.wrapping_add(headers.payload_len.into());
        self.note_received(end, headers.payload_len);
        self.advance_udp(end)
    }

    /// True if the peer sends one message only, and a datagram has other bytes. Of several, one may
    /// come late or again.
    #[cold]
    fn is_wrong(&self, end: &Endpoint, data: &[u8]) -> bool {
        let is_only = self.expected().len() == data.len() as u64;
        is_only && !self.expected().has(0, data) && !end.has(flag::HAS_RECEIVED)
    }

    /// Does the steps of the program that can be done now.
    pub(crate) fn advance_udp(&mut self, end: &mut Endpoint) -> Fate {
        for _ in 0..STEPS_AT_ONCE {
            if end.has(flag::PROGRAM_WAITS) {
                break;
            }
            match self.program().step(end.step) {
                Step::Send(len) => {
                    if !self.send_datagram(end, len) {
                        return Fate::Open;
                    }
                    self.note_request(end);
                    end.written = end.written.wrapping_add(len);
                    end.step += 1;
                }
                Step::Receive(len) if !self.has_received(end, len) => {
                    self.wait_udp(end);
                    return Fate::Open;
                }
                Step::Receive(_) => self.end_receive(end),
                Step::Delay(min, max) => self.begin_delay(end, (min, max)),
                Step::Pace(pace) => self.begin_pace(end, pace),
                Step::Loop { level, count, start } => end.end_round(level, count, start),
                Step::Hold if self.was_released(end) => end.step += 1,
                Step::Hold => {
                    self.begin_hold(end);
                    self.wait_udp(end);
                    return Fate::Open;
                }
                // The server does not see this client leave, and waits for its next message.
                Step::Close | Step::Reset if self.is_client && self.was_released(end) => {
                    return Fate::Closed(Counter::Completed);
                }
                // Profiles refuse WaitForClose over UDP.
                Step::WaitForClose | Step::Close | Step::Reset => {
                    return Fate::Ended(Counter::Completed);
                }
            }
        }
        if !end.has(flag::PROGRAM_WAITS) {
            // The others have their turns first.
            end.wait_program(self.tick(), 1);
        }
        self.wait_udp(end);
        Fate::Open
    }

    /// Sets the deadline of an exchange that waits for a datagram.
    fn wait_udp(&mut self, end: &mut Endpoint) {
        if end.has(flag::PROGRAM_WAITS) || self.waits_for_release(end) {
            end.clear(flag::TRANSPORT_WAITS);
        } else {
            let wait = match self.is_client {
                true => self.waits.answer,
                false => self.ticks_to_next_round(end).unwrap_or(self.waits.idle),
            };
            end.wait_transport(self.tick(), wait);
        }
    }

    /// Acts at the deadline of an exchange.
    pub(crate) fn expire_udp(&mut self, end: &mut Endpoint) -> Fate {
        end.clear(flag::TRANSPORT_WAITS);
        if end.take(flag::BLOCKED) {
            return self.advance_udp(end);
        }
        let failure = match end.has(flag::WRONG_DATA) {
            true => Counter::WrongData,
            false => Counter::NoAnswer,
        };
        match self.is_client {
            true => Fate::Closed(failure),
            // Nothing tells a server that the client has ended its rounds.
            false if self.is_between_messages(end) => Fate::Ended(Counter::Completed),
            false => Fate::Ended(Counter::Timeout),
        }
    }
}

/// True if a place is not before the end of a stream of `len` bytes. Longer streams than sequence
/// numbers have no end here.
fn is_behind(place: u32, len: u64) -> bool {
    len <= u64::from(u32::MAX) && u64::from(place) >= len
}
