// SPDX-License-Identifier: BSD-3-Clause
//! Ends that have ended: counts them, and keeps their ports until they may be used again.

use super::Stack;
use crate::counters::Counter;
use crate::endpoint::{EndpointId, State, flag};
use crate::wheel::{tick_of, ticks_of_ms};

impl Stack {
    /// Counts an end whose peer may not know that it has closed, and frees its record. Its ports
    /// rest as long as the peer may wait.
    #[inline(always)]
    pub(super) fn close(&mut self, id: EndpointId, counter: Counter, now_ns: u64) {
        let end = &self.table.records[id as usize];
        let timeouts = &self.profile.timeouts;
        let (state, rest_ms) = match end.state {
            State::Udp => {
                let template = &self.profile.templates[usize::from(end.template)];
                (State::RestsUdp, template.rest_ms(timeouts, counter))
            }
            _ => (State::Kept, timeouts.reuse_ms),
        };
        self.count_end(id, counter);
        self.keep(id, (state, rest_ms), now_ns);
    }

    /// Counts an end, and frees its record.
    pub(super) fn end(&mut self, id: EndpointId, counter: Counter, now_ns: u64) {
        let state = match self.table.records[id as usize].state {
            State::Udp => State::RestsUdp,
            _ => State::RestsTcp,
        };
        self.count_end(id, counter);
        self.keep(id, (state, self.profile.timeouts.reuse_ms), now_ns);
    }

    /// Frees a record, unless its ports would be used again before they have rested for so long.
    #[inline(always)]
    fn keep(&mut self, id: EndpointId, (state, rest_ms): (State, u32), now_ns: u64) {
        let end = &self.table.records[id as usize];
        let opener = self.openers.get(usize::from(end.template));
        let is_reused_soon = opener.is_some_and(|opener| {
            let client = self.addresses.place_of_client(end.local);
            opener.is_reused_soon(client, end.local_port, rest_ms)
        });
        if !is_reused_soon {
            return self.forget(id);
        }
        let end = &mut self.table.records[id as usize];
        end.state = state;
        end.clear(flag::PROGRAM_WAITS | flag::BLOCKED | flag::HOLDS);
        end.wait_transport(tick_of(now_ns / 1000), ticks_of_ms(rest_ms));
        self.arm(id);
    }

    #[inline(always)]
    pub(super) fn count_end(&mut self, id: EndpointId, counter: Counter) {
        let end = &self.table.records[id as usize];
        let counter = match counter {
            Counter::NoSynAck | Counter::Timeout | Counter::NoAnswer
                if end.has(flag::BAD_CHECKSUM) =>
            {
                Counter::Checksum
            }
            counter => counter,
        };
        self.counters[counter] += 1;
        if let Some(opener) = self.openers.get_mut(usize::from(end.template)) {
            opener.active -= 1;
        }
    }

    #[inline(always)]
    pub(super) fn forget(&mut self, id: EndpointId) {
        if self.table.records[id as usize].is_linked() {
            self.wheel.unlink(&mut self.table.records, id);
        }
        self.table.remove(id);
    }
}
