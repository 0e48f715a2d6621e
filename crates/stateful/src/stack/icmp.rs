// SPDX-License-Identifier: BSD-3-Clause
//! What ICMP errors do to connections (RFC 5927).

use super::Stack;
use crate::counters::Counter;
use crate::endpoint::{EndpointId, State};
use crate::icmp_error::IcmpError;

/// What follows for a frame that was noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It is processed with its burst.
    Noted,
    /// It is of another protocol than TCP and UDP, and no ICMP error about a connection.
    Foreign,
    /// It belongs to the connection of this worker, which must get it.
    OfWorker(u16),
}

impl Stack {
    /// Notes a frame that is neither TCP nor UDP.
    #[inline(never)]
    pub(super) fn note_foreign(&mut self, frame: &[u8]) -> Note {
        let error = IcmpError::read(frame);
        let found = error.and_then(|error| Some((self.key_of(&error.ends)?, error)));
        let Some((key, error)) = found else {
            self.counters[Counter::Foreign] += 1;
            return Note::Foreign;
        };
        let Some(id) = self.table.find(&key, key.hash()) else {
            if let Some(worker) = self.other_owner(error.ends) {
                return Note::OfWorker(worker);
            }
            self.counters[Counter::Stray] += 1;
            return Note::Noted;
        };
        self.take_error(id, &error);
        Note::Noted
    }

    fn take_error(&mut self, id: EndpointId, error: &IcmpError) {
        let end = &self.table.records[id as usize];
        // Only who sees our packets knows a number that is on its way (section 4.1).
        let most = u32::from(end.inflight.max(end.recover));
        let is_on_its_way = error.seq.wrapping_sub(end.una) < most;
        if !error.ends.is_udp && !is_on_its_way {
            self.counters[Counter::Stray] += 1;
            return;
        }
        self.counters[Counter::IcmpErrors] += 1;
        match end.state {
            State::Udp if error.is_port => self.close(id, Counter::Refused, self.expired_ns),
            State::Udp => self.close(id, Counter::Unreachable, self.expired_ns),
            State::SynSent | State::SynReceived => {
                self.end(id, Counter::Unreachable, self.expired_ns);
            }
            // An open connection goes on: it sends again, until it gives up (section 5.2).
            _ => {}
        }
    }
}
