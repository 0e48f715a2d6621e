// SPDX-License-Identifier: BSD-3-Clause
//! Tests differences between devices, the merge of two hosts' results, and the page.

use super::*;
use crate::schema::Origin;

fn point(device: &str, cpus: Option<u32>) -> Point {
    Point {
        profile: Lifetime::Short,
        device: device.to_owned(),
        device_version: None,
        tracking: cpus.map(|_| true),
        cpus,
        queues: cpus,
    }
}

fn row(device: &str, cpus: u32, rates: &[f64]) -> Row {
    let mut row = Row::new(point(device, Some(cpus)));
    for cps in rates {
        row.add(Figures { cps: *cps, ..Figures::default() });
    }
    row
}

fn results(rows: Vec<Row>) -> ConntrackResults {
    let mut results = ConntrackResults::new(Origin::default(), 10, 0.02, 1);
    results.rows = rows;
    results.compare_devices();
    results
}

#[test]
fn differences_are_from_the_first_device_in_the_same_configuration() {
    let mut cable = Row::new(point(CABLE, None));
    cable.add(Figures { cps: 900.0, ..Figures::default() });
    let untracked = Point { tracking: Some(false), ..point("ovs", Some(1)) };
    let rows = vec![
        cable,
        row("ovs", 1, &[200.0]),
        row("ovs", 2, &[]),
        Row { point: untracked, ..row("ovs", 1, &[250.0]) },
        row("millrace", 1, &[300.0]),
        row("millrace", 2, &[500.0]),
    ];
    let results = results(rows);
    let percents: Vec<_> = results.rows.iter().map(|row| row.difference_percent).collect();
    assert_eq!(percents, [None, None, None, None, Some(50.0), None]);
    assert_eq!(results.rows[4].cells()[7..9], ["+50.0", "-"]);
}

#[test]
fn a_difference_of_a_bound_is_a_bound() {
    let at_least = |row: Row| Row { is_at_least: true, ..row };
    let difference = |first: Row, second: Row| results(vec![first, second]).rows[1].cells();
    let [ovs, more] = [row("ovs", 1, &[200.0]), row("millrace", 1, &[300.0])];
    let less = row("millrace", 1, &[100.0]);
    assert_eq!(difference(ovs.clone(), at_least(more.clone()))[7], ">= +50.0");
    assert_eq!(difference(ovs.clone(), at_least(less.clone()))[7], "-", "which is higher?");
    assert_eq!(difference(at_least(ovs.clone()), less)[7], "<= -50.0");
    assert_eq!(difference(at_least(ovs.clone()), more.clone())[7], "-");
    assert_eq!(difference(at_least(ovs), at_least(more))[7], "-");
}

#[test]
fn repeated_searches_have_an_interval() {
    let rows = vec![row("ovs", 1, &[100.0, 102.0, 98.0]), row("millrace", 1, &[150.0, 151.0])];
    let results = results(rows);
    let [low, high] = results.rows[1].difference_interval.unwrap();
    assert!(low < 50.5 && high > 50.5 && low > 40.0 && high < 60.0, "{low} {high}");
    assert_eq!(results.rows[1].cps, Some(150.5));
}

#[test]
fn a_rate_that_was_not_sustained_is_no_figure() {
    let mut bad = row("millrace", 1, &[]);
    let faults = vec!["1 % of the packets were lost".to_owned()];
    bad.add(Figures { cps: 200.0, faults, ..Figures::default() });
    assert_eq!(bad.cells()[2], "-");
    assert_eq!(bad.cells()[9], "1 % of the packets were lost");
    assert!(!bad.is_done());
    let json = serde_json::to_value(&bad).unwrap();
    assert_eq!(json["cps"], serde_json::Value::Null);
}

#[test]
fn counts_of_generator_and_device_may_differ_by_connections_that_linger() {
    let note = |counted| {
        let [active_flows, device_flows] = [Some(100), Some(counted)];
        let figures = Figures { cps: 1000.0, active_flows, device_flows, ..Figures::default() };
        figures.count_difference(1.29)
    };
    assert_eq!([99, 100, 1390, 1403].map(note), [const { None }; 4]);
    assert!(note(98).unwrap().contains("should have from 99 to 1404"));
    assert!(note(1404).is_some());
}

/// Members that the first version wrote.
#[test]
fn older_results_are_read() {
    let text = r#"{"version": 1, "command": "bench conntrack", "seconds": 1,
        "error_threshold": 0.02, "rows": [{"profile": "short", "device": "millrace",
        "tracking": true, "cpus": 2, "lacks": null, "cps": 5, "is_at_least": false,
        "difference_percent": null, "figures": null, "notes": []}]}"#;
    assert!(ConntrackResults::is_in(text));
    let old = ConntrackResults::read(text).unwrap();
    assert_eq!(old.rows[0].name(), "short-lived, millrace, 2C/2Q");
    let again = serde_json::to_string(&old).unwrap();
    assert_eq!(ConntrackResults::read(&again), Ok(old));
    let other = text.replace("\"version\": 1", "\"version\": 2");
    assert!(ConntrackResults::read(&other).unwrap_err().contains("has version 2"));
    assert!(ConntrackResults::read("{}").unwrap_err().starts_with("is no result"));
}

#[test]
fn a_bigger_host_fills_rows_that_lack_cpus() {
    let mut lacking = row("ovs", 8, &[]);
    lacking.lacks = Some("needs 9 cpus, 2 here".to_owned());
    let a = results(vec![row("ovs", 1, &[200.0]), lacking.clone()]);
    let mut b = results(vec![row("ovs", 1, &[100.0]), row("ovs", 8, &[900.0])]);
    b.origin.hostname = Some("big".to_owned());
    let comparison = compare(&a, &b).unwrap();
    let [one, eight] = &comparison.merged.rows[..] else { panic!("{comparison:?}") };
    assert_eq!((one.cps, &one.merged_from), (Some(200.0), &None), "own figures stay");
    assert_eq!((eight.cps, eight.lacks.as_ref()), (Some(900.0), None));
    assert_eq!(eight.cells()[9], "measured on big");
    // Merged twice, the first host stays named.
    let other = results(vec![lacking]);
    let again = compare(&other, &comparison.merged).unwrap();
    assert_eq!(again.merged.rows[0].merged_from.as_deref(), Some("big"));
    assert!(comparison.is_worse(5.0) && !comparison.is_worse(60.0));
    let mut table = Vec::new();
    comparison.print(5.0, &mut table).unwrap();
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("-50.0") && table.contains("worse"), "{table}");
    assert!(table.contains("only in B"), "{table}");
    let strict = ConntrackResults { error_threshold: 0.0, ..b.clone() };
    assert!(compare(&a, &strict).unwrap_err().contains("thresholds differ"));
    assert!(compare(&a, &results(vec![])).is_err());
}

#[test]
fn a_row_without_its_figure_is_worse() {
    let a = results(vec![row("millrace", 1, &[300.0]), row("millrace", 2, &[500.0])]);
    let mut failed = row("millrace", 1, &[]);
    failed.notes.push("the device failed".to_owned());
    let mut lacking = row("millrace", 2, &[]);
    lacking.lacks = Some("needs 3 cpus, 2 here".to_owned());
    let b = results(vec![failed, lacking.clone()]);
    assert!(compare(&a, &b).unwrap().is_worse(5.0));
    let b = results(vec![row("millrace", 1, &[300.0]), lacking]);
    assert!(!compare(&a, &b).unwrap().is_worse(5.0), "its host lacks cpus");
}

#[test]
fn devices_of_two_hosts_are_not_compared() {
    let a = results(vec![row("ovs", 1, &[100.0]), row("millrace", 1, &[])]);
    let b = results(vec![row("ovs", 1, &[200.0]), row("millrace", 1, &[300.0])]);
    let merged = compare(&a, &b).unwrap().merged;
    assert_eq!((merged.rows[1].cps, merged.rows[1].difference_percent), (Some(300.0), None));
}

#[test]
fn a_bad_repetition_is_named() {
    let bad = || Figures { faults: vec!["1 % lost".to_owned()], ..Figures::default() };
    let good = || Figures { cps: 100.0, ..Figures::default() };
    for order in [[bad(), good()], [good(), bad()]] {
        let mut row = row("millrace", 1, &[]);
        order.into_iter().for_each(|figures| row.add(figures));
        assert_eq!((row.cps, row.figures.as_ref()), (Some(100.0), Some(&good())));
        assert_eq!(row.cells()[9], "a repetition failed: 1 % lost");
    }
}

#[test]
fn each_configuration_has_a_first_device() {
    let rows = vec![row("millrace", 1, &[300.0]), row("ovs", 2, &[100.0]), row("new", 2, &[200.0])];
    assert_eq!(results(rows).rows[2].difference_percent, Some(100.0));
}

#[test]
fn the_page_has_two_charts_and_is_well_formed() {
    let mut missing = row("ovs", 2, &[]);
    missing.lacks = Some("needs 3 cpus, 2 here".to_owned());
    let rows = vec![row("ovs", 1, &[100.0, 110.0]), missing, row("millrace", 1, &[150.0])];
    let results = results(rows);
    for with_article in [false, true] {
        let page = page(&results, with_article).unwrap();
        roxmltree::Document::parse(page.trim_start_matches("<!DOCTYPE html>\n")).unwrap();
        assert!(crate::page::is_ours(&page));
        assert_eq!(page.matches("<figcaption>").count(), 2);
        assert!(page.contains("2C/2Q") && page.contains("needs 3 cpus, 2 here"));
        assert_eq!(page.contains("other hardware (dashed)"), with_article);
        assert_eq!(page.contains("8C/8Q"), with_article);
        let mut table = Vec::new();
        results.print(with_article, &mut table).unwrap();
        let table = String::from_utf8(table).unwrap();
        assert_eq!(
            table.contains("Open vSwitch 3.0, article, other hardware, 1C/1Q"),
            with_article
        );
    }
}
