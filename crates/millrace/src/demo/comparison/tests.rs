// SPDX-License-Identifier: BSD-3-Clause
//! Tests figures, table and page of a comparison of made-up runs.

use super::*;
use crate::demo::comparison::why::why;
use crate::demo::readings::{Phases, Readings};
use crate::live::Totals;
use report::summary::{Ledger, Refused, RuleCounts, Times, Worker};
use results::page::is_ours;
use results::plot;
use roxmltree::{Document, Node, ParsingOptions};
use std::time::Duration;

/// Returns readings of ten seconds, ten a second. Until the last rule is installed, after nearly
/// five seconds, packets are slow. Of a hundred packets, `bypassed` are forwarded by the NIC.
fn readings(kpps: u64, rules: u64, bypassed: u64) -> Readings {
    let mode = if rules > 0 { Mode::Marks } else { Mode::Off };
    let mut readings = Readings::new(Phases::of(Duration::from_secs(5), mode.settling()));
    let mut totals = Totals::default();
    readings.push(totals);
    for tenth in 1..=100 {
        let is_slow = rules > 0 && tenth <= 50;
        let all = kpps * if is_slow { 50 } else { 100 };
        let packets = all * (100 - bypassed) / 100;
        for (sent, by_nic) in totals.workers.sent.iter_mut().zip(&mut totals.bypassed) {
            *sent = (sent.0 + packets, sent.1 + packets * 101);
            *by_nic = (by_nic.0 + all - packets, by_nic.1 + (all - packets) * 101);
        }
        totals.workers.received += 2 * packets;
        totals.workers.busy_cycles += 2 * packets * 200;
        totals.workers.idle_cycles += 10_000_000;
        // A burst of 64 packets, with another split into stages while rules are installed.
        let fetched = if is_slow { 9_000 } else { 1_280 };
        totals.workers.sample.add_burst(64, [0, fetched, 10_880, 12_800]);
        totals.rules = rules.min(tenth * rules / 48);
        totals.inserts = totals.rules;
        totals.insert_time = Duration::from_micros(22 * totals.rules);
        totals.at = Duration::from_millis(100 * tenth);
        readings.push(totals);
    }
    readings
}

fn title(load: Load, mode: Mode) -> RunTitle<'static> {
    let tracking = if load == Load::TcpConnections { "connections" } else { "flows" };
    RunTitle { personality: "x<y", load, mode, tracking }
}

/// Returns a run in which a fifth of the packets has marks, if the mode has rules.
fn run(load: Load, mode: Mode) -> Run {
    let (kpps, bypassed) = match mode {
        Mode::Off => (1000, 0),
        Mode::Marks => (2000, 0),
        Mode::Bypass | Mode::Automatic => (2000, 75),
    };
    let rules = if mode.has_rules() { 100 } else { 0 };
    finish(readings(kpps, rules, bypassed), &title(load, mode), summary(kpps)).unwrap()
}

fn finish(readings: Readings, title: &RunTitle<'_>, summary: Summary) -> Option<Run> {
    let measured = readings.finish(&summary.energy)?;
    Some(Run::new(title, measured, summary))
}

fn summary(packets: u64) -> Summary {
    let workers = vec![Worker { packets, ..Worker::default() }];
    let ledger = Ledger { rx: packets, tx: packets, balanced: true, ..Ledger::default() };
    Summary { workers, ledger, ..Summary::new() }
}

fn comparison() -> Comparison {
    let of_load = |load| [Mode::Off, Mode::Marks, Mode::Bypass].map(|mode| run(load, mode));
    let runs = [Load::Stateless, Load::TcpConnections].into_iter().flat_map(of_load);
    let (name, title) = ("x<y", "A </title><script>alert(1)</script> & more");
    let played = Played { name: name.to_owned(), title: title.to_owned() };
    Comparison {
        version: "1.2.3",
        dpdk: "DPDK 22.11.0".to_owned(),
        processor: Some("A <b>&amp; \"C\" ]]> --".to_owned()),
        personality: played.name.clone(),
        title: played.title.clone(),
        personalities: vec![played],
        speed: "10G".to_owned(),
        is_speed_of_all: false,
        policy: "after 8".to_owned(),
        seconds: 5.0,
        seed: 1,
        interrupted: false,
        left_out: vec![LeftOut {
            personality: name.to_owned(),
            load: Some(Load::Stateful),
            mode: Mode::Bypass,
            reason: "nobody answers".to_owned(),
        }],
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
fn measuring_begins_after_the_last_rule() {
    let title = title(Load::Stateless, Mode::Marks);
    let run = finish(readings(1000, 96, 0), &title, Summary::new()).unwrap();
    assert_eq!(run.measured_from_s, 5.0);
    assert_eq!((run.measured.mpps, run.measured.up_mbps), (2.0, 1000.0));
    assert_eq!((run.measured.cpu_percent, run.measured.cycles_per_packet), (80.0, 200.0));
    assert_eq!((run.rules, run.measured.insert_us), (96, None), "all rules were made before");
    assert_eq!(run.samples.len(), 100);
    assert_eq!((run.samples[0].at_s, run.samples[0].rules), (0.1, 2));
    assert_eq!(run.samples[0].rates.insert_us, Some(22.0));
}

#[test]
fn a_run_that_ended_before_it_was_measured_has_no_row() {
    let phases = Phases::of(Duration::from_secs(1), Mode::Marks.settling());
    let at = |ms, inserts| Totals {
        at: Duration::from_millis(ms),
        inserts,
        rules: inserts,
        ..Totals::default()
    };
    let mut readings = Readings::new(phases);
    let finish = |readings| finish(readings, &title(Load::SmallTcp, Mode::Marks), Summary::new());
    assert!(finish(Readings::new(phases)).is_none());
    (0..79).for_each(|tenth| readings.push(at(100 * tenth, tenth)));
    assert_eq!(readings.end(), None, "rules are being installed");
    readings.push(at(8_000, 80));
    assert_eq!(readings.end(), Some(Duration::from_secs(9)), "long enough");
    assert!(finish(readings).is_none(), "nothing was measured yet");

    let mut readings = Readings::new(phases);
    [(0, 0), (100, 2), (400, 2), (499, 2)]
        .into_iter()
        .for_each(|(ms, inserts)| readings.push(at(ms, inserts)));
    assert_eq!(readings.end(), None, "too short");
    readings.push(at(500, 2));
    assert_eq!(readings.end(), Some(Duration::from_millis(1_500)));
    readings.push(at(501, 2));
    assert_eq!(finish(readings).unwrap().measured_from_s, 0.5);

    // Without a rule, it waits longer for the first one.
    for (mode, from) in [(Mode::Off, 500), (Mode::Marks, 1_000)] {
        let mut readings = Readings::new(Phases::of(Duration::from_secs(1), mode.settling()));
        (0..=10).for_each(|tenth| readings.push(at(100 * tenth, 0)));
        assert_eq!(readings.end(), Some(Duration::from_millis(from + 1_000)));
    }
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

/// The whole table of made-up runs.
const TABLE: &str = include_str!("table.txt");

#[test]
fn the_tables_are_as_they_were() {
    let mut comparison = comparison();
    comparison.runs[1].measured.cpu_taken_percent = 12.4;
    let mut out = Vec::new();
    comparison.print(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, TABLE, "{text}");
    let is_wide = |line: &&str| line.chars().count() > 120 && !line.contains("taken away");
    assert_eq!(text.lines().find(is_wide), None);
}

#[test]
fn runs_without_their_cpu_are_not_compared() {
    let print = |comparison: &Comparison| {
        let mut out = Vec::new();
        comparison.print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let mut comparison = comparison();
    comparison.runs[1].measured.cpu_taken_percent = 5.0;
    assert_eq!(comparison.not_compared(), 0);
    assert!(!print(&comparison).contains("taken away"));
    comparison.runs[1].measured.cpu_taken_percent = 5.6;
    assert_eq!(comparison.not_compared(), 1);
    let missing = "stateless with marks: no comparison (marks: cpu taken away: 6 %)\n";
    assert!(print(&comparison).contains(missing));
    let is_in_page = |words| page(&comparison).unwrap().contains(words);
    assert!(is_in_page("no comparison (marks: cpu taken away: 6 %)") && is_in_page("2.00×"));

    // Without the run in software, both of its pairs lack a part.
    comparison.runs[0].measured.cpu_taken_percent = 80.0;
    assert_eq!(comparison.not_compared(), 2);
    assert!(!print(&comparison).contains("stateless with bypass: 2.00 x"));
    comparison.runs[0].measured = Rates { cpu_taken_percent: 100.0, ..Rates::default() };
    assert_eq!(comparison.not_compared(), 2, "also if it sent nothing at all");
    // A run that ended before its first sample has no row, and nothing to compare.
    comparison.runs.truncate(1);
    assert_eq!(comparison.not_compared(), 0);
}

#[test]
fn energy_is_shown_only_if_it_is_known() {
    let mut comparison = comparison();
    let is_in_page = |comparison: &Comparison| page(comparison).unwrap().contains("Energy of");
    assert!(!is_in_page(&comparison));
    comparison.runs[1].energy = Energy::of(Ok::<_, String>(3_000_000), 2_000_000);
    let mut out = Vec::new();
    comparison.print(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (_, lines) = text.split_once("\nenergy of the processor packages, nJ per").unwrap();
    let lines: Vec<_> = lines.lines().skip(1).take(2).collect();
    assert_eq!(lines, ["stateless       marks       1500.0", ""]);
    assert!(is_in_page(&comparison));
    let json = serde_json::to_value(&comparison).unwrap();
    assert_eq!(json["runs"][1]["energy"]["package_j"], 3.0);
    assert!(json["runs"][0]["energy"]["nj_per_packet"].is_null());
}

#[test]
fn each_personality_has_a_table() {
    let mut comparison = comparison();
    let other = Played { name: "other".to_owned(), title: "Another".to_owned() };
    comparison.personalities.push(other);
    let mut run = run(Load::SmallTcp, Mode::Off);
    run.personality = "other".to_owned();
    comparison.runs.push(run);
    let mut out = Vec::new();
    comparison.print(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (first, second) = text.split_once("\nother: Another\n").unwrap();
    assert!(first.contains("stateless       flows") && !first.contains("small TCP"), "{text}");
    assert!(second.contains("small TCP       flows") && !second.contains("stateless  "), "{text}");
    assert!(page(&comparison).unwrap().contains("other: Another"));
}

#[test]
fn the_reason_is_that_of_the_stages_and_rules() {
    let [mut off, mut marks] = [Mode::Off, Mode::Marks].map(|mode| run(Load::SmallTcp, mode));
    off.measured_stages = vec![("rx", 99.0), ("mark", 0.0), ("lookup", 40.0), ("track", 60.0)];
    let mut of_marks = |cycles: f64, marked: f64| {
        marks.measured_stages = vec![("rx", 99.0), ("mark", cycles), ("parse", 1.0)];
        marks.measured.marked_percent = marked;
        why([&off, &marks]).join("; ")
    };
    let saving = of_marks(9.0, 50.0);
    let expected = "marks save key, lookup and tracking: 100 -> 10 cycles a packet from";
    assert!(saving.starts_with(expected) && !saving.contains("rules for"), "{saving}");
    assert!(of_marks(99.0, 50.0).contains("as much as they save"));
    assert!(of_marks(200.0, 50.0).contains("more than they save"));
    assert!(of_marks(9.0, 0.0).contains("no packet was counted by a mark"));

    let [off, mut bypass] = [Mode::Off, Mode::Bypass].map(|mode| run(Load::Stateless, mode));
    let [forwarded, rules] = why([&off, &bypass]).try_into().unwrap();
    let expected = "the NIC forwards 75.0 % of the packets by itself: 200 -> 50 cycles of the";
    assert!(forwarded.starts_with(expected), "{forwarded}");
    assert!(rules.starts_with("rules for 4.2 % of the flows: the others were not"), "{rules}");
    let refused = Refused { full: 1, ..Refused::default() };
    let rules = RuleCounts { refused, ..RuleCounts::default() };
    bypass.summary.offload.ports = vec![OffloadPort { rules, ..OffloadPort::default() }];
    bypass.measured.bypassed_percent = 0.0;
    let [forwarded, rules] = why([&off, &bypass]).try_into().unwrap();
    assert!(forwarded.contains("forwarded no packet"), "{forwarded}");
    assert!(rules.ends_with("of the flows: the NIC has room for 100"), "{rules}");

    let mut automatic = run(Load::Stateless, Mode::Automatic);
    let port = OffloadPort { mark_cycles: 70.6, software_cycles: 50.0, ..OffloadPort::default() };
    automatic.summary.offload.ports = vec![OffloadPort { mark_use: "no_rules", ..port }];
    let expected = [
        "the NIC forwards 75.0 % of the packets by itself",
        "marks are not used: 71 cycles a packet by mark, 50 in software",
    ];
    assert_eq!(why([&off, &automatic]), expected);
}

#[test]
fn what_is_lost_is_reported() {
    let mut comparison = comparison();
    assert!(comparison.is_balanced());
    comparison.runs[1].summary.ledger.balanced = false;
    assert!(!comparison.is_balanced());
    let mut out = Vec::new();
    comparison.print(&mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("NOT BALANCED: stateless, marks"));
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
    // Throughput, cpu and cycles of three runs; marks, bypass, rules and programming of two.
    let is_series = |node: &Node<'_, '_>| {
        let colours = [plot::OFF, plot::ON, plot::BYPASS].map(plot::hex);
        node.tag_name().name() == "polyline"
            && node.attribute("stroke").is_some_and(|stroke| colours.contains(&stroke.to_owned()))
    };
    let series = |figure: Node<'_, '_>| figure.descendants().filter(is_series).count();
    let counts: Vec<usize> = named(document.root(), "figure").map(series).collect();
    let of_load = [3, 3, 3, 2, 2, 2, 2];
    assert_eq!(counts, [&[0; 3][..], &of_load, &of_load].concat());
    for unit in ["Mb/s", "%", "rules", "µs", "cycles"] {
        let is_unit = |text: Node<'_, '_>| text.text().is_some_and(|text| text.trim() == unit);
        assert!(named(document.root(), "text").any(is_unit), "{unit}");
    }
    assert_eq!(named(document.root(), "tr").count(), 1 + 6 + 2);
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
    assert!(has("h2", &comparison.title) || has("h2", "x<y"));
    assert!(text.contains("&lt;script&gt;") && !text.contains("<script>"));
    assert!(has("dd", comparison.processor.as_deref().unwrap()));
    assert!(has("dd", &comparison.personality));
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let mut empty = comparison();
    empty.runs.clear();
    parse(&page(&empty).unwrap());
    let mut idle = comparison();
    idle.runs.truncate(2);
    for run in &mut idle.runs {
        run.measured = Rates::default();
        run.samples.clear();
    }
    let text = page(&idle).unwrap();
    parse(&text);
    assert!(!text.contains("NaN"), "nothing to compare with");
}
