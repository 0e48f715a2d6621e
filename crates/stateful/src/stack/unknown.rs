// SPDX-License-Identifier: BSD-3-Clause
//! Processes packets that belong to no connection: they begin one, or are answered.

use super::{Noted, Role, Stack};
use crate::context::Fate;
use crate::counters::Counter;
use crate::endpoint::State;
use crate::frame::Output;
use crate::profile::Transport;
use wire::tcp::{ACK, FIN, RST, SYN};

impl Stack {
    /// Processes a packet without a record: a server accepts a new connection.
    pub(super) fn process_unknown(
        &mut self,
        number: usize,
        frame: &[u8],
        now_ns: u64,
        out: &mut impl Output,
    ) {
        let Noted { headers, key, hash, .. } = self.burst[number];
        let Some(key) = key else { return };
        let transport = if headers.is_udp { Transport::Udp } else { Transport::Tcp };
        let is_first = headers.is_udp || headers.flags & (SYN | ACK | RST) == SYN;
        if !is_first || self.role != Role::Server {
            return self.answer_stray(number, frame, out);
        }
        let place = self.addresses.place_of_server(key.local);
        let Some(template) = self.profile.template_at(transport, headers.dport, place) else {
            return self.answer_stray(number, frame, out);
        };
        let state = if headers.is_udp { State::Udp } else { State::SynReceived };
        if headers.is_udp {
            let data = &frame[headers.payload()];
            let first = self.profile.templates[template].client.sent();
            if data.is_empty() || !first.has(0, data) {
                self.counters[Counter::UnexpectedDatagrams] += 1;
                return;
            }
        }
        let neighbour = self.macs.number(std::array::from_fn(|at| frame[6 + at]));
        let room = neighbour.and_then(|it| Some((it, self.table.insert(&key, hash, state)?)));
        let Some((neighbour, id)) = room else {
            self.counters[Counter::TableFull] += 1;
            return;
        };
        self.counters[Counter::Attempted] += 1;
        let record = &mut self.table.records[id as usize];
        (record.template, record.neighbour) = (template as u8, neighbour);
        self.act(id, now_ns, out, |context, end| match headers.is_udp {
            true => {
                end.begin_udp();
                context.receive_udp(end, &headers, &frame[headers.payload()])
            }
            false => {
                end.iss = context.initial_number(hash);
                context.accept(end, &headers);
                Fate::Open
            }
        });
    }

    /// Answers a segment that belongs to no connection (RFC 9293 section 3.10.7.1). A FIN is
    /// acknowledged: it is the end of a connection that this end has forgotten instead of keeping
    /// it in TIME-WAIT.
    pub(super) fn answer_stray(&mut self, number: usize, frame: &[u8], out: &mut impl Output) {
        let headers = self.burst[number].headers;
        let is_late_fin = headers.flags & (FIN | ACK | SYN | RST) == FIN | ACK && !headers.is_udp;
        if !is_late_fin {
            self.counters[Counter::Stray] += 1;
        }
        if headers.is_udp || headers.flags & RST != 0 {
            return;
        }
        let macs = [std::array::from_fn(|at| frame[6 + at]), self.macs.own];
        if out.room() == 0 {
            self.counters[Counter::Blocked] += 1;
            return;
        }
        let mut bytes = 0;
        out.push(|room| {
            bytes = headers.write_answer(room, macs, is_late_fin);
            bytes
        });
        self.counters[Counter::FramesSent] += 1;
        self.counters[Counter::BytesSent] += bytes as u64;
        self.counters[Counter::ResetsSent] += u64::from(!is_late_fin);
    }
}
