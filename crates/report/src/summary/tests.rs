// SPDX-License-Identifier: BSD-3-Clause
//! Tests that engines add up, that the ledger is checked, and that the report omits zero counts.

use super::*;
use serde_json::json;

fn stats() -> Stats {
    let mut stats = Stats { tracked: 10, created: 5, ..Stats::default() };
    stats.passed[UntrackedReason::NonIp as usize] = 3;
    stats.dropped[UntrackedReason::TableFull as usize] = 2;
    stats.ended[EndReason::Fin as usize] = 4;
    stats
}

fn report(summary: &Summary) -> String {
    let mut out = Vec::new();
    summary.print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_counters_of_several_engines_add_up() {
    let mut summary = Summary::new();
    summary.add_engine(&stats());
    summary.add_engine(&stats());
    summary.balance(30, 26, 0);
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["passed"]["non_ip"], 6);
    assert_eq!(json["drops"]["table_full"], 4);
    assert_eq!(json["drops"].as_object().unwrap().len(), UntrackedReason::ALL.len());
    assert_eq!(json["flows"]["active"], 2);
    assert_eq!(json["flows"]["created"], 10);
    assert_eq!(json["flows"]["table_full"], 4);
    assert_eq!(json["flows"]["ended"]["fin"], 8);
    assert_eq!(json["ledger"]["balanced"], true);
}

#[test]
fn reasons_of_the_caller_join_those_of_the_engine() {
    let mut summary = Summary::new();
    summary.add_engine(&stats());
    summary.drops.add("tx_full", "the peer port took no more", 7);
    summary.balance(20, 10, 1);
    assert_eq!(summary.ledger.dropped, 9);
    assert!(summary.ledger.balanced);
}

#[test]
fn a_packet_too_few_or_too_many_is_seen() {
    let mut summary = Summary::new();
    summary.balance(10, 9, 0);
    assert!(!summary.ledger.balanced);
    assert!(report(&summary).contains("NOT BALANCED: off by 1"));
    summary.balance(10, 9, 2);
    assert!(!summary.ledger.balanced);
    assert!(report(&summary).contains("NOT BALANCED: off by -1"));
}

#[test]
fn flows_that_ended_and_were_not_created_are_explained() {
    let mut summary = Summary::new();
    summary.add_engine(&stats());
    assert!(report(&summary).contains("flows: 5 created, 1 active\n"));
    summary.snapshot.restored = 2;
    let report = report(&summary);
    assert!(report.contains("flows: 5 created, 2 restored from the last run, 1 active\n"));
}

#[test]
fn the_report_has_only_what_happened() {
    let mut summary = Summary::new();
    summary.add_engine(&stats());
    summary.balance(15, 13, 0);
    let report = report(&summary);
    assert!(report.contains("packets passed without a flow: 3\n"));
    assert!(report.contains(UntrackedReason::NonIp.doc()));
    assert!(report.contains("ledger: 15 received = 13 sent + 2 dropped + 0 held: balanced\n"));
    assert!(!report.contains("fragment"));
    assert!(!report.contains("idle"));
}

#[test]
fn stalls_are_reported_where_they_spoil_the_figures() {
    let report_of = |stalled_cycles: u64| {
        let mut summary = Summary::new();
        let busy = Worker { stalled_cycles, busy_cycles: 50, ..Worker::default() };
        let idle = Worker { idle_cycles: 50 - stalled_cycles, ..Worker::default() };
        summary.workers = vec![busy, idle];
        report(&summary)
    };
    assert!(report_of(5).contains("workers did not get their cpus for 5 % of the time\n"));
    assert!(!report_of(4).contains("did not get"));
    assert!(!report_of(0).contains("did not get"));
}

#[test]
fn energy_is_of_all_packets_that_were_forwarded() {
    let mut summary = Summary::new();
    summary.balance(3_000_000, 3_000_000, 0);
    summary.offload.bypassed.packets = 1_000_000;
    summary.set_energy(Ok::<_, String>(2_000_000));
    let line = "energy of the processor packages: 2.0 J, 500.0 nJ per packet sent\n";
    assert!(report(&summary).contains(line));
    let json = serde_json::to_value(&summary).unwrap();
    let expected = json!({ "package_j": 2.0, "nj_per_packet": 500.0, "reason": null });
    assert_eq!(json["energy"], expected);

    let mut idle = Summary::new();
    idle.set_energy(Ok::<_, String>(2_000_000));
    assert!(report(&idle).contains("energy of the processor packages: 2.0 J\n"));
    let json = serde_json::to_value(&idle).unwrap();
    let expected =
        json!({ "package_j": 2.0, "nj_per_packet": null, "reason": "no packet was sent" });
    assert_eq!(json["energy"], expected);
}

#[test]
fn unknown_energy_has_a_reason_and_no_line() {
    for (microjoules, reason) in
        [(Err("no counter"), "no counter"), (Ok(0), "the energy counter did not change")]
    {
        let mut summary = Summary::new();
        summary.balance(9, 9, 0);
        summary.set_energy(microjoules);
        assert!(!report(&summary).contains("energy"));
        let json = serde_json::to_value(&summary).unwrap();
        let expected = json!({ "package_j": null, "nj_per_packet": null, "reason": reason });
        assert_eq!(json["energy"], expected);
    }
}
