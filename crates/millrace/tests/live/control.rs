// SPDX-License-Identifier: BSD-3-Clause
//! Tests queries to a running instance, and that they do not disturb it.

use crate::bump::{Bump, Ended, Setup, count};
use crate::captures::Talk;
use crate::instance::{ask, json, text};
use crate::twin::driver;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;
use testkit::host::{has_cpus, has_root_and, has_tools, skip};
use testkit::process::wait_until;
use testkit::scratch::Scratch;

/// Socket paths must be short, so the directory is one with a short path.
fn scratch() -> Scratch {
    Scratch::new(std::env::temp_dir(), "ask")
}

fn finish(bump: Bump, socket: &str) -> Ended {
    let ended = bump.finish();
    ended.assert_balanced();
    assert!(!Path::new(socket).exists(), "it goes with the run");
    ended
}

#[test]
fn a_run_is_asked_for_flows_and_counters() {
    let setup = Setup::in_scratch(scratch());
    let socket = setup.path("a.sock");
    let talk = Talk::new(1, 100);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    talk.write(&a, &b);
    let port = |name: &str, path: &str| format!("net_pcap{name},rx_pcap={path}");
    let setup = setup.pair(&port("0", &a), &port("1", &b));
    let mut bump = setup.args(&["--socket", &socket]).start();
    let packets: usize = talk.frames.iter().map(Vec::len).sum();
    let stats = || json(&socket, &["stats"]);
    wait_until("all packets", || count(&stats()["ledger"]["rx"]) == packets as u64);
    let stats = stats();
    assert_eq!(stats["ledger"]["balanced"], true);
    assert_eq!(count(&stats["flows"]["active"]), talk.conversations.len() as u64);
    assert!(text(&socket, &["stats"]).contains("balanced"));

    let all = json(&socket, &["flows", "--limit", "1000"]);
    assert_eq!(count(&all["matched"]), talk.conversations.len() as u64);
    assert_eq!(all["flows"].as_array().unwrap().len(), talk.conversations.len());
    let bytes = |flow: &Value| count(&flow["orig"]["bytes"]) + count(&flow["reply"]["bytes"]);
    let sizes: Vec<u64> = all["flows"].as_array().unwrap().iter().map(bytes).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    let some = json(&socket, &["flows", "--only", ":53", "--limit", "3"]);
    assert_eq!(some["flows"].as_array().unwrap().len(), 3);
    assert_eq!(count(&some["matched"]), 40);
    let why = text(&socket, &["flows", "--why", "10.1.0.3"]);
    assert!(why.contains("its ports take no rules: "), "{why}");

    // A second run cannot use the same socket.
    let args = ["run", "--pair", "net_null0,net_null1", "--duration", "1", "--socket", &socket];
    let mut second = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let output = second.args(args).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("another instance uses"), "{words}");
    bump.wait_until("it goes on", |_| ask(&socket, &["stats"]).status.success());
    let ended = finish(bump, &socket);
    assert_eq!(ended.records().len(), talk.conversations.len());

    let output = ask(&socket, &["stats"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("no running instance has this socket"), "{words}");
}

#[test]
fn rules_are_listed_and_every_direction_says_why() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let setup = Setup::in_scratch(scratch());
    let socket = setup.path("a.sock");
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    Talk::new(1, 300).write(&a, &b);
    let twin = |name: &str, path: &str| {
        format!("net_twin{name},replay={path},loops=forever,personality=x710")
    };
    let setup = setup.pair(&twin("0", &a), &twin("1", &b));
    let bump = setup.args(&["--offload", "after 8", "--socket", &socket]).start();
    let effective = |offload: &Value| {
        let rules = offload["rules"].as_array().unwrap();
        rules.iter().find(|rule| rule["state"] == "effective" && count(&rule["hits"]) > 10).cloned()
    };
    let mut rule = None;
    wait_until("an effective rule", || {
        rule = effective(&json(&socket, &["offload", "--limit", "1000"]));
        rule.is_some()
    });
    let offload = json(&socket, &["offload"]);
    assert!(offload["ports"].as_array().unwrap().iter().all(|port| port["state"] == "on"));
    assert!(count(&offload["ports"][0]["installed"]) > 0, "{offload}");
    let rule = rule.unwrap();
    let end = |address: &Value, port: &Value| match address.as_str().unwrap() {
        v6 if v6.contains(':') => format!("[{v6}]:{port}"),
        v4 => format!("{v4}:{port}"),
    };
    let why = text(&socket, &["flows", "--why", &end(&rule["src"], &rule["sport"])]);
    assert!(why.contains("effective: marked by the NIC, "), "{why}");
    // The fourth conversation of the talk is a ping.
    let why = text(&socket, &["flows", "--why", "10.1.0.3"]);
    assert!(why.contains("none: only TCP and UDP get rules"), "{why}");
    assert!(text(&socket, &["offload"]).contains("packets/s"));
    finish(bump, &socket);
}

/// `stats --watch` succeeds if the run ends, and fails if the instance replies with another error.
#[test]
fn watching_ends_with_the_run_and_reports_trouble() {
    let scratch = scratch();
    let socket = scratch.path("a.sock");
    let stats = r#"{"stats":{"summary":{"duration_s":1.0},"report":""}}"#;
    let error = |code: &str| format!("{{\"error\":{{\"code\":\"{code}\",\"text\":\"words\"}}}}\n");
    let part = stats[..20].to_owned();
    for (last, status) in [(error("ending"), 0), (part, 0), (error("busy"), 1)] {
        let whole = format!("{stats}\n{{\"end\":{{\"matched\":0}}}}\n");
        let instance = answer(&socket, vec![whole, last]);
        let output = ask(&socket, &["stats", "--watch", "0.01", "--json"]);
        instance.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert_eq!(said.contains("words"), status == 1, "{said}");
        assert_eq!(output.stdout, b"{\"duration_s\":1.0}\n");
        fs::remove_file(&socket).unwrap();
    }
}

/// Answers clients at this socket, each with the next answer.
fn answer(socket: &str, answers: Vec<String>) -> JoinHandle<()> {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    })
}

const STATS: &str = r#"{"stats":{"summary":{"duration_s":1.0,
    "directions":[{"packets":1234567},{"packets":0}]},"report":"flows: 1_000 created"}}"#;

fn stats_answer() -> String {
    format!("{}\n{{\"end\":{{\"matched\":0}}}}\n", STATS.replace('\n', ""))
}

/// script(1) of util-linux runs a command on a terminal.
#[test]
fn on_a_terminal_each_output_takes_the_place_of_the_one_before() {
    if !has_tools(&["script"]) {
        return;
    }
    let scratch = scratch();
    let socket = scratch.path("a.sock");
    let instance = answer(&socket, vec![stats_answer(), stats_answer(), String::new()]);
    let watch = ["stats", "--watch", "0.01", "--instance", &socket].join(" ");
    let watch = format!("{} {watch}", env!("CARGO_BIN_EXE_millrace"));
    let output = Command::new("script").args(["-qec", &watch, "/dev/null"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let outputs: Vec<_> = text.split("\u{1b}[H\u{1b}[J").collect();
    assert_eq!(outputs.len(), 3, "{text:?}");
    assert!(outputs[1..].iter().all(|it| it.contains("up: 1_234_567 packets")), "{text:?}");
    instance.join().unwrap();
}

#[test]
fn numbers_for_other_programs_have_no_underscores() {
    let scratch = scratch();
    let socket = scratch.path("a.sock");
    let instance = answer(&socket, vec![stats_answer(), stats_answer()]);
    let [raw, usual] = [&["stats", "--raw"][..], &["stats"]].map(|args| text(&socket, args));
    instance.join().unwrap();
    assert!(raw.contains("up: 1234567 packets") && raw.contains("1000 created"), "{raw}");
    assert!(usual.contains("up: 1_234_567 packets") && usual.contains("1_000 created"), "{usual}");
}

#[test]
fn who_names_a_process_that_is_none_sees_those_that_run() {
    let bump = Setup::in_scratch(scratch()).pair("net_null0,no-rx=1", "net_null1,no-rx=1").start();
    // Beyond the highest number that a process can have.
    let output = ask("4194305", &["stats"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no running instance has the process ID 4194305; these run:"), "{said}");
    assert!(said.contains(&format!("  {}  running for ", bump.id())), "{said}");
    bump.finish().assert_balanced();
}

/// The mode of the socket denies access to other users. If the mode was changed, Millrace checks
/// the client's user id that the kernel reports.
#[test]
fn another_user_is_not_answered() {
    if !has_root_and(&["setpriv"]) {
        return;
    }
    let other = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--clear-groups", env!("CARGO_BIN_EXE_millrace")]);
        command.args(args).output().unwrap()
    };
    if !other(&["--version"]).status.success() {
        return skip("another user may not execute the program where it was built");
    }
    let setup = Setup::in_scratch(scratch());
    let socket = setup.path("a.sock");
    let setup = setup.pair("net_null0,no-rx=1", "net_null1,no-rx=1");
    let bump = setup.args(&["--socket", &socket]).start();
    for (mode, words) in [(0o600, "permission denied"), (0o666, "user 65534 has no permission")] {
        fs::set_permissions(&socket, Permissions::from_mode(mode)).unwrap();
        let output = other(&["stats", "--instance", &socket]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words), "{said}");
    }
    finish(bump, &socket);
}
