// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace demo`. On rings, all packets of its generator come back and are in the ledger.
//! On the software NIC, it runs each load without and with offload, and writes a table, JSON and a
//! report.

use crate::bump::{count, total, turn, without_placement};
use crate::captures::{Talk, is_a};
use crate::new_scratch;
use crate::records::{conversations, read_records};
use crate::twin::driver;
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

#[test]
fn each_load_is_run_without_and_with_offload() {
    let _turn = turn();
    if driver().is_none() {
        return;
    }
    let scratch = new_scratch("demo-twin");
    let flows = scratch.path("flows.jsonl");
    let output = twins(&scratch, "1").args(["--speed", "1G", "--flows", &flows]).output().unwrap();
    let stderr = without_placement(&String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("The NIC is software"), "{text}");

    let runs = runs(&scratch);
    let names = runs.iter().map(|run| (run["load"].as_str().unwrap(), run["offload"] == true));
    let expected = ["IMIX", "small TCP"].map(|load| [(load, false), (load, true)]);
    assert!(names.eq(expected.as_flattened().iter().copied()), "{text}");
    for run in &runs {
        // Both directions of a connection are one flow; the SCTP connection is counted too.
        let connections = if run["load"] == "IMIX" { 1194 + 1 } else { 1194 };
        let summary = &run["summary"];
        assert_eq!(count(&summary["flows"]["created"]), connections, "{run}");
        assert_eq!(summary["ledger"]["balanced"], true);
        assert_eq!(total(&summary["passed"]), 0, "{run}");
        assert!(run["samples"].as_array().unwrap().len() > 10);
        let [up, down] = ["up_mbps", "down_mbps"].map(|name| run["measured"][name].as_f64());
        assert!(up.unwrap() > 0.0 && down.unwrap() > 0.0, "{run}");
        let marked = run["measured"]["marked_percent"].as_f64().unwrap();
        assert!(marked == 0.0 || run["offload"] == true, "{marked}");
        let is_marked = marked > 0.0 && count(&run["rules"]) > 0;
        assert!(is_marked || run["offload"] == false, "{run}");
        assert_eq!(run["programming"].is_object(), run["offload"] == true, "{run}");
        let [stages, cycles] = [&run["measured_stages"], &run["measured"]["cycles_per_packet"]];
        let sum = stages.as_object().unwrap().values().filter_map(Value::as_f64).sum::<f64>();
        assert!((sum / cycles.as_f64().unwrap() - 1.0).abs() < 0.01, "{run}");
    }
    // One record for each connection of each run.
    assert_eq!(scratch.read("flows.jsonl").lines().count(), 2 * (1195 + 1194));
    let page = scratch.read("demo.html");
    assert!(page.contains("Rules installed") && page.ends_with("</html>"));
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
    for name in twin::personality::NAMES {
        let scratch = new_scratch(&format!("demo-{name}"));
        let mut command = twins(&scratch, "0.1");
        process::run(command.args(["--personality", name]));
        let runs = runs(&scratch);
        assert_eq!(runs.len(), 4, "{name}");
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
    let mut demo = twins(&scratch, "0.1").stdout(Stdio::piped()).spawn().unwrap();
    drop(demo.stdout.take());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert_eq!(runs(&scratch).len(), 4);
    assert!(scratch.read("demo.html").ends_with("</html>"));

    let report_at = |path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(["demo", "--duration", "0.1", "--report", path]);
        command
    };
    let text = process::run(&mut report_at("/dev/stdout"));
    assert!(text.contains("</html>"), "{text}");
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
