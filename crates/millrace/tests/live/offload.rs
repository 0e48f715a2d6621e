// SPDX-License-Identifier: BSD-3-Clause
//! Tests NIC rules of a running instance: packets are counted by marks, and results do not change.

use crate::bump::{Ended, Line, Setup, count};
use crate::captures::{Talk, is_a};
use crate::new_scratch;
use crate::records::conversations;
use crate::twin::driver;
use serde_json::Value;
use testkit::host::has_cpus;

/// Returns a bump between two twins of a personality, which replay the two sides of a talk.
fn setup(test: &str, arguments: &str, talk: &Talk) -> Setup {
    let setup = Setup::new(test);
    let [a, b] = ["a", "b"].map(|name| setup.path(name));
    talk.write(&a, &b);
    setup.pair(
        &format!("net_twin0,replay={a},{arguments}"),
        &format!("net_twin1,replay={b},{arguments}"),
    )
}

fn talk() -> Talk {
    Talk::new(1, 300)
}

/// Runs until all packets of a talk that is replayed once have passed. The run must have no
/// warnings.
fn run_once(setup: Setup) -> Ended {
    let ended = run_through(setup);
    ended.assert_good();
    ended
}

/// Runs as [`run_once`] does, but accepts warnings.
pub(crate) fn run_through(setup: Setup) -> Ended {
    run_until_silent(setup, 2)
}

/// Runs until so many lines in a row show no packets. There are four lines in a second.
pub(crate) fn run_until_silent(setup: Setup, silent_lines: usize) -> Ended {
    let mut bump = setup.start();
    bump.wait_until("silence after all flows", |bump| {
        // Two lines, because on a busy host one line may show no packets while the worker lacks its
        // cpu.
        let is_over = |line: &Line| line.is_silent() && line.flows > 0.0;
        bump.lines().windows(silent_lines).any(|lines| lines.iter().all(is_over))
    });
    bump.finish()
}

pub(crate) fn ports(summary: &Value) -> [&Value; 2] {
    [0, 1].map(|port| &summary["offload"]["ports"][port])
}

/// Checks that all rules that were created are removed, lost with a reset, or refused removal.
#[track_caller]
pub(crate) fn assert_no_rule_left(summary: &Value) {
    for port in ports(summary) {
        let rules = &port["rules"];
        let stuck = rules["stuck"].as_array().unwrap().len() as u64;
        let gone: u64 = ["destroyed", "flushed", "lost"].map(|way| count(&rules[way])).iter().sum();
        assert_eq!(count(&rules["created"]), gone + stuck, "{port}");
    }
}

#[test]
fn marks_change_nothing_but_the_work() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let talk = talk();
    for (personality, api) in [("ideal", "async"), ("x710", "sync")] {
        let arguments = format!("personality={personality}");
        let off = setup("plain", &arguments, &talk).args(&["--offload", "off"]);
        let plain = run_once(off);
        assert_eq!(plain.summary()["offload"]["ports"][0]["state"], "off");
        for check in ["always", "1/16"] {
            let setup = setup("marked", &arguments, &talk).args(&["--offload", "all"]);
            let marked = run_once(setup.config(&format!("[offload]\ncheck = \"{check}\"\n")));
            let summary = marked.summary();
            assert!(ports(&summary).iter().all(|port| port["state"] == "on"), "{summary}");
            assert!(ports(&summary).iter().all(|port| port["api"] == api), "{summary}");
            assert_no_rule_left(&summary);
            let [plain, marked] =
                [&plain, &marked].map(|ended| conversations(&ended.records(), is_a));
            assert_eq!(plain, marked);
            assert_eq!(marked, talk.conversations);
        }
    }
}

/// Replays the packets without end, until connections have rules and more than 20 % of the packets
/// are marked.
fn run_until_marked(personality: &str, config: &str) -> Ended {
    let arguments = format!("loops=forever,personality={personality}");
    let setup = setup("marks", &arguments, &talk()).args(&["--offload", "after 8"]);
    let mut bump = setup.config(config).start();
    bump.wait_until("marks", |bump| {
        let text = bump.stdout();
        let marked = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.get(8).and_then(|word| word.parse::<f64>().ok()).unwrap_or_default()
        };
        text.lines().any(|line| marked(line) > 20.0)
    });
    bump.finish()
}

#[test]
fn packets_are_counted_by_marks_and_rules_go_at_the_end() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let without = "[offload]\napi = \"sync\"\n";
    for (personality, config, api, reason) in [
        ("x710", "", "sync", "error type 1"),
        ("cx6dx", "", "async", ""),
        ("cx6dx", without, "sync", "`api` is \"sync\""),
    ] {
        let ended = run_until_marked(personality, config);
        ended.assert_balanced();
        // With the other NIC, rules for packets with two tags have no effect, which Millrace
        // reports.
        if personality == "x710" {
            ended.assert_good();
        }
        let summary = ended.summary();
        assert_no_rule_left(&summary);
        assert!(count(&summary["offload"]["marks"]["counted"]) > 1000, "{summary}");
        assert_eq!(count(&summary["offload"]["marks"]["mismatched"]), 0);
        for port in ports(&summary) {
            assert!(count(&port["rules"]["installed"]) > 0, "{port}");
            assert_eq!(port["rules"]["created"], port["rules"]["destroyed"], "{port}");
            assert!(port["insert_us"]["p99"].as_f64() >= port["insert_us"]["p50"].as_f64());
            assert!(port["insert_us"]["min"].as_f64() > Some(0.0), "{port}");
            assert!(port["delete_us"]["min"].as_f64() > Some(0.0), "{port}");
            assert_eq!(port["api"], api);
            let told = port["api_reason"].as_str().unwrap_or_default();
            assert!(told.contains(reason) && told.is_empty() == reason.is_empty(), "{port}");
        }
        assert!(ended.stdout.contains("marks: "), "{}", ended.stdout);
    }
}

/// The NIC refuses most rules, and all trials of one kind with templates. So Millrace installs
/// rules by calls.
#[test]
fn templates_that_do_not_work_leave_calls() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let talk = talk();
    let arguments = "personality=ideal,faults=create-refused:0.7";
    let ended = run_through(setup("refused", arguments, &talk).args(&["--offload", "all"]));
    ended.assert_balanced();
    let summary = ended.summary();
    assert_no_rule_left(&summary);
    for port in ports(&summary) {
        assert_eq!((&port["state"], &port["api"]), (&"on".into(), &"sync".into()), "{port}");
        let reason = port["api_reason"].as_str().unwrap();
        assert!(reason.starts_with("cannot create a rule by templates: failed"), "{reason}");
        assert!(count(&port["rules"]["created"]) > 0, "{port}");
    }
    assert_eq!(conversations(&ended.records(), is_a), talk.conversations);
}

#[test]
fn a_nic_that_is_full_and_goes_wrong_costs_nothing_but_rules() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let scratch = new_scratch("small");
    let file = scratch.path("small.toml");
    let small = "name = \"small\"\ntable = { guaranteed = 16 }\n";
    let faults = ["", ",faults=create-refused:0.3", ",faults=undeletable:0.2"];
    let ways = ["", "operations = { async = true }\n"];
    for (faults, way) in faults.into_iter().flat_map(|faults| ways.map(|way| (faults, way))) {
        std::fs::write(&file, format!("{small}{way}")).unwrap();
        let arguments = format!("personality={file}{faults}");
        let talk = talk();
        let ended = run_once(setup("full", &arguments, &talk).args(&["--offload", "all"]));
        let summary = ended.summary();
        assert_no_rule_left(&summary);
        let refused: u64 = ports(&summary)
            .iter()
            .map(|port| count(&port["rules"]["refused"]["full"]) + count(&port["rules"]["resting"]))
            .sum();
        assert!(refused > 0, "{summary}");
        assert_eq!(conversations(&ended.records(), is_a), talk.conversations);
    }
}

#[test]
fn a_port_without_rules_says_so_and_works() {
    let setup = Setup::new("norules").pair("net_null0,no-rx=1", "net_null1,no-rx=1");
    let ended = setup.args(&["--offload", "all"]).duration("0.2").run();
    ended.assert_balanced();
    for port in ["net_null0", "net_null1"] {
        let words = format!("port {port},no-rx=1: accepts no flow rules, nothing is offloaded: ");
        assert!(ended.stderr.contains(&words), "{}", ended.stderr);
    }
    let summary = ended.summary();
    assert_eq!(summary["offload"]["policy"], "all");
    assert!(ports(&summary).iter().all(|port| port["state"] == "off"), "{summary}");
    assert!(summary["offload"]["ports"][0]["reason"].as_str().unwrap().contains("not implemented"));
    let silent = Setup::new("silent").pair("net_null0,no-rx=1", "net_null1,no-rx=1");
    silent.duration("0.2").run().assert_good();
}
