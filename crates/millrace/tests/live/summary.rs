// SPDX-License-Identifier: BSD-3-Clause
//! Tests that `--json` has all members that are documented. Other tools rely on them.

use crate::bump::{Setup, count};
use serde_json::Value;

#[track_caller]
fn assert_members(value: &Value, expected: &str) {
    let mut members: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected: Vec<&str> = expected.split(' ').collect();
    members.sort_unstable();
    expected.sort_unstable();
    assert_eq!(members, expected);
}

#[test]
fn the_summary_has_the_members_that_tools_rely_on() {
    let setup = Setup::new("schema").duration("0.5");
    let ended = setup.pair("net_null0", "net_null1,no-rx=1").run();
    ended.assert_good();
    let summary = ended.summary();
    assert_members(
        &summary,
        "version dpdk duration_s ports workers directions cpu_util_percent drops passed invalid \
         ignored ledger flows offload rejects access_log snapshot \
         energy",
    );
    assert_eq!(summary["version"], env!("CARGO_PKG_VERSION"));
    assert!(summary["dpdk"].as_str().unwrap().starts_with("DPDK "), "{summary}");
    for (port, name) in ["net_null0", "net_null1,no-rx=1"].into_iter().enumerate() {
        let port = &summary["ports"][port];
        assert_eq!(port["name"], name);
        assert_members(
            port,
            "name rx_packets rx_bytes tx_packets tx_bytes imissed ierrors rx_nombuf oerrors \
             resets",
        );
    }
    let worker = &summary["workers"][0];
    assert_members(
        worker,
        "lcore packets bursts handed_over taken_over busy_cycles idle_cycles stalled_cycles \
         cycles_per_packet \
         stage_cycles poll_gap_us table_bytes table_huge_page_bytes",
    );
    assert_members(&worker["poll_gap_us"], "p50 p99 p99_9 p99_99 max");
    let gaps = ["p50", "p99", "p99_9", "p99_99", "max"]
        .map(|share| worker["poll_gap_us"][share].as_f64().unwrap());
    assert!(gaps[0] > 0.0 && gaps.is_sorted(), "{worker}");
    let [table, huge] = ["table_bytes", "table_huge_page_bytes"].map(|it| count(&worker[it]));
    assert!(0 < table && huge <= table, "{worker}");
    assert_members(
        &worker["stage_cycles"],
        "rx mark parse lookup track miss tx housekeeping other",
    );
    for (direction, name) in ["up", "down"].into_iter().enumerate() {
        let direction = &summary["directions"][direction];
        assert_eq!(direction["name"], name);
        assert_members(direction, "name packets pps wire_mbps");
    }
    assert_members(&summary["ledger"], "rx tx dropped held balanced");
    assert_members(&summary["flows"], "active created ended table_full records_lost");
    assert_members(&summary["flows"]["ended"], "idle fin rst reuse evicted flushed exit");
    assert_members(&summary["energy"], "package_j nj_per_packet reason");
    let is_known = summary["energy"]["nj_per_packet"].is_number();
    assert_ne!(is_known, summary["energy"]["reason"].is_string(), "{summary}");
    let util = summary["cpu_util_percent"].as_f64().unwrap();
    assert!((0.0..=100.0).contains(&util), "{util}");
    // 64 bytes, and 24 more on the wire.
    let up = &summary["directions"][0];
    let (pps, mbps) = (up["pps"].as_f64().unwrap(), up["wire_mbps"].as_f64().unwrap());
    assert!((mbps / (pps * 88.0 * 8.0 / 1e6) - 1.0).abs() < 1e-6, "{up}");
}
