// SPDX-License-Identifier: BSD-3-Clause
//! Queries the reflector at the far end of a port for its counters.

use crate::neighbours::Replies;
use rtrb::{Consumer, Producer, RingBuffer};
use traffic::neighbour::{Neighbour, ShortFrame};
use traffic::reflector_query::{ReflectorCounters, query};

/// Maximum number of pending queries and answers.
const RING: usize = 16;

/// Queries a reflector, on the control thread.
pub struct ReflectorClient {
    queries: Producer<ShortFrame>,
    answers: Vec<Consumer<(u64, ReflectorCounters)>>,
    from: (Neighbour, u16),
    to: (Neighbour, u16),
    tags: Vec<u8>,
    /// Number of the last query.
    number: u64,
}

/// The end of a ring into which a receiver puts a reflector's answers.
pub struct Answers(Producer<(u64, ReflectorCounters)>);

impl ReflectorClient {
    /// Makes a client with queries from `from` to `to`, each a neighbour and a UDP port, with
    /// these VLAN tags. Also returns the ring of queries, which a sender of the port sends.
    pub fn new(from: (Neighbour, u16), to: (Neighbour, u16), tags: Vec<u8>) -> (Self, Replies) {
        let (queries, taken) = RingBuffer::new(RING);
        (Self { queries, answers: Vec::new(), from, to, tags, number: 0 }, Replies(taken))
    }

    /// Makes a ring for answers; returns the end for a receiver of the port.
    pub fn add_receiver(&mut self) -> Answers {
        let (answers, taken) = RingBuffer::new(RING);
        self.answers.push(taken);
        Answers(answers)
    }

    /// Puts a query with the next number into the ring.
    pub fn send_query(&mut self) {
        self.number += 1;
        // If there is no room, earlier queries are still pending.
        let _ = self.queries.push(query(self.from, self.to, &self.tags, self.number));
    }

    /// Returns the number of the last query.
    pub fn last_number(&self) -> u64 {
        self.number
    }

    /// Returns an answer to query number `first` or a later one, if one has arrived.
    pub fn take_answer(&mut self, first: u64) -> Option<ReflectorCounters> {
        let answers = self.answers.iter_mut();
        let answers = answers.flat_map(|ring| std::iter::from_fn(|| ring.pop().ok()));
        let last = answers.filter(|(number, _)| *number >= first).max_by_key(|(number, _)| *number);
        last.map(|(_, counters)| counters)
    }
}

impl Answers {
    /// Puts an answer into the ring; does nothing for `None`.
    pub(crate) fn push(&mut self, answer: Option<(u64, ReflectorCounters)>) {
        if let Some(answer) = answer {
            // If there is no room, the next answer is more recent anyway.
            let _ = self.0.push(answer);
        }
    }
}
