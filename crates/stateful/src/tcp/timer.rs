// SPDX-License-Identifier: BSD-3-Clause
//! Deadlines of an end: retransmission, delayed acknowledgement, and the wait for a silent peer.

use crate::context::{Context, Fate};
use crate::counters::Counter;
use crate::endpoint::{Endpoint, State, flag};
use crate::frame::Output;
use crate::wheel::ticks_of_ms;

/// Retransmission timeout before the first measurement (RFC 6298 section 2.1).
const INITIAL_MS: u32 = 1000;
/// Shortest timeout, as in Linux; section 2.4 asks for a second.
const MIN_MS: u32 = 200;
/// Longest timeout (section 2.5).
const MAX_MS: u32 = 60_000;

impl<O: Output> Context<'_, O> {
    /// Returns the retransmission timeout in ticks, with its backoff.
    #[inline(always)]
    pub(crate) fn retransmission_ticks(&self, end: &Endpoint) -> u32 {
        let measured = match end.srtt {
            0 => ticks_of_ms(INITIAL_MS),
            srtt => (u32::from(srtt >> 3) + u32::from(end.rttvar).max(1)).max(ticks_of_ms(MIN_MS)),
        };
        (measured << end.retries.min(8)).min(ticks_of_ms(MAX_MS))
    }

    /// Takes a measurement of the round trip in ticks (RFC 6298 section 2).
    pub(crate) fn note_round_trip(&self, end: &mut Endpoint, ticks: u32) {
        // A tick more, so that 0 means that there is none; up to a second, by the type.
        let measured = (ticks + 1).min(u32::from(u16::MAX >> 3)) as i32;
        if end.srtt == 0 {
            end.srtt = (measured << 3) as u16;
            end.rttvar = (measured << 1) as u16;
            return;
        }
        let error = measured - i32::from(end.srtt >> 3);
        end.srtt = (i32::from(end.srtt) + error).clamp(8, u16::MAX.into()) as u16;
        let deviation = error.abs() - i32::from(end.rttvar >> 2);
        end.rttvar = (i32::from(end.rttvar) + deviation).clamp(0, u16::MAX.into()) as u16;
    }

    /// Acts at the deadline of the transport.
    pub(crate) fn expire(&mut self, end: &mut Endpoint) -> Fate {
        end.clear(flag::TRANSPORT_WAITS);
        if end.take(flag::BLOCKED) {
            return self.try_again(end);
        }
        if end.state == State::Kept {
            return Fate::Gone;
        }
        if end.take(flag::ACK_LATER) {
            end.set(flag::ACK_NOW);
            self.output(end);
            return Fate::Open;
        }
        match end.state {
            State::TimeWait => Fate::Closed(Counter::Completed),
            State::SynSent | State::SynReceived => self.repeat_syn(end),
            _ if end.inflight > 0 || end.nxt() != end.written && !end.is_fin_acknowledged() => {
                self.repeat_data(end)
            }
            _ => {
                self.send_reset(end);
                Fate::Ended(Counter::Timeout)
            }
        }
    }

    /// Sends what the port had no room for before.
    fn try_again(&mut self, end: &mut Endpoint) -> Fate {
        match end.state {
            State::SynSent | State::SynReceived => self.send_syn(end),
            _ => self.output(end),
        }
        match end.state {
            State::TimeWait if !end.has(flag::BLOCKED) => Fate::Closed(Counter::Completed),
            _ => Fate::Open,
        }
    }

    fn repeat_syn(&mut self, end: &mut Endpoint) -> Fate {
        if end.retries >= self.waits.syn_retries {
            return Fate::Ended(Counter::NoSynAck);
        }
        end.retries += 1;
        self.count(Counter::SynRetransmits);
        self.send_syn(end);
        Fate::Open
    }

    /// Sends from the oldest data on again (RFC 5681 section 3.1, RFC 6298 section 5).
    fn repeat_data(&mut self, end: &mut Endpoint) -> Fate {
        if end.retries >= self.waits.retries {
            self.send_reset(end);
            return Fate::Ended(Counter::Timeout);
        }
        end.retries += 1;
        self.count(Counter::TimeoutRetransmits);
        if end.window == 0 && end.inflight == 0 && end.una != end.written {
            self.send_probe(end);
            self.output(end);
            return Fate::Open;
        }
        if end.retries == 1 {
            end.ssthresh = (end.inflight / 2).max(end.mss.saturating_mul(2));
        }
        end.cwnd = end.mss;
        end.recover = end.recover.max(end.inflight);
        end.inflight = 0;
        end.dup_acks = 0;
        end.clear(flag::RECOVERS | flag::TIMES_ROUND_TRIP);
        if end.window == 0 && end.una != end.written {
            self.send_probe(end);
        }
        self.output(end);
        Fate::Open
    }
}
