// SPDX-License-Identifier: BSD-3-Clause
//! Time is the captures': flows end by it, and it never runs backwards.

use crate::{SECOND_NS, START_NS, datagrams, flows_of, new_scratch, run, summary_of};
use serde_json::Value;

/// Start, end and end reason of each record, in seconds from the start.
fn spans(records: &[Value]) -> Vec<(u64, u64, String)> {
    let seconds = |value: &Value| (value.as_u64().unwrap() - START_NS) / SECOND_NS;
    let reason = |record: &Value| record["end_reason"].as_str().unwrap().to_owned();
    let span = |r: &Value| (seconds(&r["start_ns"]), seconds(&r["end_ns"]), reason(r));
    records.iter().map(span).collect()
}

#[test]
fn a_pause_beyond_the_timeout_ends_a_flow_and_one_within_it_does_not() {
    let run = flows_of(&datagrams(&[0, 40, 80, 200, 201].map(|s| s * SECOND_NS)));
    run.assert_good();
    assert_eq!(spans(&run.records()), [(0, 80, "idle".to_owned()), (200, 201, "exit".to_owned())]);
}

#[test]
fn more_flows_than_one_round_of_expiry_ends_are_all_ended_before_the_next_packet() {
    use testkit::capture::{Packet, Pcap};
    let flow = |i: u16| Packet::new(START_NS, crate::datagram(i, 0).build());
    let mut packets: Vec<Packet> = (0..2_000).map(flow).collect();
    packets.push(Packet::new(START_NS + 60 * SECOND_NS, crate::datagram(0, 0).build()));
    let capture = Pcap::plain().file(&packets);
    let run = run(&["--capacity", "4000", "--json", "-", "-"], &capture);
    let flows = &run.summary()["flows"];
    assert_eq!((&flows["ended"]["idle"], &flows["ended"]["exit"]), (&2_000.into(), &1.into()));
    assert_eq!(flows["table_full"], 0);
}

#[test]
fn connections_without_an_answer_have_half_of_the_table_and_the_oldest_go() {
    use testkit::capture::{Packet, Pcap};
    let flow = |i: u16| Packet::new(START_NS, crate::datagram(i, 0).build());
    let capture = Pcap::plain().file(&(0..300).map(flow).collect::<Vec<_>>());
    let summary = summary_of(&capture).summary();
    assert_eq!(summary["flows"]["created"], 300);
    assert_eq!(summary["flows"]["ended"]["evicted"], 300 - 128);
    assert_eq!(summary["passed"]["table_full"], 0);
    assert_eq!(summary["ledger"]["tx"], 300);
}

#[test]
fn time_that_runs_backwards_is_held_and_reported() {
    let run = flows_of(&datagrams(&[2, 1, 0, 3].map(|s| s * SECOND_NS)));
    assert_eq!(run.status, Some(0));
    assert!(run.stderr.contains("given its time: 2 (older by up to 2.00 s)"), "{}", run.stderr);
    assert_eq!(spans(&run.records()), [(2, 3, "exit".to_owned())]);
}

#[test]
fn several_captures_are_one_stream_of_time() {
    let scratch = new_scratch("stream");
    let first = scratch.write("first.pcap", datagrams(&[0, SECOND_NS]));
    let second = scratch.write("second.pcap", datagrams(&[3 * SECOND_NS, 300 * SECOND_NS]));
    let run = run(&["--flows", "-", &first, &second], &[]);
    run.assert_good();
    assert_eq!(spans(&run.records()), [(0, 3, "idle".to_owned()), (300, 300, "exit".to_owned())]);
}
