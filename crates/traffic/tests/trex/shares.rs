// SPDX-License-Identifier: BSD-3-Clause
//! Tests that the parts of a profile together send what the whole profile sends.

use crate::seen::{Seen, see};
use crate::{bind, profile, udp_exchange};
use proptest::prelude::*;
use std::collections::HashMap;
use traffic::Side;
use traffic::trex::{Decimal, Options, Profile, Split, Traffic};

type Frames = HashMap<(usize, Seen), u64>;

/// Adds the number of times that each frame comes before `end_ns` to `frames`.
fn count(traffic: &Traffic, end_ns: u64, frames: &mut Frames) {
    count_with(traffic, &Options { end_ns: Some(end_ns), ..Options::default() }, frames);
}

fn count_with(traffic: &Traffic, options: &Options, frames: &mut Frames) {
    let mut replay = traffic.replay(options).unwrap();
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

#[test]
fn shares_of_new_flows_are_evenly_spaced() {
    let traffic = bind(&profile("", "cps: 1000"), &udp_exchange());
    let first = |index| traffic.share(index, 4).replay(&Options::default()).unwrap().due();
    assert_eq!([0, 1, 2, 3].map(first), [0, 1_000_000, 2_000_000, 3_000_000].map(Some));
}

/// Counts the frames in each half of the ramp and after it. The gaps within a flow do not change.
#[test]
fn the_rate_of_new_flows_grows_linearly() {
    let traffic = bind(&profile("", "cps: 1000\nipg: 10\nrtt: 10"), &udp_exchange());
    let options = Options { ramp_ns: 2_000_000_000, ..Options::default() };
    for parts in [1, 4] {
        let mut counts = [0_u32; 3];
        for index in 0..parts {
            let mut replay = traffic.share(index, parts).replay(&options).unwrap();
            let mut frame = [0; 2048];
            while let Some(due) = replay.due().filter(|due| *due < 3_000_000_000) {
                replay.write(&mut frame);
                counts[(due / 1_000_000_000) as usize] += 1;
            }
        }
        for (count, expected) in counts.into_iter().zip([750_u32, 2250, 3000]) {
            assert!(count.abs_diff(expected) <= 6, "{counts:?}");
        }
    }
}

/// Compares the frames of one replay, with their times, with those of a replay for each side.
#[test]
fn both_sides_together_are_the_whole_frame_by_frame() {
    let traffic = bind(&profile("", "cps: 1000\nlimit: 70\nrtt: 700\nipg: 300"), &udp_exchange());
    for split in [Split::Side, Split::Parity] {
        let times = |side| {
            let options = Options { end_ns: Some(500_000_000), split, side, ..Options::default() };
            let mut replay = traffic.replay(&options).unwrap();
            let (mut frame, mut frames) = ([0; 2048], Vec::new());
            while let Some(due) = replay.due() {
                let (port, len) = replay.write(&mut frame);
                assert!(side.is_none_or(|side| side == port));
                frames.push((port as u8, due, frame[..len].to_vec()));
            }
            frames
        };
        let mut sides = [times(Some(Side::A)), times(Some(Side::B))].concat();
        let mut whole = times(None);
        assert!(whole.len() > 1400);
        sides.sort();
        whole.sort();
        assert!(sides == whole, "{split:?}");
    }
}

/// If all clients have one parity, the other side has no frames, and the search for one ends.
#[test]
fn a_side_without_flows_ends_at_once() {
    let one = |template: &str| {
        let text = profile("", template).replace("16.0.0.255", "16.0.0.1");
        bind(&text, &udp_exchange())
    };
    for template in ["cps: 10", "cps: 10\nlimit: 5", "cps: 10\nw: 3"] {
        for (side, frames) in [(Side::A, false), (Side::B, true)] {
            let (split, side) = (Split::Parity, Some(side));
            let options = Options { split, side, ..Options::default() };
            let replay = one(template).replay(&options).unwrap();
            assert_eq!(replay.due().is_some(), frames, "{template} {side:?}");
        }
    }
    // This share has every second client of an even number, so all have one parity.
    let text = profile("", "cps: 10").replace("16.0.0.255", "16.0.0.254");
    let half = bind(&text, &udp_exchange()).share(0, 2);
    let options = Options { split: Split::Parity, side: Some(Side::A), ..Options::default() };
    assert_eq!(half.replay(&options).unwrap().due(), None);
}

proptest! {
    #[test]
    fn all_sides_and_parts_make_the_same_new_flows(
        parts in 1u32..8,
        burst in 1u32..4,
        clients in 1u8..9,
        is_parity: bool,
        distribution in prop_oneof![Just("seq"), Just("random"), Just("normal")],
    ) {
        let template = format!("cps: 1000\nw: {burst}\nipg: 0\nrtt: 0");
        let text = profile(&format!("  distribution: {distribution}"), &template);
        let text = text.replace("16.0.0.255", &format!("16.0.0.{clients}"));
        let traffic = bind(&text, &udp_exchange());
        let end_ns = Some(17 * 1_000_000 * u64::from(burst) * u64::from(parts));
        let split = if is_parity { Split::Parity } else { Split::Side };
        let options = Options { end_ns, split, ..Options::default() };
        let (mut whole, mut split) = (Frames::new(), Frames::new());
        count_with(&traffic, &options, &mut whole);
        for index in 0..parts {
            for side in [Side::A, Side::B] {
                let options = Options { side: Some(side), ..options };
                count_with(&traffic.share(index, parts), &options, &mut split);
            }
        }
        prop_assert_eq!(whole, split);
    }

    #[test]
    fn any_number_of_parts_makes_the_same_flows_at_the_same_rate(
        limit in 1u32..200,
        parts in 1u32..12,
        burst in 1u32..4,
        rounds in 1u64..4,
    ) {
        // In whole rounds, each flow comes once in 10 ms times the burst.
        let template = format!("cps: {}\nlimit: {limit}\nw: {burst}\nipg: 0\nrtt: 0", limit * 100);
        let traffic = bind(&profile("", &template), &udp_exchange());
        let rate = |traffic: &Traffic| traffic.load(Decimal::ONE, Split::Side).flows_per_second;
        let rates: f64 = (0..parts).map(|index| rate(&traffic.share(index, parts))).sum();
        prop_assert!((rates - rate(&traffic)).abs() < 1e-6);

        // A round may end within a burst, so with bursts only the flows are compared.
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
        // The time is that of whole rounds over the parts.
        let end_ns = rounds * 1_000_000 * u64::from(burst) * u64::from(parts);
        let whole = count_parts(&traffic, 1, end_ns);
        prop_assert_eq!(whole.len() as u64, 3 * rounds * u64::from(burst * parts));
        prop_assert_eq!(whole, count_parts(&traffic, parts, end_ns));
    }
}
