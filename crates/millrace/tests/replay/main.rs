// SPDX-License-Identifier: BSD-3-Clause
//! `millrace replay` as its users run it: captures in; flow records, summary, messages and exit
//! status out.

mod clock;
mod configuration;
mod faults;
mod folder;
mod formats;
mod links;
mod outputs;
mod real;
mod tcp;

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use testkit::capture::{Packet, Pcap};
use testkit::scratch::Scratch;
use wire::FrameBuilder;

/// Time of the first packet of every sample: a whole second, in nanoseconds.
const START_NS: u64 = 1_700_000_000_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// What one run gave.
struct Run {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    /// Flow records on stdout, oldest first.
    fn records(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).expect("a line is a JSON object");
        let mut records: Vec<Value> = self.stdout.lines().map(parse).collect();
        records.sort_by_key(|record| (record["start_ns"].as_u64(), record["end_ns"].as_u64()));
        records
    }

    /// The summary on stdout.
    fn summary(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("stdout is one JSON object")
    }

    fn assert_good(&self) {
        assert_eq!((self.status, self.stderr.as_str()), (Some(0), ""));
    }

    fn assert_failed(&self, message: &str) {
        assert_eq!(self.status, Some(1), "{}", self.stderr);
        assert!(self.stderr.contains(message), "{:?} not in {:?}", message, self.stderr);
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Self {
            status: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// `millrace replay`, with a small table unless the arguments have a word on it.
fn replay(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.arg("replay").args(args);
    if !args.contains(&"--capacity") && !args.contains(&"--config") {
        command.args(["--capacity", "256"]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs with `capture` on standard input, which the arguments name as `-`.
fn run(args: &[&str], capture: &[u8]) -> Run {
    let mut child = replay(args).spawn().unwrap();
    // A program that ends early leaves a broken pipe: what it said is judged, not this.
    let _ = child.stdin.take().unwrap().write_all(capture);
    child.wait_with_output().unwrap().into()
}

/// Flow records of a capture.
fn flows_of(capture: &[u8]) -> Run {
    run(&["--flows", "-", "-"], capture)
}

/// Summary of a capture.
fn summary_of(capture: &[u8]) -> Run {
    run(&["--json", "-", "-"], capture)
}

/// Makes a folder that is gone when the test is over.
fn new_scratch(test: &str) -> Scratch {
    Scratch::new(env!("CARGO_TARGET_TMPDIR"), &format!("replay-{test}"))
}

/// A UDP packet over IPv4 from port `sport`, 42 bytes and a payload.
fn datagram(sport: u16, payload: usize) -> FrameBuilder {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(sport, 53).payload(vec![0; payload])
}

/// A pcap file of datagrams at these times from the start.
fn datagrams(times_ns: &[u64]) -> Vec<u8> {
    let packet = |time_ns: &u64| Packet::new(START_NS + time_ns, datagram(1000, 0).build());
    Pcap { nanoseconds: true, ..Pcap::plain() }
        .file(&times_ns.iter().map(packet).collect::<Vec<_>>())
}
