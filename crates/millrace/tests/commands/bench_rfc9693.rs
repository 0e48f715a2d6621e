// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace bench rfc9693` and searches with connections on simulated devices, in simulated
//! time.

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.arg("bench").args(args).output().unwrap()
}

fn json(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"))
}

/// Measures a simulated device. The first delete command is as fast as with an empty table, and
/// those while connections are open are slower.
fn measure(device: &str, more: &[&str]) -> (Option<i32>, Value) {
    let output = bench(&[&["rfc9693", "--simulate", device, "--json", "-"], more].concat());
    (output.status.code(), json(&output))
}

fn answer(results: &Value, number: usize) -> (&Value, [f64; 2]) {
    let answer = &results["searches"][number]["answers"][0];
    (answer, ["lower", "upper"].map(|bound| answer[bound].as_f64().unwrap_or(f64::NAN)))
}

#[test]
fn rate_capacity_and_tear_down_of_a_known_device_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    // Of six runs, the last three have connections to delete.
    let command =
        format!("echo >> {0}; test $(wc -l < {0}) -le 3 || sleep 0.2", runs.to_str().unwrap());
    let device = "limit=41700,capacity=123456";
    let (status, results) = measure(device, &["--delete-command", &command]);
    assert_eq!(status, Some(0), "{results}");
    let (rate, [lower, upper]) = answer(&results, 0);
    assert_eq!(rate["goal"], "establishment rate");
    assert!(lower < 41_701.0 && upper >= 41_700.0 && (upper - lower) / upper <= 0.01, "{rate}");
    let (capacity, [lower, upper]) = answer(&results, 1);
    assert_eq!(
        (&capacity["goal"], &capacity["outcome"]),
        (&"table capacity".into(), &"regular".into())
    );
    assert!(lower < 123_457.0 && upper > 123_456.0, "{capacity}");
    assert!((upper - lower) / upper <= 0.01, "{capacity}");
    let trials = results["searches"][1]["trials"].as_array().unwrap();
    let loads: Vec<_> = trials.iter().map(|trial| trial["load"].as_f64().unwrap()).collect();
    assert_eq!(loads[..5], [10e3, 20e3, 40e3, 80e3, 160e3], "doubled first");
    let (tear_down, [rate, _]) = answer(&results, 2);
    assert_eq!(tear_down["goal"], "tear-down rate");
    assert!(rate > 1000.0 && rate < 60_000.0, "10,000 connections in 0.2 s or more: {tear_down}");
}

/// The table is smaller than the number of connections of a trial, or larger than the largest.
#[test]
fn limits_without_a_figure_are_bounds() {
    let (status, results) = measure("limit=41700,capacity=5000", &[]);
    assert_eq!((status, results["searches"].as_array().unwrap().len()), (Some(0), 1));
    assert_eq!(answer(&results, 0).0["outcome"], "fails_at_smallest");
    let (status, results) = measure("limit=41700", &["--max-connections", "50k"]);
    let (capacity, [lower, _]) = answer(&results, 1);
    assert_eq!((status, &capacity["outcome"]), (Some(0), &"bears_largest".into()));
    assert!(lower == 50e3 && capacity["throughput"].is_null(), "{capacity}");
}

#[test]
fn a_tester_slower_than_the_device_is_named() {
    let (status, results) = measure("limit=90000,tester=30000", &["--max-connections", "10k"]);
    let (rate, _) = answer(&results, 0);
    assert_eq!((status, &rate["outcome"]), (Some(1), &"tester_limit".into()), "{rate}");
    let loads = ["--min-load", "1kcps", "--max-load", "100kcps", "--goal", "quick"];
    let device = ["search", "--simulate", "limit=90000,tester=30000"];
    let output = bench(&[&device[..], &loads].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.code() == Some(1) && text.contains(": limited by the tester: "),
        "{text}"
    );
}
