// SPDX-License-Identifier: BSD-3-Clause
//! What ICMP errors do to connections (RFC 5927).

use super::{Role, Stack};
use crate::counters::Counter;
use crate::endpoint::State;
use crate::icmp_error::IcmpError;
use crate::table::Key;

impl Stack {
    /// Notes an ICMP error about a packet of ours; false if the frame is none.
    pub(super) fn note_error(&mut self, frame: &[u8]) -> bool {
        let Some(error) = IcmpError::read(frame) else { return false };
        let IcmpError { is_port, src, dst, sport, dport, is_udp, seq } = error;
        let local = match self.role {
            Role::Client => self.addresses.number_of_client(src),
            Role::Server => self.addresses.number_of_server(src),
        };
        let Some((local, remote)) = local.zip(self.addresses.number(dst)) else { return false };
        let key = Key { remote, local, remote_port: dport, local_port: sport, is_udp };
        let Some(id) = self.table.find(&key, key.hash()) else {
            self.counters[Counter::Stray] += 1;
            return true;
        };
        let end = &self.table.records[id as usize];
        // Only who sees our packets knows a number that is on its way (section 4.1).
        let is_on_its_way = seq.wrapping_sub(end.una) < u32::from(end.inflight.max(end.recover));
        if !is_udp && !is_on_its_way {
            self.counters[Counter::Stray] += 1;
            return true;
        }
        self.counters[Counter::IcmpErrors] += 1;
        match end.state {
            State::Udp if is_port => self.end(id, Counter::Refused),
            State::Udp | State::SynSent | State::SynReceived => self.end(id, Counter::Unreachable),
            // An open connection goes on: it sends again, until it gives up (section 5.2).
            _ => {}
        }
        true
    }
}
