// SPDX-License-Identifier: BSD-3-Clause
//! Tests the line of a bad link in simulated time.

use super::*;

const NANOS: u64 = 1_000_000_000;

fn shares(lost: u32, duplicated: u32, reordered: u32, damaged: u32) -> Impairments {
    Impairments { lost, duplicated, reordered, damaged }
}

/// Sends `count` numbered IPv4 frames through a line, one each 100 us; returns those that arrive.
fn carry(link: BadLink, seed: u64, count: u32) -> (Vec<Vec<u8>>, Arc<BadLinkCounters>) {
    let mut line = Line::new(link, Lottery::new(link.impairments, seed));
    let mut arrived = Vec::new();
    for number in 0..count {
        let now = u64::from(number) * 100_000;
        line.enter(now, |room| {
            room[..60].fill(0);
            room[12..14].copy_from_slice(&[8, 0]);
            room[14..18].copy_from_slice(&number.to_be_bytes());
            60
        });
        while let Some(place) = line.leave(now) {
            arrived.push(line.frame(place).to_vec());
            line.free(place);
        }
    }
    while let Some(place) = line.leave(NANOS * 1000) {
        arrived.push(line.frame(place).to_vec());
        line.free(place);
    }
    assert_eq!((line.used(), line.room()), (0, 2048));
    (arrived, Arc::clone(&line.counters))
}

fn count(counters: &BadLinkCounters, name: &str) -> u64 {
    counters.named().find(|(it, _)| *it == name).expect("a counter").1
}

#[test]
fn every_impairment_is_counted() {
    let link = BadLink { impairments: shares(10_000, 20_000, 30_000, 5000), delay_ns: 1_000_000 };
    let (arrived, counters) = carry(link, 3, 50_000);
    let [lost, duplicated, reordered, damaged] =
        ["lost", "duplicated", "reordered", "damaged"].map(|name| count(&counters, name));
    assert_eq!(arrived.len() as u64, 50_000 - lost + duplicated);
    for (count, share) in [(lost, 500), (duplicated, 1000), (reordered, 1500), (damaged, 250)] {
        assert!((share * 4 / 5..share * 6 / 5).contains(&count), "{count} of {share}");
    }
    let is_whole = |frame: &&Vec<u8>| frame[18..].iter().all(|byte| *byte == 0);
    let number = |frame: &Vec<u8>| u32::from_be_bytes(*frame[14..].first_chunk().unwrap());
    let numbers: Vec<_> = arrived.iter().filter(is_whole).map(number).collect();
    let behind = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
    // Each reordered frame arrives behind later ones, unless its number was damaged.
    assert!(behind >= reordered && behind <= reordered + damaged, "{behind} {reordered}");
    // The same seed impairs the same frames.
    assert_eq!(carry(link, 3, 50_000).0, arrived);
    assert_ne!(carry(link, 5, 50_000).0, arrived);
}

#[test]
fn frames_wait_for_their_delay_and_more_than_fit_are_lost() {
    let link = BadLink { impairments: Impairments::default(), delay_ns: 1_000_000 };
    let mut line = Line::new(link, Lottery::new(link.impairments, 1));
    for _ in 0..5000 {
        line.enter(0, |room| {
            room[..60].fill(0);
            60
        });
    }
    assert_eq!(line.leave(999_999), None);
    assert_eq!(count(&line.counters, "lost, too many on their way"), 5000 - 4096);
    let first = line.leave(1_000_000).unwrap();
    line.free(first);
    assert_eq!((line.used(), line.room()), (4095, 0));
    line.clear();
    assert_eq!((line.used(), line.room()), (0, 2048));
}

#[test]
fn frames_that_are_not_ip_are_spared() {
    let link = BadLink { impairments: shares(1_000_000, 0, 0, 0), delay_ns: 0 };
    let mut line = Line::new(link, Lottery::new(link.impairments, 1));
    for ether_type in [[8, 6], [8, 0]] {
        line.enter(0, |room| {
            room[..60].fill(0);
            room[12..14].copy_from_slice(&ether_type);
            60
        });
    }
    assert_eq!((line.used(), count(&line.counters, "lost")), (1, 1));
}
