// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace bench conntrack` with devices that this host has: Millrace, and in `make
//! prove-cases` Linux and Open vSwitch. All track every connection of a tiny load, and are gone
//! afterwards.

use crate::bump::turn;
use crate::{is_run_now, new_scratch, runs_all_cases};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use testkit::host::{has_root_and, skip};
use testkit::namespace::Namespace;
use testkit::process::run;

/// Path of the vswitchd with DPDK on Debian.
const SWITCH: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// Measures a device with tracking at 300 connections a second; returns its row. `None` after a
/// message if the host has one cpu only.
fn measured(device: &str) -> Option<Value> {
    let _turn = turn();
    let scratch = new_scratch("bench-conntrack");
    let (json, page) = (scratch.path("a.json"), scratch.path("a.html"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let words = "bench conntrack --no-cable --only short --tracking on --cpus 1 --cps 300 \
                 --seconds 1 --error-threshold 10 --dut";
    command.args(words.split_whitespace()).arg(device);
    let output = command.args(["--json", &json, "--html", &page, "--with-article"]).output();
    let output = output.unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    let results: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let row = results["rows"][0].clone();
    if let Some(lacks) = row["lacks"].as_str() {
        assert_eq!((&row["cps"], &row["figures"]), (&Value::Null, &Value::Null));
        skip(lacks);
        return None;
    }
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("1C/1Q:\n"), "the set-up is above the table: {printed}");
    assert_eq!(
        [&row["device"], &row["cpus"], &row["queues"]],
        [&device.into(), &row["cpus"], &1.into()]
    );
    assert!(
        std::fs::read_to_string(&page).unwrap().contains("Connections per second, short-lived")
    );
    // It is not worse than itself.
    let mut compare = Command::new(env!("CARGO_BIN_EXE_millrace"));
    run(compare.args(["bench", "compare", &json, &json]));
    Some(row)
}

/// The device has a record of the connections of the last second at least: all wait for their
/// timeout.
fn assert_tracked(row: &Value) {
    let count = row["figures"]["device_flows"].as_u64().unwrap();
    assert!(count > 100, "{row}");
}

#[test]
fn linux_tracks_the_connections_of_a_benchmark() {
    if !runs_all_cases() || !has_root_and(&["ip", "nft", "unshare", "nsenter"]) {
        return;
    }
    let Some(row) = measured("kernel") else { return };
    assert_tracked(&row);
}

#[test]
fn open_vswitch_tracks_the_connections_of_a_benchmark() {
    if !runs_all_cases()
        || !has_root_and(&["ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"])
    {
        return;
    }
    if !Path::new(SWITCH).exists() {
        return skip("Open vSwitch with DPDK is not installed (openvswitch-switch-dpdk)");
    }
    let Some(row) = measured("ovs") else { return };
    assert_tracked(&row);
    assert!(row["device_version"].as_str().unwrap().starts_with(|it: char| it.is_ascii_digit()));
}

#[test]
fn millrace_tracks_the_connections_of_a_benchmark() {
    let Some(row) = measured("millrace") else { return };
    assert_tracked(&row);
    assert_eq!(row["figures"]["faults"], serde_json::json!([]), "{row}");
}

/// A router of Linux, between two networks. Its interfaces have MAC addresses of their own, which
/// the generator finds.
#[test]
fn a_device_that_routes_is_measured() {
    if !is_run_now() || !has_root_and(&["ip"]) {
        return;
    }
    let (Some(router), Some(generator)) = (Namespace::new(), Namespace::new()) else { return };
    for (number, end) in [(1, "end-a"), (2, "end-b")] {
        let holder = generator.holder();
        router.run(&format!("ip link add r{number} type veth peer name {end} netns {holder}"));
        router.run(&format!("ip address add 10.{number}.0.1/16 dev r{number}"));
        router.run(&format!("ip link set r{number} up"));
        generator.run(&format!("ip link set {end} up"));
    }
    router.run("sysctl -q -w net.ipv4.ip_forward=1");
    let _turn = turn();
    let scratch = new_scratch("bench-router");
    let json = scratch.path("a.json");
    let words = "bench conntrack --dut external --ports end-a,end-b --no-cable --only short \
                 --cps 300 --seconds 1 --error-threshold 50 --json";
    let options = "-- --senders 2 --gateway 10.1.0.1,10.2.0.1 --clients 10.1.0.2-10.1.0.250 \
                   --servers 10.2.0.2-10.2.0.250";
    let mut command = generator.command(env!("CARGO_BIN_EXE_millrace"));
    command.args(words.split_whitespace()).arg(&json).args(options.split_whitespace());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let results: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let row = &results["rows"][0];
    assert!(row["cps"].as_f64() > Some(100.0) && row["is_at_least"] == true, "{row}");
    assert_eq!(results["origin"]["command"][2], "conntrack", "{results}");
}
