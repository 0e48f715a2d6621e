// SPDX-License-Identifier: BSD-3-Clause
//! Tests the frames of streams: headers and checksums with an independent parser, values, sizes and
//! times.

use crate::seen::see;
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;
use testkit::stream;
use traffic::stream::{KEYS, Recording, StreamSetup, StreamSpec, Streams};
use traffic::{Filler, Finding, Part, ROOM, Side, Source, Stamp, StampKey, Verifier, Window};
use wire::FrameBuilder;
use wire::checksum::crc32c;

pub(crate) const SEED: u64 = 9;

pub(crate) fn setup(is_stamped: bool) -> StreamSetup {
    let link_mbps = [Some(10_000); 2];
    StreamSetup { link_mbps, is_stamped, ..stream::setup(SEED) }
}

pub(crate) fn spec(text: &str) -> StreamSpec {
    stream::spec(0, text)
}

pub(crate) fn streams(texts: &[&str], is_stamped: bool) -> Streams {
    let specs: Vec<_> = texts.iter().map(|text| spec(text)).collect();
    Streams::new(&specs, &setup(is_stamped)).unwrap()
}

/// A frame, the time at which it is due, and its stream.
pub(crate) struct Sent {
    pub(crate) due: u64,
    pub(crate) stream: u16,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn take(streams: &mut Streams, count: usize) -> Vec<Sent> {
    // Earlier frames stay in the room, as in a sender's buffer.
    let mut room = vec![0xee; ROOM];
    let next = || {
        let due = streams.due()?;
        let written = streams.write(&mut room, due + 7);
        Some(Sent { due, stream: written.stream, bytes: room[..written.len].to_vec() })
    };
    std::iter::from_fn(next).take(count).collect()
}

#[test]
fn a_stream_without_keys_is_the_smallest_udp_packet() {
    let sent = take(&mut streams(&[""], false), 2);
    let seen = see(&sent[0].bytes).unwrap();
    assert_eq!((sent[0].bytes.len(), seen.payload_len), (60, 18));
    assert_eq!(seen.direction.src, ("198.18.0.1".parse().unwrap(), 49_152));
    assert_eq!(seen.direction.dst, ("198.19.0.1".parse().unwrap(), 7));
    assert_eq!(sent[0].bytes[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    assert_eq!(sent[0].bytes, sent[1].bytes);
}

#[test]
fn every_combination_of_values_comes_once() {
    let text = "src=198.18.0.1-198.18.0.20 sport=1000-1999 dport=53,80 size=64,1518";
    let mut streams = streams(&[text], false);
    let sent = take(&mut streams, 2 * 20 * 1000 * 2);
    let tuples = |sent: &[Sent]| {
        let tuples = sent.iter().map(|it| see(&it.bytes).unwrap().direction);
        tuples.collect::<HashSet<_>>().len()
    };
    assert_eq!(tuples(&sent[..40_000]), 40_000);
    assert_eq!(tuples(&sent), 40_000, "then they begin anew");
    let sport = |sent: &Sent| see(&sent.bytes).unwrap().direction.src.1;
    assert_eq!([sport(&sent[0]), sport(&sent[1]), sport(&sent[1000])], [1000, 1001, 1000]);
    assert_eq!([sent[0].bytes.len(), sent[1].bytes.len()], [60, 1514]);
}

#[test]
fn random_values_of_a_flow_come_again() {
    let text = "src=random:198.18.0.0/16 sport=random:1024-65535 flows=1194";
    let sent = take(&mut streams(&[text], false), 3 * 1194);
    let tuples: Vec<_> = sent.iter().map(|it| see(&it.bytes).unwrap().direction).collect();
    assert_eq!(tuples[..1194], tuples[1194..2388]);
    assert!(tuples.iter().collect::<HashSet<_>>().len() > 1190);
    let ports: HashSet<_> = tuples.iter().map(|it| it.src.1).collect();
    assert!(ports.len() > 1100, "{} ports", ports.len());
}

#[test]
fn streams_of_different_rates_keep_them() {
    let texts =
        ["rate=1000pps", "rate=3000pps", "rate=3000pps side=b count=600", "rate=100pps burst=10"];
    let sent = take(&mut streams(&texts, false), 7000);
    assert!(sent.windows(2).all(|pair| pair[0].due <= pair[1].due), "in order");
    let second: Vec<_> = sent.iter().filter(|it| it.due < 999_999_999).collect();
    assert_eq!(second.len(), 1000 + 3000 + 600 + 100);
    let of_b: Vec<_> = sent.iter().filter(|it| it.stream == 2).collect();
    assert_eq!(of_b.len(), 600);
    // The stream keeps its rate, 600 packets in 200 ms, while it takes turns with another one.
    assert!((199_000_000..200_000_001).contains(&of_b[599].due), "{}", of_b[599].due);
    assert_eq!(of_b[0].bytes[..6], [2, 0, 0, 0, 0, 1]);
}

#[test]
fn streams_without_a_rate_take_turns_burst_by_burst() {
    let texts = ["rate=max burst=4", "rate=max", "rate=max burst=2", "rate=max count=1"];
    let sent = take(&mut streams(&texts, false), 15);
    let order: Vec<_> = sent.iter().map(|it| it.stream).collect();
    assert_eq!(order, [0, 0, 0, 0, 1, 3, 2, 2, 0, 0, 0, 0, 1, 2, 2]);
}

/// With more than 64 sizes, no frames are built in advance.
#[test]
fn many_sizes_make_the_same_frames_as_few() {
    for keys in ["proto=udp", "proto=tcp ttl=1-9", "proto=sctp", "src=2001:2::1 proto=icmp"] {
        for is_stamped in [false, true] {
            let text = format!("{keys} tos=1-3 size=102-202 rate=1Mpps");
            let many = take(&mut streams(&[&text], is_stamped), 101);
            for (place, sent) in many.iter().enumerate().step_by(9) {
                let size = (102 + place).to_string();
                let sizes = vec![size.as_str(); 64].join(",");
                let few = streams(&[&text.replace("102-202", &sizes)], is_stamped);
                assert_eq!(take(&mut { few }, place + 1)[place].bytes, sent.bytes, "{text}");
            }
        }
    }
}

#[test]
fn a_stamped_packet_is_distinguished_from_every_other() {
    let mut streams =
        streams(&["size=64,200,9216 rate=1Mpps", "proto=tcp rate=1Mpps size=128"], true);
    let (key, filler) = (StampKey::new(SEED), Filler::new(SEED));
    let mut next = [0, 0];
    for sent in take(&mut streams, 600) {
        let seen = see(&sent.bytes).unwrap();
        let payload = &sent.bytes[sent.bytes.len() - seen.payload_len..];
        let stamp = Stamp::read(payload.first_chunk().unwrap(), key).expect("a stamp");
        assert_eq!(stamp.sent_ns, sent.due + 7);
        assert_eq!(stamp.index, next[usize::from(stamp.lane)]);
        next[usize::from(stamp.lane)] += 1;
        let rest = &payload[Stamp::LEN..];
        assert_eq!(rest, filler.bytes(Window::of(stamp.lane, stamp.index), rest.len()));
    }
    assert_eq!(next, [300, 300]);
    assert_eq!([streams.written(0), streams.written(1)], [300, 300]);
}

/// RFC 9260 section 3.2: a chunk takes a multiple of 4 bytes.
#[test]
fn sctp_is_a_data_chunk_with_its_crc_whatever_the_size() {
    let verifier = Verifier::new(SEED, StampKey::new(SEED));
    for size in [82, 100, 101, 102, 103, 104, 128, 1518] {
        let text = format!("proto=sctp size={size} sport=0x8044");
        let frame = take(&mut streams(&[&text], true), 1).remove(0).bytes;
        assert_eq!(frame.len(), size - 4);
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        assert_eq!(total, (frame.len() - 14) / 4 * 4);
        assert!(frame[14 + total..].iter().all(|byte| *byte == 0), "behind the packet");
        let mut packet = frame[34..14 + total].to_vec();
        let crc = u32::from_le_bytes(packet[8..12].try_into().unwrap());
        packet[8..12].fill(0);
        assert_eq!(crc, crc32c(&packet));
        assert_eq!(packet[..2], [0x80, 0x44]);
        assert_eq!((packet[12], packet[13]), (0, 3), "DATA, a whole message");
        assert_eq!(usize::from(u16::from_be_bytes([packet[14], packet[15]])), packet.len() - 12);
        assert!(matches!(verifier.examine(&frame), Finding::Good(_)), "{size}");
    }
    assert_eq!(verifier.examine(&padded_chunk(3)), Finding::Foreign);
    for padding in 0..3 {
        let frame = padded_chunk(padding);
        assert!(matches!(verifier.examine(&frame), Finding::Good(_)), "{padding} bytes");
        for at in 34..frame.len() {
            let mut damaged = frame.clone();
            damaged[at] ^= 4;
            assert!(!matches!(verifier.examine(&damaged), Finding::Good(_)), "byte {at}");
        }
    }
}

/// Returns a packet with a stamped DATA chunk that needs this number of padding bytes. With 3, the
/// stamp is incomplete.
fn padded_chunk(padding: usize) -> Vec<u8> {
    let (stamp, key) = (Stamp { lane: 0, index: 5, sent_ns: 9 }, StampKey::new(SEED));
    let mut data = [0; 16];
    stamp.write(&mut data, key);
    let filler = Filler::new(SEED);
    let rest = filler.bytes(Window::of(0, 5), if padding == 3 { 0 } else { 4 - padding });
    let data = [&data[..16 - padding / 3 * 3], rest].concat();
    let body = [&[0; 12][..], &data].concat();
    FrameBuilder::ipv4([1; 4], [2; 4]).sctp(1, 2).chunk(0, 3, &body).build()
}

/// Devices may truncate a packet, such as a NIC whose buffer is too short.
#[test]
fn a_cut_packet_is_damaged_while_its_stamp_is_there() {
    let verifier = Verifier::new(SEED, StampKey::new(SEED));
    for text in [
        "size=300",
        "size=302 vlan=5 proto=tcp",
        "size=300 proto=icmp src=2001:2::1",
        "size=302 proto=sctp",
        "size=302 proto=sctp-bare",
        "size=300 tunnel=vxlan",
        "size=300 tunnel=gtpu tunnel_src=2001:2::1",
    ] {
        let frame = take(&mut streams(&[text], true), 1).remove(0).bytes;
        let Finding::Good(stamp) = verifier.examine(&frame) else { panic!("{text}") };
        let mut bytes = [0; 16];
        stamp.write(&mut bytes, StampKey::new(SEED));
        let stamp_end = frame.windows(16).position(|window| window == bytes).unwrap() + 16;
        for len in 0..frame.len() {
            let is_there = len >= stamp_end;
            let expected = if is_there { Finding::Damaged(Some(stamp)) } else { Finding::Foreign };
            assert_eq!(verifier.examine(&frame[..len]), expected, "{text}, {len} bytes");
        }
        let foreign = take(&mut streams(&[text], false), 1).remove(0).bytes;
        for len in 0..frame.len() {
            assert_eq!(verifier.examine(&foreign[..len]), Finding::Foreign, "{text}, {len} bytes");
        }
    }
}

#[test]
fn packets_of_others_are_distinguished_from_ours() {
    let verifier = Verifier::new(SEED, StampKey::new(SEED));
    let examine = |texts: &[&str], is_stamped| {
        verifier.examine(&take(&mut streams(texts, is_stamped), 1)[0].bytes)
    };
    assert!(matches!(examine(&["proto=sctp size=100"], true), Finding::Good(_)));
    // A probe of TRex has 62 bytes without FCS.
    assert!(matches!(examine(&["proto=sctp-bare size=66"], true), Finding::Good(_)));
    for text in ["", "proto=tcp", "proto=sctp size=100", "proto=icmp", "src=2001:2::1 size=100"] {
        assert_eq!(examine(&[text], false), Finding::Foreign, "{text}");
    }
    for len in 0..60 {
        assert_eq!(verifier.examine(&vec![0; len]), Finding::Foreign);
    }
    let other = Verifier::new(SEED, StampKey::new(SEED + 1));
    let sent = take(&mut streams(&["size=300"], true), 1);
    assert_eq!(other.examine(&sent[0].bytes), Finding::Foreign);
}

#[test]
fn what_makes_no_stream_is_refused() {
    let refusal = |text: &str| {
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let spec = StreamSpec::from_pairs(3, pairs);
        let streams = spec.map_err(|error| error.to_string());
        let streams = streams
            .and_then(|spec| Streams::new(&[spec], &setup(true)).map_err(|it| it.to_string()));
        streams.expect_err(text)
    };
    assert!(
        refusal("sizes=64").starts_with("a stream has no key \"sizes\"; its keys are name, side")
    );
    assert_eq!(refusal("size=64 size=65"), "size is given twice");
    assert_eq!(
        refusal("proto=icmp dport=7"),
        "dport: packets with proto=icmp do not have this field"
    );
    assert_eq!(refusal("flags=S"), "flags: packets with proto=udp do not have this field");
    assert_eq!(
        refusal("proto=tcp flags=SX"),
        "flags: \"SX\" is none of the letters F S R P A U E C"
    );
    assert!(refusal("proto=gre").contains("is none of udp, tcp, icmp, sctp, sctp-bare"));
    assert!(refusal("src=::1 dst=10.0.0.1").contains("dst: src is an address of one family"));
    assert!(refusal("src=10.0.0.1 dst=::1").contains("dst: src is an address of one family"));
    assert!(refusal("src=10.0.0.300").contains("src: \"10.0.0.300\" is no IPv4 address"));
    assert!(refusal("count=0").contains("count: \"0\" is no number from 1"));
    assert_eq!(
        refusal("src=2001:2::1"),
        "stream stream3: size: 64 bytes are too few: these headers need at least 82 with FCS"
    );
    assert!(refusal("on=1s").contains("on: it needs off=TIME"));
    assert!(refusal("rate=1kpps off=1s").contains("off: it needs on=TIME"));
    assert!(refusal("rate=1kpps on=0 off=1s").contains("on: \"0\" is no time: write 1.5s"));
    assert!(refusal("arrivals=poisson").contains("arrivals, on and start need a rate"));
    assert!(refusal("start=5ms rate=max").contains("arrivals, on and start need a rate"));
    assert!(refusal("arrivals=pareto").contains("is none of even, poisson"));
    assert!(refusal("src=2001:2::1 size=64-100").contains("at least 82"));
    let mixed = [spec("rate=max"), spec("rate=1kpps")];
    let error = Streams::new(&mixed, &setup(true)).unwrap_err().to_string();
    assert_eq!(
        error,
        "stream stream0: rate max leaves no room for other rates: give it to all streams or to none"
    );
}

/// Each message names the key and the bad value, and says which values are allowed.
#[test]
fn bad_values_are_named_with_their_keys() {
    for (before, key, value, right) in [
        ("", "side", "c", "a, b"),
        ("", "rate", "5", "1Mpps"),
        ("", "rate", "-1pps", "1Mpps"),
        ("", "size", "-1", "64 to 9216"),
        ("", "size", "1e3", "64 to 9216"),
        ("", "count", "-1", "number from 1"),
        ("", "count", "1-5", "number from 1"),
        ("", "burst", "0", "number from 1"),
        ("", "flows", "many", "number from 1"),
        ("", "arrivals", "odd", "even, poisson"),
        ("off=1s", "on", "-1s", "1.5s"),
        ("on=1s", "off", "soon", "1.5s"),
        ("", "start", "-1", "1.5s"),
        ("pcap=a", "speed", "0", "0.001 to 1000"),
        ("pcap=a", "loops", "-1", "number from 1"),
        ("", "src_mac", "1:2", "02:00:00:00:00:0a"),
        ("", "dst_mac", "", "02:00:00:00:00:0a"),
        ("", "outer_vlan", "4096", "0 to 4095"),
        ("", "vlan", "-1", "0 to 4095"),
        ("", "src", "2001:2::x", "IPv6 address"),
        ("", "dst", "10.0.0", "IPv4 address"),
        ("", "dst", "-1", "IPv4 address"),
        ("", "proto", "gre", "udp, tcp"),
        ("", "sport", "-5", "0 to 65535"),
        ("", "dport", "1,,2", "0 to 65535"),
        ("", "ttl", "256", "0 to 255"),
        ("", "tos", "x", "0 to 255"),
        ("proto=tcp", "flags", "Q", "F S R P A U E C"),
        ("proto=tcp", "seq", "-1", "0 to 4294967295"),
        ("proto=tcp", "ack", "-1", "0 to 4294967295"),
        ("proto=tcp", "window", "65536", "0 to 65535"),
        ("", "tunnel", "gre", "vxlan, gtpu"),
        ("tunnel=vxlan", "vni", "-1", "0 to 16777215"),
        ("tunnel=gtpu", "teid", "-1", "0 to 4294967295"),
        ("tunnel=gtpu", "tunnel_src", "x", "IPv4 address"),
        ("tunnel=gtpu", "tunnel_dst", "x", "IPv4 address"),
        ("tunnel=gtpu", "tunnel_sport", "-1", "0 to 65535"),
    ] {
        let text = format!("{before} {key}={value}");
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let error = StreamSpec::from_pairs(0, pairs).expect_err(&text).to_string();
        assert!(error.starts_with(&format!("{key}: {value:?} is no")), "{text}: {error}");
        assert!(error.contains(right), "{text}: {error}");
    }
}

#[test]
fn streams_to_nobody_have_a_key_that_says_so() {
    assert_eq!(spec("dst=0.0.0.0").key_without_receiver(), Some("dst"));
    assert_eq!(spec("dst=:: size=128").key_without_receiver(), Some("dst"));
    assert_eq!(spec("dport=0-7").key_without_receiver(), Some("dport"));
    assert_eq!(spec("dst=10.0.0.1 dport=7").key_without_receiver(), None);
}

/// All frames of streams that end, in any order, with the stream and the time of each.
fn all(texts: &[String], parts: &[Part]) -> Vec<(u16, u64, Vec<u8>)> {
    let specs: Vec<_> = texts.iter().map(|text| spec(text)).collect();
    let of_part = |part: &Part| {
        let setup = StreamSetup { part: *part, ..setup(false) };
        let mut streams = Streams::new(&specs, &setup).unwrap();
        let sent = take(&mut streams, usize::MAX);
        assert!(sent.windows(2).all(|pair| pair[0].due <= pair[1].due), "in order");
        let side = |it: &Sent| specs[usize::from(it.stream)].side;
        assert!(sent.iter().all(|it| part.side.is_none_or(|only| only == side(it))));
        let written: u64 = (0..streams.streams()).map(|it| streams.written(it)).sum();
        assert_eq!(written, sent.len() as u64);
        sent.into_iter().map(|it| (it.stream, it.due, it.bytes))
    };
    let mut frames: Vec<_> = parts.iter().flat_map(of_part).collect();
    frames.sort_unstable_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
    frames
}

fn shares(shares: u16, side: Option<Side>) -> Vec<Part> {
    (0..shares).map(|share| Part { side, share, shares }).collect()
}

#[test]
fn shares_of_a_stream_are_evenly_spaced() {
    for text in ["rate=1Mpps count=6000", "rate=1Mpps count=6000 burst=4"] {
        let text = [text.to_owned()];
        let times = |parts| all(&text, parts).into_iter().map(|it| it.1).collect::<Vec<_>>();
        assert_eq!(times(&shares(1, None)), times(&shares(3, None)));
    }
}

/// Returns the times of the frames of all shares, in order.
fn times_of_shares(text: &str, n: u16, before_ns: u64) -> Vec<u64> {
    let times = |part: Part| {
        let mut streams =
            Streams::new(&[spec(text)], &StreamSetup { part, ..setup(false) }).unwrap();
        let next = move || {
            let due = streams.due().filter(|due| *due < before_ns)?;
            streams.write(&mut [0; ROOM], 0);
            Some(due)
        };
        std::iter::from_fn(next)
    };
    let mut all: Vec<_> = shares(n, None).into_iter().flat_map(times).collect();
    all.sort_unstable();
    all
}

/// Mean and variance of the packets per millisecond are both the rate, within 4 standard
/// deviations, also in `n` shares.
#[test]
fn arrivals_are_those_of_a_poisson_process() {
    for (n, burst) in [(1, 1), (3, 1), (2, 4)] {
        let text = format!("rate=100kpps arrivals=poisson burst={burst}");
        let times = times_of_shares(&text, n, 2_000_000_000);
        let mut counts = vec![0.0; 2000];
        times.iter().for_each(|time| counts[(time / 1_000_000) as usize] += 1.0 / f64::from(burst));
        let mean = counts.iter().sum::<f64>() / 2000.0;
        let expected = 100.0 / f64::from(burst);
        let deviation = (expected / 2000.0).sqrt();
        assert!((mean - expected).abs() < 4.0 * deviation, "{n}: {mean}");
        let variance = counts.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 2000.0;
        let deviation = expected * (2.0_f64 / 2000.0).sqrt();
        assert!((variance - expected).abs() < 4.0 * deviation, "{n}: {variance}");
    }
    let text = "rate=1kpps arrivals=poisson";
    assert_ne!(times_of_shares(text, 1, 1 << 30)[0], 0, "the first gap is random, too");
    assert_eq!(times_of_shares(text, 1, 1 << 30), times_of_shares(text, 1, 1 << 30));
}

#[test]
fn a_stream_pauses_and_begins_later() {
    let text = "rate=100kpps on=2ms off=8ms start=5ms";
    for n in [1, 3] {
        let times = times_of_shares(text, n, 35_000_000);
        let expected = |number: u64| 5_000_000 + number / 200 * 10_000_000 + number % 200 * 10_000;
        assert_eq!(times, (0..600).map(expected).collect::<Vec<_>>());
    }
}

/// Counts the packets in each quarter of a ramp and after it, also in shares and as a Poisson
/// process.
#[test]
fn rates_grow_linearly() {
    for (n, text) in [(1, ""), (3, ""), (1, "arrivals=poisson"), (1, "start=500ms")] {
        let spec = [spec(&format!("rate=100kpps {text}"))];
        let mut counts = [0_u32; 5];
        for part in shares(n, None) {
            let setup = StreamSetup { part, ramp_ns: 1_000_000_000, ..setup(false) };
            let mut streams = Streams::new(&spec, &setup).unwrap();
            let start = if text.starts_with("start") { 500_000_000 } else { 0 };
            while let Some(due) = streams.due().filter(|due| *due < start + 1_250_000_000) {
                streams.write(&mut [0; ROOM], 0);
                counts[((due - start) / 250_000_000) as usize] += 1;
            }
        }
        for (count, expected) in counts.into_iter().zip([3125_u32, 9375, 15_625, 21_875, 25_000]) {
            let most = if text.contains("poisson") { 4 * expected.isqrt() } else { 2 };
            assert!(count.abs_diff(expected) <= most, "{n} {text}: {counts:?}");
        }
    }
    // The rate max has no ramp.
    let setup = StreamSetup { ramp_ns: 1_000_000_000, ..setup(false) };
    let mut streams = Streams::new(&[spec("rate=max")], &setup).unwrap();
    assert!(take(&mut streams, 10).iter().all(|it| it.due == 0));
}

/// Returns a stream that sends five frames of 60 to 64 bytes, at 0, 1, 2, 3 and 4 ms.
pub(crate) fn recorded(text: &str) -> StreamSpec {
    let mut spec = spec(&format!("pcap=five.pcap {text}"));
    let mut recording = Recording::default();
    for number in 0..5_u8 {
        let frame = vec![number; 60 + usize::from(number)];
        recording.push(9_000_000 + u64::from(number) * 1_000_000, &frame).unwrap();
    }
    spec.playback.as_mut().unwrap().recording = Arc::new(recording);
    spec
}

#[test]
fn a_capture_goes_out_as_it_is() {
    let sent = |text: &str, part| {
        let setup = StreamSetup { part, ..setup(true) };
        let mut streams = Streams::new(&[recorded(text)], &setup).unwrap();
        assert_eq!((streams.streams(), streams.stamped_streams()), (1, 0));
        let sent = take(&mut streams, 1000).into_iter();
        sent.map(|it| (it.due / 1000, it.bytes)).collect::<Vec<_>>()
    };
    let frame = |number: u64| vec![(number % 5) as u8; 60 + number as usize % 5];
    let expected = |count: u64, gap: u64| -> Vec<_> {
        (0..count).map(|number| (number * gap, frame(number))).collect()
    };
    for n in [1, 2, 3, 7] {
        let all = |text| {
            let mut all =
                shares(n, None).into_iter().flat_map(|it| sent(text, it)).collect::<Vec<_>>();
            all.sort_unstable();
            all
        };
        assert_eq!(all("loops=3"), expected(15, 1000));
        assert_eq!(all("count=7 speed=2"), expected(7, 500));
        assert_eq!(all("count=12 rate=10kpps"), expected(12, 100));
        let mut bursts = expected(12, 100);
        bursts.iter_mut().for_each(|it| it.0 = it.0 / 400 * 400);
        bursts.sort_unstable();
        assert_eq!(all("count=12 rate=10kpps burst=4"), bursts);
    }
    let shifted = sent("loops=1 start=1ms", Part::default());
    assert_eq!(shifted[4], (5000, frame(4)));
    assert_eq!(recorded("").mean_size(), 66.0);
    assert_eq!(recorded("").mtu(), 50);
}

#[test]
fn a_capture_goes_beside_stamped_packets() {
    let specs = [spec("rate=2kpps"), recorded("rate=1kpps")];
    let mut streams = Streams::new(&specs, &setup(true)).unwrap();
    let sent = take(&mut streams, 300);
    assert_eq!([streams.written(0), streams.written(1)], [200, 100]);
    assert_eq!(streams.stamped_streams(), 1);
    let verifier = Verifier::new(SEED, StampKey::new(SEED));
    let good = sent.iter().filter(|it| matches!(verifier.examine(&it.bytes), Finding::Good(_)));
    assert_eq!(good.count(), 200);
}

#[test]
fn what_makes_no_stream_of_a_capture_is_refused() {
    let refusal = |text: &str| {
        let pairs = text.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        StreamSpec::from_pairs(0, pairs).unwrap_err().to_string()
    };
    assert_eq!(refusal("speed=2"), "speed: it needs pcap=FILE");
    assert_eq!(refusal("loops=2"), "loops: it needs pcap=FILE");
    assert_eq!(refusal("pcap=a speed=2 rate=1kpps"), "speed: rate is given, too: give one of them");
    assert_eq!(refusal("pcap=a loops=2 count=1"), "loops: count is given, too: give one of them");
    assert!(refusal("pcap=a size=64").starts_with("size: frames of a capture are sent unchanged"));
    assert!(refusal("pcap=a burst=2").contains("burst: it needs rate=RATE"));
    assert!(refusal("pcap=a speed=0").contains("a number from 0.001 to 1000"));
    let refusal = |spec| Streams::new(&[spec], &setup(true)).unwrap_err().to_string();
    assert_eq!(refusal(spec("pcap=a")), "stream stream0: the capture has no packets");
    let mut one = spec("pcap=a");
    let mut recording = Recording::default();
    recording.push(5, &[0; 60]).unwrap();
    one.playback.as_mut().unwrap().recording = Arc::new(recording);
    assert!(refusal(one).contains("all packets of the capture have the same time: give a rate"));
}

#[test]
fn streams_of_every_schedule_come_in_order() {
    let texts = [
        "rate=10kpps arrivals=poisson",
        "rate=10kpps",
        "rate=10kpps on=1ms off=1ms",
        "rate=10kpps start=100ms",
        "rate=20kpps arrivals=poisson on=3ms off=2us start=1.5ms burst=3",
    ];
    let mut streams = streams(&texts, false);
    let sent = take(&mut streams, 20_000);
    assert!(sent.windows(2).all(|pair| pair[0].due <= pair[1].due));
    assert!((0..5).all(|stream| streams.written(stream) > 1000));
}

#[test]
fn stamps_of_every_share_have_their_own_lanes() {
    let specs = [spec("rate=1kpps"), spec("rate=2kpps")];
    let (key, mut next) = (StampKey::new(SEED), [0_u32; 6]);
    for part in shares(3, None) {
        let mut streams = Streams::new(&specs, &StreamSetup { part, ..setup(true) }).unwrap();
        for sent in take(&mut streams, 30) {
            let stamp = Stamp::read(sent.bytes[42..58].try_into().unwrap(), key).unwrap();
            assert_eq!(usize::from(stamp.lane) / 2, usize::from(part.share));
            assert_eq!(stamp.index, next[usize::from(stamp.lane)]);
            next[usize::from(stamp.lane)] += 1;
        }
    }
    assert_eq!(next, [10, 20, 10, 20, 10, 20]);
    let part = Part { share: 65_534, shares: 65_535, ..Part::default() };
    let error = Streams::new(&specs, &StreamSetup { part, ..setup(true) }).unwrap_err();
    assert!(error.to_string().contains("more than 65,535 streams"), "{error}");
}

/// Makes any stream of the keys for number, rate and size of packets.
fn any_amount() -> impl Strategy<Value = String> {
    let fields = prop_oneof![
        Just(""),
        Just("sport=1-3 src=198.18.0.1-198.18.0.5 dport=53,80,443"),
        Just("dst=random:198.19.0.0/16 ttl=1-7 sport=9,5-6"),
        Just("proto=tcp seq=0-4294967295 window=2-9+3"),
    ];
    let size = prop_oneof![Just("64"), Just("64-70"), Just("imix")];
    let rate = prop_oneof![Just("10kpps"), Just("25kpps"), Just("10Mbps")];
    let side = prop_oneof![Just("a"), Just("b")];
    let flows = prop_oneof![Just(String::new()), (1..40_u8).prop_map(|it| format!("flows={it}"))];
    (fields, size, (rate, side), flows, 1..200_u64, 1..6_u64).prop_map(
        |(fields, size, (rate, side), flows, count, burst)| {
            let amount = format!("count={count} burst={burst} rate={rate} side={side}");
            format!("{fields} size={size} {amount} {flows}")
        },
    )
}

/// Makes any stream of the keys that change headers.
pub(crate) fn any_stream() -> impl Strategy<Value = String> {
    let addresses = prop_oneof![
        Just("src=198.18.0.0/24 dst=random:198.19.0.0/16"),
        Just("src=10.255.255.250-10.255.255.255"),
        Just("src=2001:2::fff0-2001:2::1:3 dst=2001:2:0:8000::/80"),
        Just("dst=2001:db8:1::1,2001:db8:2::ffff:ffff:ffff:ffff"),
    ];
    let transport = prop_oneof![
        Just("proto=udp sport=random:1024-65535"),
        Just("proto=tcp flags=SA sport=1-60000+7 dport=80,443 seq=random:0-4294967295 ack=0,9"),
        Just("proto=tcp window=random:0-65535"),
        Just("proto=icmp"),
    ];
    let tags = prop_oneof![Just(""), Just("vlan=1-4094"), Just("vlan=7 outer_vlan=random:0-4095")];
    let rest = prop_oneof![
        Just(""),
        Just("ttl=1-255 tos=0,184"),
        Just(
            "src_mac=02:00:00:00:00:01-02:00:00:01:00:00+255 \
             dst_mac=random:02:00:00:00:00:00-02:ff:ff:ff:ff:ff"
        ),
    ];
    let size = prop_oneof![
        Just("110".to_owned()),
        (110..9217_u16).prop_map(|size| format!("110,{size},{size}"))
    ];
    (addresses, transport, tags, rest, size)
        .prop_map(|(a, b, c, d, size)| format!("{a} {b} {c} {d} size={size}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_frame_is_right(text in any_stream(), is_stamped: bool) {
        let mut streams = streams(&[&text], is_stamped);
        for sent in take(&mut streams, 300) {
            let seen = see(&sent.bytes);
            prop_assert!(seen.is_some(), "{}", text);
        }
    }

    #[test]
    fn all_shares_send_what_one_sender_does(
        texts in prop::collection::vec(any_amount(), 1..4),
        n in 1..9_u16,
    ) {
        let frames = |parts: &[Part]| {
            let mut frames: Vec<_> =
                all(&texts, parts).into_iter().map(|(stream, _, it)| (stream, it)).collect();
            frames.sort_unstable();
            frames
        };
        let whole = frames(&shares(1, None));
        prop_assert_eq!(&whole, &frames(&shares(n, None)));
        let of_sides = [Side::A, Side::B].map(|side| shares(n, Some(side)));
        prop_assert_eq!(&whole, &frames(&of_sides.concat()));
    }

    /// Inverts one bit of the IP packet.
    #[test]
    fn a_damaged_packet_is_found(text in any_stream(), bit: prop::sample::Index) {
        let verifier = Verifier::new(SEED, StampKey::new(SEED));
        for sent in take(&mut streams(&[&text], true), 20) {
            let mut bytes = sent.bytes;
            let good = verifier.examine(&bytes);
            prop_assert!(matches!(good, Finding::Good(stamp) if stamp.sent_ns == sent.due + 7));
            let header = 14 + 4 * see(&bytes).unwrap().vlans;
            let bit = bit.index(8 * (bytes.len() - header));
            bytes[header + bit / 8] ^= 0x80 >> (bit % 8);
            // No checksum covers traffic class, flow label and hop limit of IPv6.
            let is_free = bytes[header] >> 4 == 6 && bit < 64;
            // A checksum of 0 means that there is none.
            let has_no_sum = bytes[header + 9] == 17 && bytes[header + 26..header + 28] == [0; 2];
            let is_good = matches!(verifier.examine(&bytes), Finding::Good(_));
            prop_assert!(!is_good || is_free || has_no_sum, "{}: bit {}", text, bit);
        }
    }

    #[test]
    fn arbitrary_values_are_read_or_refused(key in 0..KEYS.len(), value in "[ -~]{0,30}") {
        let key = KEYS[key].to_owned();
        if let Ok(spec) = StreamSpec::from_pairs(0, [(key, value)]) {
            if let Ok(mut streams) = Streams::new(&[spec], &setup(false)) {
                take(&mut streams, 3);
            }
        }
    }
}
