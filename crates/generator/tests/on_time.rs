// SPDX-License-Identifier: BSD-3-Clause
//! Tests that a port holds the frames of a sender until they are due.

mod common;

use common::{Bench, checks, rx};
use dpdk::{BURST_MAX, Port, SendTime};
use generator::{Lanes, Laps, PortReading, PortTx, SendTimes, Session, Stage, Task, Totals};
use std::time::Duration;
use testkit::host::twin_driver_or_skip;
use testkit::stream::{setup, streams};

const SEED: u64 = 9;
const COUNT: u64 = 20_000;
const INTERVAL_NS: u64 = 10_000_000;
/// Time by which frames are given to the port before they are due. It is far above the error of a
/// clock, so frames that the port does not hold are found.
const AHEAD_NS: u64 = 1_000_000;

/// Sends a stream from one end of a wire to the other. The sending port holds frames until they are
/// due.
fn run(bench: &mut Bench) -> Totals {
    let ports = ["net_twin0", "net_twin1"];
    let ports = ports.map(|name| Port::probe(&bench.eal, &format!("{name},wire=w")).unwrap());
    let reading = PortReading::of(&ports[0]).unwrap();
    let [mut near, mut far] = bench.configure(ports);
    std::thread::sleep(Duration::from_millis(50));
    let clock = bench.clock.starting_in(Duration::from_millis(2));
    let field = SendTime::reserve(&bench.eal).unwrap();
    let times = SendTimes { field, clock, reading, ahead_ns: AHEAD_NS };
    let tx = bench.tx(&mut near).on_time(times).unwrap();
    let session = Session::new(clock, INTERVAL_NS, Lanes::stamped(1));
    let mut session = session.starting_at(1);
    let text = format!("count={COUNT} rate=200kpps");
    let mut sender = session.sender(streams(&[&text], &setup(SEED)), 0, tx);
    let mut receiver = session.receiver(rx(&mut far, BURST_MAX), checks(SEED));
    let mut ledger = session.into_ledger();
    let mut idle_turns = 0;
    while idle_turns < 100 {
        let mut is_any = false;
        for task in [&mut sender as &mut dyn Task, &mut receiver] {
            is_any |= task.turn(clock.now(), Stage::Send, &mut Laps::off());
        }
        idle_turns = if is_any || !ledger.is_all_sent() { 0 } else { idle_turns + 1 };
        ledger.poll();
    }
    for task in [&mut sender as &mut dyn Task, &mut receiver] {
        task.finish(clock.now());
    }
    ledger.poll();
    ledger.totals().clone()
}

#[test]
fn frames_depart_when_they_are_due() {
    let mut bench = Bench::new();
    // Ring ports hold no frames, and have no clock.
    let [mut near, _far] = bench.cable();
    assert!(!bench.ports[0].info().can_send_on_time);
    assert!(PortReading::of(&bench.ports[0]).is_err());
    drop::<PortTx>(bench.tx(&mut near));
    if twin_driver_or_skip().is_none() {
        return;
    }
    let totals = run(&mut bench);
    let [stream] = &totals.streams[..] else { panic!("one stream") };
    assert_eq!((stream.sent, stream.lost(), totals.unsent()), (COUNT, 0, 0));
    assert_eq!((stream.received.reordered, stream.received.duplicates), (0, 0));
    assert_eq!((totals.damaged, totals.foreign), (0, 0));
    // A packet that arrives before the time in its stamp counts as 1 ns of latency. If the cpu is
    // taken away while a clock is read, the reading is wrong, and a few frames are early.
    let latency = totals.latency_of_all();
    let early = latency.count_between(0, 1);
    assert!(early < COUNT / 10, "{early} of {COUNT} packets departed before they were due");
    drop((near, _far));
    bench.close_cables();
    assert_eq!(bench.mempool.in_use(), 0);
}
