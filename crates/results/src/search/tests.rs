// SPDX-License-Identifier: BSD-3-Clause
//! Tests the table, the page and the comparison of searches.

use super::*;

fn answer(outcome: Outcome, throughput: Option<f64>) -> SearchAnswer {
    SearchAnswer {
        goal: "ndr".to_owned(),
        outcome,
        reason: if outcome == Outcome::Regular { String::new() } else { "so it is".to_owned() },
        lower: Some(2e6),
        upper: Some(2.01e6),
        throughput,
        throughput_pps: throughput,
        latency: None,
        connections: None,
    }
}

fn search(number: u32, answer: SearchAnswer) -> OneSearch {
    let trial = SearchTrial {
        load: 2e6,
        duration_s: 1.0,
        whole_s: 2.0,
        intended: 2_000_000,
        verdicts: vec![Verdict::Lower],
        ..SearchTrial::default()
    };
    OneSearch {
        size: Some(64),
        number,
        unit: None,
        calibration: None,
        answers: vec![answer],
        trials: vec![trial],
        back_to_back: None,
    }
}

/// Returns results with one search for each throughput.
fn results(throughputs: &[f64]) -> SearchResults {
    let goal = SearchGoal {
        name: "ndr".to_owned(),
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        relative_width: 0.005,
        initial_trial_s: 1.0,
        final_trial_s: 1.0,
        duration_sum_s: 21.0,
    };
    let answers = throughputs.iter().map(|value| answer(Outcome::Regular, Some(*value)));
    SearchResults {
        version: "1".to_owned(),
        kind: KIND.to_owned(),
        dpdk: "DPDK".to_owned(),
        started_unix_s: 1.0,
        command: vec!["millrace".to_owned()],
        host: Host::default(),
        ports: "net_ring0".to_owned(),
        streams: Vec::new(),
        generator_options: Vec::new(),
        unit: "pps".to_owned(),
        min_load: 1e3,
        max_load: 5e6,
        duration_max_s: 1200.0,
        latency_max: None,
        goals: vec![goal],
        searches: answers.zip(1..).map(|(answer, number)| search(number, answer)).collect(),
        is_interrupted: false,
    }
}

fn with(outcome: Outcome) -> SearchResults {
    SearchResults { searches: vec![search(1, answer(outcome, None))], ..results(&[]) }
}

fn text(results: &SearchResults) -> String {
    let mut out = Vec::new();
    print(results, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn loads_have_their_unit() {
    let loads = [(950.0, "pps"), (2.3104e6, "pps"), (9.95e9, "bps"), (12_345.0, "cps")];
    let shown = loads.map(|(value, unit)| load(value, unit));
    assert_eq!(shown, ["950.0 pps", "2.310 Mpps", "9.950 Gbps", "12.35 kcps"]);
    assert_eq!(load(97.5, "%"), "97.50 %");
}

#[test]
fn a_regular_answer_is_a_figure() {
    let text = text(&results(&[2e6]));
    let line = text.lines().nth(1).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    let expected = ["64", "ndr", "2.000", "Mpps", "2.010", "Mpps", "2.000", "Mpps", "-", "-"];
    assert_eq!(words[..10], expected);
    assert_eq!(words[10], "regular");
}

/// A figure of the tester is never printed as one of the device.
#[test]
fn an_answer_of_the_tester_is_a_bound_with_its_reason() {
    let text = text(&with(Outcome::TesterLimit));
    assert!(text.contains(">= 2.000 Mpps: so it is"), "{text}");
    let text = serde_json::to_string(&with(Outcome::TesterLimit)).unwrap();
    assert!(text.contains(r#""outcome":"tester_limit""#) && text.contains(r#""throughput":null"#));
}

#[test]
fn the_page_is_well_formed_and_has_every_trial() {
    let mut results = results(&[2e6, 2.1e6]);
    results.searches[1].back_to_back = Some(BackToBack {
        load: 2e6,
        packets: vec![1000, 1100],
        mean_packets: 1050.0,
        bears_longest: false,
        tester: Vec::new(),
    });
    let page = page(&results).unwrap();
    let document = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
    roxmltree::Document::parse(document).unwrap();
    assert!(crate::page::is_ours(&page) && page.contains("Loss over load, goal ndr"));
    assert!(page.contains("1_050 packets at 2.000 Mpps") && page.contains("1 trials"));
}

#[test]
fn results_are_read_again() {
    let results = results(&[2e6]);
    let text = serde_json::to_string(&results).unwrap();
    assert_eq!(SearchResults::read(&text), Ok(results));
    assert!(SearchResults::read("{}").unwrap_err().contains("is no JSON of"));
    assert!(SearchResults::read(r#"{"kind":"millrace-search"}"#).unwrap_err().contains("damaged"));
}

#[test]
fn a_difference_beyond_the_tolerance_is_worse() {
    let difference =
        |a: &[f64], b: &[f64]| compare(&results(a), &results(b)).unwrap().differences.remove(0);
    let one = difference(&[2e6], &[1.9e6]);
    assert!((one.percent.unwrap() + 5.0).abs() < 1e-9 && one.interval.is_none());
    assert!(one.is_worse(4.9) && !one.is_worse(5.1));
    assert!(!difference(&[1.9e6], &[2e6]).is_worse(0.0));
    let sure = difference(&[2e6, 2.01e6, 1.99e6], &[1.9e6, 1.91e6, 1.89e6]);
    let [low, high] = sure.interval.unwrap();
    // Welch's test: 0.1e6 -+ 2.776 * 8165, of 2e6.
    assert!((low + 6.1333).abs() < 1e-3 && (high + 3.8667).abs() < 1e-3, "{low} {high}");
    assert!(sure.is_worse(4.0));
    let noisy = difference(&[2e6, 1.6e6], &[1.9e6, 1.5e6]);
    assert!(!noisy.is_worse(1.0), "the interval has 0: {:?}", noisy.interval);
    assert_eq!(difference(&[2e6; 2], &[2e6; 2]).interval, Some([0.0; 2]));
}

#[test]
fn only_results_of_the_same_search_are_compared() {
    let a = results(&[2e6]);
    let refused = |b: &SearchResults, reason: &str| {
        let error = compare(&a, b).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    refused(&SearchResults { unit: "bps".to_owned(), ..a.clone() }, "units of loads differ");
    let mut other = a.clone();
    other.goals[0].relative_width = 0.1;
    refused(&other, "meanings of goals differ");
    other.goals[0].name = "pdr".to_owned();
    refused(&other, "goals differ: A has ndr, B has pdr");
    let mut other = a.clone();
    other.searches[0].size = Some(128);
    refused(&other, "frame sizes differ: A has 64, B has 128");
    let limit = LatencyMax { of: "p99".to_owned(), ns: 1000 };
    refused(&SearchResults { latency_max: Some(limit), ..a.clone() }, "limits of latency differ");
    refused(&with(Outcome::TesterLimit), "goal ndr, 64 bytes: B has no answer of the device");
    refused(&results(&[0.0]), "B has no answer of the device");
    refused(&results(&[]), "frame sizes differ");
    refused(&with(Outcome::TimeOver), "B has no answer of the device: so it is");
}

/// A bound is compared where it decides which is higher.
#[test]
fn bounds_are_compared_where_they_decide() {
    let exact = |value| results(&[value]);
    let mut most = with(Outcome::BearsLargest);
    most.searches[0].answers[0].lower = Some(5e6);
    let mut least = with(Outcome::FailsAtSmallest);
    least.searches[0].answers[0].upper = Some(1e6);
    let is_worse = |a: &SearchResults, b: &SearchResults| compare(a, b).map(|it| it.is_worse(1.0));
    assert_eq!(is_worse(&exact(2e6), &most), Ok(false));
    assert_eq!(is_worse(&most, &exact(2e6)), Ok(true));
    assert_eq!(is_worse(&exact(2e6), &least), Ok(true));
    assert_eq!(is_worse(&least, &exact(2e6)), Ok(false));
    assert_eq!(is_worse(&most, &most), Ok(false));
    assert!(is_worse(&most, &exact(6e6)).is_err());
    let comparison = compare(&most, &exact(2e6)).unwrap();
    let mut out = Vec::new();
    comparison.print(1.0, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(">= 5.000 Mpps") && text.contains("-60.00 %"), "{text}");
    assert!(text.lines().nth(1).unwrap().ends_with("worse"), "{text}");
}
