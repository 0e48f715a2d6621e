// SPDX-License-Identifier: BSD-3-Clause
//! Tests the loads of the built-in profiles, and that their frames have these loads.

use crate::seen::see;
use std::collections::{HashMap, HashSet};
use traffic::Side;
use traffic::trex::{Decimal, Load, Missing, Options, Profile, Split, Traffic, wire_bits};

fn built_in(name: &str) -> Traffic {
    Profile::built_in(name).unwrap().bind(|_| None, Missing::Refuse).unwrap()
}

fn close(found: f64, expected: f64, within: f64) {
    assert!((found - expected).abs() <= within, "{found} is not {expected}");
}

/// For each profile: name, five-tuples, and packets, captured bits and bits on the wire per second.
/// Rates are those of both ports together, at multiplier 1.
const FIGURES: [(&str, u64, f64, f64, f64); 5] = [
    ("imix_fast_1g", 1194, 336_570.0, 1_022_344_320.0, 1_086_965_760.0),
    ("imix_fast_1g_7_4_1", 1194, 345_462.0, 999_991_520.0, 1_066_320_224.0),
    ("imix_article", 2388, 336_570.0, 1_011_574_080.0, 1_076_195_520.0),
    ("syn_synack", 2, 2_000_000.0, 960_000_000.0, 1_344_000_000.0),
    ("udp_20k_64", 20_000, 1_000_000.0, 480_000_000.0, 672_000_000.0),
];

#[test]
fn every_built_in_profile_has_its_figures() {
    assert_eq!(FIGURES.map(|it| it.0), Profile::BUILT_IN);
    for (name, tuples, packets, captured, wire) in FIGURES {
        for multiplier in [1, 20] {
            for split in [Split::Side, Split::Parity] {
                let load = built_in(name).load(Decimal::from_whole(multiplier), split);
                assert_eq!(load.tuples, Some(tuples), "{name}");
                let (total, times) = (load.total(), f64::from(multiplier));
                close(total.packets_per_second, times * packets, 1e-3);
                close(total.captured_bits_per_second, times * captured, 1e-2);
                close(total.wire_bits_per_second, times * wire, 1e-2);
            }
        }
    }
}

#[test]
fn the_mix_of_2017_has_the_figures_of_the_article() {
    let load = built_in("imix_fast_1g").load(Decimal::from_whole(20), Split::Side);
    assert_eq!([load.ports[0].flows, load.ports[1].flows], [1194, 0]);
    close(load.ports[0].packets_per_second, 6.731e6, 0.0005e6);
    close(load.ports[0].captured_bits_per_second, 20.4e9, 0.05e9);
    close(load.ports[0].wire_bits_per_second, 21.7e9, 0.05e9);
    close(load.ports[1].packets_per_second, 0.0, 0.0);
}

#[test]
fn the_mix_by_parity_fills_both_ports_evenly() {
    let load = built_in("imix_fast_1g").load(Decimal::from_whole(20), Split::Parity);
    // The pool begins with an odd address, so 599 of 255 * 4 + 174 clients are odd.
    assert_eq!([load.ports[0].flows, load.ports[1].flows], [595, 599]);
    for port in load.ports {
        close(port.wire_bits_per_second, 10.87e9, 0.06e9);
    }
    close(load.total().packets_per_second, 6_731_400.0, 1e-3);
}

#[test]
fn the_mix_of_the_article_has_as_many_flows_each_way() {
    for split in [Split::Side, Split::Parity] {
        let load = built_in("imix_article").load(Decimal::ONE, split);
        assert_eq!([load.ports[0].flows, load.ports[1].flows], [1194, 1194], "{split:?}");
    }
    let load = built_in("imix_article").load(Decimal::ONE, Split::Side);
    close(load.ports[0].packets_per_second, load.ports[1].packets_per_second, 1e-6);
}

#[test]
fn handshakes_and_small_flows() {
    let load = built_in("syn_synack").load(Decimal::ONE, Split::Side);
    assert_eq!([load.ports[0].flows, load.ports[1].flows], [1, 1]);
    for port in load.ports {
        close(port.packets_per_second, 1e6, 1e-6);
        close(port.wire_bits_per_second, 672e6, 1e-3);
    }
    let load = built_in("udp_20k_64").load("14.88".parse().unwrap(), Split::Side);
    close(load.ports[0].wire_bits_per_second, 10e9, 0.001e9);
}

#[test]
fn probes_of_62_bytes_at_a_thousand_per_second() {
    assert_eq!(wire_bits(62) * 1000, 688_000);
    assert_eq!(wire_bits(60), wire_bits(54), "short frames are padded");
}

/// Counts of the frames of a tenth of a second.
struct Played {
    /// Frames and bytes, by side.
    sides: [(u64, u64); 2],
    lengths: HashMap<usize, u64>,
    flows: [HashSet<crate::seen::Seen>; 2],
    first: Vec<(u64, Side, crate::seen::Seen)>,
}

fn play(traffic: &Traffic, split: Split) -> Played {
    let options = Options { split, end_ns: Some(100_000_000), ..Options::default() };
    let mut replay = traffic.replay(&options).unwrap();
    let mut frame = [0; 2048];
    let mut played = Played {
        sides: [(0, 0); 2],
        lengths: HashMap::new(),
        flows: [HashSet::new(), HashSet::new()],
        first: Vec::new(),
    };
    while let Some(due_ns) = replay.due() {
        let (side, len) = replay.write(&mut frame);
        let totals = &mut played.sides[side as usize];
        *totals = (totals.0 + 1, totals.1 + len as u64);
        *played.lengths.entry(len).or_insert(0) += 1;
        let seen = see(&frame[..len]);
        if played.first.len() < 4 {
            played.first.push((due_ns, side, seen.clone()));
        }
        played.flows[side as usize].insert(seen);
    }
    played
}

fn assert_plays(name: &str, split: Split, lengths: &[usize]) -> Played {
    let traffic = built_in(name);
    let played = play(&traffic, split);
    let load: Load = traffic.load(Decimal::ONE, split);
    for (port, (frames, bytes)) in load.ports.iter().zip(played.sides) {
        // The first frame of each template comes at 0, so there may be one more than the rate. With
        // a split by parity, a round over the flows of a template may be incomplete.
        let room = if split == Split::Side { 24.0 } else { 1000.0 };
        close(frames as f64, port.packets_per_second * 0.1, room);
        close(bytes as f64 * 8.0, port.captured_bits_per_second * 0.1, room * 1518.0 * 8.0);
    }
    for (port, flows) in load.ports.iter().zip(&played.flows) {
        assert_eq!(flows.len() as u64, port.flows, "{name}");
    }
    let mut found: Vec<usize> = played.lengths.keys().copied().collect();
    found.sort_unstable();
    assert_eq!(found, lengths, "{name}");
    played
}

#[test]
fn the_frames_are_those_of_the_figures() {
    for split in [Split::Side, Split::Parity] {
        assert_plays("imix_fast_1g", split, &[64, 594, 1518]);
        assert_plays("imix_fast_1g_7_4_1", split, &[64, 594, 1518]);
        assert_plays("imix_article", split, &[60, 590, 1514]);
    }
    assert_plays("udp_20k_64", Split::Side, &[60]);
}

#[test]
fn the_handshake_is_of_one_connection() {
    let played = assert_plays("syn_synack", Split::Side, &[60]);
    let [(0, Side::A, syn), (0, Side::B, syn_ack), ..] = &played.first[..] else {
        panic!("{:?}", played.first)
    };
    assert_eq!((syn.src, syn.dst), (syn_ack.dst, syn_ack.src));
}

#[test]
fn names_may_have_a_folder_and_an_extension() {
    for name in ["imix_fast_1g", "cap2/imix_fast_1g.yaml", "imix_fast_1g.yml", "./imix_fast_1g"] {
        assert_eq!(Profile::built_in(name).unwrap().origin(), "imix_fast_1g", "{name}");
    }
    for name in ["", "imix", "imix_fast_1g/", "imix_fast_1g.pcap"] {
        assert!(Profile::built_in(name).is_none(), "{name}");
    }
    for name in Profile::BUILT_IN {
        let profile = Profile::built_in(name).unwrap();
        assert!(profile.notes().is_empty());
        // A note names every capture by formula.
        let traffic = profile.bind(|_| None, Missing::Refuse).unwrap();
        let notes: Vec<_> = traffic.notes().iter().map(|note| note.to_string()).collect();
        assert!(notes.iter().all(|note| note.ends_with("is made by formula")), "{notes:?}");
        assert_eq!(notes.len(), profile.capture_names().len());
    }
}
