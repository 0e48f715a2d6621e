// SPDX-License-Identifier: BSD-3-Clause
//! What ICMP errors do to connections (RFC 5927).

use super::{Stack, own_number};
use crate::counters::Counter;
use crate::endpoint::{EndpointId, State};
use crate::icmp_error::IcmpError;
use crate::table::Key;

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
        let found = error.and_then(|error| Some((self.key_of_quoted(&error)?, error)));
        let Some((key, error)) = found else {
            self.counters[Counter::Foreign] += 1;
            return Note::Foreign;
        };
        let Some(id) = self.table.find(&key, key.hash()) else {
            let IcmpError { src, dst, sport, dport, is_udp, .. } = error;
            if let Some(worker) = self.other_owner([src, dst], [sport, dport], is_udp) {
                return Note::OfWorker(worker);
            }
            self.counters[Counter::Stray] += 1;
            return Note::Noted;
        };
        self.take_error(id, &error);
        Note::Noted
    }

    /// Returns the key of the connection whose packet is quoted; `None` if it is not ours.
    fn key_of_quoted(&self, error: &IcmpError) -> Option<Key> {
        Some(Key {
            local: own_number(self.role, &self.addresses, error.src)?,
            remote: self.addresses.number(error.dst)?,
            remote_port: error.dport,
            local_port: error.sport,
            is_udp: error.is_udp,
        })
    }

    fn take_error(&mut self, id: EndpointId, error: &IcmpError) {
        let end = &self.table.records[id as usize];
        // Only who sees our packets knows a number that is on its way (section 4.1).
        let most = u32::from(end.inflight.max(end.recover));
        let is_on_its_way = error.seq.wrapping_sub(end.una) < most;
        if !error.is_udp && !is_on_its_way {
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
