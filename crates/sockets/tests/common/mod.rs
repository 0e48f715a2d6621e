// SPDX-License-Identifier: BSD-3-Clause
//! Runs of a sender and receivers in the thread of the test.

#![allow(clippy::unwrap_used, reason = "tests")]

use generator::{
    Checks, Clock, ForeignFrameHandler, Lanes, Laps, Phase, PortQueue, Receive, Session, Stage,
    Task, Totals, Transmit,
};
use sockets::UdpStream;
use std::time::{Duration, Instant};
use testkit::stream::{setup, specs, streams};
use traffic::stream::StreamSpec;
use traffic::{StampKey, Verifier};

const SEED: u64 = 5;
const INTERVAL_NS: u64 = 10_000_000;
/// How long packets may be on their way.
const QUIET: Duration = Duration::from_millis(300);

/// Streams without a source of their own, but for those whose text has one.
pub(crate) fn udp_streams(texts: &[String]) -> Vec<UdpStream> {
    let stream = |(spec, text): (&StreamSpec, &String)| UdpStream {
        is_ipv6: spec.is_ipv6(),
        destination: spec.destination(),
        addresses: match text.contains("src=127") || text.contains("src=::1") {
            true => spec.source_addresses(16).unwrap(),
            false => Vec::new(),
        },
        ports: match text.contains("sport=") {
            true => spec.source_ports(16).unwrap(),
            false => Vec::new(),
        },
    };
    specs(texts).iter().zip(texts).map(stream).collect()
}

/// Sends all of the streams, and receives until nothing comes any more. `others` take turns too.
pub(crate) fn run<T: Transmit, R: Receive>(
    texts: &[String],
    (transmit, receive): (T, Vec<R>),
    others: &mut [&mut dyn Task],
) -> Totals {
    let clock = Clock::measured();
    let mut session = Session::new(clock, INTERVAL_NS, Lanes::stamped(texts.len()));
    let mut sender = session.sender(streams(texts, &setup(SEED)), 0, transmit);
    let queues = receive.into_iter().enumerate();
    let queues = queues
        .map(|(queue, rx)| PortQueue {
            port: 0,
            queue,
            rx,
            foreign_handler: ForeignFrameHandler::Ignores,
        })
        .collect();
    let checks = Checks { verifier: Verifier::new(SEED, StampKey::new(SEED)), window: 4096 };
    let mut receiver = session.receiver(queues, Some(checks));
    let mut ledger = session.into_ledger();
    let phase = Phase::new();
    let mut quiet_since = Instant::now();
    while quiet_since.elapsed() < QUIET {
        let mut is_any = sender.turn(clock.now(), phase.get(), &mut Laps::off());
        for other in others.iter_mut() {
            is_any |= other.turn(clock.now(), phase.get(), &mut Laps::off());
        }
        is_any |= receiver.turn(clock.now(), phase.get(), &mut Laps::off());
        ledger.poll();
        if is_any {
            quiet_since = Instant::now();
        }
    }
    phase.set(Stage::End);
    sender.finish(clock.now());
    receiver.finish(clock.now());
    ledger.poll();
    ledger.totals().clone()
}
