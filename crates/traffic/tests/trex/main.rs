// SPDX-License-Identifier: BSD-3-Clause
//! Tests TRex profiles: keys, loads, and frames with an independent parser.

mod captures;
mod config;
mod figures;
mod frames;
mod keys;
mod seen;
mod shares;

use traffic::trex::{Capture, CapturedFrame, Profile, Traffic};
use wire::FrameBuilder;

/// Returns a whole profile with one template. `more` are keys of the outermost map, `template` keys
/// of the template.
fn profile(more: &str, template: &str) -> String {
    const POOLS: &str = "    clients_start: 16.0.0.1\n    clients_end: 16.0.0.255\n    \
                         servers_start: 48.0.0.1\n    servers_end: 48.0.255.255\n";
    let (more, template) = (lines(more, "  "), lines(template, "      "));
    let head = format!("- duration: 10\n  generator:\n{POOLS}{more}");
    format!("{head}  cap_info:\n    - name: a.pcap\n{template}")
}

fn lines(text: &str, indent: &str) -> String {
    text.lines().map(|line| format!("{indent}{line}\n")).collect()
}

fn parse(text: &str) -> Profile {
    Profile::parse(text, "p.yaml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Parses a profile, and binds it to one capture for all names.
fn bind(text: &str, capture: &Capture) -> Traffic {
    parse(text).bind(|_| Some(capture.clone()), Default::default()).unwrap()
}

/// Makes a capture of these frames, a millisecond apart.
fn capture(frames: impl IntoIterator<Item = Vec<u8>>) -> Capture {
    let at = |(index, bytes)| CapturedFrame { at_ns: 5_000_000 + index as u64 * 1_000_000, bytes };
    Capture { frames: frames.into_iter().enumerate().map(at).collect() }
}

/// Makes a capture of a UDP request and its two answers.
fn udp_exchange() -> Capture {
    let request = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(5000, 53);
    let answer = request.clone().reversed();
    capture([
        request.payload(b"request").build(),
        answer.clone().payload([7; 333]).build(),
        answer.payload([8; 32]).build(),
    ])
}
