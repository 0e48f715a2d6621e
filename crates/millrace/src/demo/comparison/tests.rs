// SPDX-License-Identifier: BSD-3-Clause
//! Tests figures, table and page of a comparison of made-up runs.

use super::*;
use crate::live::Totals;
use report::summary::{Ledger, RuleCounts, Times, Worker};
use results::page::is_ours;
use results::plot;
use roxmltree::{Document, Node, ParsingOptions};
use std::time::Duration;

/// Returns readings of ten seconds, of which the first five are slow.
fn readings(kpps: u64, rules: u64) -> Readings {
    let mut readings = Readings::default();
    let mut totals = Totals::default();
    readings.push(totals);
    for second in 1..=10 {
        let packets = kpps * if second <= 5 { 500 } else { 1000 };
        for sent in &mut totals.workers.sent {
            *sent = (sent.0 + packets, sent.1 + packets * 101);
        }
        totals.workers.received += 2 * packets;
        totals.workers.busy_cycles += 2 * packets * 200;
        totals.workers.idle_cycles += 100_000_000;
        // A burst of 64 packets, with another split into stages in the first half.
        let fetched = if second <= 5 { 9_000 } else { 1_280 };
        totals.workers.sample.add_burst(64, [0, fetched, 10_880, 12_800]);
        totals.rules = rules.min(second * rules / 5);
        totals.inserts = totals.rules;
        totals.insert_time = Duration::from_micros(22 * totals.rules);
        totals.at = Duration::from_secs(second);
        readings.push(totals);
    }
    readings
}

fn summary(packets: u64) -> Summary {
    let workers = vec![Worker { packets, ..Worker::default() }];
    let ledger = Ledger { rx: packets, tx: packets, balanced: true, ..Ledger::default() };
    Summary { workers, ledger, ..Summary::new() }
}

fn comparison() -> Comparison {
    let runs = ["IMIX", "small TCP"].into_iter().flat_map(|load| {
        let off = readings(1000, 0).finish(load, false, summary(1000));
        let on = readings(2000, 100).finish(load, true, summary(2000));
        [off, on]
    });
    Comparison {
        version: "1.2.3",
        dpdk: "DPDK 22.11.0".to_owned(),
        processor: Some("A <b>&amp; \"C\" ]]> --".to_owned()),
        personality: "x<y".to_owned(),
        title: "A </title><script>alert(1)</script> & more".to_owned(),
        speed: "10G".to_owned(),
        policy: "after 8".to_owned(),
        seconds: 10.0,
        seed: 1,
        interrupted: false,
        runs: runs.collect(),
    }
}

#[test]
fn stages_add_up_to_the_cycles_per_packet() {
    let comparison = comparison();
    let mut out = Vec::new();
    comparison.print(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (_, stages) = text.split_once("\ncycles per packet").unwrap();
    for (run, row) in comparison.runs.iter().zip(stages.lines().skip(1)) {
        let cycles = run.measured.cycles_per_packet;
        let is_near = |sum: f64| (sum - cycles).abs() < 0.01 * cycles;
        let in_row = row.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        assert!(is_near(in_row.sum()), "{cycles}: {row}");
        let json = serde_json::to_value(run).unwrap();
        let in_json = json["measured_stages"].as_object().unwrap().values();
        assert!(is_near(in_json.map(|cycles| cycles.as_f64().unwrap()).sum()), "{json}");
        // Measured in the second half, like the total: 20 cycles a packet.
        let (name, rx) = run.measured_stages[0];
        assert!(name == "rx" && rx < 25.0, "{run:?}");
    }
}

#[test]
fn the_second_half_is_measured() {
    let run = readings(1000, 50).finish("IMIX", true, Summary::new());
    assert_eq!(run.measured_from_s, 5.0);
    assert_eq!((run.measured.mpps, run.measured.up_mbps), (2.0, 1000.0));
    assert_eq!((run.measured.cpu_percent, run.measured.cycles_per_packet), (80.0, 200.0));
    assert_eq!((run.rules, run.measured.insert_us), (50, None), "all rules were made before");
    assert_eq!(run.samples.len(), 10);
    assert_eq!((run.samples[0].at_s, run.samples[0].rules), (1.0, 10));
    assert_eq!(run.samples[0].rates.insert_us, Some(22.0));
    let nothing = Readings::default().finish("IMIX", false, Summary::new());
    assert_eq!((nothing.samples.len(), nothing.measured.mpps), (0, 0.0));
}

#[test]
fn programming_is_of_both_ports() {
    let port = |created, min, avg, max| OffloadPort {
        rules: RuleCounts { created, ..RuleCounts::default() },
        insert_us: Times { min, avg, max, ..Times::default() },
        ..OffloadPort::default()
    };
    let both = [port(100, 20.0, 30.0, 90.0), port(300, 22.0, 50.0, 60.0)];
    let expected = Programming { min_us: 20.0, avg_us: 45.0, max_us: 90.0 };
    assert_eq!(Programming::of(&both), Some(expected));
    assert_eq!(Programming::of(&[both[0].clone(), port(0, 0.0, 0.0, 0.0)]).unwrap().min_us, 20.0);
    assert_eq!(Programming::of(&[]), None);
}

#[test]
fn the_table_has_a_row_for_each_run() {
    let mut out = Vec::new();
    comparison().print(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let row = |load, offload| {
        let start = format!("{load:<15} {offload:<8} ");
        text.lines().find(|line| line.starts_with(&start)).unwrap().split_whitespace().collect()
    };
    let off: Vec<&str> = row("IMIX", "off");
    assert_eq!(off, ["IMIX", "off", "1000.0", "1000.0", "80.0", "2.00", "200.0"]);
    let on: Vec<&str> = row("small TCP", "on");
    assert_eq!(on[3..], ["2000.0", "2000.0", "88.9", "4.00", "200.0", "0.0", "%", "100"]);
    assert!(text.contains("IMIX with offload: 2.00 x the throughput, 1.11 x the cpu"), "{text}");
    assert!(text.contains(NOTHING_MARKED), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

#[test]
fn what_is_lost_is_reported() {
    let mut comparison = comparison();
    assert!(comparison.is_balanced());
    comparison.runs[1].summary.ledger.balanced = false;
    assert!(!comparison.is_balanced());
    let mut out = Vec::new();
    comparison.print(&mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("NOT BALANCED: IMIX, offload on"));
    assert!(page(&comparison).unwrap().contains("packets are missing"));
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).expect("a well-formed page")
}

fn named<'a>(node: Node<'a, 'a>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    node.descendants().filter(move |node| node.tag_name().name() == name)
}

#[test]
fn the_page_has_every_series_and_needs_nothing_from_elsewhere() {
    let text = page(&comparison()).unwrap();
    assert!(is_ours(&text) && !is_ours("<!DOCTYPE html><html></html>"));
    let document = parse(&text);
    // Throughput, cpu and cycles of both runs; marks, rules and programming of one.
    let is_series = |node: &Node<'_, '_>| {
        let colours = [plot::OFF, plot::ON].map(plot::hex);
        node.tag_name().name() == "polyline"
            && node.attribute("stroke").is_some_and(|stroke| colours.contains(&stroke.to_owned()))
    };
    let series = |figure: Node<'_, '_>| figure.descendants().filter(is_series).count();
    let counts: Vec<usize> = named(document.root(), "figure").map(series).collect();
    let of_load = [2, 2, 2, 1, 1, 1];
    assert_eq!(counts, [&[0; 3][..], &of_load, &of_load].concat());
    for unit in ["Mb/s", "%", "rules", "µs", "cycles"] {
        let is_unit = |text: Node<'_, '_>| text.text().is_some_and(|text| text.trim() == unit);
        assert!(named(document.root(), "text").any(is_unit), "{unit}");
    }
    assert_eq!(named(document.root(), "tr").count(), 1 + 4);
    for forbidden in ["script", "link", "img", "iframe", "object"] {
        assert_eq!(named(document.root(), forbidden).count(), 0, "{forbidden}");
    }
    let attributes = document.descendants().flat_map(|node| node.attributes());
    for attribute in attributes {
        assert!(!["src", "href", "style"].contains(&attribute.name()), "{attribute:?}");
    }
    assert!(!text.contains("url(") && !text.contains("@import"));
}

#[test]
fn the_page_escapes_what_others_wrote() {
    let comparison = comparison();
    let text = page(&comparison).unwrap();
    let document = parse(&text);
    let has = |name, words: &str| {
        let mut nodes = named(document.root(), name);
        nodes.any(|node| node.text().is_some_and(|text| text.contains(words)))
    };
    assert!(has("li", &comparison.title));
    assert!(has("dd", comparison.processor.as_deref().unwrap()));
    assert!(has("dd", &comparison.personality));
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let mut empty = comparison();
    empty.runs.clear();
    parse(&page(&empty).unwrap());
    let mut short = comparison();
    let nothing = |offload| Readings::default().finish("IMIX", offload, Summary::new());
    short.runs = vec![nothing(false), nothing(true)];
    let text = page(&short).unwrap();
    parse(&text);
    assert!(!text.contains("NaN") && short.pair("IMIX").is_none(), "nothing to compare with");
}
