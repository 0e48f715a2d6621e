// SPDX-License-Identifier: BSD-3-Clause
//! Tests rules of access lists in NICs with the real driver: whatever rules a NIC takes, and
//! whatever faults it has, each rule counts the packets that it counts in software.

use crate::bump::Setup;
use crate::equivalence::{LOOPS, write_workload};
use crate::instance::json;
use crate::runs_all_cases;
use crate::twin::driver;
use serde_json::Value;
use std::time::Duration;
use testkit::host::has_cpus;
use testkit::process::wait_until;

/// A list for each port. Some rules can be in a NIC, others follow one that cannot.
const LISTS: &str = r#"
[[list]]
name = "of a"
port = "a"
default = "permit"
rules = """
deny src 10.0.0.0/9 proto tcp dport 443
permit src 10.0.0.0/8 proto udp dport 53
deny proto tcp dport 80,8000-8100
permit src 2001:db8::/32 proto tcp
permit proto tcp
permit proto tcp ct established
"""

[[list]]
name = "of b"
port = "b"
default = "permit"
rules = """
deny proto udp sport 53 dst 10.0.0.0/10
permit proto tcp tcp-flags syn+ack/syn+ack
permit proto udp
"""
"#;

/// What a run showed before it ended.
struct Run {
    /// Packets of each rule of both lists.
    hits: Vec<u64>,
    /// The ports, as `acl offload` prints them.
    ports: Value,
}

impl Run {
    /// Replays the workload between two twins with these devargs.
    fn new(arguments: &str, config: &str) -> Self {
        let setup = Setup::new("lists").capacity(1 << 14);
        let [a, b] = ["a", "b"].map(|name| setup.path(name));
        write_workload([&a, &b]);
        let port = |number, capture| {
            format!("net_twin{number},replay={capture},loops={LOOPS},seed=7,speed=5G{arguments}")
        };
        let socket = setup.path("control.sock");
        let setup = setup.pair(&port(0, a), &port(1, b)).args(&["--socket", &socket]);
        let bump = setup.config(&format!("{config}{LISTS}")).start();
        let ask = |what: &str| json(&socket, &["acl", what]);
        let hits = || -> Vec<u64> {
            let shown = ask("show");
            let rules = shown["rules"].as_array().unwrap();
            rules.iter().map(|rule| rule["packets"].as_u64().unwrap()).collect()
        };
        wait_until("all packets were judged", || {
            let before = hits();
            std::thread::sleep(Duration::from_millis(300));
            before == hits() && before.iter().sum::<u64>() > 0
        });
        let run = Self { hits: hits(), ports: ask("offload")["ports"].clone() };
        let ended = bump.finish();
        ended.assert_balanced();
        let dropped = ended.summary()["drops"]["denied"].as_u64();
        let denied = [0, 2, 7].map(|rule| run.hits[rule]).iter().sum::<u64>();
        assert_eq!(dropped, Some(denied), "{:?}", run.hits);
        run
    }

    fn sum(&self, member: &str) -> u64 {
        let ports = self.ports.as_array().unwrap();
        ports.iter().map(|port| port[member].as_u64().unwrap()).sum()
    }
}

const OFF: &str = "[policy]\ntracking = \"off\"\n";
const SOFTWARE: &str = "[acl]\nnic_rules_max = 0\n";

#[test]
fn every_nic_leaves_the_packets_of_every_rule_as_they_are() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let all = ["cx5", "x710", "n6010", "ideal", "ntacc"];
    let some = if runs_all_cases() { &all[..] } else { &all[..3] };
    for (policy, names) in [(OFF, some), ("", &all[..1])] {
        let expected = Run::new("", &format!("{policy}{SOFTWARE}")).hits;
        assert!(expected.iter().filter(|hits| **hits > 0).count() > 6, "{expected:?}");
        for name in names {
            let run = Run::new(&format!(",personality={name}"), policy);
            assert_eq!(run.hits, expected, "{name} {policy}");
            // The X710 would ignore the prefixes and ranges of these lists.
            let takes_rules = !["n6010", "x710"].contains(name);
            assert_eq!(run.sum("created") > 0, takes_rules, "{name}: {}", run.ports);
            assert_eq!(run.sum("decided") > 0, takes_rules, "{name}: {}", run.ports);
            assert_eq!(run.sum("disagreed"), 0, "{name}: {}", run.ports);
        }
    }
}

#[test]
fn every_fault_leaves_the_packets_of_every_rule_as_they_are() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let always = "[offload]\ncheck = \"always\"\n";
    let expected = Run::new("", &format!("{OFF}{SOFTWARE}")).hits;
    let cases = [
        ("mask-ignored:0.5+truncated-mark:0.2+destroy-leaves-rule", always),
        ("no-mark:0.5+phantom-success:0.3+create-refused:0.3", ""),
        ("undeletable:0.5+latency-cliff:0.2", ""),
        ("late-activation", always),
    ];
    for (faults, check) in cases.into_iter().take(if runs_all_cases() { 4 } else { 2 }) {
        let run = Run::new(&format!(",faults={faults}"), &format!("{OFF}{check}"));
        assert_eq!(run.hits, expected, "{faults}: {}", run.ports);
    }
}
