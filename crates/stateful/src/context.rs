// SPDX-License-Identifier: BSD-3-Clause
//! What an end needs to act at one moment: the time, its template, and ways to count and to send.

use crate::addresses::Addresses;
use crate::counters::{Counter, Counters, Latencies};
use crate::endpoint::{Endpoint, LOOPS, flag, is_before};
use crate::frame::{Output, Path, Segment, write_tcp, write_udp};
use crate::profile::{Template, Timeouts};
use crate::program::{Pace, Program, Step};
use crate::script::Script;
use crate::wheel::{tick_of, ticks_of_ms, ticks_of_us};
use std::collections::HashMap;

/// What becomes of an end after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on.
    Open,
    /// It has ended, and counts as this. Its ports may be used again.
    Ended(Counter),
    /// It has ended, and counts as this. The peer may not know it yet.
    Closed(Counter),
    /// It has ended and was counted before.
    Gone,
}

/// Waits in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) idle: u32,
    pub(crate) answer: u32,
    pub(crate) delayed_ack: u32,
    pub(crate) syn_retries: u8,
    pub(crate) retries: u8,
}

impl Waits {
    pub(crate) fn new(timeouts: &Timeouts) -> Self {
        Self {
            idle: ticks_of_ms(timeouts.idle_ms),
            answer: ticks_of_ms(timeouts.answer_ms),
            delayed_ack: ticks_of_ms(timeouts.delayed_ack_ms),
            syn_retries: timeouts.syn_retries,
            retries: timeouts.retries,
        }
    }
}

/// MAC addresses of a port, and of those that it sends to.
#[derive(Clone, Debug)]
pub(crate) struct Macs {
    pub(crate) own: [u8; 6],
    /// The first one is the next hop of clients.
    neighbours: Vec<[u8; 6]>,
    numbers: HashMap<[u8; 6], u16>,
}

impl Macs {
    pub(crate) fn new(own: [u8; 6], next_hop: [u8; 6]) -> Self {
        Self { own, neighbours: vec![next_hop], numbers: HashMap::from([(next_hop, 0)]) }
    }

    /// Returns the number of a neighbour, which is learned if it is unknown; `None` if too many
    /// were.
    #[inline(always)]
    pub(crate) fn number(&mut self, mac: [u8; 6]) -> Option<u16> {
        // Servers mostly have one neighbour.
        match self.neighbours[0] == mac {
            true => Some(0),
            false => self.number_of_other(mac),
        }
    }

    #[inline(never)]
    fn number_of_other(&mut self, mac: [u8; 6]) -> Option<u16> {
        if let Some(number) = self.numbers.get(&mac) {
            return Some(*number);
        }
        let number = u16::try_from(self.neighbours.len()).ok()?;
        self.neighbours.push(mac);
        self.numbers.insert(mac, number);
        Some(number)
    }

    /// Returns the address of the neighbour with a number.
    #[inline(always)]
    fn neighbour(&self, number: u16) -> [u8; 6] {
        self.neighbours[usize::from(number)]
    }
}

/// The moment at which an end acts.
pub(crate) struct Context<'a, O> {
    /// Microseconds since the start.
    pub(crate) now_us: u64,
    pub(crate) is_client: bool,
    pub(crate) template: &'a Template,
    pub(crate) waits: &'a Waits,
    pub(crate) addresses: &'a Addresses,
    pub(crate) macs: &'a Macs,
    /// Longest TCP payload that fits into our frames.
    pub(crate) mss: u16,
    pub(crate) counters: &'a mut Counters,
    pub(crate) latencies: &'a mut Latencies,
    pub(crate) random: &'a mut u64,
    /// Microseconds before the start that initial sequence numbers are counted from.
    pub(crate) begun_us: u64,
    /// True if the end has begun to hold its connection, and is not in the queue of held ones yet.
    pub(crate) begins_to_hold: bool,
    pub(crate) out: &'a mut O,
}

/// Steps of a program that are done at once. A program of loops without data or waits would hold up
/// all others.
pub(crate) const STEPS_AT_ONCE: u32 = 256;

impl<'a, O: Output> Context<'a, O> {
    #[inline(always)]
    pub(crate) fn tick(&self) -> u32 {
        tick_of(self.now_us)
    }

    /// Returns the program of this end.
    #[inline(always)]
    pub(crate) fn program(&self) -> &'a Program {
        match self.is_client {
            true => &self.template.client,
            false => &self.template.server,
        }
    }

    /// Returns the program of the peer.
    #[inline(always)]
    pub(crate) fn program_of_peer(&self) -> &'a Program {
        match self.is_client {
            true => &self.template.server,
            false => &self.template.client,
        }
    }

    /// Returns what the peer's program sends.
    #[inline(always)]
    pub(crate) fn expected(&self) -> &'a Script {
        self.program_of_peer().sent()
    }

    /// True if the `len` bytes have arrived that the program waits for.
    #[inline(always)]
    pub(crate) fn has_received(&self, end: &Endpoint, len: u32) -> bool {
        let before = self.program().received_before(end.step, end.loops);
        !is_before(end.received(), before.wrapping_add(len))
    }

    /// Goes on after a step that has received all that it waits for.
    #[inline(always)]
    pub(crate) fn end_receive(&mut self, end: &mut Endpoint) {
        end.step += 1;
        let is_last = !matches!(self.program().step(end.step), Step::Receive(_));
        if is_last && end.take(flag::TIMES_RESPONSE) && self.is_client {
            let latency = (self.now_us as u32).wrapping_sub(end.timed_at);
            self.latencies.response.saturating_record(latency.into());
        }
    }

    /// Notes that a request is sent now.
    #[inline(always)]
    pub(crate) fn note_request(&mut self, end: &mut Endpoint) {
        end.timed_at = self.now_us as u32;
        end.set(flag::AWAITS_RESPONSE | flag::TIMES_RESPONSE);
    }

    /// Waits for the begin of the next round. The moments of a connection are a period apart, and
    /// follow from its addresses and ports: those of all connections are spread over the period. A
    /// moment that passes before the round is over is left out.
    pub(crate) fn begin_pace(&mut self, end: &mut Endpoint, pace: Pace) {
        let is_first = end.loops[0] == 0;
        if is_first {
            self.begin_hold(end);
        } else if !end.has(flag::HOLDS) {
            // It was released while it exchanged messages.
            return self.leave_rounds(end);
        }
        end.step += 1;
        let ports = u64::from(end.local_port) << 48 ^ u64::from(end.remote_port) << 32;
        let others = u64::from(end.local) << 16 ^ u64::from(end.remote);
        let place = (ports ^ others).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let period_us = u64::from(pace.period_us);
        let phase_us = (u128::from(place) * u128::from(period_us) >> 64) as u64;
        let mut wait_us = period_us - (self.now_us + phase_us) % period_us;
        if is_first && pace.is_first_late && wait_us < period_us / 2 {
            wait_us += period_us;
        }
        let after = tick_of(self.now_us + wait_us).wrapping_add(1).wrapping_sub(self.tick());
        end.wait_program(self.tick(), after);
    }

    /// Goes on behind the rounds of the program.
    pub(crate) fn leave_rounds(&self, end: &mut Endpoint) {
        end.step = self.program().after_rounds;
        end.loops = [0; LOOPS];
    }

    /// Releases an end that holds the connection, or that waits for its next round. One that
    /// exchanges messages leaves after its round.
    pub(crate) fn release(&mut self, end: &mut Endpoint) -> Fate {
        end.clear(flag::HOLDS);
        let is_between_rounds = || {
            let before = end.step.checked_sub(1).map(|it| self.program().step(it));
            end.has(flag::PROGRAM_WAITS)
                && end.loops[1] == 0
                && matches!(before, Some(Step::Pace(_)))
        };
        match self.program().step(end.step) {
            Step::Hold => end.step += 1,
            _ if is_between_rounds() => self.leave_rounds(end),
            _ => return Fate::Open,
        }
        self.go_on(end)
    }

    /// True if an end with rounds has nothing to wait for where its program holds the connection:
    /// it was released before.
    pub(crate) fn was_released(&self, end: &Endpoint) -> bool {
        self.program().pace().is_some() && !end.has(flag::HOLDS)
    }

    /// True if a server waits for the next message of a client that may close between its rounds.
    pub(crate) fn is_between_messages(&self, end: &Endpoint) -> bool {
        !self.is_client
            && self.template.client.pace().is_some()
            && end.received() == self.program().received_before(end.step, end.loops)
    }

    /// Returns how long such a server over UDP waits, which does not see its client leave: for as
    /// long as a client takes that is there.
    pub(crate) fn ticks_to_next_round(&self, end: &Endpoint) -> Option<u32> {
        let pace = self.template.client.pace().filter(|_| self.is_between_messages(end))?;
        Some(ticks_of_us(pace.period_us).saturating_mul(2).saturating_add(self.waits.answer))
    }

    /// Holds the connection open until it is released.
    pub(crate) fn begin_hold(&mut self, end: &mut Endpoint) {
        if !end.has(flag::HOLDS) {
            end.set(flag::HOLDS);
            self.begins_to_hold = true;
        }
    }

    /// True if the end waits as long as the peer's program, or its own, holds the connection.
    #[inline(always)]
    pub(crate) fn waits_for_release(&self, end: &Endpoint) -> bool {
        end.has(flag::HOLDS) && self.program().step(end.step) == Step::Hold
            || self.template.client.holds && self.program().step(end.step) == Step::WaitForClose
    }

    #[inline(always)]
    pub(crate) fn count(&mut self, counter: Counter) {
        self.counters[counter] += 1;
    }

    /// Returns a random number (xorshift64*, Vigna 2016).
    pub(crate) fn random(&mut self) -> u64 {
        let state = &mut *self.random;
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns the initial sequence number of a connection whose key has this hash. It grows by 16
    /// each microsecond, so that a tuple that is used again begins behind its earlier connection
    /// (RFC 9293 section 3.4.1): a peer in TIME-WAIT then accepts the SYN.
    #[inline(always)]
    pub(crate) fn initial_number(&self, hash: u64) -> u32 {
        let clock = self.begun_us.wrapping_add(self.now_us) << 4;
        (hash as u32).wrapping_add(clock as u32)
    }

    /// True if a frame can be sent now. Otherwise the end tries again at the next tick.
    #[inline(always)]
    fn has_room(&mut self, end: &mut Endpoint) -> bool {
        if self.out.room() > 0 {
            return true;
        }
        self.count(Counter::Blocked);
        end.set(flag::BLOCKED);
        end.wait_transport(self.tick(), 1);
        false
    }

    #[inline(always)]
    fn path(&self, end: &Endpoint) -> Path {
        Path {
            dst_mac: self.macs.neighbour(end.neighbour),
            src_mac: self.macs.own,
            src: self.addresses.address(end.local),
            dst: self.addresses.address(end.remote),
            sport: end.local_port,
            dport: end.remote_port,
        }
    }

    /// Sends a segment with `len` bytes of the program's data; false if there is no room for it.
    #[inline(always)]
    pub(crate) fn send_segment(&mut self, end: &mut Endpoint, segment: &Segment, len: u32) -> bool {
        if !self.has_room(end) {
            return false;
        }
        let path = self.path(end);
        let offset = end.offset_sent(segment.seq);
        let script = self.program().sent();
        let mut bytes = 0;
        self.out.push(|room| {
            let fill = |to: &mut [u8]| script.write(offset, to);
            bytes = write_tcp(room, &path, segment, (len as usize, fill));
            bytes
        });
        self.count(Counter::SegmentsSent);
        self.count_sent(bytes, len);
        true
    }

    /// Sends a datagram with `len` bytes of the program's data; false if there is no room for it.
    pub(crate) fn send_datagram(&mut self, end: &mut Endpoint, len: u32) -> bool {
        if !self.has_room(end) {
            return false;
        }
        let path = self.path(end);
        let offset = end.written;
        let script = self.program().sent();
        let mut bytes = 0;
        self.out.push(|room| {
            bytes =
                write_udp(room, &path, (len as usize, |to: &mut [u8]| script.write(offset, to)));
            bytes
        });
        self.count_sent(bytes, len);
        true
    }

    #[inline(always)]
    fn count_sent(&mut self, bytes: usize, payload: u32) {
        self.count(Counter::FramesSent);
        self.counters[Counter::BytesSent] += bytes as u64;
        self.counters[Counter::PayloadSent] += u64::from(payload);
    }

    /// Notes that data of the peer has come: at a client, the first byte of a response.
    #[inline(always)]
    pub(crate) fn note_received(&mut self, end: &mut Endpoint, payload: u16) {
        self.counters[Counter::PayloadReceived] += u64::from(payload);
        if end.take(flag::AWAITS_RESPONSE) && self.is_client {
            self.count(Counter::Responses);
            let latency = (self.now_us as u32).wrapping_sub(end.timed_at);
            self.latencies.first_byte.saturating_record(latency.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_neighbour_has_a_number_of_its_own() {
        let mac = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            [2, 0, a, b, c, d]
        };
        let mut macs = Macs::new(mac(1_000_000), mac(0));
        for number in (0..1 << 16).chain(0..1 << 16) {
            assert_eq!(macs.number(mac(number)), Some(number as u16));
            assert_eq!(macs.neighbour(number as u16), mac(number));
        }
        assert_eq!(macs.number(mac(1 << 16)), None);
    }
}
