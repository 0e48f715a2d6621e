// SPDX-License-Identifier: BSD-3-Clause
//! `millrace demo`: what its generator sends comes back, and all of it is in the ledger.

use crate::bump::{count, total, turn};
use crate::captures::{Talk, is_a, write_pcap};
use crate::records::{conversations, read_records};
use crate::{Scratch, process};
use serde_json::Value;
use std::fs::File;
use std::process::{Command, Stdio};

fn demo(duration: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["demo", "--duration", duration]);
    command
}

/// The number before `what` in the generator's line.
fn fed(report: &str, what: &str) -> u64 {
    let line = report.lines().find_map(|line| line.strip_prefix("generator: ")).unwrap();
    let part = line.split(", ").find(|part| part.ends_with(what)).unwrap();
    part.trim_end_matches(what).trim().replace('_', "").parse().unwrap()
}

#[test]
fn what_is_sent_comes_back_and_is_counted() {
    let _turn = turn();
    let scratch = Scratch::new("demo");
    let [json, flows] = ["demo.json", "demo.jsonl"].map(|name| scratch.path(name));
    let report = process::run(demo("1").args(["--json", &json, "--flows", &flows]));
    let sent = fed(&report, "packets sent");
    assert!(sent > 0, "{report}");
    assert_eq!((fed(&report, "received back"), fed(&report, "lost")), (sent, 0), "{report}");

    let summary: Value = serde_json::from_str(&scratch.read("demo.json")).unwrap();
    let ledger = &summary["ledger"];
    assert_eq!((count(&ledger["rx"]), count(&ledger["tx"])), (sent, sent), "{summary}");
    assert_eq!(ledger["balanced"], true);
    let tracked: u64 = read_records(&flows).iter().map(|record| record.packets()).sum();
    assert_eq!(tracked + total(&summary["passed"]), sent, "{summary}");
    // Of both directions, of every kind that was promised.
    for direction in 0..2 {
        assert!(count(&summary["directions"][direction]["packets"]) > 0, "{summary}");
    }
    let records = scratch.read("demo.jsonl");
    for protocol in [1, 6, 17, 58] {
        assert!(records.contains(&format!("\"proto\":{protocol},")), "no protocol {protocol}");
    }
}

#[test]
fn the_packets_of_a_capture_go_round() {
    let _turn = turn();
    let scratch = Scratch::new("demo-capture");
    let [capture, flows] = ["in.pcap", "demo.jsonl"].map(|name| scratch.path(name));
    let talk = Talk::new(1, 100);
    write_pcap(&capture, &talk.frames.concat());
    let report = process::run(demo("0.5").args(["--capture", &capture, "--flows", &flows]));
    let frames = talk.frames.concat().len();
    assert!(report.contains(&format!("{frames} packets of {capture}")), "{report}");
    assert!(fed(&report, "packets sent") >= frames as u64, "{report}");
    assert_eq!(fed(&report, "lost"), 0, "{report}");
    let seen = conversations(&read_records(&flows), is_a);
    assert!(seen.keys().eq(talk.conversations.keys()), "{seen:?}");
}

/// As for a run: a full disk is told, a reader who has gone is no failure.
#[test]
fn a_demo_does_not_panic_when_nobody_reads_it() {
    let _turn = turn();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = demo("0.2").stdout(full).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("millrace: cannot write the report: "), "{stderr}");

    let mut child = demo("0.2").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &[][..]));
}
