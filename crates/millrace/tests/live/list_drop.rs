// SPDX-License-Identifier: BSD-3-Clause
//! Tests rules of access lists by which NICs drop packets: each rule counts the packets that it
//! counts in software, and no packet is dropped by old lists once new ones are in force.

use crate::bump::{Bump, Setup, count};
use crate::equivalence::{LOOPS, write_workload};
use crate::runs_all_cases;
use crate::twin::driver;
use serde_json::Value;
use std::process::{Command, Output};
use std::time::Duration;
use testkit::capture::write_pcap;
use testkit::host::has_cpus;
use testkit::process::wait_until;
use wire::FrameBuilder;

/// A run of a pair without tracking.
struct Run {
    bump: Bump,
    socket: String,
    file: String,
}

impl Run {
    /// Starts a pair of these ports, with more lines of configuration.
    fn new(setup: Setup, [a, b]: [&str; 2], config: &str) -> Self {
        let (socket, file) = (setup.path("control.sock"), setup.path("bump.toml"));
        let config = format!(
            "[[pair]]\na = \"{a}\"\nb = \"{b}\"\ntracking = \"off\"\n\
             [control]\nsocket = \"{socket}\"\n{config}"
        );
        Self { bump: setup.config(&config).start(), socket, file }
    }

    fn try_ask(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(args).args(["--json", "--instance", &self.socket]).output().unwrap()
    }

    fn ask(&self, args: &[&str]) -> Value {
        let output = self.try_ask(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Returns packets and bytes of each rule.
    fn hits(&self) -> Vec<[u64; 2]> {
        let shown = self.ask(&["acl", "show"]);
        let rules = shown["rules"].as_array().unwrap();
        rules.iter().map(|rule| [&rule["packets"], &rule["bytes"]].map(count)).collect()
    }

    /// Returns the state of each rule at port A, or at port B, and the reason.
    fn states(&self, port: usize) -> Vec<(String, String)> {
        let ports = self.ask(&["acl", "offload"])["ports"].clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rules = ports[port]["rules"].as_array().unwrap();
        rules.iter().map(|rule| (text(&rule["state"]), text(&rule["reason"]))).collect()
    }

    fn wait_for_states(&self, port: usize, states: &[&str]) {
        wait_until("the rules in the NIC", || {
            let found = self.states(port);
            found.iter().map(|(state, _)| state.as_str()).eq(states.iter().copied())
        });
    }
}

/// Returns the packets that NICs dropped by themselves.
fn nic_denied(summary: &Value) -> u64 {
    let ports = summary["offload"]["ports"].as_array().unwrap();
    ports.iter().map(|port| count(&port["nic_denied"]["packets"])).sum()
}

/// A list for each port. Some rules deny what a NIC may drop, others follow one that permits.
const LISTS: &str = r#"
[[list]]
name = "of a"
port = "a"
default = "permit"
rules = """
deny src 10.0.0.0/9 proto tcp dport 443
deny src 10.0.0.0/10 proto tcp
permit src 10.0.0.0/8 proto udp dport 53
deny proto tcp dport 80,8000-8100
deny proto udp
permit src 2001:db8::/32 proto tcp
"""

[[list]]
name = "of b"
port = "b"
default = "permit"
rules = """
deny proto udp sport 53 dst 10.0.0.0/10
permit proto udp
"""
"#;

/// Indices of the rules that deny, among those of both lists and their defaults.
const DENIES: [usize; 5] = [0, 1, 3, 4, 7];

/// Replays the workload between two twins with these devargs, until each rule has these hits, if
/// they are known. Returns the hits and the packets that NICs dropped.
fn replay(arguments: &str, acl: &str, expected: Option<&[[u64; 2]]>) -> (Vec<[u64; 2]>, u64) {
    let setup = Setup::new("drops").capacity(1 << 14);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    write_workload([&a, &b]);
    let port = |number, capture| {
        format!("net_twin{number},replay={capture},loops={LOOPS},seed=7,speed=5G{arguments}")
    };
    let ports = [port(0, a), port(1, b)];
    let run = Run::new(setup, [&ports[0], &ports[1]], &format!("[acl]\n{acl}{LISTS}"));
    let mut hits = Vec::new();
    wait_until("all packets were judged", || {
        let before = std::mem::replace(&mut hits, run.hits());
        match expected {
            Some(expected) => hits == expected,
            None => {
                std::thread::sleep(Duration::from_millis(300));
                before == hits && hits.iter().any(|[packets, _]| *packets > 0)
            }
        }
    });
    let ended = run.bump.finish();
    ended.assert_balanced();
    let summary = ended.summary();
    let denied = DENIES.map(|rule| hits[rule][0]).iter().sum::<u64>();
    let by_nic = nic_denied(&summary);
    assert_eq!(count(&summary["drops"]["denied"]) + by_nic, denied, "{arguments}: {hits:?}");
    (hits, by_nic)
}

#[test]
fn every_rule_counts_what_the_nic_drops_for_it() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let (expected, _) = replay("", "nic_rules_max = 0\n", None);
    assert!(expected.iter().filter(|[packets, _]| *packets > 0).count() > 6, "{expected:?}");
    let (_, by_nic) = replay("", "", Some(&expected));
    assert_eq!(by_nic, 0, "no NIC drops by default");
    for (name, drops) in [("ideal", true), ("cx5", true), ("ntacc", false)] {
        if name == "cx5" && !runs_all_cases() {
            continue;
        }
        let arguments = format!(",personality={name}");
        let (_, by_nic) = replay(&arguments, "nic_drop = true\n", Some(&expected));
        assert_eq!(by_nic > 0, drops, "{name}");
    }
    let faults = ",faults=create-refused:0.3+latency-cliff:0.2";
    replay(faults, "nic_drop = true\n", Some(&expected));
}

/// Denies one flow of two, which the capture has in turn, and some `others` without packets.
fn two_flows(devargs: &str, acl: &str, others: usize) -> Run {
    let setup = Setup::new("drop-change").capacity(1 << 12);
    let path = setup.path("a");
    let frame = |port| FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 1]).udp(1000, port).build();
    write_pcap(&path, &[frame(1), frame(2)]);
    let a = format!("net_twin0,replay={path},loops=forever,speed=50M,{devargs}");
    let more = (10..20).map(|port| format!("ipv4 deny proto udp dport {port}\n"));
    let more: String = more.take(others).collect();
    let rules = format!("ipv4 deny proto udp dport 1\npermit proto udp dport 2\n{more}");
    let list = format!("[[list]]\nname = \"l\"\nport = \"a\"\nrules = \"\"\"\n{rules}\n\"\"\"\n");
    Run::new(setup, [&a, "net_twin1"], &format!("[acl]\nnic_drop = true\n{acl}{list}"))
}

/// Permits in the file of a run the flow that it denies.
fn permit(run: &Run) {
    let text = std::fs::read_to_string(&run.file).unwrap();
    std::fs::write(&run.file, text.replace("deny proto udp", "permit proto udp")).unwrap();
}

/// The two flows have the same number of packets, apart from those on their way.
fn assert_about_equal(a: u64, b: u64) {
    assert!(a.abs_diff(b) < 200 && a > 2000, "{a} {b}");
}

#[test]
fn no_packet_is_dropped_after_a_change_that_permits_it() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let all = ["personality=ideal", "personality=cx5"];
    for personality in &all[..if runs_all_cases() { 2 } else { 1 }] {
        let run = two_flows(personality, "", 0);
        run.wait_for_states(0, &["drop", "nic", "nic"]);
        let denied = || nic_denied(&run.ask(&["stats"]));
        wait_until("packets that the NIC drops", || denied() > 2000);
        permit(&run);
        let change = run.ask(&["ct", "reload"])["list_change"].clone();
        assert_eq!(count(&change["drops"]), 1, "{change}");
        let (before, denied_before) = (run.hits(), denied());
        wait_until("some packets", || run.hits()[0][0] > before[0][0] + 2000);
        let after = run.hits();
        let [first, second] = [0, 1].map(|rule| after[rule][0] - before[rule][0]);
        assert_about_equal(first, second);
        assert_eq!(denied(), denied_before, "the NIC drops no packet any more");
        run.wait_for_states(0, &["nic", "nic", "nic"]);
        let last = run.hits();
        let [first, second] = [0, 1].map(|rule| last[rule][0]);
        let ended = run.bump.finish();
        ended.assert_balanced();
        let summary = ended.summary();
        if *personality == "personality=ideal" {
            // The counters of the other NIC are up to a second old.
            let dropped = count(&summary["drops"]["denied"]) + nic_denied(&summary);
            assert_about_equal(first + dropped, second);
        }
    }
}

#[test]
fn a_port_that_cannot_stop_in_time_does_not_drop() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    for (devargs, acl, reason) in [
        ("personality=ideal", "recall_ms = 0\n", "removes 0 rules that drop in half of"),
        ("personality=ntacc", "", "marked only: "),
    ] {
        let run = two_flows(devargs, acl, 0);
        run.wait_for_states(0, &["nic", "nic", "nic"]);
        let states = run.states(0);
        assert!(states[0].1.contains(reason) && states[1].1.is_empty(), "{states:?}");
        permit(&run);
        let change = run.ask(&["ct", "reload"])["list_change"].clone();
        assert_eq!(count(&change["drops"]), 0, "{change}");
        run.bump.finish().assert_balanced();
    }
}

/// A NIC that fails to destroy a rule goes on to drop, so the lists stay as they are.
#[test]
fn a_rule_that_stays_refuses_the_change() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let run = two_flows("personality=ideal,faults=undeletable:0.3,seed=1", "", 10);
    wait_until("the rules in the NIC", || {
        let states = run.states(0);
        states.iter().all(|(state, _)| ["drop", "nic"].contains(&state.as_str()))
    });
    assert_eq!(run.states(0)[0].0, "drop");
    permit(&run);
    for _ in 0..2 {
        let refused = run.try_ask(&["ct", "reload"]);
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{words}");
        assert!(words.contains("so these stay: it failed to remove one"), "{words}");
    }
    let shown = run.ask(&["acl", "show"]);
    assert_eq!(shown["rules"][0]["text"], "ipv4 deny proto udp dport 1");
    let before = run.hits();
    wait_until("packets that are denied", || run.hits()[0][0] > before[0][0] + 2000);
    let after = run.hits();
    let [denied, passed] = [0, 1].map(|rule| after[rule][0] - before[rule][0]);
    assert_about_equal(denied, passed);
    run.bump.finish().assert_balanced();
}
