// SPDX-License-Identifier: BSD-3-Clause
//! `millrace reflect` and `millrace gen` over UDP sockets on loopback, each a process of its own.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

fn millrace(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn terminate(child: &Child) {
    kill_process(Pid::from_child(child), Signal::TERM).unwrap();
}

/// A reflector at a port that the kernel has chosen.
struct Reflector {
    child: Child,
    stderr: BufReader<ChildStderr>,
    port: String,
}

impl Reflector {
    fn new(args: &[&str]) -> Self {
        let mut command = millrace(&["reflect", "127.0.0.1:0", "--quiet"]);
        let mut child = command.args(args).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("millrace: reflecting at UDP port ");
        let port = port.unwrap_or_else(|| panic!("{args:?}: {line}")).to_owned();
        Self { child, stderr, port }
    }

    /// Ends it; returns what it printed to standard output.
    fn end(mut self) -> String {
        terminate(&self.child);
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let mut told = String::new();
        self.stderr.read_to_string(&mut told).unwrap();
        assert!(self.child.wait().unwrap().success(), "{told}");
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
        // Of a frame of 546 bytes with FCS the packet has 528.
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
fn options_that_do_not_fit_name_the_way_out() {
    for (args, told) in [
        ("reflect 7 --backend io-uring --gso --gro", "has no --gro: leave it out, or take"),
        ("reflect 7 --backend io-uring --gso", "has no --gso: leave it out, or take"),
        ("reflect 7 --backend sockets --zero-copy", "--zero-copy is for --backend io-uring"),
        ("reflect eth9 --backend io-uring", "--backend io-uring needs [ADDRESS:]PORT"),
        ("reflect 7 --backend io-uring --swap mac", "--backend io-uring has no --swap"),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        let output = millrace(&args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(told), "{args:?}: {text}");
    }
}
