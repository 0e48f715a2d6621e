// SPDX-License-Identifier: BSD-3-Clause
//! Queries reflectors for their counters before and after a run, so that the results show where
//! packets were lost.

use super::neighbours::{Senders, macs};
use generator::{Answers, ReflectorClient, Replies};
use report::output::write_line;
use std::io;
use std::time::{Duration, Instant};
use traffic::Side;
use traffic::reflector_query::ReflectorCounters;

/// Time to wait for an answer. A reflector's counters are at most 0.1 s old.
const ANSWER: Duration = Duration::from_millis(400);
/// Time between two queries while an answer is missing.
const AGAIN: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_millis(10);

/// Queries to the reflectors at the far ends of the ports.
#[derive(Default)]
pub(super) struct ReflectorQueries(Vec<PortQuery>);

struct PortQuery {
    port: usize,
    client: ReflectorClient,
    /// Queries for the first sender of the port.
    queries: Option<Replies>,
    /// Counters before the run.
    before: Option<ReflectorCounters>,
}

impl ReflectorQueries {
    /// Prepares queries from every port that sends. `own` has the MAC addresses of the ports.
    pub(super) fn new(
        senders: &Senders<'_>,
        ports: usize,
        own: [[u8; 6]; 2],
        gateways: [Option<[u8; 6]>; 2],
    ) -> Self {
        let sides = [Side::A, Side::B].into_iter().enumerate().take(ports);
        let queries = sides.filter_map(|(port, side)| {
            let macs = macs(own, gateways, side);
            let across = macs[side.other() as usize];
            let (client, queries) = senders.reflector_client(port, macs[port], across)?;
            Some(PortQuery { port, client, queries: Some(queries), before: None })
        });
        Self(queries.collect())
    }

    /// Returns the time by which senders begin later, so that the first answers can arrive before.
    pub(super) fn delay(&self) -> Duration {
        if self.0.is_empty() { Duration::ZERO } else { 2 * ANSWER }
    }

    /// Returns a ring for a receiver of the port, into which it puts answers.
    pub(super) fn answers(&mut self, port: usize) -> Option<Answers> {
        self.of_port(port).map(|it| it.client.add_receiver())
    }

    /// Returns the ring of queries for a sender of the port; `None` if it was taken before.
    pub(super) fn queries(&mut self, port: usize) -> Option<Replies> {
        self.of_port(port)?.queries.take()
    }

    fn of_port(&mut self, port: usize) -> Option<&mut PortQuery> {
        self.0.iter_mut().find(|it| it.port == port)
    }

    /// Queries the counters before the run; prints the ports at which no reflector answers.
    pub(super) fn begin(&mut self) {
        let found = self.query_all();
        self.print_silent(&found, "no reflector answers");
        for (query, counters) in self.0.iter_mut().zip(found) {
            query.before = counters;
        }
    }

    /// Queries the counters after the run; returns the counts of the run, by port.
    pub(super) fn end(&mut self) -> [Option<ReflectorCounters>; 2] {
        let found = self.query_all();
        self.print_silent(&found, "no reflector has answered after the run");
        let mut counted = [None; 2];
        for (query, after) in self.0.iter().zip(found) {
            let difference = after.zip(query.before).map(|(after, before)| after.since(&before));
            counted[query.port] = difference;
        }
        counted
    }

    fn print_silent(&self, found: &[Option<ReflectorCounters>], message: &str) {
        for (query, _) in self.0.iter().zip(found).filter(|(_, found)| found.is_none()) {
            let port = ["A", "B"][query.port];
            let rest = "the results do not show where packets were lost";
            write_line(io::stderr(), format_args!("millrace: port {port}: {message}: {rest}"));
        }
    }

    /// Queries all reflectors, repeatedly until all have answered or [`ANSWER`] has passed.
    fn query_all(&mut self) -> Vec<Option<ReflectorCounters>> {
        let first: Vec<u64> = self.0.iter().map(|it| it.client.last_number() + 1).collect();
        let mut found = vec![None; self.0.len()];
        let (begun, mut sent) = (Instant::now(), 0);
        while found.iter().any(Option::is_none) && begun.elapsed() < ANSWER {
            if begun.elapsed() >= sent * AGAIN {
                self.0.iter_mut().for_each(|it| it.client.send_query());
                sent += 1;
            }
            std::thread::sleep(POLL);
            for ((query, found), first) in self.0.iter_mut().zip(&mut found).zip(&first) {
                *found = query.client.take_answer(*first).or(*found);
            }
        }
        found
    }
}
