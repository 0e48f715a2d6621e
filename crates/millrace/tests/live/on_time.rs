// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace gen --send-on-time`: the software NIC holds packets until their time.

use crate::bump::{count, turn};
use crate::twin::driver;
use serde_json::Value;
use std::process::Command;

#[test]
fn a_port_that_sends_on_time_loses_nothing() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    let output = Command::new(env!("CARGO_BIN_EXE_millrace"))
        .args(["gen", "net_twin0,wire=gen,net_twin1,wire=gen", "--send-on-time", "--verify"])
        .args(["--stream", "count=20000 rate=200kpps", "--json", "-"])
        .output()
        .unwrap();
    let results: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&output.stderr)));
    let ports = results["ports"].as_array().unwrap();
    let missed: u64 = ports.iter().map(|port| count(&port["imissed"])).sum();
    assert_eq!(count(&results["verified"]["lost"]), missed, "{results:#}");
    let sent = [&results["sent"]["packets"], &results["unsent"], &results["ports"][0]["oerrors"]];
    assert_eq!(sent.map(count), [20_000, 0, 0]);
    assert_eq!(results["pacing"]["send_on_time"], true);
}
