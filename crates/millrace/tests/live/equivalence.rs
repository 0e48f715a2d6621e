// SPDX-License-Identifier: BSD-3-Clause
//! Tests that offload does not change results with the real driver. Whatever rules the NIC accepts,
//! and whatever faults it has, each conversation has the same packets and bytes as without rules.

use crate::bump::{Ended, Setup, count};

use crate::offload::{assert_no_rule_left, ports, run_through};
use crate::records::{Conversations, conversations};
use crate::runs_all_cases;
use crate::twin::driver;
use std::fs::File;
use std::io::BufWriter;
use testkit::host::has_cpus;
use traffic::{PcapWriter, Profile, Side, Workload};

/// Frames of both sides, and the number of times that each side replays its own.
const FRAMES: usize = 20_000;
pub(crate) const LOOPS: u32 = 40;

/// Writes the captures of both sides: whole connections over both IP versions, with and without
/// tags. They begin anew in each pass.
pub(crate) fn write_workload(paths: [&str; 2]) {
    let [mut a, mut b] =
        paths.map(|path| PcapWriter::new(BufWriter::new(File::create(path).unwrap())).unwrap());
    // The key of a ping has the direction that came first, which depends on the ports.
    let profile = Profile { concurrent: 200, ping_percent: 0, ..Profile::default() };
    let mut workload = Workload::new(1, profile);
    let mut frame = Vec::new();
    for _ in 0..FRAMES {
        let writer = match workload.next(&mut frame) {
            Side::A => &mut a,
            Side::B => &mut b,
        };
        writer.write(0, &frame).unwrap();
    }
    a.finish().unwrap();
    b.finish().unwrap();
}

pub(crate) fn is_client(address: &str) -> bool {
    address.starts_with("10.")
        || address.starts_with("2001:db8:") && !address.starts_with("2001:db8:ff00:")
}

/// Runs the workload once through a bump between two twins with these devargs.
fn run(arguments: &str, policy: &str, check: &str) -> (Ended, Conversations) {
    let setup = Setup::new("equal").capacity(1 << 14);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    write_workload([&a, &b]);
    let port = |number, capture| {
        format!("net_twin{number},replay={capture},loops={LOOPS},seed=7{arguments}")
    };
    let setup = setup.pair(&port(0, a), &port(1, b)).args(&["--offload", policy]);
    // With a slow NIC, there may be a warning at the end.
    let ended = run_through(setup.config(&format!("[offload]\ncheck = \"{check}\"\n")));
    ended.assert_balanced();
    let conversations = conversations(&ended.records(), is_client);
    (ended, conversations)
}

#[test]
fn every_personality_leaves_every_conversation_as_it_is() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let (plain, expected) = run("", "off", "always");
    let packets = count(&plain.summary()["ledger"]["rx"]);
    assert_eq!(packets, FRAMES as u64 * u64::from(LOOPS));
    // Those that differ most: marks and counts are found, no counts, no marks, and no rules at all.
    let some = ["cx6dx", "x710-17.02", "ntnic", "n6010"];
    let is_run = |name: &&str| runs_all_cases() || some.contains(name);
    for name in ::twin::personality::NAMES.into_iter().filter(is_run) {
        let (ended, conversations) = run(&format!(",personality={name}"), "measured", "1/64");
        assert!(conversations == expected, "{name}");
        let summary = ended.summary();
        assert_no_rule_left(&summary);
        let marked = count(&summary["offload"]["marks"]["counted"]);
        let [takes_rules, marks] = [name != "n6010", !["n6010", "ntnic"].contains(&name)];
        for port in ports(&summary) {
            assert_eq!(port["state"] == "on", takes_rules, "{name}: {port}");
            assert_eq!(count(&port["rules"]["created"]) > 0, takes_rules, "{name}: {port}");
        }
        assert_eq!(marked > 0, marks, "{name}: {}", summary["offload"]);
        assert_eq!(count(&summary["offload"]["marks"]["mismatched"]), 0, "{name}");
    }
}

#[test]
fn every_fault_leaves_every_conversation_as_it_is() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let (_, expected) = run("", "off", "always");
    // Packets that arrive while a NIC stalls are lost, with or without offload.
    let faults = ::twin::Fault::ALL.map(|(_, name)| name);
    let honest: Vec<_> = faults.into_iter().filter(|name| !LIES.contains(name)).collect();
    let some = |names: &[&str]| {
        let names = names.iter().filter(|name| !["receive-stall", "full-early"].contains(name));
        names.map(|name| format!("{name}:0.1")).collect::<Vec<_>>().join("+")
    };
    let policies = ["all", "after 8", "measured"];
    let cases = [
        (some(&honest), "1/64"),
        (some(&LIES), "always"),
        ("late-activation+late-deactivation".to_owned(), "1/64"),
        ("undeletable:0.3+full-early:0.0001+wedge:40".to_owned(), "1/64"),
    ];
    for (case, (faults, check)) in cases.into_iter().enumerate() {
        // Late rules are among the first case's faults, too.
        let of_case = |at: usize| runs_all_cases() || at == case % policies.len() && case != 2;
        for (_, policy) in policies.iter().enumerate().filter(|(at, _)| of_case(*at)) {
            let (ended, conversations) = run(&format!(",faults={faults}"), policy, check);
            assert!(conversations == expected, "{faults} {policy}");
            assert_no_rule_left(&ended.summary());
        }
    }
}

/// Faults after which only the key of a packet shows its connection.
const LIES: [&str; 3] = ["mask-ignored", "truncated-mark", "destroy-leaves-rule"];

/// The rules of this NIC have an effect until the 200th change; from then on, none has, and no call
/// fails.
#[test]
fn a_nic_that_gets_stuck_is_named_and_changes_no_total() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let setup = Setup::new("stuck").capacity(1 << 14);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    write_workload([&a, &b]);
    let port = |number, capture: &str| {
        format!("net_twin{number},replay={capture},loops=forever,faults=wedge:200")
    };
    let [port_a, port_b] = [port(0, &a), port(1, &b)];
    let mut bump = setup.pair(&port_a, &port_b).args(&["--offload", "after 8"]).start();
    for port in [&port_a, &port_b] {
        bump.wait_for_message(&format!("port {port}: rules have no effect any more: "));
    }
    let ended = bump.finish();
    ended.assert_balanced();
    let summary = ended.summary();
    assert_no_rule_left(&summary);
    let admission = &summary["offload"]["admission"];
    assert!(count(&admission["effective"]) > 0 && count(&admission["ineffective"]) >= 16);
}

#[test]
fn rules_without_effect_are_found() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let setup = Setup::new("unmarked").capacity(1 << 14);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    write_workload([&a, &b]);
    let port = |number, capture: &str| {
        format!("net_twin{number},replay={capture},loops=forever,personality=ntnic")
    };
    let [port_a, port_b] = [port(0, &a), port(1, &b)];
    let mut bump = setup.pair(&port_a, &port_b).start();
    for port in [&port_a, &port_b] {
        bump.wait_for_message(&format!("port {port}: rules have no effect: "));
    }
    let ended = bump.finish();
    ended.assert_balanced();
    assert_eq!(ended.stderr.matches("rules have no effect").count(), 2, "{}", ended.stderr);
    let summary = ended.summary();
    assert_no_rule_left(&summary);
    let admission = &summary["offload"]["admission"];
    assert!(count(&admission["ineffective"]) >= 16, "{admission}");
    assert_eq!(count(&admission["effective"]), 0);
    assert!(ended.stdout.contains(" without effect"), "{}", ended.stdout);
}
