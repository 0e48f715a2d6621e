// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace doctor` as a user runs it. Unit tests of the code check its findings on
//! simulated hosts.

use serde_json::Value;
use std::process::{Command, Output};
use testkit::scratch::Scratch;

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millrace")).arg("doctor").args(arguments).output().unwrap()
}

#[test]
fn this_host_gets_findings_in_both_forms() {
    let output = doctor(&["--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let topics: Vec<_> = findings.iter().map(|it| it["topic"].as_str().unwrap()).collect();
    for topic in ["kernel", "dpdk", "cpus", "memory", "hugepages", "privileges"] {
        assert!(topics.contains(&topic), "{topic} in {topics:?}");
    }
    let text = doctor(&[]);
    let text = std::str::from_utf8(&text.stdout).unwrap();
    for topic in topics {
        assert!(text.contains(topic), "{topic} in {text}");
    }
    // This machine has built Millrace with DPDK, so no finding prevents a run.
    assert_eq!(output.status.code(), Some(0), "{text}");
}

#[test]
fn the_script_is_one_that_a_shell_reads() {
    let output = doctor(&["--fix-script"]);
    assert_eq!(output.status.code(), Some(0));
    // Whatever the host has, `sh -n` reads it and runs nothing.
    let folder = Scratch::new(std::env::temp_dir(), "millrace-script");
    let script = folder.path("fix.sh");
    std::fs::write(&script, &output.stdout).unwrap();
    let read = Command::new("sh").args(["-n", &script]).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let text = std::str::from_utf8(&output.stdout).unwrap();
    assert!(text.starts_with("#!/bin/sh\n") && text.contains("\nset -eu\n"), "{text}");
    assert_eq!(doctor(&["--script"]).stdout.len(), output.stdout.len());
    assert_eq!(doctor(&["--script", "--json"]).status.code(), Some(2));
}

#[test]
fn what_only_this_host_can_tell_is_there() {
    let output = doctor(&["--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    for topic in ["load", "software nic"] {
        assert_eq!(findings.iter().filter(|it| it["topic"] == topic).count(), 1, "{topic}");
    }
    // The NIC with the default route is a note on every host, and no warning.
    let is_uplink = |it: &&Value| it["found"].as_str().unwrap().ends_with("the default route");
    for finding in findings.iter().filter(is_uplink) {
        assert_ne!(finding["status"], "warn", "{finding}");
    }
}

#[test]
fn a_host_on_which_nothing_runs_fails() {
    let bare = Scratch::new(std::env::temp_dir(), "millrace-doctor");
    std::fs::create_dir_all(bare.path("usr/lib")).unwrap();
    let output = doctor(&["--root", &bare.path("")]);
    assert_eq!(output.status.code(), Some(1));
    let text = std::str::from_utf8(&output.stdout).unwrap();
    assert!(text.contains("FAIL  dpdk"), "{text}");
    assert!(text.contains("millrace does not run here"), "{text}");
}

#[test]
fn a_host_of_which_nothing_can_be_read_is_unknown_in_both_forms() {
    let empty = Scratch::new(std::env::temp_dir(), "millrace-unknown");
    let [text, json] = [&["--root"][..], &["--json", "--root"]]
        .map(|arguments| doctor(&[arguments, &[empty.path("").as_str()]].concat()));
    assert_eq!((text.status.code(), json.status.code()), (Some(0), Some(0)));
    let text = std::str::from_utf8(&text.stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("millrace runs here, as far as could be checked (ok 0, note 0, "),
        "{last}"
    );
    assert!(text.contains("?     memlock"), "{text}");
    assert!(text.contains("  unknown: /proc/self/limits cannot be read\n"), "{text}");
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    for finding in json["findings"].as_array().unwrap() {
        assert_eq!(finding["status"], "unknown", "{finding}");
    }
}

#[test]
fn a_root_that_is_no_directory_is_refused() {
    let output = doctor(&["--root", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(1));
    let message = std::str::from_utf8(&output.stderr).unwrap();
    assert_eq!(message, "millrace: /nonexistent is no directory\n");
}
