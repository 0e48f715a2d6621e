// SPDX-License-Identifier: BSD-3-Clause
//! Tests of pages and tables with invented runs.

use super::*;
use crate::plot::hex;
use crate::tests::results;
use crate::{Results, side_by_side};
use roxmltree::{Document, Node, ParsingOptions};

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).expect("a well-formed page")
}

fn named<'a>(node: Node<'a, 'a>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    node.descendants().filter(move |node| node.tag_name().name() == name)
}

/// Polylines and polygons of a colour in each figure.
fn series(document: &Document, colour: Colour) -> Vec<(usize, usize)> {
    let count = |figure: Node<'_, '_>, shape: &'static str, attribute: &str| {
        let has = |node: &Node<'_, '_>| node.attribute(attribute) == Some(&hex(colour));
        named(figure, shape).filter(has).count()
    };
    let of = |figure| (count(figure, "polyline", "stroke"), count(figure, "polygon", "fill"));
    named(document.root(), "figure").map(of).collect()
}

fn slower() -> Results {
    let mut slower = results();
    slower.received.pps /= 2.0;
    let verified = slower.verified.as_mut().unwrap();
    verified.lost = 0;
    verified.latency.as_mut().unwrap().p50_ns = 5_000;
    slower
}

#[test]
fn the_page_has_every_series_and_needs_nothing_from_elsewhere() {
    let runs = [Run::new("one", &results()), Run::new("two", &slower())];
    let text = page("A & B", &runs).unwrap();
    assert!(crate::page::is_ours(&text));
    let document = parse(&text);
    for colour in &RUNS[..2] {
        // Rate, loss, latency and gaps.
        assert_eq!(series(&document, *colour), [(2, 0), (1, 0), (2, 1), (1, 0)]);
    }
    assert_eq!(series(&document, RUNS[2]), [(0, 0); 4]);
    for title in ["time in s", "Mpps", "% of packets", "latency", "10.0 µs", "1.00 ms"] {
        let is_it = |text: Node<'_, '_>| text.text().is_some_and(|text| text.trim() == title);
        assert!(named(document.root(), "text").any(is_it), "{title}");
    }
    for forbidden in ["script", "link", "img", "iframe", "object"] {
        assert_eq!(named(document.root(), forbidden).count(), 0, "{forbidden}");
    }
    for attribute in document.descendants().flat_map(|node| node.attributes()) {
        assert!(!["src", "href", "style"].contains(&attribute.name()), "{attribute:?}");
    }
    let rows = |of: Node<'_, '_>| named(of, "tr").count();
    let steps: Vec<_> = named(document.root(), "details").map(rows).collect();
    assert_eq!(steps, [4, 4], "a heading and three intervals");
}

#[test]
fn the_page_escapes_what_others_wrote() {
    let mut results = results();
    results.command = vec!["</td><script>alert(1)</script>".to_owned()];
    let runs = [Run::new("<a>&\"", &results)];
    let text = page("<t>", &runs).unwrap();
    let document = parse(&text);
    let has = |name, words: &str| {
        named(document.root(), name).any(|node| node.text().is_some_and(|text| text == words))
    };
    assert!(has("td", &results.command[0]) && has("h3", "<a>&\"") && has("h1", "<t>"));
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let mut results = results();
    results.intervals.clear();
    results.verified = None;
    let text = page("none", &[Run::new("old", &results)]).unwrap();
    parse(&text);
    assert!(text.contains("There are no intervals in these results.") && !text.contains("NaN"));
    parse(&page("none", &[]).unwrap());
    let empty = Run::read("empty.csv", "time,tx_packets,rx_packets,drop_rate,avg_latency\n");
    parse(&page("none", &[empty.unwrap()]).unwrap());
}

#[test]
fn what_is_not_known_is_said() {
    let mut results = results();
    results.verified = None;
    for interval in &mut results.intervals {
        (interval.stamped, interval.lost, interval.latency) = (None, None, None);
    }
    let text = page("plain", &[Run::new("plain", &results)]).unwrap();
    parse(&text);
    assert!(text.contains("Nothing was verified") && text.contains("No latency was measured"));
    results.intervals.iter_mut().for_each(|it| (it.stamped, it.lost) = (Some(9), Some(0)));
    let text = page("plain", &[Run::new("plain", &results)]).unwrap();
    assert!(text.contains("No packet was lost."), "{text}");
}

#[test]
fn intervals_without_latency_leave_a_hole() {
    let mut results = results();
    results.intervals[1].latency = None;
    let run = Run::new("hole", &results);
    let shown = Shown::new(&run, RUNS[0]);
    let starts: Vec<_> =
        shown.lines(false, |it| it.p50).iter().map(|line| line.points[0].0).collect();
    assert_eq!(starts, [0.0, 2.0]);
    assert_eq!(shown.bands().len(), 2);
}

#[test]
fn many_intervals_become_few_and_keep_sums_and_peaks() {
    let mut results = results();
    let worst = results.intervals[1].clone();
    results.intervals = (0..10_000)
        .map(|number| {
            let mut interval =
                if number == 7777 { worst.clone() } else { results.intervals[0].clone() };
            (interval.start_s, interval.length_s) = (f64::from(number), 1.0);
            interval
        })
        .collect();
    results.duration_s = 10_000.0;
    let run = Run::new("long", &results);
    let shown = Shown::new(&run, RUNS[0]);
    assert!(shown.points.len() <= STEPS_MAX, "{}", shown.points.len());
    let sent: f64 = shown.points.iter().map(|point| point.sent).sum();
    assert_eq!(sent, 1e10);
    let lost: f64 = shown.points.iter().filter_map(|point| point.lost).sum();
    assert_eq!(lost, 100.0);
    let most = shown.points.iter().filter_map(|point| point.max).fold(0.0, f64::max);
    assert_eq!(most, 3_000_000.0);
    assert!(shown.points.iter().all(|point| (point.sent_rate() - 1e6).abs() < 1e-3));
}

#[test]
fn packets_that_come_when_sending_is_over_make_no_step() {
    let mut results = results();
    results.duration_s = 2.004;
    assert_eq!(Run::new("cut", &results).points.len(), 2);
    results.duration_s = 0.5;
    assert_eq!(Run::new("short", &results).points.len(), 3, "where there is no whole one, all");
}

#[test]
fn differences_are_percent_of_the_first_run() {
    let runs = [Run::new("one", &results()), Run::new("two", &slower())];
    let mut out = Vec::new();
    side_by_side::print(&runs, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let row = |name: &str| {
        let line = text.lines().find(|line| line.trim().starts_with(name)).unwrap();
        line.trim()[name.len()..].split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("latency, p50"), "4.00 µs 5.00 µs +25.0 %");
    assert_eq!(row("lost"), "100 0 -100.0 %");
    assert_eq!(row("sent, rate"), "1.000 Mpps 1.000 Mpps =");
    assert_eq!(row("loss"), "0.0033 % 0 % -100.0 %");
    assert_eq!(row("share of link A"), "6.72 % 6.72 % =");
    let back = [Run::new("two", &slower()), Run::new("one", &results())];
    let lost = side_by_side::rows(&back).into_iter().find(|row| row.name == "lost").unwrap();
    assert_eq!(lost.cells[1].difference, "was 0");
}

/// The header and lines as the `sendrecv` of dpdk-project writes them.
#[test]
fn csv_of_dpdk_project_is_read() {
    let text = "time,tx_packets,rx_packets,drop_rate,avg_latency\n\
                0,1000,990,0.01,0.5\n500,1000,1000,0,1.5\n1000,2000,0,1,NaN\n";
    let run = Run::read("theirs.csv", text).unwrap();
    let lengths: Vec<_> = run.points.iter().map(|point| (point.start_s, point.length_s)).collect();
    assert_eq!(lengths, [(0.0, 0.5), (0.5, 0.5), (1.0, 0.5)]);
    let losses: Vec<_> = run.points.iter().filter_map(Point::loss_percent).collect();
    assert_eq!(losses, [1.0, 0.0, 100.0]);
    assert_eq!(run.points[2].mean, None);
    let figure = |name| run.figures.iter().find(|(it, _)| it.name == name).unwrap().1;
    assert_eq!((figure("sent"), figure("lost")), (4000.0, 2010.0));
    let mean = (990.0 * 0.5e6 + 1000.0 * 1.5e6) / 1990.0;
    assert!((figure("latency, mean") - mean).abs() < 1e-6);
    // Beside JSON.
    parse(&page("both", &[run, Run::new("ours", &results())]).unwrap());
}

#[test]
fn what_is_no_run_is_refused_with_the_reason() {
    let refusal = |text: &str| Run::read("file", text).unwrap_err().to_string();
    assert!(refusal("a,b\n").contains("neither JSON results of `millrace gen` nor CSV"));
    assert!(refusal("{\"version\": \"1\"}").contains("missing field `dpdk`"));
    let other = serde_json::to_string(&Results { kind: "other".to_owned(), ..results() }).unwrap();
    assert_eq!(refusal(&other), "has results of other, not of millrace-gen");
    let head = "time,tx_packets,rx_packets,drop_rate,avg_latency\n";
    let words = refusal(&format!("{head}0,1,1,0,x\n"));
    assert!(words.contains("line: 2") && words.contains("invalid float literal"), "{words}");
    let words = refusal(&format!("{head}5,1,1,0,0\n5,1,1,0,0\n"));
    assert_eq!(words, "line 3: its time is not after that of the previous line");
}

#[test]
fn values_that_no_run_has_are_refused_with_their_place() {
    let head = "time,tx_packets,rx_packets,drop_rate,avg_latency,lost,p50_latency_ns\n";
    for (line, told) in [
        ("5,nan,1,0,0,,", "tx_packets is NaN, and must be from 0 to 1e20"),
        ("5,1,inf,0,0,,", "rx_packets is inf,"),
        ("5,-1,1,0,0,,", "tx_packets is -1,"),
        ("1e300,1,1,0,0,,", "time is 1"),
        ("nan,1,1,0,0,,", "time is NaN"),
        ("5,1,1,1.5,0,,", "drop_rate is 1.5, and must be from 0 to 1"),
        ("5,1,1,-0.5,0,,", "drop_rate is -0.5"),
        ("5,1,1,inf,0,,", "drop_rate is inf"),
        ("5,1,1,0,-1,,", "avg_latency is -1"),
        ("5,1,1,0,0,nan,", "lost is NaN"),
        ("5,1,1,0,0,,-7", "p50_latency_ns is -7"),
    ] {
        let words = Run::read("file", &format!("{head}0,1,1,0,0,,\n\n{line}\n")).unwrap_err();
        assert!(words.to_string().starts_with(&format!("line 4: {told}")), "{line}: {words}");
    }
    let refusal = |pointer: &str, value: f64| {
        let mut json = serde_json::to_value(results()).unwrap();
        *json.pointer_mut(pointer).unwrap() = value.into();
        Run::read("file", &json.to_string()).unwrap_err().to_string()
    };
    let told = "has a wrong value: intervals[1].length_s is 0, and must be from 0.000001 to 1e10";
    assert!(refusal("/intervals/1/length_s", 0.0).starts_with(told));
    assert!(refusal("/intervals/2/start_s", 1e300).contains("intervals[2].start_s is 1"));
    assert!(refusal("/sent/pps", -1.0).contains("sent.pps is -1"));
    let told = "intervals[1].start_s is not after that of the previous interval";
    assert!(refusal("/intervals/1/start_s", 0.0).contains(told));
}

#[test]
fn low_rates_have_their_own_unit() {
    let mut results = results();
    for interval in &mut results.intervals {
        (interval.sent.packets, interval.received.packets) = (40, 40);
    }
    results.sent.pps = 40.0;
    let run = Run::new("slow", &results);
    let text = page("slow", std::slice::from_ref(&run)).unwrap();
    assert!(text.contains("<td>40.0 pps</td>") && !text.contains("0.000 Mpps"), "{text}");
    let document = parse(&text);
    let titles = named(document.root(), "text").filter_map(|text| text.text());
    assert_eq!(titles.filter(|title| title.trim() == "pps").count(), 1);
    let mut out = Vec::new();
    side_by_side::print(&[run], &mut out).unwrap();
    let table = String::from_utf8(out).unwrap();
    assert!(table.contains("40.0 pps"), "{table}");
}
