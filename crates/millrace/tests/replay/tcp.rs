// SPDX-License-Identifier: BSD-3-Clause
//! Captures of TCP conversations that lack something which was on the wire.

use crate::{START_NS, flows_of, summary_of};
use serde_json::{Value, json};
use testkit::capture::{Packet, Pcap};
use wire::FrameBuilder;
use wire::tcp::{ACK, FIN, PSH, SYN};

const CLIENT: [u8; 4] = [192, 0, 2, 1];
const SERVER: [u8; 4] = [198, 51, 100, 2];

/// A segment of the client, or of the server, and its numbers, counted from the SYN of each.
fn segment(of_client: bool, flags: u8, seq: u32, ack: u32) -> FrameBuilder {
    let frame = FrameBuilder::ipv4(CLIENT, SERVER).tcp(40_000, 80);
    let frame = if of_client { frame } else { frame.reversed() };
    frame.flags(flags).seq(seq).ack(ack).window(500)
}

/// A capture of these, a millisecond apart, of which each has at most `snap_len` bytes.
fn capture(frames: &[FrameBuilder], snap_len: usize) -> Vec<u8> {
    let packet = |(ms, frame): (u64, &FrameBuilder)| {
        let mut packet = Packet::new(START_NS + ms * 1_000_000, frame.build());
        packet.bytes.truncate(snap_len);
        packet
    };
    let packets: Vec<_> = (0..).zip(frames).map(packet).collect();
    Pcap::plain().file(&packets)
}

/// Nothing in a capture is irregular, or has no connection.
fn assert_fits(capture: &[u8]) {
    let summary = summary_of(capture).summary();
    let counts = ["passed", "drops", "invalid", "ignored"].map(|class| &summary[class]);
    let counts = counts.into_iter().filter_map(Value::as_object).flatten();
    for (reason, count) in counts {
        assert_eq!(count, 0, "{reason}");
    }
}

#[test]
fn segments_that_the_nic_is_to_cut_are_as_long_as_their_frames() {
    let capture = capture(
        &[
            segment(true, SYN, 0, 0),
            segment(false, SYN | ACK, 0, 1).window(60_000),
            segment(true, ACK, 1, 1).payload([1; 8000]).ip_len(0),
            segment(false, ACK, 1, 8001),
        ],
        usize::MAX,
    );
    let run = flows_of(&capture);
    run.assert_good();
    let orig = json!({"packets": 2, "bytes": 54 + 8054, "ip_bytes": 40 + 8040, "tcp_flags": 18});
    assert_eq!(run.records()[0]["orig"], orig);
    assert_fits(&capture);
}

#[test]
fn windows_whose_scale_the_capture_has_cut_may_be_of_any() {
    let scale = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 3, 7];
    let capture = capture(
        &[
            segment(true, SYN, 0, 0).tcp_options(&scale),
            segment(false, SYN | ACK, 0, 1).tcp_options(&scale),
            segment(true, ACK, 1, 1),
            segment(false, ACK, 1, 1).payload([1; 1400]),
            segment(false, ACK, 1401, 1).payload([1; 1400]),
            segment(true, ACK, 1, 2801),
        ],
        68,
    );
    assert_fits(&capture);
}

#[test]
fn a_conversation_of_which_a_packet_was_lost_goes_on_and_ends() {
    let (request, answer) = ([1; 100], [2; 50]);
    let mut frames =
        vec![segment(true, SYN, 0, 0), segment(false, SYN | ACK, 0, 1), segment(true, ACK, 1, 1)];
    for n in 0..10 {
        let (of_client, of_server) = (1 + 100 * n, 1 + 50 * n);
        frames.push(segment(true, PSH | ACK, of_client, of_server).payload(request));
        frames.push(segment(false, PSH | ACK, of_server, of_client + 100).payload(answer));
    }
    frames.push(segment(true, FIN | ACK, 1001, 501));
    frames.push(segment(false, FIN | ACK, 501, 1002));
    frames.push(segment(true, ACK, 1002, 502));
    frames.remove(3 + 2 * 4);
    let capture = capture(&frames, usize::MAX);
    let records = flows_of(&capture).records();
    assert_eq!((records.len(), &records[0]["state"]), (1, &json!("closing")));
    let summary = summary_of(&capture).summary();
    assert_eq!(summary["invalid"]["tcp_ack_beyond"], 1);
}
