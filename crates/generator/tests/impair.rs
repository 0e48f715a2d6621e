// SPDX-License-Identifier: BSD-3-Clause
//! Tests that the receiver counts exactly the packets that a wire has lost, duplicated, reordered
//! and damaged.

mod common;

use common::{Bench, checks, rx};
use dpdk::BURST_MAX;
use generator::{Impairer, Impairments, LaneReport, Lanes, Laps, Phase, Session, Stage, Task};
use testkit::stream::{setup, streams};
use traffic::StampKey;

const INTERVAL_NS: u64 = 10_000_000;

/// Sends the streams through a wire with these impairments, and checks the counters of the
/// receiver.
fn check(bench: &mut Bench, texts: &[&str], impairments: Impairments, seed: u64) {
    bench.close_cables();
    let ([mut near, mut wire_in], [mut wire_out, mut far]) = (bench.cable(), bench.cable());
    let mut session = Session::new(bench.clock, INTERVAL_NS, Lanes::stamped(texts.len()));
    let mut sender = session.sender(streams(texts, &setup(seed)), 0, bench.tx(&mut near));
    let (from, to) = (wire_in.0.pop().unwrap(), wire_out.1.pop().unwrap());
    let mut impairer =
        Impairer::new(from, to, bench.mempool, impairments, (seed, StampKey::new(seed)));
    let impaired = impairer.impaired();
    let mut receiver = session.receiver(rx(&mut far, BURST_MAX), checks(seed));
    let mut ledger = session.into_ledger();
    let mut tasks: [&mut dyn Task; 3] = [&mut sender, &mut impairer, &mut receiver];
    let phase = Phase::new();
    let mut idle_turns = 0;
    while idle_turns < 100 {
        let mut is_any = false;
        tasks
            .iter_mut()
            .for_each(|task| is_any |= task.turn(bench.clock.now(), phase.get(), &mut Laps::off()));
        ledger.poll();
        if ledger.is_all_sent() {
            phase.set(Stage::Drain);
            idle_turns = if is_any { 0 } else { idle_turns + 1 };
        }
    }
    tasks.iter_mut().for_each(|task| task.finish(bench.clock.now()));
    ledger.poll();
    let totals = ledger.totals();
    let [lost, duplicated, reordered, damaged] = impaired.counts();
    let sum = |of: fn(&LaneReport) -> u64| -> u64 {
        totals.streams.iter().map(|stream| of(&stream.received)).sum()
    };
    let found_lost: u64 = totals.streams.iter().map(generator::StreamTotals::lost).sum();
    let what = format!("{impairments:?}, seed {seed}");
    assert_eq!(found_lost, lost + damaged, "lost, {what}");
    assert_eq!(sum(|lane| lane.duplicates), duplicated, "duplicates, {what}");
    assert_eq!(sum(|lane| lane.reordered), reordered, "reordered, {what}");
    assert_eq!(totals.damaged, damaged, "damaged, {what}");
    assert_eq!((totals.foreign, sum(|lane| lane.too_late)), (0, 0), "{what}");
    let is_asked = [impairments.lost, impairments.duplicated, impairments.reordered];
    for (asked, found) in is_asked.into_iter().zip([lost, duplicated, reordered]) {
        assert_eq!(asked > 0, found > 0, "something is done where it is asked for, {what}");
    }
}

#[test]
fn every_impairment_is_found_and_nothing_else() {
    let mut bench = Bench::new();
    let texts = [
        "count=20000 rate=max",
        "count=10000 rate=max size=80-1518+10 proto=tcp",
        "count=5000 rate=max size=100 src=2001:2::1 sport=random:1-65535",
    ];
    let none = Impairments::default();
    check(&mut bench, &texts, none, 1);
    check(&mut bench, &texts, Impairments { lost: 10_000, ..none }, 2);
    check(&mut bench, &texts, Impairments { duplicated: 10_000, ..none }, 3);
    check(&mut bench, &texts, Impairments { reordered: 10_000, ..none }, 4);
    check(&mut bench, &texts, Impairments { damaged: 10_000, ..none }, 5);
    for seed in 6..26 {
        let all =
            Impairments { lost: 30_000, duplicated: 20_000, reordered: 50_000, damaged: 9000 };
        check(&mut bench, &texts, all, seed);
    }
    assert_eq!(bench.mempool.in_use(), 0);
}
