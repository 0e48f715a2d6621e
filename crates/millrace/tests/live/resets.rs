// SPDX-License-Identifier: BSD-3-Clause
//! Tests ports that are reset under load: the bump continues, rules are installed again, and all
//! counters are right.

use crate::bump::{Bump, Ended, Setup, count};
use crate::equivalence::{LOOPS, is_client, write_workload};
use crate::new_scratch;
use crate::offload::{assert_no_rule_left, ports, run_through};
use crate::records::{Conversations, conversations};
use crate::twin::{Bench, driver};
use crate::{is_run_now, runs_all_cases};
use serde_json::Value;
use std::fs::File;
use testkit::host::has_cpus;
use testkit::process::wait_until;
use traffic::PcapWriter;
use wire::FrameBuilder;

/// Runs the workload once through a bump between two twins with these devargs.
fn run(arguments: &str, policy: &str, workers: &str) -> (Ended, Conversations) {
    let setup = Setup::new("resets").capacity(1 << 14);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    write_workload([&a, &b]);
    let port = |number, capture| format!("net_twin{number},replay={capture},{arguments}");
    let setup = setup.pair(&port(0, a), &port(1, b));
    let ended = run_through(setup.args(&["--offload", policy, "--workers", workers]));
    ended.assert_balanced();
    let conversations = conversations(&ended.records(), is_client);
    (ended, conversations)
}

fn sum(ports: &Value, counter: &str) -> u64 {
    ports.as_array().unwrap().iter().map(|port| count(&port[counter])).sum()
}

/// After a reset, a capture continues where it was, so each packet arrives once.
#[test]
fn resets_leave_every_conversation_as_it_is() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let loops = format!("loops={LOOPS}");
    let (_, expected) = run(&loops, "off", "1");
    let cases = [("off", "1"), ("all", "2"), ("measured", "2"), ("all", "1")];
    for (policy, workers) in cases.into_iter().take(if runs_all_cases() { 4 } else { 3 }) {
        let (ended, conversations) = run(&format!("{loops},reset_after=40000"), policy, workers);
        assert!(conversations == expected, "{policy} {workers}");
        let summary = ended.summary();
        let resets = sum(&summary["ports"], "resets");
        assert!(resets > 4, "{policy} {workers}: {resets}");
        assert_eq!(ended.stderr.matches(": was reset; back after ").count() as u64, resets);
        assert!(count(&summary["drops"]["port_reset"]) > 0, "{}", summary["drops"]);
        assert_eq!(count(&summary["offload"]["marks"]["mismatched"]), 0);
        if policy == "off" {
            continue;
        }
        assert_no_rule_left(&summary);
        for port in ports(&summary) {
            // Between two resets, few flows have enough packets to be measured.
            assert!(policy == "measured" || count(&port["rules"]["lost"]) > 0, "{port}");
            assert_eq!(port["api"], "async", "{port}");
            assert_eq!(port["rules"]["stuck"].as_array().unwrap().len(), 0, "{port}");
        }
    }
}

#[test]
fn resets_on_top_of_all_else_leave_every_conversation_as_it_is() {
    if !is_run_now() || driver().is_none() || !has_cpus(2) {
        return;
    }
    let loops = format!("loops={LOOPS}");
    let (_, expected) = run(&loops, "off", "1");
    let faults = "undeletable:0.1+create-refused:0.1+late-activation:0.2+late-deactivation:0.2+\
                  latency-cliff:0.01+reset-fails:0.3";
    let (ended, conversations) =
        run(&format!("{loops},reset_after=100000,faults={faults}"), "all", "2");
    assert!(conversations == expected);
    let summary = ended.summary();
    assert!(sum(&summary["ports"], "resets") > 0);
    assert_no_rule_left(&summary);
}

/// Number of connections that send without end.
const CONNECTIONS: u8 = 100;

/// Returns a bump with these connections. One packet of each arrives per pass, slowly enough that
/// all rules are installed meanwhile.
fn endless(test: &str, arguments: &str) -> Setup {
    let setup = Setup::new(test);
    let paths = ["a", "b"].map(|name| setup.path(name));
    let mut writers =
        paths.each_ref().map(|path| PcapWriter::new(File::create(path).unwrap()).unwrap());
    for host in 0..CONNECTIONS {
        let packet = || FrameBuilder::ipv4([10, 0, 0, host], [10, 1, 0, 1]).udp(1000, 53).pad();
        for (writer, frame) in writers.iter_mut().zip([packet(), packet().reversed()]) {
            writer.write(0, &frame.build()).unwrap();
        }
    }
    for writer in writers {
        writer.finish().unwrap();
    }
    let port = |number: usize, arguments| {
        format!("net_twin{number},replay={},loops=forever,speed=100M{arguments}", paths[number])
    };
    let [a, b] = [port(0, arguments), port(1, ",personality=ideal")];
    setup.pair(&a, &b)
}

/// Returns the percentage of packets with marks and the number of rules in the last line. Two
/// columns follow them.
fn marked_and_rules(bump: &Bump) -> Option<(f64, u64)> {
    let text = bump.stdout();
    let words: Vec<_> = text.lines().last()?.split_whitespace().collect();
    let [.., marked, rules, _stolen, _wait] = words[..] else { return None };
    Some((marked.parse().ok()?, rules.replace('_', "").parse().ok()?))
}

/// The NIC has room for the needed rules only, so a rule that a reset left would be one too many.
#[test]
fn rules_come_back_and_mark_again() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let scratch = new_scratch("room");
    let file = scratch.path("room.toml");
    let text = format!("name = \"room\"\ntable = {{ guaranteed = {CONNECTIONS} }}\n");
    std::fs::write(&file, text).unwrap();
    let arguments = format!(",personality={file},reset_after=400000");
    let mut bump = endless("again", &arguments).args(&["--offload", "all"]).start();
    let all = 2 * u64::from(CONNECTIONS);
    let is_marked = |bump: &Bump| {
        marked_and_rules(bump).is_some_and(|(marked, rules)| marked > 99.0 && rules == all)
    };
    bump.wait_until("marks", is_marked);
    for times in 1..3 {
        bump.wait_until("a reset", |bump| bump.stderr().matches("was reset").count() == times);
        bump.wait_until("marks again", is_marked);
    }
    let ended = bump.finish();
    ended.assert_balanced();
    let rules = format!(" ms, {CONNECTIONS} rules to install again\n");
    assert!(ended.stderr.contains(&rules), "{}", ended.stderr);
    let summary = ended.summary();
    assert_no_rule_left(&summary);
    for (port, others) in ports(&summary).into_iter().zip([200, 0]) {
        let Value::Object(rules) = &port["rules"] else { panic!("{port}") };
        assert_eq!(rules["installed"], CONNECTIONS, "{port}");
        assert!(count(&rules["lost"]) >= others, "{port}");
        assert_eq!(rules["refused"]["full"], 0, "{port}");
        assert_eq!(rules["refused"]["unsuitable"], 0, "{port}");
        assert_eq!(rules["stuck"].as_array().unwrap().len(), 0, "{port}");
    }
    let marks = &summary["offload"]["marks"];
    for wrong in ["foreign", "stale", "mismatched"] {
        assert_eq!(marks[wrong], 0, "{marks}");
    }
    let packets: Vec<_> = ended.records().iter().map(|record| record.packets()).collect();
    assert_eq!(packets.len(), usize::from(CONNECTIONS));
    // Each port may have begun one more pass.
    let [least, most] = [packets.iter().min(), packets.iter().max()].map(Option::unwrap);
    assert!(most - least <= 2, "{packets:?}");
}

#[test]
fn a_port_that_comes_back_late_is_waited_for() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let arguments = ",reset_after=20000,faults=reset-fails:0.8";
    let mut bump = endless("late", arguments).args(&["--offload", "all"]).start();
    bump.wait_for_message("a reset of a port failed, and will be tried again");
    bump.wait_for_message("was reset");
    let ended = bump.finish();
    ended.assert_balanced();
    let text = "could not reset it";
    assert!(ended.stderr.contains(text), "{}", ended.stderr);
}

#[test]
fn a_port_that_does_not_come_back_ends_the_run() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let arguments = ",reset_after=20000,faults=reset-fails";
    let bump = endless("never", arguments).args(&["--offload", "all"]).start();
    let ended = bump.wait();
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("a port did not come back"), "{}", ended.stderr);
    let summary = ended.summary();
    assert_eq!(summary["ledger"]["balanced"], true, "{}", summary["ledger"]);
    assert!(count(&summary["drops"]["port_reset"]) > 0, "{}", summary["drops"]);
    assert_eq!(sum(&summary["ports"], "resets"), 0);
    assert_no_rule_left(&summary);
    for port in ports(&summary) {
        assert_eq!(port["rules"]["stuck"].as_array().unwrap().len(), 0, "{port}");
    }
}

/// testpmd, another program, gets the event and resets the port.
#[test]
fn testpmd_brings_a_port_back() {
    let Some(driver) = driver() else { return };
    let frames: Vec<_> = (0..3)
        .map(|host| FrameBuilder::ipv4([10, 0, 0, host], [10, 1, 0, 1]).udp(7, 9).pad().build())
        .collect();
    let mut bench = Bench::playing("ideal,reset_after=3", &driver, &frames, 1);
    bench.forward(3);
    wait_until("the event", || bench.testpmd.output().contains("reset event"));
    let rule = "flow create @ ingress pattern eth / end actions mark id 5 / end";
    bench.flow(rule, "it must be reset: Input/output error");
    for command in ["port stop @", "port reset @", "port start @"] {
        bench.flow(command, "Done");
    }
    bench.flow(rule, "Flow rule #0 created");
}
