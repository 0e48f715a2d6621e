// SPDX-License-Identifier: BSD-3-Clause
//! Cost of a frame of each built-in TRex profile, and of a profile of many flows of three frames:
//! `cargo run --release -p traffic --example trex`.

use std::hint::black_box;
use std::time::Instant;
use traffic::Side;
use traffic::trex::{Capture, Decimal, Missing, Options, Profile, Split, Traffic};

const FRAMES: u32 = 20_000_000;

fn main() {
    for name in Profile::BUILT_IN {
        let profile = Profile::built_in(name).expect("it is built in");
        let traffic = profile.bind(|_| None, Missing::Refuse).expect("formulas make its captures");
        measure(name, &traffic);
    }
    measure("flows of 3 frames", &many_flows());
}

/// About ten thousand flows under way, in two templates.
fn many_flows() -> Traffic {
    let text = "- generator: {clients_start: 16.0.0.1, clients_end: 16.0.0.255, \
                servers_start: 48.0.0.1, servers_end: 48.0.255.255}\n  cap_info:\n  \
                - {name: a, cps: 12500}\n  - {name: b, cps: 12500}\n";
    let capture = |_: &str| {
        let mut capture = Capture::by_formula("udp_64B.pcap")?;
        capture.frames = vec![capture.frames[0].clone(); 3];
        Some(capture)
    };
    let profile = Profile::parse(text, "example").expect("the text is a profile");
    profile.bind(capture, Missing::Refuse).expect("the capture is one flow")
}

fn measure(name: &str, traffic: &Traffic) {
    let cases = [
        (Split::Side, None),
        (Split::Side, Some(Side::A)),
        (Split::Parity, None),
        (Split::Parity, Some(Side::A)),
    ];
    for (split, side) in cases {
        let multiplier = Decimal::from_whole(20);
        let options = Options { multiplier, split, side, ..Options::default() };
        let mut replay = traffic.replay(&options).expect("it has few flows under way");
        let mut frame = [0; 2048];
        let mut last_ns = 0;
        let start = Instant::now();
        for _ in 0..FRAMES {
            last_ns = replay.due().unwrap_or(last_ns);
            black_box(replay.write(&mut frame));
            black_box(&frame);
        }
        let what = format!("{split:?}, {}", side.map_or("both sides", |_| "side A"));
        let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(FRAMES);
        let mpps = f64::from(FRAMES) * 1e3 / last_ns as f64;
        let active = replay.active_flows();
        println!(
            "{name:20} {what:18}: {ns:5.1} ns a frame; the replay has {mpps:6.3} Mpps, \
             {active} flows under way"
        );
    }
}
