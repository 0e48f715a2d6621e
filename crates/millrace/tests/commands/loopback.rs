// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace reflect` and `millrace gen` over UDP sockets on loopback, each in its own
//! process.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, Command, Stdio};
use testkit::process::Process;

fn millrace(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A running reflector, at a port that the kernel has chosen.
struct Reflector {
    process: Process,
    stderr: BufReader<ChildStderr>,
    port: String,
}

impl Reflector {
    fn new(args: &[&str]) -> Self {
        let mut command = millrace(&["reflect", "127.0.0.1:0", "--quiet"]);
        let mut process = Process::spawn(command.args(args));
        let mut stderr = BufReader::new(process.child().stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("millrace: reflecting at UDP port ");
        let port = port.unwrap_or_else(|| panic!("{args:?}: {line}")).to_owned();
        Self { process, stderr, port }
    }

    /// Ends the reflector; returns its standard output.
    fn end(mut self) -> String {
        self.process.signal("TERM");
        let printed = self.process.rest_of_stdout();
        let mut told = String::new();
        self.stderr.read_to_string(&mut told).unwrap();
        assert!(self.process.wait().success(), "{told}");
        printed
    }
}

#[test]
fn the_generator_knows_what_the_reflector_counted() {
    for (generator, reflector) in [
        (&["--backend", "sockets"][..], &["--backend", "io-uring"][..]),
        (&["--backend", "io-uring"], &["--backend", "sockets", "--sockets", "2"]),
        (&["--backend", "sockets"], &["--backend", "io-uring", "--zero-copy", "--mtu", "528"]),
    ] {
        let cuts = reflector.contains(&"--mtu");
        let reflector = Reflector::new(&[reflector, &["--json", "-"]].concat());
        // A frame of 546 bytes with FCS has a packet of 528 bytes.
        let stream = format!(
            "dst=127.0.0.1 dport={} sport=50001,50002 rate=10kpps count=1000 size=546,547",
            reflector.port
        );
        let mut generator_run = millrace(&["gen", "--verify", "--reflector", "--json", "-"]);
        generator_run.args(generator).args(["--stream", &stream]);
        let output = generator_run.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        let results: Value = serde_json::from_slice(&output.stdout).expect(&told);
        let counters: Value = serde_json::from_str(&reflector.end()).unwrap();
        let context = format!("{results:#} {counters:#}");
        let found = &results["ports"][0]["reflector"];
        let dropped = if cuts { 500 } else { 0 };
        let expected = [
            ("received", 1000),
            ("reflected", 1000 - dropped),
            ("dropped", dropped),
            ("missed", 0),
            ("lost_on_the_way_there", 0),
            ("lost_on_the_way_back", 0),
        ];
        for (name, count) in expected {
            assert_eq!(found[name].as_u64(), Some(count), "{name}: {context}");
        }
        assert_eq!(counters["dropped"]["too_long"].as_u64(), Some(dropped), "{context}");
        let answered = counters["answered"].as_u64().unwrap();
        assert!(answered >= 2, "{context}");
        assert_eq!(counters["received"].as_u64(), Some(1000 + answered), "{context}");
    }
}

#[test]
fn a_reflector_that_does_not_answer_is_reported() {
    let line = "gen --backend sockets --reflector -q -d 0.1 --stream";
    let stream = "dst=127.0.0.1 dport=9 rate=100pps";
    let output = millrace(&line.split(' ').chain([stream]).collect::<Vec<_>>()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("port A: no reflector answers"), "{told}");
}

#[test]
fn options_that_do_not_fit_name_the_way_out() {
    for (args, told) in [
        ("reflect 7 --backend io-uring --gso --gro", "has no --gro: leave it out, or use"),
        ("reflect 7 --backend io-uring --gso", "not support --gso: leave it out, or use"),
        ("reflect 7 --backend sockets --zero-copy", "--zero-copy is for --backend io-uring"),
        ("reflect eth9 --backend io-uring", "--backend io-uring needs [ADDRESS:]PORT"),
        ("gen lo", "`gen --backend packet lo` to send"),
        ("reflect lo", "`reflect --backend sockets PORT` to answer"),
        ("gen --backend sockets -d 1", "dst: name the address that packets go to"),
        ("gen net_null0 --stream name=a --stream name=a", "another stream has that name"),
        ("reflect 7 --backend io-uring --swap mac", "does not support --swap"),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let output = millrace(&args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(told), "{args:?}: {text}");
    }
}

/// A full device, and a pipe whose reader is closed.
#[test]
fn counters_of_a_reflector_are_written_though_nobody_reads_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.json");
    let args = ["reflect", "127.0.0.1:0", "--backend", "sockets", "-d", "0.1", "--json"];
    let mut command = millrace(&args);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.arg(&path).stdout(full).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("cannot write the counters"), "{told}");
    assert!(fs::read_to_string(&path).unwrap().contains("\"reflected\": 0"));
}

#[test]
fn a_run_that_ends_before_it_sends_leaves_earlier_results_alone() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["x.json", "x.csv", "x.html"].map(|name| folder.path().join(name));
    let reflector = Reflector::new(&["--backend", "sockets"]);
    let stream = format!("dst=127.0.0.1 dport={} rate=1kpps count=100", reflector.port);
    let generator = || {
        let mut command = millrace(&["gen", "--backend", "sockets", "--late", "20", "--verify"]);
        for (option, path) in ["--json", "--csv", "--html"].iter().zip(&paths) {
            command.arg(option).arg(path);
        }
        command.args(["--stream", &stream]);
        command
    };
    assert!(generator().status().unwrap().success());
    let before = paths.each_ref().map(|path| fs::read(path).unwrap());
    // Before it sends, the generator queries the reflector for 0.8 seconds.
    let mut process = Process::spawn(generator().arg("--reflector"));
    let mut stderr = BufReader::new(process.child().stderr.take().unwrap());
    let mut told = String::new();
    stderr.read_line(&mut told).unwrap();
    process.signal("TERM");
    stderr.read_to_string(&mut told).unwrap();
    assert_eq!(process.wait().code(), Some(1), "{told}");
    assert!(told.contains("interrupted before sending began: nothing was sent"), "{told}");
    assert_eq!(paths.each_ref().map(|path| fs::read(path).unwrap()), before);
}
