// SPDX-License-Identifier: BSD-3-Clause
//! Tests figures, table and page of a comparison of made-up runs.

use super::*;
use report::summary::{Energy, Ledger};
use results::page::is_ours;
use roxmltree::{Document, ParsingOptions};

fn run(title: ListTitle) -> ListRun {
    let mpps = match (title.rules, &title.personality) {
        (0, _) => 40.0,
        (_, None) => 8.0,
        (_, Some(_)) => 32.0,
    };
    let by_nic = if title.personality.is_some() { 99.0 } else { 0.0 };
    let rates = Rates {
        mpps,
        cpu_percent: 99.5,
        cycles_per_packet: 2400.0 / mpps,
        list_marked_percent: by_nic,
        ..Rates::default()
    };
    let stages = vec![("rx", 20.0), ("list", 2400.0 / mpps - 20.0)];
    let energy = Energy::of(Err::<u64, _>("no counter"), 1);
    let measured = Measurement { from_s: 1.0, rates, stages, energy, rules: 0, samples: vec![] };
    let ledger = Ledger { balanced: true, ..Ledger::default() };
    ListRun::new(title, measured, Summary { ledger, ..Summary::new() })
}

fn comparison() -> ListComparison {
    let of = |name: &str, title: &str| Played { name: name.to_owned(), title: title.to_owned() };
    let personalities = vec![of("x<y", "A </title><script>&"), of("z", "Z")];
    let titles = [Tracking::Off, Tracking::Connections]
        .map(|depth| ListTitle::of_depth(depth, &personalities));
    ListComparison {
        version: "1.2.3",
        dpdk: "DPDK 22.11.0".to_owned(),
        processor: None,
        personalities,
        flows: FLOWS,
        seconds: 2.0,
        seed: 1,
        interrupted: false,
        runs: titles.into_iter().flatten().map(run).collect(),
    }
}

fn printed(comparison: &ListComparison) -> String {
    let mut out = Vec::new();
    comparison.print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn each_list_has_a_row_and_marks_are_compared_with_software() {
    let text = printed(&comparison());
    let expected = "
tracking = \"off\": each packet is compared with the list
list          compared by    Mpps of no list  cpu % cycles/packet decided by marks
no list                     40.00       1.00   99.5          60.0            0.0 %
1 rule        software       8.00       0.20   99.5         300.0            0.0 %
100 rules     software       8.00       0.20   99.5         300.0            0.0 %
10_000 rules  software       8.00       0.20   99.5         300.0            0.0 %
100 rules     x<y           32.00       0.80   99.5          75.0           99.0 %
100 rules     z             32.00       0.80   99.5          75.0           99.0 %
100 rules, x<y: 4.00 x the throughput of software, 0.80 x that without list
100 rules, z: 4.00 x the throughput of software, 0.80 x that without list
";
    assert!(text.starts_with(expected), "{text}");
    let tables = text.matches("\ntracking = ").count();
    assert_eq!((tables, text.matches("almost twice").count()), (2, 1), "{text}");
}

#[test]
fn runs_whose_cpu_was_taken_are_not_compared() {
    let mut comparison = comparison();
    comparison.runs[2].measured.cpu_taken_percent = 12.0;
    let text = printed(&comparison);
    assert_eq!(comparison.not_compared(), 1);
    assert_eq!(text.matches("no comparison (cpu taken away)").count(), 2, "{text}");
    assert!(text.contains("0.0 %  cpu taken away: 12 %\n"), "{text}");
    let page = page(&comparison).unwrap();
    assert_eq!(page.matches("no comparison").count(), 2);
}

#[test]
fn an_unbalanced_ledger_is_named() {
    let mut comparison = comparison();
    assert!(comparison.is_balanced());
    comparison.runs[1].summary.ledger.balanced = false;
    assert!(!comparison.is_balanced());
    assert!(printed(&comparison).contains("NOT BALANCED: 1 rule: "));
    assert!(page(&comparison).unwrap().contains("1 rule, software: the ledger is not balanced"));
}

#[test]
fn an_interrupted_comparison_is_printed_and_drawn() {
    for runs in 0..7 {
        let mut comparison = comparison();
        comparison.runs.truncate(runs);
        comparison.interrupted = true;
        printed(&comparison);
        let page = page(&comparison).unwrap();
        assert!(page.contains("Ended before its time"));
        let charts = page.matches("Throughput of the worker</figcaption>").count();
        assert_eq!(charts, usize::from(runs > 0));
    }
}

#[test]
fn the_page_is_well_formed_and_needs_no_other_file() {
    let page = page(&comparison()).unwrap();
    assert!(is_ours(&page));
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&page, options).unwrap();
    let all = || document.descendants();
    assert!(!all().any(|node| node.has_tag_name("script")));
    let rows = all().filter(|node| node.has_tag_name("tr")).count();
    assert_eq!(rows, 2 * 7, "headings and runs of both depths");
    assert!(all().flat_map(|node| node.attributes()).all(|it| it.name() != "src"));
}

#[test]
fn json_has_the_members_that_other_tools_rely_on() {
    let json = serde_json::to_value(comparison()).unwrap();
    let run = &json["runs"][4];
    assert_eq!((&run["tracking"], &run["rules"]), (&"off".into(), &100.into()), "{run}");
    assert_eq!((&run["personality"], &run["measured"]["mpps"]), (&"x<y".into(), &32.0.into()));
    assert_eq!(run["measured"]["list_marked_percent"], 99.0);
    assert_eq!(json["runs"][0]["personality"], serde_json::Value::Null);
}
