// SPDX-License-Identifier: BSD-3-Clause
//! Clocks that leap, stand still, run backwards and come round.

use super::{MILLISECOND, SECOND, Tried, config};
use engine::{Config, EndReason, Timeouts};
use wire::FrameBuilder;
use wire::tcp::{ACK, SYN};

const HOUR: u64 = 3600 * SECOND;
const YEARS: u64 = 10 * 365 * 24 * HOUR;
/// Where the microseconds that a record keeps come round: 47 bits of them.
const ROUND: u64 = (1 << 47) * 1000;

/// A packet of each of some flows of every protocol.
fn packets(round: u32) -> Vec<Vec<u8>> {
    let tcp = |i: u8| {
        let flags = if round == 0 { SYN } else { ACK };
        FrameBuilder::ipv4([10, 0, 0, i], [10, 1, 0, 0]).tcp(9, 80).flags(flags).seq(round)
    };
    let ends = |i: u8| FrameBuilder::ipv4([10, 0, 0, i], [10, 1, 0, 0]);
    let frames = (0..8).flat_map(|i| [tcp(i), ends(i).udp(9, 53), ends(i).icmp_echo(9, 1)]);
    frames.map(|frame| frame.build()).collect()
}

fn tried() -> Tried {
    Tried::new(&Config { timeouts: Timeouts::SHORT, ..config(64) })
}

/// After these times, one after the other, no record ends before it began; then all end in their
/// time.
fn lives_through(times: &[u64]) {
    let mut tried = tried();
    let mut latest = 0;
    for (round, &now) in (0..).zip(times) {
        tried.give(now, &packets(round), |_| true);
        latest = latest.max(now);
    }
    let later = latest.saturating_add(10 * SECOND);
    while tried.engine.expire(later, 64) > 0 {
        tried.records.extend(std::iter::from_fn(|| tried.engine.next_record()));
    }
    assert_eq!(tried.engine.stats().active(), 0, "{times:?}");
    assert_eq!(tried.engine.stats().packets(), tried.given);
    for record in &tried.records {
        assert!(record.start <= record.end && record.end <= latest, "{times:?}: {record:?}");
    }
    let packets: u64 = tried.records.iter().map(|record| record.orig.packets).sum();
    assert_eq!(packets, tried.given, "{times:?}");
}

#[test]
fn a_clock_may_leap_and_stand_still() {
    let start = 1_700_000_000 * SECOND;
    for leap in [0, 1, MILLISECOND, SECOND, 10 * SECOND, HOUR, YEARS] {
        lives_through(&[start, start + leap, start + leap + MILLISECOND]);
        lives_through(&[start, start - leap, start - leap + MILLISECOND, start + MILLISECOND]);
        lives_through(&[start, start + leap, start, start + leap + SECOND]);
    }
    lives_through(&[0, u64::MAX - 10 * SECOND]);
}

#[test]
fn the_microseconds_of_a_record_come_round() {
    for before in [0, 1000, MILLISECOND, 3 * SECOND] {
        for after in [0, 1000, MILLISECOND, SECOND] {
            for round in [ROUND, 2 * ROUND, 12 * ROUND] {
                lives_through(&[round - before, round + after]);
            }
        }
    }
}

#[test]
fn what_is_silent_across_the_round_ends_in_its_time_and_not_before() {
    let mut tried = tried();
    tried.give(ROUND - SECOND, &packets(0), |_| true);
    for (at, active) in [(3 * SECOND, 24), (4 * SECOND + 9 * MILLISECOND, 0)] {
        while tried.engine.expire(ROUND + at, 64) > 0 {}
        assert_eq!(tried.engine.stats().active(), active, "{at} ns behind it");
    }
    let ended = tried.engine.stats().ended;
    assert_eq!(ended[EndReason::Idle as usize], 24);
}

/// Who calls between bursts has the same clock, which is finer than that of records.
#[test]
fn no_call_between_bursts_makes_the_times_of_records_finer() {
    let now = 1_700_000_000 * SECOND + 81;
    let between: [fn(&mut Tried, u64); 2] = [
        |tried, now| tried.engine.recheck_rules(now, 64),
        |tried, now| _ = tried.engine.expire(now, 64),
    ];
    for call in between {
        let mut tried = tried();
        call(&mut tried, now);
        tried.give(now, &packets(0), |_| true);
        tried.close(|_| true);
        assert_eq!(tried.records.len(), 24);
        for record in &tried.records {
            assert_eq!([record.start, record.end], [now - 81; 2], "{record:?}");
        }
    }
}
