// SPDX-License-Identifier: BSD-3-Clause
//! Tests the reader alone: bounds, short reads, and files damaged at random.

use super::*;
use testkit::capture::{ETHERNET, Order, Packet, Pcap, Pcapng, gzip};
use testkit::random::Random;

/// Returns one byte per read.
struct Trickle(io::Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min(1);
        self.0.read(&mut buffer[..n])
    }
}

/// Packets, each as time, bytes and original length, and the fault that ended them.
type Contents = (Vec<(u64, Vec<u8>, usize)>, Option<String>);

fn read_all(source: impl Read + 'static) -> Contents {
    let mut packets = Vec::new();
    let mut capture = match Capture::new("file", source) {
        Ok(capture) => capture,
        Err(fault) => return (packets, Some(fault.to_string())),
    };
    loop {
        match capture.next() {
            Ok(Some(p)) => packets.push((p.time_ns, p.bytes.to_vec(), p.original_len)),
            Ok(None) => return (packets, None),
            Err(fault) => return (packets, Some(fault.to_string())),
        }
    }
}

fn read_bytes(bytes: &[u8]) -> Contents {
    read_all(io::Cursor::new(bytes.to_vec()))
}

fn packet(len: usize) -> Packet {
    Packet::new(1_000, vec![7; len])
}

/// Returns a file with every kind of block.
fn pcapng(order: Order) -> Vec<u8> {
    Pcapng::new(order)
        .interface(ETHERNET, 0, &[(9, &[9])])
        .block(5, &[0; 12])
        .enhanced(0, 1_000, &packet(61))
        .simple(&packet(62))
        .obsolete(0, 1_000, &packet(63))
        .section(Order::Big)
        .interface(ETHERNET, 0, &[(9, &[9])])
        .enhanced(0, 1_000, &packet(64))
        .bytes
}

#[test]
fn reads_of_one_byte_give_the_same_packets() {
    for bytes in [Pcap::plain().file(&[packet(60), packet(0), packet(1514)]), pcapng(Order::Little)]
    {
        for bytes in [gzip(&bytes), bytes] {
            let trickled = read_all(Trickle(io::Cursor::new(bytes.clone())));
            assert!(trickled.0.len() > 2);
            assert_eq!(trickled, read_bytes(&bytes));
        }
    }
}

#[test]
fn the_longest_packet_is_read_and_a_longer_one_refused_in_every_format() {
    let len = PACKET_MAX;
    for len in [len - 1, len, len + 1] {
        let packet = packet(len);
        let files = [
            Pcap::plain().file(std::slice::from_ref(&packet)),
            Pcapng::new(Order::Big).clock(9, 0).enhanced(0, 1_000, &packet).bytes,
            Pcapng::new(Order::Big).clock(9, 0).obsolete(0, 1_000, &packet).bytes,
            Pcapng::new(Order::Big).clock(9, 0).simple(&packet).bytes,
        ];
        for file in files {
            let (packets, fault) = read_bytes(&file);
            if len <= PACKET_MAX {
                assert_eq!((packets[0].1.len(), fault), (len, None));
            } else {
                assert!(packets.is_empty());
                assert!(fault.unwrap().contains("corrupt: a packet of 262145 bytes"));
            }
        }
    }
}

#[test]
fn a_long_stream_passes_through_the_window() {
    let packets: Vec<Packet> = (0..2_000).map(|i| packet(i % 1_500)).collect();
    let (read, fault) = read_bytes(&gzip(&Pcap::plain().file(&packets)));
    assert_eq!(fault, None);
    let lengths = |len: usize| (len, len);
    let read = read.iter().map(|(_, bytes, original)| (bytes.len(), *original));
    assert!(read.eq((0..2_000).map(|i| lengths(i % 1_500))));
}

/// Compresses `file` into gzip members that are cut within records.
fn members(file: &[u8], count: usize) -> Vec<u8> {
    file.chunks(file.len().div_ceil(count)).flat_map(gzip).collect()
}

#[test]
fn zeros_behind_the_last_gzip_member_are_padding() {
    let file = pcapng(Order::Little);
    let expected = read_bytes(&file);
    assert_eq!((expected.0.len(), &expected.1), (4, &None));
    for count in 1..4 {
        for zeros in [0, 1, 2, 511, 100_000] {
            let padded = [members(&file, count), vec![0; zeros]].concat();
            assert_eq!(read_bytes(&padded), expected, "{count} members, {zeros} zeros");
            assert_eq!(read_all(Trickle(io::Cursor::new(padded))), expected);
        }
    }
}

#[test]
fn anything_else_behind_the_last_gzip_member_is_a_fault_after_all_packets() {
    let file = pcapng(Order::Little);
    let place = format!("file: packet 5 at byte {}: ", file.len());
    let garbage = |byte: &str| {
        let what = format!("the compressed data is followed by {byte}, neither gzip nor zeros");
        format!("{place}trailing garbage: {what}")
    };
    let cut = format!("{place}truncated: the compressed file ends too early");
    for (tail, message) in [
        (b"PK".to_vec(), garbage("0x50")),
        (vec![0x1f, 0x20], garbage("0x1f")),
        ([vec![0; 100_000], vec![9]].concat(), garbage("0x09")),
        ([vec![0; 2], gzip(&file)].concat(), garbage("0x1f")),
        (vec![0x1f], cut.clone()),
        (gzip(&file)[..9].to_vec(), cut),
    ] {
        for count in 1..4 {
            let followed = [members(&file, count), tail.clone()].concat();
            let expected = (read_bytes(&file).0, Some(message.clone()));
            assert_eq!(read_bytes(&followed), expected);
            assert_eq!(read_all(Trickle(io::Cursor::new(followed))), expected);
        }
    }
}

#[test]
fn interfaces_belong_to_their_section() {
    let file = Pcapng::new(Order::Little).clock(9, 0).section(Order::Little);
    let (packets, fault) = read_bytes(&file.enhanced(0, 1, &packet(60)).bytes);
    assert!(packets.is_empty());
    let fault = fault.unwrap();
    assert!(fault.contains("a packet of interface 0, but the section describes only 0"), "{fault}");
}

#[test]
fn an_fcs_is_not_part_of_the_packet() {
    const FCS_OF_2_WORDS: u32 = 2 << 28 | 1 << 26;
    let pcap = Pcap { network: u32::from(ETHERNET) | FCS_OF_2_WORDS, ..Pcap::plain() };
    let mut cut = packet(60);
    cut.original_len = 62;
    let interface = &[(13, &[4][..])];
    for file in [
        pcap.file(&[packet(64), cut.clone()]),
        Pcapng::new(Order::Little)
            .interface(ETHERNET, 0, interface)
            .enhanced(0, 1, &packet(64))
            .enhanced(0, 1, &cut)
            .bytes,
    ] {
        let (packets, _) = read_bytes(&file);
        assert_eq!((packets[0].1.len(), packets[0].2), (60, 60));
        assert_eq!((packets[1].1.len(), packets[1].2), (58, 58));
    }
}

#[test]
fn a_simple_packet_is_cut_at_the_snapshot_length() {
    let mut whole = packet(100);
    whole.original_len = 1_500;
    let file = Pcapng::new(Order::Little).interface(ETHERNET, 98, &[]).simple(&whole);
    assert_eq!(read_bytes(&file.bytes).0, vec![(0, vec![7; 98], 1_500)]);
}

#[test]
fn damaged_files_end_in_a_fault_or_not_at_all_but_never_in_a_panic() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let originals = [
        Pcap::plain().file(&[packet(60), packet(61)]),
        pcapng(Order::Little),
        pcapng(Order::Big),
        gzip(&pcapng(Order::Little)),
    ];
    for round in 0..40_000 {
        let mut bytes = originals[round % originals.len()].clone();
        for _ in 0..1 + random.below(3) {
            let at = random.index(bytes.len());
            bytes[at] = match random.below(3) {
                0 => random.bits() as u8,
                1 => bytes[at] ^ 1 << random.below(8),
                _ => random.pick(&[0, 0xff, 0x7f, 0x80]),
            };
        }
        let (packets, _) = read_bytes(&bytes);
        assert!(packets.iter().all(|(_, bytes, original)| bytes.len() <= *original));
    }
}
