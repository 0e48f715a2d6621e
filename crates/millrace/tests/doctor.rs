// SPDX-License-Identifier: BSD-3-Clause
//! `millrace doctor` as a user meets it. What it finds is tested on made-up hosts beside the code.

use serde_json::Value;
use std::process::{Command, Output};

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
    // Whoever built this has DPDK, so that nothing here stops a run.
    assert_eq!(output.status.code(), Some(0), "{text}");
}

#[test]
fn a_host_on_which_nothing_runs_fails() {
    let empty = std::env::temp_dir().join(format!("millrace-doctor-{}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    let output = doctor(&["--root", empty.to_str().unwrap()]);
    std::fs::remove_dir_all(&empty).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = std::str::from_utf8(&output.stdout).unwrap();
    assert!(text.contains("FAIL  dpdk"), "{text}");
    assert!(text.contains("millrace does not run here"), "{text}");
}

#[test]
fn a_root_that_is_no_directory_is_refused() {
    let output = doctor(&["--root", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(1));
    let message = std::str::from_utf8(&output.stderr).unwrap();
    assert_eq!(message, "millrace: /nonexistent is no directory\n");
}
