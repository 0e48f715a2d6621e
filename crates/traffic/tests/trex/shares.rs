// SPDX-License-Identifier: BSD-3-Clause
//! The parts of a profile together are the whole profile.

use crate::seen::{Seen, see};
use crate::{bind, profile, udp_exchange};
use proptest::prelude::*;
use std::collections::HashMap;
use traffic::trex::{Decimal, Options, Profile, Split, Traffic};

type Frames = HashMap<(usize, Seen), u64>;

/// How often each frame comes before `end_ns`.
fn count(traffic: &Traffic, end_ns: u64, frames: &mut Frames) {
    let mut replay =
        traffic.replay(&Options { end_ns: Some(end_ns), ..Options::default() }).unwrap();
    let mut frame = [0; 2048];
    while replay.due().is_some() {
        let (side, len) = replay.write(&mut frame);
        *frames.entry((side as usize, see(&frame[..len]))).or_insert(0) += 1;
    }
}

fn count_parts(traffic: &Traffic, parts: u32, end_ns: u64) -> Frames {
    let mut frames = Frames::new();
    for index in 0..parts {
        count(&traffic.share(index, parts), end_ns, &mut frames);
    }
    frames
}

#[test]
fn the_remainder_goes_to_the_first_part() {
    let traffic = bind(&profile("", "cps: 1990\nlimit: 199"), &udp_exchange());
    let loads = (0..4).map(|index| traffic.share(index, 4).load(Decimal::ONE, Split::Side));
    let (tuples, rates): (Vec<_>, Vec<_>) =
        loads.map(|load| (load.tuples.unwrap(), load.flows_per_second)).unzip();
    assert_eq!(tuples, [52, 49, 49, 49]);
    // Each flow repeats every 100 ms, as in the whole profile.
    assert_eq!(rates, [520.0, 490.0, 490.0, 490.0]);
}

#[test]
fn a_part_of_a_part_is_one_of_the_whole() {
    let traffic = bind(&profile("", "cps: 100\nlimit: 10"), &udp_exchange());
    let load = traffic.share(0, 5).share(1, 2).load(Decimal::ONE, Split::Side);
    assert_eq!(load.tuples, Some(5));
}

#[test]
#[should_panic(expected = "there are 3 parts")]
fn a_part_has_a_number_below_the_count() {
    let _ = bind(&profile("", "cps: 100"), &udp_exchange()).share(3, 3);
}

#[test]
fn more_parts_than_flows_leave_some_without() {
    let traffic = Profile::built_in("syn_synack").unwrap().bind(|_| None, Default::default());
    let traffic = traffic.unwrap();
    let idle = traffic.share(1, 2);
    assert_eq!(idle.replay(&Options::default()).unwrap().due(), None);
    assert_eq!(idle.load(Decimal::ONE, Split::Side).total().packets_per_second, 0.0);
    assert_eq!(traffic.share(0, 2).load(Decimal::ONE, Split::Side).flows_per_second, 2e6);
}

proptest! {
    #[test]
    fn any_number_of_parts_makes_the_same_flows_at_the_same_rate(
        limit in 1u32..200,
        parts in 1u32..12,
        burst in 1u32..4,
        rounds in 1u64..4,
    ) {
        // Whole rounds: each flow comes once in 10 ms times the burst.
        let template = format!("cps: {}\nlimit: {limit}\nw: {burst}\nipg: 0\nrtt: 0", limit * 100);
        let traffic = bind(&profile("", &template), &udp_exchange());
        let rate = |traffic: &Traffic| traffic.load(Decimal::ONE, Split::Side).flows_per_second;
        let rates: f64 = (0..parts).map(|index| rate(&traffic.share(index, parts))).sum();
        prop_assert!((rates - rate(&traffic)).abs() < 1e-6);

        // Bursts do not end with the round, unless the flows are a multiple: so count the flows.
        let end_ns = rounds * 10_000_000 * u64::from(burst);
        let whole = count_parts(&traffic, 1, end_ns);
        let split = count_parts(&traffic, parts, end_ns);
        if burst == 1 {
            prop_assert_eq!(&whole, &split);
        }
        prop_assert_eq!(whole.len(), split.len());
        prop_assert!(split.keys().all(|frame| whole.contains_key(frame)));
    }

    #[test]
    fn any_number_of_parts_makes_the_same_new_flows(
        parts in 1u32..12,
        burst in 1u32..4,
        rounds in 1u64..6,
    ) {
        let template = format!("cps: 1000\nw: {burst}\nipg: 0\nrtt: 0");
        let traffic = bind(&profile("", &template), &udp_exchange());
        // Whole rounds over the parts.
        let end_ns = rounds * 1_000_000 * u64::from(burst) * u64::from(parts);
        let whole = count_parts(&traffic, 1, end_ns);
        prop_assert_eq!(whole.len() as u64, 3 * rounds * u64::from(burst * parts));
        prop_assert_eq!(whole, count_parts(&traffic, parts, end_ns));
    }
}
