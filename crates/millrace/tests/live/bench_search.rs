// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace bench search` and `bench compare` over rings and over the software NIC, with
//! goals that a busy host reaches, too.

use crate::bump::turn;
use crate::new_scratch;
use crate::twin::driver;
use serde_json::Value;
use std::process::{Command, Output};
use testkit::scratch::Scratch;

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.arg("bench").args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// Runs a command that must end with this status and print this text.
fn assert_ends(args: &[&str], status: i32, printed: &str) {
    let output = bench(args);
    let text = text(&output);
    assert!(output.status.code() == Some(status) && text.contains(printed), "{args:?}: {text}");
}

#[test]
fn a_search_over_rings_writes_what_repeats_it_and_is_compared() {
    let _turn = turn();
    let scratch = new_scratch("search");
    let (json, page) = (scratch.path("a.json"), scratch.path("a.html"));
    let output = bench(&[
        "search",
        "net_ring0",
        "--goal",
        "quick name=ci loss=90% initial=0.1 final=0.1 sum=0.1",
        "--min-load",
        "1kpps",
        "--max-load",
        "20kpps",
        "--calibrate",
        "none",
        "--warm-up",
        "0.1",
        "--sizes",
        "128",
        "--seed",
        "7",
        "--json",
        &json,
        "--html",
        &page,
        "--",
        "--late",
        "0.1",
    ]);
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(printed.contains(">= 20.00 kpps: the device sustains the largest load"), "{printed}");
    assert!(printed.contains("millrace: 128 bytes: 20.00 kpps for 0.10 s: lost"), "{printed}");
    let results: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let search = &results["searches"][0];
    assert_eq!((&results["unit"], &search["size"]), (&"pps".into(), &128.into()));
    let trials = search["trials"].as_array().unwrap();
    assert_eq!((&trials[0]["kind"], &trials[0]["seed"]), (&"warm_up".into(), &7.into()));
    assert_eq!((&trials[1]["kind"], &trials[1]["seed"]), (&"counted".into(), &8.into()));
    assert_eq!(trials[1]["intended"], 2000);
    assert!(std::fs::read_to_string(&page).unwrap().contains("Loss over load, goal ci"));
    assert_compared(&json, &results, &scratch);
}

/// A result is not worse than itself, but better than one with a figure below it.
fn assert_compared(json: &str, results: &Value, scratch: &Scratch) {
    assert_ends(&["compare", json, json], 0, ">= 20.00 kpps");
    let mut other = results.clone();
    let answer = &mut other["searches"][0]["answers"][0];
    answer["outcome"] = "regular".into();
    answer["throughput"] = 18e3.into();
    let lower = scratch.path("b.json");
    std::fs::write(&lower, other.to_string()).unwrap();
    assert_ends(&["compare", json, &lower, "--tolerance", "9"], 1, "worse");
    assert_ends(&["compare", json, &lower, "--tolerance", "11"], 0, "-10.00 %");
    other["goals"][0]["loss_ratio"] = 0.5.into();
    std::fs::write(&lower, other.to_string()).unwrap();
    assert_ends(&["compare", json, &lower], 2, "meanings of goals differ");
    assert_ends(&["compare", json, "no-such.json"], 1, "cannot read no-such.json");
}

/// The link of the tester carries less than the largest load: that is no figure of the device.
#[test]
fn a_link_that_the_tester_fills_is_its_limit() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    assert_ends(
        &[
            "search",
            "net_twin0,wire=w,speed=100M,net_twin1,wire=w,speed=100M",
            "--goal",
            "quick loss=10% width=70% initial=0.1 final=0.1 sum=0.1",
            "--min-load",
            "1kpps",
            "--max-load",
            "400kpps",
            "--calibrate",
            "none",
            "--duration-max",
            "3",
            "--warm-up",
            "0",
            "--",
            "--late",
            "0.1",
        ],
        1,
        "limited by the tester: at ",
    );
}

/// Connections over a cable: by rate, and held open at the same time with both ends checked.
#[test]
fn connections_are_searched_for_over_a_cable() {
    if driver().is_none() {
        return;
    }
    let _turn = turn();
    let ports = "net_twin0,wire=w,net_twin1,wire=w";
    let goal = "quick name=ci loss=90% initial=0.1 final=0.1 sum=0.1";
    let common = ["--goal", goal, "--warm-up", "0", "--calibrate", "none", "--json", "-"];
    for (loads, unit, open) in
        [(["50cps", "200cps"], "cps", None), (["50conn", "100conn"], "conn", Some(100))]
    {
        let loads = ["--min-load", loads[0], "--max-load", loads[1], "--opening-rate", "500"];
        let output = bench(&[&["search", ports][..], &loads, &common].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let results: Value = serde_json::from_slice(&output.stdout).unwrap();
        let answer = &results["searches"][0]["answers"][0];
        assert_eq!((&results["unit"], &answer["outcome"]), (&unit.into(), &"bears_largest".into()));
        let figures = &answer["connections"];
        assert!(figures["completed"].as_u64() > Some(0), "{figures}");
        if open.is_some() {
            assert_eq!((figures["open"].as_u64(), figures["completed"].as_u64()), (open, open));
        }
    }
}

#[test]
fn searches_without_sense_are_refused() {
    let loads = ["search", "net_ring0", "--min-load", "1kpps", "--max-load"];
    let refused = |more: &[&str], reason: &str| assert_ends(&[&loads, more].concat(), 2, reason);
    refused(&["1Gbps"], "write both in the same unit");
    refused(&["1kpps"], "--min-load must be below --max-load");
    refused(&["max"], "a search needs a number");
    refused(&["1Mpps", "--goal", "fast"], "the goals are ndr, pdr");
    refused(&["1Mpps", "--latency-max", "p98=1us"], "write p50, p90, p99");
    refused(&["1Mcps"], "--max-load in cps: write both in the same unit");
    let of_connections = |more: &[&str], reason: &str| {
        let loads = ["search", "net_ring0,net_ring1", "--min-load", "1kconn", "--max-load"];
        assert_ends(&[&loads, more].concat(), 2, reason);
    };
    of_connections(&["40Mconn"], "the tester holds at most 32000000 connections at a time");
    of_connections(&["2kconn", "--latency-max", "p90=1ms"], "have p50, p99, p999 and max");
    of_connections(&["9kconn", "--opening-rate", "1"], "takes more than 1800 s: raise the rate");
    of_connections(&["2kconn", "--sizes", "64"], "--sizes is for packets");
    of_connections(&["2kconn", "--", "--late", "2"], "options of gen are passed on: --clients,");
    refused(&["1Mpps", "--", "--json", "x"], "--json: only these options of gen");
    assert_ends(&[&loads[..], &["1Mpps", "--stream", "rate=1pps"]].concat(), 1, "leave rate out");
    let scratch = new_scratch("refused");
    let json = scratch.path("kept.json");
    std::fs::write(&json, "{\n  \"version\": \"0.1.0\"}").unwrap();
    let missing =
        ["2kpps", "--json", &json, "--calibrate", "none", "--goal", "quick", "--", "--cpus", "900"];
    assert_ends(&[&loads[..], &missing].concat(), 1, "there is no cpu 900");
    assert!(std::fs::read_to_string(&json).unwrap().contains("version"), "earlier results stay");
}
