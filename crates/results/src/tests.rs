// SPDX-License-Identifier: BSD-3-Clause
//! Tests of JSON and text with invented results.

use super::*;

/// Returns the interval of second `number` of the run.
fn second(number: u64) -> Interval {
    let worst = u64::from(number == 1);
    let latency = Latency {
        min_ns: 900,
        mean_ns: 5_000.0,
        p50_ns: 4_000,
        p90_ns: 6_000,
        p99_ns: 20_000 + 80_000 * worst,
        p999_ns: 200_000,
        max_ns: 300_000 + 2_700_000 * worst,
        pdv_ns: 199_100,
    };
    Interval {
        start_s: number as f64,
        length_s: 1.0,
        sent: Count { packets: 1_000_000, bytes: 60_000_000 },
        received: Count { packets: 1_000_000 - 100 * worst, bytes: 60_000_000 - 6000 * worst },
        stamped: Some(1_000_000),
        lost: Some(100 * worst),
        damaged: Some(0),
        foreign: Some(number),
        latency: Some(latency),
        longest_gap_ns: 40_000 + 3_000_000 * worst,
        steal_ms: Some(20 * number),
        ports: vec![PortInterval {
            sent: Count { packets: 1_000_000, bytes: 60_000_000 },
            received: Count { packets: 1_000_000, bytes: 60_000_000 },
            latency: Some(latency),
        }],
        queues: vec![
            QueueInterval { packets: 750_000, waiting_max: Some(64) },
            QueueInterval { packets: 250_000, waiting_max: None },
        ],
        streams: vec![StreamInterval { sent: 1_000_000, ..StreamInterval::default() }],
    }
}

fn queue(queue: usize) -> QueueResult {
    let waiting_max = (queue == 0).then_some(64);
    QueueResult { port: "eth1".to_owned(), queue, packets: 750_000, waiting_max }
}

/// Three seconds at 1 Mpps of 64 bytes on a link of 10 Gb/s; the second one is the worst.
pub(crate) fn results() -> Results {
    let intervals: Vec<_> = (0..3).map(second).collect();
    let sent = Counted::new(3_000_000, 180_000_000, 3_000_000_000);
    let stream = StreamResult {
        name: "<web> & \"more\"".to_owned(),
        sent: 3_000_000,
        received: 2_999_900,
        lost: 100,
        reordered: 2,
        reordering_extent_max: 1,
        duplicates: 3,
        too_late: 4,
        damaged: 5,
        jitter_ns: 1_250,
        latency: Some(StreamLatency { min_ns: 900, mean_ns: 5000.4, max_ns: 3_000_000 }),
    };
    Results {
        version: "1.2.3".to_owned(),
        kind: KIND.to_owned(),
        dpdk: "DPDK 22.11.0".to_owned(),
        started_unix_s: Some(1_700_000_000.0),
        command: ["millrace", "gen", "eth1", "--verify"].map(str::to_owned).to_vec(),
        host: Host { cpu: Some("A <b>".to_owned()), kernel: Some("6.1.0".to_owned()) },
        seed: 1,
        duration_s: 3.0,
        ports: vec![PortResult {
            name: "eth1".to_owned(),
            link_mbps: Some(10_000),
            sent: Some(sent),
            received: Some(Counted::new(2_999_900, 179_994_000, 3_000_000_000)),
            link: Link::of(&sent, 10_000),
            latency: None,
            latency_histogram: histogram::steps([(900, 2), (4000, 1)]),
            imissed: 100,
            reflector: None,
            ierrors: 0,
            rx_nombuf: 0,
            oerrors: 0,
        }],
        sent,
        received: Counted::new(2_999_900, 179_994_000, 3_000_000_000),
        senders: vec![SenderResult { port: "eth1".to_owned(), ..SenderResult::default() }],
        queues: (0..2).map(queue).collect(),
        workers: Vec::new(),
        unsent: 0,
        port_full: 7,
        put_off_s: 0.0,
        verified: Some(Verified {
            lost: 100,
            damaged: 5,
            foreign: Some(3),
            latency: intervals[1].latency,
            streams: vec![stream],
        }),
        pacing: Pacing { gap_error_p50_ns: Some(120), ..Pacing::default() },
        longest_gap_ns: 3_040_000,
        intervals,
        intervals_left_out: 0,
    }
}

#[test]
fn json_is_read_as_it_was_written() {
    let results = results();
    let json = serde_json::to_string_pretty(&results).unwrap();
    assert!(json.starts_with("{\n  \"version\": \"1.2.3\",\n  \"kind\": \"millrace-gen\",\n"));
    assert_eq!(serde_json::from_str::<Results>(&json).unwrap(), results);
}

#[test]
fn json_of_older_versions_is_read() {
    let mut json = serde_json::to_value(results()).unwrap();
    for member in ["kind", "started_unix_s", "command", "host", "intervals", "intervals_left_out"] {
        json.as_object_mut().unwrap().remove(member).unwrap();
    }
    let port = json["ports"][0].as_object_mut().unwrap();
    assert!(port.remove("sent").is_some() && port.remove("link").is_some());
    let old: Results = serde_json::from_value(json).unwrap();
    assert_eq!((old.kind.as_str(), old.intervals.len()), (KIND, 0));
    assert_eq!(old.sent, results().sent);
}

#[test]
fn the_text_has_the_figures() {
    let mut out = Vec::new();
    results().print(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in [
        "sent: 3_000_000 packets, 1.000 Mpps, 0.672 Gb/s on the wire",
        "received: 2_999_900 packets, 1.000 Mpps, 0.672 Gb/s on the wire",
        "eth1: 6.7 % of the link's maximum, 14.881 Mpps of 64 bytes at 10 Gb/s",
        "lost 100, damaged 5, foreign 3",
        "latency: min 900 ns, p50 4.00 µs, p90 6.00 µs, p99 100 µs, p99.9 200 µs, max 3.00 ms",
        "* in 1 of 3 intervals the receiver paused for more than 2 ms between two polls of its \
         ports: packets may be lost or late because of it",
        "the hypervisor took 60 ms from the cpus of the workers",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

fn print(results: &Results) -> String {
    let mut out = Vec::new();
    results.print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The sender shifted its schedule, and sent all packets that the shifted schedule has.
#[test]
fn a_schedule_that_was_put_off_is_told_with_its_share() {
    let mut results = results();
    assert!(!print(&results).contains("put off"));
    results.put_off_s = 0.192 * results.duration_s;
    let text = print(&results);
    assert!(text.contains(" (19.2 %): this host or its port was too slow\n"), "{text}");
    assert!(!text.contains("not sent"), "{text}");
    results.senders.push(results.senders[0].clone());
    let text = print(&results);
    let line = " (19.2 %): the slowest of 2 senders, or its port, was too slow\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_run_of_which_nothing_comes_back_says_what_to_look_at() {
    let mut results = results();
    assert!(!print(&results).contains("no packet came back"));
    results.received = Counted::default();
    assert!(print(&results).contains("no packet came back: are the ports wired"));
    results.verified = None;
    assert!(!print(&results).contains("no packet came back"));
}

#[test]
fn lines_are_set_below_their_heading() {
    let results = results();
    let line = IntervalLines::new(1.0).line(&results.intervals[1]);
    let words: Vec<_> = line.split_whitespace().collect();
    let expected = ["2*", "1.000", "Mpps", "0.67", "1.000", "Mpps", "100", "0", "4.00", "µs"];
    assert_eq!(words[..10], expected);
    assert_eq!(line.chars().count(), IntervalLines::HEADING.len());
    let short = Interval { start_s: 0.5, length_s: 0.5, ..Interval::default() };
    let line = IntervalLines::new(0.5).line(&short);
    assert_eq!(line, "  1.00        0 pps    0.00        0 pps");
}

#[test]
fn the_text_has_low_rates_and_no_control_characters() {
    let mut results = results();
    results.sent.pps = 12.0;
    results.ports[0].name = "net\x1b[2J".to_owned();
    results.senders.push(results.senders[0].clone());
    results.senders[1].port = "\x07".repeat(40);
    let stream = &mut results.verified.as_mut().unwrap().streams[0];
    stream.name = format!("a\x1b]0;b\x07{}", "c".repeat(100));
    let text = print(&results);
    assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'), "{text:?}");
    assert!(text.contains("sent: 3_000_000 packets, 12.0 pps, 0.672 Gb/s"), "{text}");
    assert!(text.contains("  a\\u{1b}]0;b\\u{7}ccccccccccccccc…  "), "{text}");
    assert!(text.contains("% of the link's maximum"), "{text}");
    // A port that reports a speed and has no link.
    results.ports[0].link.as_mut().unwrap().share_percent = 120.0;
    assert!(!print(&results).contains("% of the link's maximum"));
    let table = Run::new("it", &results).figures;
    assert!(table.iter().all(|(figure, _)| figure.name != "share of link A"));
}
