// SPDX-License-Identifier: BSD-3-Clause
//! Cost of a frame of streams: `cargo run --release -p traffic --example streams`.

use std::hint::black_box;
use std::time::Instant;
use traffic::stream::{StreamSetup, StreamSpec, Streams};
use traffic::{Part, ROOM, Source, StampKey};

const FRAMES: u32 = 5_000_000;
const REPETITIONS: usize = 7;

fn main() {
    let whole = Part::default();
    let third = Part { share: 1, shares: 3, ..whole };
    let varying = "rate=1Mpps src=198.18.0.1-198.18.0.250 sport=1024-65000";
    measure("rate max", "rate=max", 1, whole);
    measure("even", "rate=1Mpps", 1, whole);
    measure("even, share 1 of 3", "rate=1Mpps", 1, third);
    measure("varying", varying, 1, whole);
    measure("varying, share 1 of 3", varying, 1, third);
    measure("1000 streams, varying", varying, 1000, whole);
    measure("1000 streams, share 1 of 3", varying, 1000, third);
    measure("poisson", "rate=1Mpps arrivals=poisson", 1, whole);
    measure("1000 streams, poisson", "rate=1Mpps arrivals=poisson", 1000, whole);
    measure("on and off", "rate=1Mpps on=100us off=50us", 1, whole);
}

/// Prints the least of some repetitions, as in the others the cpu was taken away.
fn measure(name: &str, text: &str, count: usize, part: Part) {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').expect("KEY=VALUE"));
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let spec = StreamSpec::from_pairs(0, pairs).expect("a stream");
    let setup = StreamSetup {
        macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
        link_mbps: [None; 2],
        seed: 1,
        format: StampKey::new(1).into(),
        is_stamped: false,
        part,
        ramp_ns: 0,
    };
    let mut streams = Streams::new(&vec![spec; count], &setup).expect("streams");
    let mut room = [0; ROOM];
    let mut least = f64::MAX;
    for _ in 0..REPETITIONS {
        let start = Instant::now();
        for _ in 0..FRAMES {
            black_box(streams.due());
            black_box(streams.write(&mut room, 0));
        }
        least = least.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(FRAMES));
    }
    println!("{name:30} {least:5.1} ns a frame");
}
