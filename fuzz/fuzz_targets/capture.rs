// SPDX-License-Identifier: BSD-3-Clause
//! Any bytes as a capture: no panic, and packets that keep within their file. Where the file is cut
//! changes nothing before the cut, and neither does how it is read. Replayed, every packet and
//! every flow is accounted for.
//!
//! Input: a byte that chooses a capture of our own and whether it is compressed; edits of it.
#![no_main]

mod edits;

use ::capture::{Capture, Fault};
use edits::edited;
use libfuzzer_sys::fuzz_target;
use millrace::fuzzing::replay;
use std::io::{Cursor, Read};
use std::sync::LazyLock;
use testkit::capture::{ETHERNET, Order, Packet, Pcap, Pcapng, gzip};
use wire::{FrameBuilder, tcp};

/// The longest packet that is read.
const PACKET_MAX: usize = 256 * 1024;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const START_NS: u64 = 1_700_000_000_000_000_000;
/// Between packets: longer than some timeouts, shorter than others.
const STEP_NS: u64 = 20_000_000_000;
const ETHER_TYPE_AT: usize = 12;

static ORIGINALS: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let ethernet = packets(<[u8]>::to_vec);
    let cooked = packets(|frame| [&[0; 14], &frame[ETHER_TYPE_AT..]].concat());
    [
        Pcap::plain().file(&ethernet),
        Pcap { order: Order::Big, nanoseconds: true, network: 113 }.file(&cooked),
        pcapng(Order::Little),
        pcapng(Order::Big),
    ]
});

/// A connection that is over and begins again, others of every table that wait for their timeout,
/// and an empty packet; each frame as `link` makes it.
fn packets(link: impl Fn(&[u8]) -> Vec<u8>) -> Vec<Packet> {
    let v4 = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
    let v6 = FrameBuilder::ipv6([0xfd, 0, 0, 0, 0, 0, 0, 1], [0xfd, 0, 0, 0, 0, 0, 0, 2]);
    let tcp = v4.clone().tcp(1_000, 80);
    let syn = tcp.clone().flags(tcp::SYN);
    let frames = [
        syn.clone(),
        syn.clone().flags(tcp::SYN | tcp::ACK).reversed(),
        tcp.flags(tcp::RST),
        syn,
        v6.clone().udp(1_000, 53).payload([0; 4]),
        v6.udp(1_000, 53).reversed(),
        v4.vlan(5).icmp_echo(7, 1),
    ];
    let frames = frames.map(|frame| link(&frame.build()));
    let bytes = frames.into_iter().chain([Vec::new()]);
    bytes.zip(0..).map(|(bytes, i)| Packet::new(START_NS + i * STEP_NS, bytes)).collect()
}

/// Every kind of block, in two sections.
fn pcapng(order: Order) -> Vec<u8> {
    const RESOLUTION: u16 = 9;
    const RAW_IP: u16 = 101;
    let ethernet = packets(<[u8]>::to_vec);
    let raw_ip = packets(|frame| frame[ETHER_TYPE_AT + 2..].to_vec());
    Pcapng::new(order)
        .interface(ETHERNET, 0, &[(RESOLUTION, &[9])])
        .block(5, &[0; 12])
        .enhanced(0, STEP_NS, &ethernet[0])
        .simple(&ethernet[1])
        .section(Order::Big)
        .clock(0x80 | 20, -1)
        .interface(RAW_IP, 96, &[])
        .obsolete(1, STEP_NS, &raw_ip[4])
        .bytes
}

/// What became of one capture.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reading {
    /// Every packet before the end or the fault.
    packets: Vec<Found>,
    /// The end of the last whole record before the fault, and what is wrong.
    fault: Option<(u64, String)>,
}

/// A packet of a capture.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// Nanoseconds since the Unix epoch.
    time_ns: u64,
    /// What the capture has of it.
    bytes: Vec<u8>,
    /// Bytes on the wire.
    original_len: usize,
    /// Where its record ends in the (decompressed) capture.
    end: u64,
    /// The Ethernet frame it becomes, and the length of that frame before the capture cut it.
    frame: Option<(Vec<u8>, usize)>,
}

/// Reads a capture to its end or its fault.
fn read_capture(source: impl Read + 'static) -> Reading {
    let mut reading = Reading::default();
    let fault = |fault: Fault| Some((fault.offset(), fault.to_string()));
    let mut capture = match Capture::new("capture", source) {
        Ok(capture) => capture,
        Err(error) => return Reading { fault: fault(error), ..reading },
    };
    loop {
        let packet = match capture.next() {
            Ok(Some(packet)) => packet,
            Ok(None) => return reading,
            Err(error) => return Reading { fault: fault(error), ..reading },
        };
        let mut frame = Vec::new();
        let lengths = packet.append_ethernet(&mut frame);
        assert_eq!(lengths.map_or(0, |lengths| lengths.captured_len), frame.len());
        reading.packets.push(Found {
            time_ns: packet.time_ns,
            bytes: packet.bytes.to_vec(),
            original_len: packet.original_len,
            frame: lengths.map(|lengths| (frame, lengths.frame_len)),
            end: capture.offset(),
        });
    }
}

/// Yields one byte for each read.
struct Trickle(Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = buffer.len().min(1);
        self.0.read(&mut buffer[..n])
    }
}

fn read(file: &[u8]) -> Reading {
    read_capture(Cursor::new(file.to_vec()))
}

fn assert_sound(reading: &Reading) {
    let mut end = 0;
    for packet in &reading.packets {
        assert!(packet.bytes.len() <= packet.original_len.min(PACKET_MAX));
        assert!(packet.end >= end + packet.bytes.len() as u64);
        end = packet.end;
        if let Some((frame, frame_len)) = &packet.frame {
            assert!(frame.len() <= *frame_len);
        }
    }
    if let Some((offset, _)) = &reading.fault {
        assert!(*offset >= end);
    }
}

/// Until `cut` the file has whole records only, or else the last one is cut.
fn assert_same_before(cut: usize, file: &[u8], reading: &Reading) {
    let before = reading.packets.iter().filter(|packet| packet.end <= cut as u64).count();
    let shorter = read(&file[..cut]);
    assert_eq!(shorter.packets, reading.packets[..before]);
}

fn assert_plain(file: &[u8], reading: &Reading, choice: usize) {
    let captured: usize = reading.packets.iter().map(|packet| packet.bytes.len()).sum();
    assert!(captured <= file.len());
    assert_same_before(file.len() * choice / 256, file, reading);
    if let Some(packet) = reading.packets.get(choice % reading.packets.len().max(1)) {
        let end = packet.end as usize;
        assert_same_before(end, file, reading);
        assert_eq!(read(&file[..end]).fault, None);
    }
    if let Some((offset @ 1.., _)) = &reading.fault {
        let whole = read(&file[..*offset as usize]);
        assert_eq!((&whole.packets, whole.fault), (&reading.packets, None));
    }
}

fuzz_target!(|data: &[u8]| {
    let [choice, edits @ ..] = data else { return };
    let choice = usize::from(*choice);
    let original = &ORIGINALS[choice % ORIGINALS.len()];
    let is_gzip_edited = choice / ORIGINALS.len() % 8 == 0;
    let original = if is_gzip_edited { gzip(original) } else { original.clone() };
    let file = edited(original, edits);
    let reading = read(&file);
    assert_sound(&reading);
    assert_eq!(replay(Cursor::new(file.clone())), reading.packets.len() as u64);
    let trickled = read_capture(Trickle(Cursor::new(file.clone())));
    if file.starts_with(&GZIP_MAGIC) {
        // What a damaged stream yields before its fault depends on how it is read.
        let common = reading.packets.len().min(trickled.packets.len());
        assert_eq!(reading.packets[..common], trickled.packets[..common]);
        assert!(reading == trickled || reading.fault.is_some());
    } else {
        assert_eq!(reading, trickled);
        assert_plain(&file, &reading, choice);
        let (first, second) = file.split_at(file.len() * choice / 256);
        let compressed = [gzip(first), gzip(second), vec![0; choice]].concat();
        assert_eq!(read(&compressed), reading);
    }
});
