// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace bench conntrack` with the generator alone; devices need a cpu of their own.

use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
fn the_cable_is_measured_and_a_device_that_cannot_run_has_no_figures() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let words = "bench conntrack --only short --cps 1000 --seconds 1 --cpus 64 --json -";
    let output = command.args(words.split(' ')).stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let results: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
    assert_eq!(results["command"], "bench conntrack");
    let [cable, tracked, untracked] = &results["rows"].as_array().unwrap()[..] else {
        panic!("{results}")
    };
    assert_eq!([&cable["device"], &cable["profile"]], ["cable", "short"]);
    for figure in ["cps", "bps", "pps"] {
        assert!(cable["figures"][figure].as_f64().unwrap() > 0.0, "{cable}");
    }
    assert!(cable["figures"]["active_flows"].is_u64(), "{cable}");
    for (row, has_tracking) in [(tracked, true), (untracked, false)] {
        assert_eq!([&row["device"], &row["cpus"]], [&Value::from("millrace"), &Value::from(64)]);
        assert_eq!(row["tracking"], has_tracking);
        let lacks = row["lacks"].as_str().unwrap();
        assert!(lacks.starts_with("needs ") && stderr.contains(lacks), "{stderr}");
        assert_eq!([&row["cps"], &row["figures"]], [&Value::Null; 2], "nothing is estimated");
    }
}
