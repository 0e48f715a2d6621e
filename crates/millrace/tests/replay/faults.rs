// SPDX-License-Identifier: BSD-3-Clause
//! Captures with something wrong: everything up to the fault counts, the fault is told with its
//! place, and the exit status is 1.

use crate::{START_NS, datagram, datagrams, flows_of, new_scratch, run};
use testkit::capture::{Order, Packet, Pcap, Pcapng, gzip};

const PCAP_HEADER_LEN: usize = 24;
const PCAP_RECORD_HEADER_LEN: usize = 16;

/// Packets in all flow records.
fn tracked(records: &[serde_json::Value]) -> u64 {
    let packets = |record: &serde_json::Value| record["orig"]["packets"].as_u64().unwrap();
    records.iter().map(packets).sum()
}

fn packet() -> Packet {
    Packet::new(START_NS, datagram(1000, 0).build())
}

/// Cuts `file` at every byte. It is good where a piece ends, of which all but the first
/// `before_packets` hold one packet each; anywhere else the packet that is cut is reported.
fn assert_truncation(pieces: &[Vec<u8>], before_packets: usize) {
    let file = pieces.concat();
    let end_of = |i: usize| pieces[..=i].iter().map(Vec::len).sum();
    let ends: Vec<usize> = (0..pieces.len()).map(end_of).collect();
    for cut in 1..=file.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count();
        let packets = whole.saturating_sub(before_packets) as u64;
        let run = flows_of(&file[..cut]);
        assert_eq!(tracked(&run.records()), packets, "cut at {cut}");
        if ends.contains(&cut) {
            run.assert_good();
        } else if cut < 4 || cut < PCAP_HEADER_LEN && before_packets == 1 {
            run.assert_failed("standard input: truncated");
        } else {
            let start = ends[..whole].last().unwrap_or(&0);
            run.assert_failed(&format!("packet {} at byte {start}: truncated", packets + 1));
        }
    }
}

#[test]
fn pcap_cut_at_every_byte() {
    let pcap = Pcap { order: Order::Big, ..Pcap::plain() };
    let record = pcap.record(&packet());
    assert_truncation(&[pcap.header(), record.clone(), record.clone(), record], 1);
}

#[test]
fn pcapng_cut_at_every_byte() {
    let grown = |file: Pcapng, add: fn(Pcapng) -> Pcapng| {
        let before = file.bytes.len();
        let file = add(file);
        (file.bytes[before..].to_vec(), file)
    };
    let file = Pcapng::new(Order::Little);
    let mut pieces = vec![file.bytes.clone()];
    let adders: [fn(Pcapng) -> Pcapng; 5] = [
        |file| file.clock(9, 0),
        |file| file.block(5, &[0; 12]),
        |file| file.enhanced(0, START_NS, &packet()),
        |file| file.obsolete(0, START_NS, &packet()),
        |file| file.simple(&packet()),
    ];
    let mut file = file;
    for add in adders {
        let (piece, longer) = grown(file, add);
        pieces.push(piece);
        file = longer;
    }
    assert_truncation(&pieces, 3);
}

#[test]
fn gzip_cut_at_every_third_byte() {
    let packets: Vec<Packet> =
        (0..40).map(|i| Packet::new(START_NS, datagram(i, usize::from(i)).build())).collect();
    let file = gzip(&Pcap::plain().file(&packets));
    let mut most = 0;
    // Each is a process of its own: every third byte, up to the last one.
    for cut in (1..file.len()).rev().step_by(3).rev() {
        let run = flows_of(&file[..cut]);
        run.assert_failed("truncated");
        let packets = tracked(&run.records());
        assert!(packets >= most, "a longer part gives no fewer packets");
        most = packets;
    }
    assert_eq!(most, 40, "only the checksum was missing at the end");
}

#[test]
fn what_follows_gzip_is_padding_or_garbage() {
    let file = datagrams(&[0, 1, 2]);
    let (first, second) = file.split_at(file.len() / 2);
    let padded = [gzip(first), gzip(second), vec![0; 10_240]].concat();
    let run = flows_of(&padded);
    run.assert_good();
    assert_eq!(tracked(&run.records()), 3);

    let run = flows_of(&[&padded[..], b"garbage"].concat());
    run.assert_failed(&format!("packet 4 at byte {}: trailing garbage", file.len()));
    assert_eq!(tracked(&run.records()), 3);
}

#[test]
fn corrupt_captures_say_what_is_wrong_and_where() {
    let pcap = Pcap::plain();
    let good = pcap.file(&[packet()]);
    let second_record = good.len();
    let mut too_long = [good, pcap.record(&packet())].concat();
    too_long[second_record + 8..second_record + 12].copy_from_slice(&u32::MAX.to_le_bytes());

    let pcapng = || Pcapng::new(Order::Big).clock(9, 0);
    let packet_block = pcapng().bytes.len();
    let with_word = |at: usize, word: u32| {
        let mut bytes = pcapng().enhanced(0, START_NS, &packet()).bytes;
        let at = if at == usize::MAX { bytes.len() - 4 } else { packet_block + at };
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        bytes
    };
    for (capture, message) in [
        (too_long, format!("packet 2 at byte {second_record}: corrupt: a packet of 4294967295")),
        (b"".to_vec(), "the file is empty".to_owned()),
        (b"GIF89a".to_vec(), "not a capture: it is text, and begins with \"GIF8\"".to_owned()),
        (b"\x7fELF".to_vec(), "not a capture: it starts with [7f, 45, 4c, 46]".to_owned()),
        (with_word(4, 131), format!("packet 1 at byte {packet_block}: corrupt: a block length")),
        (with_word(4, 8), "corrupt: a block length of 8".to_owned()),
        (with_word(4, 1 << 31), "corrupt: a packet block of 2147483648 bytes".to_owned()),
        (with_word(usize::MAX, 4), "at the start of a block, 4 at its end".to_owned()),
        (with_word(20, 4_000), "do not fit into its length".to_owned()),
        (with_word(8, 7), "a packet of interface 7, but the section describes only 1".to_owned()),
        (pcapng().block(0x0a0d_0d0a, &[0; 16]).bytes, "byte-order mark [00, 00".to_owned()),
        (pcapng().block(6, &[0; 4]).bytes, "do not fit into its length".to_owned()),
        (pcapng().block(2, &[0; 4]).bytes, "do not fit into its length".to_owned()),
    ] {
        run(&["-"], &capture).assert_failed(&message);
    }
}

#[test]
fn captures_behind_a_faulty_one_are_still_replayed() {
    let scratch = new_scratch("faulty");
    let whole = datagrams(&[0, 1]);
    let good = scratch.write("good.pcap", &whole);
    let cut = scratch.write("cut.pcap", &whole[..whole.len() - 1]);
    let missing = scratch.path("missing.pcap");
    let run = run(&["--json", "-", &cut, &missing, &scratch.path(""), &good], &[]);
    let second = PCAP_HEADER_LEN + PCAP_RECORD_HEADER_LEN + 42;
    run.assert_failed(&format!("cut.pcap: packet 2 at byte {second}: truncated: 58 bytes"));
    run.assert_failed("missing.pcap: cannot be read: No such file");
    run.assert_failed("cannot be read: Is a directory");
    assert_eq!(run.summary()["ledger"]["rx"], 3);
    assert_eq!(run.summary()["ledger"]["balanced"], true);
}
