// SPDX-License-Identifier: BSD-3-Clause
//! Tests that a delay of 50 us is measured.

mod common;

use common::{Bench, checks};
use dpdk::{BURST_MAX, Burst};
use generator::{Clock, Lanes, Laps, Session, Stage, Task};
use std::collections::VecDeque;
use testkit::stream::{setup, streams};

const SEED: u64 = 7;
const INTERVAL_NS: u64 = 1_000_000_000;
const HELD_NS: u64 = 50_000;
/// Allowed error of the measured median.
const NEAR_NS: u64 = 10_000;
/// Maximum number of runs. Other load on this host may disturb a run, and then another is tried.
const ATTEMPTS: usize = 50;

/// Sends packets through a delay of [`HELD_NS`] each. Returns their median latency in nanoseconds.
fn median(bench: &mut Bench) -> u64 {
    let ([mut near, (mut held_rx, _)], [mut far, (_, mut held_tx)]) =
        (bench.cable(), bench.cable());
    let (mut from, mut to) = (held_rx.pop().unwrap(), held_tx.pop().unwrap());
    let clock: Clock = bench.clock;
    let session = Session::new(clock, INTERVAL_NS, Lanes::stamped(1));
    let mut session = session.starting_at(clock.now() + 1_000_000);
    let source = streams(&["count=200 rate=10kpps"], &setup(SEED));
    let mut sender = session.sender(source, 0, bench.tx(&mut near));
    let mut receiver = session.receiver(common::rx(&mut far, BURST_MAX), checks(SEED));
    let mut ledger = session.into_ledger();
    let mut held: VecDeque<(u64, Burst)> = VecDeque::new();
    let mut received = 0;
    while received < 200 {
        sender.turn(clock.now(), Stage::Send, &mut Laps::off());
        let mut burst = Burst::new();
        if from.burst(&mut burst) > 0 {
            held.push_back((clock.now() + HELD_NS, burst));
        }
        while held.front().is_some_and(|(until, _)| *until <= clock.now()) {
            let (_, mut burst) = held.pop_front().unwrap();
            received += to.burst(&mut burst);
        }
        receiver.turn(clock.now(), Stage::Send, &mut Laps::off());
    }
    for task in [&mut sender as &mut dyn Task, &mut receiver] {
        task.turn(clock.now(), Stage::Drain, &mut Laps::off());
        task.finish(clock.now());
    }
    ledger.poll();
    ledger.totals().latency_of_all().value_at_quantile(0.5)
}

#[test]
fn a_delay_of_50_us_is_found_as_such() {
    let mut bench = Bench::new();
    let mut medians = Vec::new();
    for _ in 0..ATTEMPTS {
        let median = median(&mut bench);
        assert!(median >= HELD_NS, "{median} ns: packets were held longer");
        medians.push(median);
        if median <= HELD_NS + NEAR_NS {
            return;
        }
        bench.close_cables();
    }
    panic!("in no run {HELD_NS} ns and at most {NEAR_NS} more: {medians:?}");
}
