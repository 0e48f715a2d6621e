// SPDX-License-Identifier: BSD-3-Clause
//! Tests fragments that wait in a worker for the first fragment of their datagram.

use crate::bump::{Setup, count};
use crate::captures::read_pcap;
use testkit::capture::write_pcap;
use wire::FrameBuilder;

/// The fragments of one datagram arrive in reverse order. Of another, only the middle one arrives.
#[test]
fn fragments_wait_for_the_first_and_leave_behind_it() {
    let datagram = |id| {
        let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 255, 255]).ip_id(id);
        frame.udp(4000, 53).payload([5; 2000]).fragments(1000)
    };
    let frames = |pieces: &[FrameBuilder]| pieces.iter().map(FrameBuilder::build).collect();
    let whole: Vec<Vec<u8>> = frames(&datagram(1));
    let lost: Vec<Vec<u8>> = frames(&datagram(2)[1..2]);
    let sent = [&lost[..], &[whole[2].clone(), whole[1].clone(), whole[0].clone()]].concat();

    let setup = Setup::new("fragments").duration("1");
    let [rx, tx, none, back] =
        ["rx.pcap", "tx.pcap", "none.pcap", "back.pcap"].map(|name| setup.path(name));
    write_pcap(&rx, &sent);
    write_pcap(&none, &[]);
    let a = format!("net_pcap0,rx_pcap={rx},tx_pcap={back}");
    let b = format!("net_pcap1,rx_pcap={none},tx_pcap={tx}");
    let ended = setup.pair(&a, &b).run();
    ended.assert_good();
    ended.assert_balanced();

    let summary = ended.summary();
    assert_eq!(count(&summary["passed"]["fragment"]), 1);
    assert_eq!(count(&summary["ledger"]["tx"]), 4);
    assert_eq!(count(&summary["ledger"]["held"]), 0);
    let records = ended.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].packets(), 3);
    // The first fragment leaves first, then the waiting ones in the order of their arrival.
    let mut received = read_pcap(&tx);
    received.retain(|frame| *frame != lost[0]);
    assert_eq!(received, [0, 2, 1].map(|i| whole[i].clone()));
    assert!(read_pcap(&back).is_empty());
    assert_eq!(count(&summary["directions"][0]["packets"]), 4);
}
