// SPDX-License-Identifier: BSD-3-Clause
//! Tests a sender, a reflector and a receiver at two ends of a cable, without hardware.

mod common;

use common::{Bench, checks};
use generator::{
    BurstSizes, Lanes, Laps, Phase, Receive, Reflection, Reflector, ReflectorQueue,
    ReflectorReport, Session, Stage, TakenFrames, Task, Totals, Transmit, mailbox,
};
use std::sync::Arc;
use testkit::stream::{setup, streams};
use traffic::{Swap, Written};

const SEED: u64 = 5;
const INTERVAL_NS: u64 = 10_000_000;

/// Sends the streams from one end of a cable, reflects them at the other, and receives them.
fn run(bench: &mut Bench, texts: &[&str]) -> (Totals, ReflectorReport) {
    run_in(BurstSizes::default(), bench, texts)
}

/// Sends the streams from one end of a cable, reflects them at the other, and receives them. Both
/// ends use bursts of the sizes `bursts`.
fn run_in(bursts: BurstSizes, bench: &mut Bench, texts: &[&str]) -> (Totals, ReflectorReport) {
    let [mut near, (mut far_rx, mut far_tx)] = bench.cable();
    let clock = bench.clock;
    let mut session = Session::new(clock, INTERVAL_NS, Lanes::stamped(texts.len()));
    let mut sender =
        session.sender(streams(texts, &setup(SEED)), 0, bench.tx(&mut near).with_burst(bursts.tx));
    let mut receiver = session.receiver(common::rx(&mut near, bursts.rx), checks(SEED));
    let mut ledger = session.into_ledger();
    let (outbox, mut turned) = mailbox(INTERVAL_NS, ReflectorReport::default);
    let reflection = Reflection { swap: Swap::Ports, tries: 0, bursts };
    let (rx, tx) = (far_rx.pop().unwrap(), far_tx.pop().unwrap());
    let ends = vec![ReflectorQueue { rx, tx, counters: Arc::default(), addresses: None }];
    let mut reflector = Reflector::new(ends, reflection, outbox);
    let mut tasks: [&mut dyn Task; 3] = [&mut sender, &mut reflector, &mut receiver];
    let phase = Phase::new();
    let mut idle_turns = 0;
    while idle_turns < 100 {
        let mut is_any = false;
        tasks
            .iter_mut()
            .for_each(|task| is_any |= task.turn(clock.now(), phase.get(), &mut Laps::off()));
        idle_turns = if is_any || !ledger.is_all_sent() { 0 } else { idle_turns + 1 };
        ledger.poll();
    }
    phase.set(Stage::End);
    tasks.iter_mut().for_each(|task| task.finish(clock.now()));
    ledger.poll();
    let mut reflected = ReflectorReport::default();
    turned.take_all(|report| {
        reflected.received += report.received;
        reflected.reflected += report.reflected;
    });
    (ledger.totals().clone(), reflected)
}

#[test]
fn every_packet_comes_back_and_is_verified() {
    let mut bench = Bench::new();
    let texts = [
        "count=20000 rate=5Mpps",
        "count=1000 rate=1Mpps proto=tcp size=128-1518+10 sport=1024-2047",
        "count=500 rate=100kpps proto=sctp size=200 vlan=5",
        "count=700 rate=500kpps src=2001:2::1 size=100 sport=random:1-65535",
    ];
    let (totals, reflected) = run(&mut bench, &texts);
    let sent = [20_000, 1000, 500, 700];
    assert_eq!(totals.streams.iter().map(|it| it.sent).collect::<Vec<_>>(), sent);
    assert_eq!(totals.sent[0], sent.iter().sum::<u64>());
    assert_eq!((totals.unsent(), totals.damaged, totals.foreign), (0, 0, 0));
    for stream in &totals.streams {
        assert_eq!((stream.lost(), stream.received.duplicates), (0, 0), "{stream:?}");
        assert_eq!((stream.received.reordered, stream.received.too_late), (0, 0));
    }
    assert_eq!(totals.received, [totals.sent[0], 0]);
    assert_eq!(totals.latency_of_all().len(), totals.received[0]);
    assert_eq!((reflected.received, reflected.reflected), (22_200, 22_200));
    bursts_have_the_size_that_is_asked_for(&mut bench);
    bench.close_cables();
    assert_eq!(bench.mempool.in_use(), 0);
}

fn bursts_have_the_size_that_is_asked_for(bench: &mut Bench) {
    let [mut near, mut far] = bench.cable();
    let mut tx = bench.tx(&mut near).with_burst(5);
    let mut rx = common::rx(&mut far, 4).remove(0).rx;
    for _ in 0..3 {
        assert_eq!(tx.prepare(), 5);
        (0..5).for_each(|_| tx.push(0, |_| Written { len: 60, stream: 0 }));
        assert_eq!((tx.prepare(), tx.waiting()), (0, 5));
        assert_eq!(tx.flush(), TakenFrames { packets: 5, bytes: 300 });
    }
    assert_eq!(rx.most(), 4);
    let received: Vec<_> = (0..5)
        .map(|_| {
            let received = rx.receive();
            rx.free();
            received
        })
        .collect();
    assert_eq!(received, [4, 4, 4, 3, 0]);
    drop((tx, rx, near, far));
    let (totals, reflected) = run_in(BurstSizes { rx: 3, tx: 2 }, bench, &["count=999 rate=5Mpps"]);
    assert_eq!((totals.streams[0].sent, totals.streams[0].lost()), (999, 0));
    assert_eq!((reflected.received, reflected.reflected), (999, 999));
}
