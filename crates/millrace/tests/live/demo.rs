// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace demo`. On rings, all packets of its generator come back and are in the ledger.
//! On the software NIC, it runs each load in each mode, and writes a table, JSON and a report.

use crate::bump::{count, total, turn, without_placement};
use crate::captures::{Talk, is_a};
use crate::records::{conversations, read_records};
use crate::twin::driver;
use crate::{new_scratch, runs_all_cases};
use serde_json::Value;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use testkit::capture::write_pcap;
use testkit::process::{self, Process, wait_until};
use testkit::scratch::Scratch;

fn demo(duration: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["demo", "--rings", "--duration", duration]);
    command
}

/// Returns the command of a demo on the software NIC, with a report and JSON in a directory.
fn twins(scratch: &Scratch, duration: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["demo", "--duration", duration, "--report", &scratch.path("demo.html")]);
    command.args(["--json", &scratch.path("demo.json")]);
    command
}

fn runs(scratch: &Scratch) -> Vec<Value> {
    let mut all: Value = serde_json::from_str(&scratch.read("demo.json")).unwrap();
    serde_json::from_value(all["runs"].take()).unwrap()
}

/// Message of a demo in which something else used the cpu of a run, as other tests may.
const TAKEN: &str = "millrace: other programs took the worker's cpu";

/// Runs a demo on the software NIC, and asserts that it succeeded, except for comparisons that are
/// missing for that reason. Returns what it printed: standard output, and the other errors.
#[track_caller]
fn finish(command: &mut Command, scratch: &Scratch) -> [String; 2] {
    let output = command.output().unwrap();
    let stderr = without_placement(&String::from_utf8_lossy(&output.stderr));
    let (taken, others): (Vec<_>, Vec<_>) =
        stderr.lines().partition(|line| line.starts_with(TAKEN));
    let is_taken = |run: &Value| run["measured"]["cpu_taken_percent"].as_f64().unwrap() > 5.0;
    assert!(!scratch.read("demo.json").is_empty(), "{:?}: {stderr}", output.status);
    let missing = usize::from(runs(scratch).iter().any(is_taken));
    let outcome = (output.status.code(), taken.len());
    assert_eq!(outcome, (Some(missing as i32), missing), "{stderr}");
    [String::from_utf8(output.stdout).unwrap(), others.join("\n")]
}

/// Returns the number before `what` in the generator's line.
fn fed(report: &str, what: &str) -> u64 {
    let line = report.lines().find_map(|line| line.strip_prefix("generator: ")).unwrap();
    let part = line.split(", ").find(|part| part.ends_with(what)).unwrap();
    part.trim_end_matches(what).trim().replace('_', "").parse().unwrap()
}

#[test]
fn what_is_sent_comes_back_and_is_counted() {
    let _turn = turn();
    let scratch = new_scratch("demo");
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
    // Packets of both directions, of all kinds of the load.
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
    let scratch = new_scratch("demo-capture");
    let [capture, flows] = ["in.pcap", "demo.jsonl"].map(|name| scratch.path(name));
    let talk = Talk::new(1, 100);
    let mut frames = talk.frames.concat();
    // A sender leaves the checksums of TCP to its NIC, and captures what it gives to the NIC.
    let tcp: Vec<_> = frames.iter_mut().filter(|frame| frame[12..15] == [8, 0, 0x45]).collect();
    assert!(!tcp.is_empty());
    tcp.into_iter().filter(|frame| frame[23] == 6).for_each(|frame| frame[50] ^= 1);
    write_pcap(&capture, &frames);
    let report = process::run(demo("0.5").args(["--capture", &capture, "--flows", &flows]));
    let frames = talk.frames.concat().len();
    assert!(report.contains(&format!("{frames} packets of {capture}")), "{report}");
    assert!(fed(&report, "packets sent") >= frames as u64, "{report}");
    assert_eq!(fed(&report, "lost"), 0, "{report}");
    let seen = conversations(&read_records(&flows), is_a);
    assert!(seen.keys().eq(talk.conversations.keys()), "{seen:?}");
}

/// A full disk is an error, as with `run`. A closed pipe is none.
#[test]
fn a_demo_does_not_panic_when_nobody_reads_it() {
    let _turn = turn();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = demo("0.2").stdout(full).output().unwrap();
    let stderr = without_placement(&String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.starts_with("millrace: cannot write the report: "), "{stderr}");

    let mut child = demo("0.2").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let stderr = without_placement(&String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""));
}

/// Loads with few flows, so that each run is short.
const SHORT: [&str; 5] = ["stateful", "stateless", "small-tcp", "tcp-connections", "long-tcp"];

fn with_loads<'a>(command: &'a mut Command, loads: &[&str]) -> &'a mut Command {
    loads.iter().fold(command, |command, load| command.args(["--load", load]))
}

/// Asserts what holds for every run, and returns its load, mode and depth of tracking.
fn check(run: &Value) -> [&str; 3] {
    let summary = &run["summary"];
    assert_eq!(summary["ledger"]["balanced"], true);
    assert_eq!(total(&summary["passed"]), 0, "{run}");
    assert!(run["samples"].as_array().unwrap().len() > 10);
    let measured = |name: &str| run["measured"][name].as_f64().unwrap();
    let [up, down] = ["up_mbps", "down_mbps"].map(measured);
    assert!(up > 0.0 && down > 0.0, "{run}");
    // Packets that waited when measuring began may come in addition.
    assert!(up < 1_010.0 && down < 1_010.0, "more than the link carries: {up} {down}");
    let [load, mode, tracking] =
        ["load", "mode", "tracking"].map(|name| run[name].as_str().unwrap());
    assert_eq!(run["offload"] == true, mode != "off");
    assert_eq!(run["programming"].is_object(), mode != "off", "{run}");
    let [marked, bypassed] = ["marked_percent", "bypassed_percent"].map(measured);
    assert!(mode == "off" || count(&run["rules"]) > 0, "{run}");
    assert_eq!(marked + bypassed > 0.0, mode != "off", "{run}");
    assert!(bypassed == 0.0 || mode == "bypass" || mode == "automatic", "{run}");
    let [stages, cycles] = [&run["measured_stages"], &run["measured"]["cycles_per_packet"]];
    let sum = stages.as_object().unwrap().values().filter_map(Value::as_f64).sum::<f64>();
    assert!((sum / cycles.as_f64().unwrap() - 1.0).abs() < 0.01, "{run}");
    [load, mode, tracking]
}

/// Both directions of a connection are one flow; the SCTP connection is counted too.
fn connections(load: &str) -> u64 {
    match load {
        "small TCP" => 1,
        "TCP connections" => 1194,
        "long TCP" => 1194 + 272,
        _ => 1194 + 1,
    }
}

#[test]
fn each_load_is_run_in_each_mode() {
    let _turn = turn();
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("demo-twin");
    let flows = scratch.path("flows.jsonl");
    let mut command = twins(&scratch, "0.3");
    // The modes of the others are those of `long-tcp`.
    let some = ["stateful", "long-tcp"];
    let loads = if runs_all_cases() { &SHORT[..] } else { &some };
    with_loads(command.args(["--speed", "1G", "--flows", &flows]), loads);
    let [text, errors] = finish(&mut command, &scratch);
    assert_eq!(errors, "");
    assert!(text.contains("The NIC is software"), "{text}");
    assert!(text.contains("stateful does not run with bypass"), "{text}");

    let runs = runs(&scratch);
    let expected = [
        ("stateful", &["off", "marks", "automatic"][..], "flows"),
        ("stateless", &["off", "marks", "bypass", "automatic"], "flows"),
        ("small TCP", &["off", "marks", "bypass", "automatic"], "flows"),
        ("TCP connections", &["off", "marks", "bypass", "automatic"], "connections"),
        ("long TCP", &["off", "marks", "bypass", "automatic"], "connections"),
    ];
    let is_run = |load: &str| loads.contains(&load.to_lowercase().replace(' ', "-").as_str());
    let expected = expected
        .into_iter()
        .filter(|(load, ..)| is_run(load))
        .flat_map(|(load, modes, tracking)| modes.iter().map(move |mode| [load, mode, tracking]));
    assert!(runs.iter().map(check).eq(expected), "{text}");
    let all = runs.iter().map(|run| {
        let created = count(&run["summary"]["flows"]["created"]);
        let connections = connections(run["load"].as_str().unwrap());
        // A SYN and its answer begin a connection anew while the numbers are unknown.
        let is_exact = ["off", "marks"].iter().any(|mode| run["mode"] == *mode);
        assert!(created == connections || created > connections && !is_exact, "{run}");
        created
    });
    // One record for each connection of each run.
    let all: u64 = all.sum();
    assert_eq!(scratch.read("flows.jsonl").lines().count() as u64, all);
    // The NIC forwards nearly all of these loads by itself, and it is counted to the connections.
    let is_bypass = |run: &&Value| {
        run["mode"] == "bypass" && ["stateless", "long TCP"].iter().any(|load| run["load"] == *load)
    };
    for run in runs.iter().filter(is_bypass) {
        assert!(run["measured"]["bypassed_percent"].as_f64().unwrap() > 90.0, "{run}");
        assert!(count(&run["summary"]["offload"]["bypassed"]["packets"]) > 0, "{run}");
    }
    let page = scratch.read("demo.html");
    assert!(page.contains("Rules installed") && page.ends_with("</html>"));
}

#[test]
fn loads_depth_and_personalities_are_chosen() {
    let _turn = turn();
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("demo-chosen");
    let mut command = twins(&scratch, "0.2");
    command.args(["--personality", "ntacc,ideal", "--tracking", "connections"]);
    let [text, _] = finish(command.args(["--load", "small-tcp", "--speed", "100M"]), &scratch);
    let runs = runs(&scratch);
    let names = runs.iter().map(|run| {
        ["personality", "load", "mode", "tracking"].map(|name| run[name].as_str().unwrap())
    });
    let of_ntacc = ["off", "marks", "automatic"].map(|mode| ("ntacc", mode));
    let of_ideal = ["off", "marks", "bypass", "automatic"].map(|mode| ("ideal", mode));
    let expected = of_ntacc.into_iter().chain(of_ideal);
    let expected = expected.map(|(name, mode)| [name, "small TCP", mode, "connections"]);
    assert!(names.eq(expected), "{text}");
    // A connection that never opens has no rule, since its marks would not be used.
    assert!(runs.iter().all(|run| run["measured"]["marked_percent"] == 0.0), "{text}");
    let is_compared = text.lines().any(|line| {
        line.starts_with("small TCP with marks: ") && line.contains(" x the throughput")
    });
    assert_eq!(text.contains("no packet was counted by a mark"), is_compared, "{text}");
    assert!(text.contains("ntacc: no load runs with bypass: "), "{text}");
    let page = scratch.read("demo.html");
    assert!(page.contains("ntacc: Napatech") && page.contains("ideal: a NIC"), "{text}");
}

#[test]
fn access_lists_are_compared() {
    let _turn = turn();
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("demo-acl");
    let mut command = twins(&scratch, "0.2");
    let [text, errors] = finish(command.arg("--acl"), &scratch);
    assert_eq!(errors, "");
    let runs = runs(&scratch);
    let in_software = [0, 1, 100, 10_000].map(|rules| (rules, Value::Null));
    let in_nics = ["ideal", "cx5"].map(|name| (100, Value::from(name)));
    let of_depth = in_software.into_iter().chain(in_nics);
    let expected: Vec<_> = ["off", "connections"]
        .into_iter()
        .flat_map(|depth| of_depth.clone().map(move |(rules, nic)| (depth, rules, nic)))
        .collect();
    let found = runs.iter().map(|run| {
        (run["tracking"].as_str().unwrap(), count(&run["rules"]), run["personality"].clone())
    });
    assert!(found.eq(expected), "{text}");
    for run in &runs {
        let [by_list, by_connection] = ["list_marked_percent", "marked_percent"]
            .map(|name| run["measured"][name].as_f64().unwrap());
        let (in_nic, is_tracked) = (!run["personality"].is_null(), run["tracking"] != "off");
        assert_eq!(by_list > 90.0, in_nic && !is_tracked, "{run}");
        // On a busy host, many connections still have no rule when the measurement begins.
        assert_eq!(by_connection > 25.0, in_nic && is_tracked, "{run}");
        let summary = &run["summary"];
        assert_eq!(summary["ledger"]["balanced"], true);
        assert_eq!(count(&summary["drops"]["denied"]), 0, "the last rule permits all packets");
    }
    assert!(scratch.read("demo.html").contains("list in the NIC"), "{text}");
}

#[test]
fn options_of_the_other_demo_are_refused() {
    for options in [&["--acl", "--load", "stateless"][..], &["--acl", "--rings"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let output = command.arg("demo").args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let output = command.args(["demo", "--tracking", "off"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("--tracking off needs --acl"), "{stderr}");
}

/// If a signal ends the demo, it writes a report of the runs so far.
#[test]
fn an_interrupted_demo_reports_what_it_has() {
    let _turn = turn();
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("demo-interrupted");
    let mut command = twins(&scratch, "100");
    command.stdout(File::create(scratch.path("out")).unwrap());
    let mut demo = Process::spawn(&mut command);
    wait_until("its heading", || scratch.read("out").contains("The NIC is software"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    demo.signal("INT");
    assert_eq!(demo.wait().code(), Some(0), "{}", scratch.read("out"));
    assert!(scratch.read("demo.json").contains("\"interrupted\": true"));
    assert!(scratch.read("demo.html").contains("Ended before its time"));
    assert!(runs(&scratch).len() <= 1);
}

#[test]
fn every_personality_runs_the_demo_to_its_end() {
    let _turn = turn();
    if driver().is_none() {
        return;
    }
    // One with rules, and one that takes none.
    let some = ["x710", "n6010"];
    let is_run = |name: &&str| runs_all_cases() || some.contains(name);
    for name in twin::personality::NAMES.into_iter().filter(is_run) {
        let scratch = new_scratch(&format!("demo-{name}"));
        let mut command = twins(&scratch, "0.1");
        with_loads(command.args(["--personality", name]), &["tcp-connections"]);
        finish(&mut command, &scratch);
        let runs = runs(&scratch);
        let modes = if ["ideal", "cx5", "cx6dx"].contains(&name) { 4 } else { 3 };
        assert_eq!(runs.len(), modes, "{name}");
        assert!(runs.iter().all(|run| run["summary"]["ledger"]["balanced"] == true), "{name}");
    }
}

#[test]
fn without_a_driver_that_does_the_bump_is_shown_alone() {
    let _turn = turn();
    let scratch = new_scratch("demo-no-driver");
    let [nowhere, broken] = ["nowhere.so", "broken.so"].map(|name| scratch.path(name));
    fs::write(&broken, "no shared object").unwrap();
    // Where every user may write to a folder on the way, DPDK does not look into the file.
    let causes = [
        (nowhere, &[["no software NIC was built", "`make twin`"]][..]),
        (broken, &[["cannot be used", "`make twin`"], ["every user may write to", "move it"]]),
    ];
    for (driver, causes) in causes {
        let mut command = twins(&scratch, "0.3");
        let output = command.env("MILLRACE_TWIN", driver).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let is_named = |words: &[&str; 2]| words.iter().all(|words| stderr.contains(words));
        assert!(causes.iter().any(is_named), "{stderr}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("generator: "), "{stderr}");
        assert!(!fs::exists(scratch.path("demo.html")).unwrap(), "there is no report");
    }
}

/// Files are written even if standard output is closed. A report can be written to a device.
#[test]
fn files_are_written_whoever_reads_the_tables() {
    let _turn = turn();
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("demo-unread");
    let mut command = twins(&scratch, "0.1");
    with_loads(&mut command, &["stateful"]);
    let mut demo = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(demo.stdout.take());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert_eq!(runs(&scratch).len(), 3);
    assert!(scratch.read("demo.html").ends_with("</html>"));

    let report_at = |path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(["demo", "--duration", "0.1", "--load", "stateful", "--report", path]);
        command
    };
    let text = report_at("/dev/stdout").output().unwrap().stdout;
    assert!(String::from_utf8_lossy(&text).contains("</html>"));
    let mut command = report_at("/dev/full");
    let mut demo = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(demo.stdout.take());
    let output = demo.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write /dev/full"), "{stderr}");
}

#[test]
fn what_is_no_report_is_left_alone() {
    let _turn = turn();
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("demo-foreign");
    fs::write(scratch.path("demo.html"), "<html>mine</html>").unwrap();
    let output = twins(&scratch, "0.1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("exists and is not a report"), "{stderr}");
    assert_eq!(scratch.read("demo.html"), "<html>mine</html>");
}
