// SPDX-License-Identifier: BSD-3-Clause
//! Captures of everything the parser knows, and of everything that can be wrong with a packet.

use std::ops::Range;
use traffic::{MAX_FRAME, PcapWriter, Profile, Workload};
use wire::{FrameBuilder, proto, tcp};

const ETHERNET: u32 = 1;
const START_NS: u64 = 1_700_000_000_000_000_000;

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const A6: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1];
const B6: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2];

/// What a capture holds of a packet, and its length on the wire.
type Captured = (Vec<u8>, usize);

/// Captures by name.
pub(crate) fn captures() -> Vec<(&'static str, Vec<u8>)> {
    let ethernet = |frames: Vec<FrameBuilder>| pcap(ETHERNET, frames.iter().map(whole));
    // Cut at some bytes, tshark shows less of these than millrace sees: captures of their own.
    let all_samples = [samples(), vec![sctp(), icmp(), echo()]].concat();
    vec![
        ("workload", workload()),
        ("ordinary", ethernet(ordinary())),
        ("extensions", ethernet(extensions())),
        ("jumbograms", ethernet(jumbograms())),
        ("fragments", ethernet(fragments())),
        ("odd-fragments", ethernet(odd_fragments())),
        ("datagrams", ethernet(datagrams())),
        ("inside", ethernet(inside())),
        ("not-ip", ethernet(not_ip())),
        ("malformed", ethernet(malformed())),
        ("truncated", pcap(ETHERNET, all_samples.iter().flat_map(truncated))),
        ("short-packets", ethernet(short_packets())),
        ("cut", pcap(ETHERNET, samples().iter().flat_map(|frame| cut(frame, 0..usize::MAX)))),
        ("cut-sctp", pcap(ETHERNET, [cut(&sctp(), 0..46), cut(&sctp(), 54..70)].concat())),
        ("sctp-cut-behind-ports", pcap(ETHERNET, cut(&sctp(), 46..54))),
        ("cut-icmp", pcap(ETHERNET, [cut(&icmp(), 0..36), cut(&icmp(), 40..70)].concat())),
        ("icmp-error-cut", pcap(ETHERNET, cut(&icmp(), 36..40))),
        ("icmp-error-short", ethernet(short_icmp(&[3, 3, 0, 0, 0]))),
        ("cut-echo", pcap(ETHERNET, [cut(&echo(), 0..36), cut(&echo(), 40..70)].concat())),
        ("echo-cut", pcap(ETHERNET, cut(&echo(), 36..40))),
        ("echo-short", ethernet(short_icmp(&[8, 0, 0, 0, 0]))),
        ("claims", pcap(ETHERNET, claims())),
        ("mutated", pcap(ETHERNET, mutated())),
        ("null", link_type(0, &[2, 0, 0, 0], &[30, 0, 0, 0])),
        ("loop", link_type(108, &[0, 0, 0, 2], &[0, 0, 0, 24])),
        ("ppp", link_type(9, &[0xff, 3, 0, 0x21], &[0xff, 3, 0, 0x57])),
        ("ppp-without-address", link_type(9, &[0, 0x21], &[0, 0x57])),
        // tshark does not look for IPv6 there.
        ("chdlc", link_type(104, &[0x0f, 0, 8, 0], &[0x0f, 0, 8, 6])),
        ("raw", link_type(101, &[], &[])),
        ("cooked", link_type(113, &cooked(0x0800), &cooked(0x86dd))),
        ("cooked-v2", link_type(276, &cooked_v2(0x0800), &cooked_v2(0x86dd))),
        ("radiotap", link_type(127, &[0; 8], &[0; 8])),
    ]
}

/// Thousands of flows as they are on a real link.
fn workload() -> Vec<u8> {
    let mut workload = Workload::new(7, Profile { concurrent: 500, ..Profile::default() });
    let mut writer = PcapWriter::new(Vec::new()).unwrap();
    let mut frame = Vec::with_capacity(MAX_FRAME);
    for i in 0..20_000 {
        workload.next(&mut frame);
        writer.write(START_NS + i * 1_000_000, &frame).unwrap();
    }
    writer.finish().unwrap()
}

fn v4() -> FrameBuilder {
    FrameBuilder::ipv4(A, B)
}

fn v6() -> FrameBuilder {
    FrameBuilder::ipv6(A6, B6)
}

/// Every transport protocol over one IP header.
fn transports(ip: &FrameBuilder) -> Vec<FrameBuilder> {
    let ip = || ip.clone();
    vec![
        ip().tcp(1000, 80).flags(tcp::SYN).tcp_options(&[2, 4, 5, 0xb4, 1, 3, 3, 7]),
        ip().tcp(1000, 80).payload(b"request"),
        ip().tcp(1000, 80).flags(tcp::FIN | tcp::ACK),
        ip().udp(1000, 53).payload(b"question"),
        ip().udp(7, 7),
        // A data chunk.
        ip().sctp(2905, 2905)
            .payload([0, 3, 0, 20, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 1, 2, 3, 4]),
        ip().icmp_echo(77, 1).payload(b"ping"),
        ip().icmp_echo(78, 1),
        ip().icmp(3, 1, [0; 4]).payload([0; 28]),
        ip().icmp(13, 0, [0, 9, 0, 1]).payload([0; 12]),
        ip().protocol(proto::EXPERIMENT).payload(b"whatever"),
        ip().protocol(proto::ESP).payload([7; 40]),
        ip().protocol(89).payload([2, 1, 0, 44]),
    ]
}

fn both_ways(frames: Vec<FrameBuilder>) -> Vec<FrameBuilder> {
    frames.into_iter().flat_map(|frame| [frame.clone(), frame.reversed()]).collect()
}

fn ordinary() -> Vec<FrameBuilder> {
    let mut frames = Vec::new();
    for ip in [v4(), v6()] {
        frames.extend(transports(&ip));
        frames.extend(transports(&ip.clone().pad()));
        frames.extend(transports(&ip.clone().pad_to(200)));
        frames.extend(transports(&ip.clone().vlan(5)));
        frames.extend(transports(&ip.clone().vlan(0)));
        frames.extend(transports(&ip.clone().tag(0x8100, 0xf006)));
        frames.extend(transports(&ip.clone().qinq(100).vlan(5).pad()));
        frames.extend(transports(&ip.clone().vlan(100).vlan(5)));
        frames.extend(transports(&ip.clone().tag(0x9100, 9).vlan(5)));
        frames.extend(transports(&ip.tos(0xb8).ttl(1)));
    }
    frames.extend(transports(&v4().ip_options(&[7, 7, 4, 0, 0, 0, 0])));
    frames.extend(transports(&v4().ip_options(&[1; 40])));
    frames.extend(transports(&v4().ip_checksum(0xdead).dont_fragment()));
    frames.extend(transports(&FrameBuilder::ipv4(A, A)));
    frames.extend(transports(&FrameBuilder::ipv6(A6, A6)));
    frames.push(FrameBuilder::ipv4(A, A).udp(1, 2));
    frames.push(v4().udp(1, 2).checksum(1));
    frames.push(v4().tcp(0, 0).flags(0));
    both_ways(frames)
}

fn extensions() -> Vec<FrameBuilder> {
    let many = |count: usize, options: &[u8]| {
        (0..count).fold(v6(), |frame, _| frame.dest_options(options))
    };
    let pad = [1, 4, 0, 0, 0, 0];
    let last = v6().dest_options(&pad).routing(&[253, 0]).hop_by_hop(&pad);
    let mut frames = Vec::new();
    for ip in [
        v6().hop_by_hop(&pad),
        v6().dest_options(&[1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        v6().routing(&[253, 0, 0, 0, 0, 0]),
        v6().auth(1, 2, &[3; 12]),
        v6().hop_by_hop(&pad).dest_options(&pad).routing(&[253, 0]).auth(1, 2, &[3; 12]),
        v6().vlan(7).hop_by_hop(&pad).fragment(0, false).dest_options(&pad),
        last,
        many(8, &pad),
        many(9, &pad),
        many(3, &[&[1, 78][..], &[0; 78]].concat()),
        many(4, &[&[1, 78][..], &[0; 78]].concat()),
    ] {
        frames.extend(transports(&ip));
    }
    // Beyond the end of the packet, and with nothing behind it.
    frames.push(v6().dest_options(&pad).udp(1, 2).ip_len(4));
    frames.push(v6().extension(60, &[]).protocol(60).payload([17, 200, 1, 4, 0, 0, 0, 0]));
    frames.push(v6().protocol(44).payload([17, 0, 0]));
    frames.push(v6().hop_by_hop(&pad).protocol(proto::NO_NEXT));
    frames.push(v6().protocol(135).payload([59, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    // A routing header that is not used up: the next address is the destination.
    let next: Vec<u8> = [0, 1, 0, 0, 0, 0].into_iter().chain([0x20; 16]).collect();
    frames.push(v6().routing(&next).udp(1, 2));
    both_ways(frames)
}

/// IPv6 packets of more than 65,535 bytes (RFC 2675).
fn jumbograms() -> Vec<FrameBuilder> {
    let jumbo = |frame: FrameBuilder, header_len: u32| {
        let payload = vec![0; 66_000];
        let hop_by_hop_len = 8;
        let len = hop_by_hop_len + header_len + payload.len() as u32;
        let option = [&[0xc2, 4][..], &len.to_be_bytes()].concat();
        frame.hop_by_hop(&option).ip_len(0).payload(payload)
    };
    both_ways(vec![
        jumbo(v6().tcp(1, 2), 20),
        jumbo(v6().vlan(3).udp(1, 2).udp_len(0), 8),
        jumbo(v6().udp(1, 2).udp_len(4), 8),
        jumbo(v6().udp(1, 2).udp_len(5000), 8),
    ])
}

fn fragments() -> Vec<FrameBuilder> {
    let long = [5; 64];
    both_ways(vec![
        v4().udp(1, 2).payload(long).fragment(0, true),
        v4().udp(1, 2).payload(long).udp_len(1400).fragment(0, true),
        v4().tcp(1, 2).payload(long).fragment(0, true),
        v4().tcp(1, 2).data_offset(15).fragment(0, true),
        v4().icmp_echo(5, 1).payload(long).fragment(0, true),
        v4().protocol(17).payload([0; 4]).fragment(0, true),
        v4().protocol(17).payload(long).fragment(8, true),
        v4().protocol(17).payload(long).fragment(1480, false),
        v4().protocol(6).payload(long).fragment(1480, false),
        v4().protocol(253).payload(long).fragment(0, true),
        v4().vlan(3).protocol(6).payload(long).fragment(1480, true),
        v6().fragment(0, false).udp(1, 2).payload(long),
        v6().fragment(0, true).udp(1, 2).payload(long),
        v6().fragment(0, true).udp(1, 2).payload(long).udp_len(1400),
        v6().fragment(0, true).tcp(1, 2).payload(long),
        v6().fragment(0, true).protocol(6).payload([0; 16]),
        v6().fragment(1448, true).protocol(17).payload(long),
        v6().fragment(1448, false).protocol(6).payload(long),
        v6().hop_by_hop(&[1, 4]).fragment(1448, false).protocol(60).payload(long),
    ])
}

/// Fragments that no correct sender makes.
fn odd_fragments() -> Vec<FrameBuilder> {
    let (long, odd) = ([5; 64], [5; 61]);
    both_ways(vec![
        v4().protocol(6).payload(long).fragment(8, false),
        v4().tcp(1, 2).payload(odd).fragment(0, true),
        v4().tcp(1, 2).data_offset(15).payload([5; 12]).fragment(0, true),
        v6().tcp(1, 2).data_offset(15).payload([5; 4]).fragment(0, true),
        v4().protocol(17).payload([0; 0]).fragment(1480, false),
        v4().protocol(17).payload(long).fragment(65_480, false),
        v6().fragment(48, true).protocol(17).payload(odd),
        v6().fragment(65_480, false).protocol(17).payload(long),
        v6().fragment(0, true).protocol(60).payload([17, 9, 0, 0, 0, 0, 0, 0]),
    ])
}

/// Datagrams in parts: in order, reversed, mixed, twice, without the first, with gaps, with parts
/// that overlap, and with tags.
fn datagrams() -> Vec<FrameBuilder> {
    let mut frames = vec![];
    let mut id = 0;
    for ip in [v4(), v6(), v4().vlan(7), v6().hop_by_hop(&[1, 4])] {
        let whole = [
            ip.clone().udp(1, 2).payload([5; 301]),
            ip.clone().tcp(1, 2).payload([5; 400]),
            ip.clone().icmp_echo(5, 1).payload([5; 256]),
            ip.clone().protocol(253).payload([5; 144]),
        ];
        for order in [&[0, 1, 2, 3][..], &[3, 2, 1, 0], &[2, 0, 2, 1, 0, 3], &[1, 3, 2], &[0, 3]] {
            for datagram in &whole {
                id += 1;
                let parts = datagram.clone().ip_id(id).fragments(48);
                let parts = order.iter().filter_map(|which| parts.get(*which).cloned());
                frames.extend(parts);
            }
        }
        // Of parts of another length: some lie across others.
        for datagram in &whole {
            id += 1;
            let [some, others] = [48, 32].map(|len| datagram.clone().ip_id(id).fragments(len));
            frames.extend([&some[1], &others[2], &some[0], &some[2], &others[0]].map(Clone::clone));
            id += 1;
            let [some, others] = [48, 32].map(|len| datagram.clone().ip_id(id).fragments(len));
            let last = &some[some.len() - 1];
            frames.extend([&some[0], last, &others[3], &some[1], last].map(Clone::clone));
        }
        // The same number, and other ports.
        id += 1;
        let parts = |ports: u16| ip.clone().udp(ports, 2).payload([5; 99]).ip_id(id).fragments(48);
        frames.extend([&parts(1)[0], &parts(3)[0], &parts(1)[1]].map(Clone::clone));
    }
    both_ways(frames)
}

/// Packets in packets, of which only the outer one counts.
fn inside() -> Vec<FrameBuilder> {
    let mut frames = Vec::new();
    for (outer, icmp_error) in [(v4(), (3, 3)), (v6(), (1, 4))] {
        let outer = || outer.clone();
        for inner in transports(&v4()).iter().chain(&transports(&v6())) {
            let (packet, frame) = (inner.build_packet(), inner.build());
            let version = if packet[0] >> 4 == 4 { 4 } else { 41 };
            frames.push(outer().protocol(version).payload(&packet));
            let gre = [&[0, 0][..], &frame[12..14], &packet].concat();
            frames.push(outer().protocol(proto::GRE).payload(gre));
            frames.push(outer().protocol(143).payload(&frame));
            let vxlan = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &frame].concat();
            frames.push(outer().udp(50_000, 4789).payload(vxlan));
            frames.push(outer().icmp_error(icmp_error.0, icmp_error.1, &packet));
        }
    }
    // Over IPv4 the authentication header is a protocol of its own.
    let auth = [&[6, 4][..], &[0; 22], &v4().tcp(1, 2).build_packet()[20..]].concat();
    frames.push(v4().protocol(proto::AUTH).payload(auth));
    both_ways(frames)
}

fn not_ip() -> Vec<FrameBuilder> {
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &v4().udp(1, 2).build_packet()].concat();
    vec![
        FrameBuilder::ethernet(0x0806).payload([1; 28]).pad(),
        FrameBuilder::ethernet(0x88cc).payload([2; 40]),
        FrameBuilder::ethernet(0x8847).payload(v4().udp(1, 2).build_packet()),
        FrameBuilder::ethernet(0x8864).payload([0x11; 60]),
        FrameBuilder::ethernet(0x0806).vlan(4).payload([1; 28]),
        FrameBuilder::ethernet(0x0600).payload([1; 50]),
        FrameBuilder::ieee_802_3().payload([&[0x42, 0x42, 3][..], &[0; 35]].concat()).pad(),
        FrameBuilder::ieee_802_3().payload(&snap),
        FrameBuilder::ieee_802_3().vlan(9).payload(&snap),
        FrameBuilder::ethernet(0x05ff).payload([3; 60]),
        v4().vlan(1).vlan(2).vlan(3).udp(1, 2),
        v6().qinq(1).vlan(2).vlan(3).tcp(1, 2),
        v4().vlan(1).vlan(2).vlan(3).vlan(4).udp(1, 2).ip_len(9),
        FrameBuilder::ethernet(0x0806).vlan(1).vlan(2).vlan(3).payload([1; 28]),
    ]
}

fn malformed() -> Vec<FrameBuilder> {
    let mut frames = Vec::new();
    for ip in [v4(), v4().vlan(8).pad(), v6(), v6().qinq(8).vlan(9)] {
        let ip = || ip.clone();
        frames.extend([0, 1, 5, 7, 15].map(|version| ip().udp(1, 2).ip_version(version)));
        frames.extend([5, 7, 9, 100, 0xffff].map(|len| ip().udp(1, 2).udp_len(len)));
        frames.push(ip().udp(1, 2).udp_len(0));
        frames.extend([0, 4, 6, 15].map(|words| ip().tcp(1, 2).data_offset(words)));
        frames
            .extend([4, 6, 8, 15].map(|words| ip().tcp(1, 2).data_offset(words).payload([0; 12])));
        frames.extend([5, 19, 29, 4000, 0xffff].map(|len| ip().tcp(1, 2).ip_len(len)));
        frames.push(ip().tcp(1, 2).ip_len(0));
        // The right version, but not of this EtherType.
        frames.push(ip().udp(1, 2).payload([0; 40]).ip_version(4));
        frames.push(ip().udp(1, 2).payload([0; 40]).ip_version(6));
    }
    frames.extend([0, 1, 4].map(|words| v4().tcp(1, 2).header_words(words)));
    frames.extend([6, 11, 15].map(|words| v4().udp(1, 2).payload([9]).header_words(words)));
    frames.push(v4().udp(1, 2).ip_len(20));
    frames.push(v4().ip_options(&[1; 12]).udp(1, 2).ip_len(24));
    both_ways(frames)
}

/// Packets that end, as IP says, inside or right behind the transport header.
fn short_packets() -> Vec<FrameBuilder> {
    let mut frames = Vec::new();
    for ip in [v4(), v6()] {
        for whole in transports(&ip) {
            let packet = whole.build_packet();
            let (number, start) =
                if packet[0] >> 4 == 4 { (packet[9], 20) } else { (packet[6], 40) };
            let ends = start..packet.len().min(start + 24);
            // ICMP messages of 4 and 5 bytes have captures of their own.
            for end in ends.filter(|end| number != proto::ICMP || ![24, 25].contains(end)) {
                let short = ip.clone().protocol(number).payload(&packet[start..end]);
                frames.push(short.clone());
                frames.push(short.pad());
            }
        }
    }
    frames
}

/// Frames with one header of every kind.
fn samples() -> Vec<FrameBuilder> {
    let v6_with_all =
        v6().qinq(5).vlan(6).hop_by_hop(&[1, 4]).routing(&[253, 0]).dest_options(&[1, 4]);
    vec![
        v4().tcp(1000, 80).tcp_options(&[1; 12]).payload(b"data"),
        v4().vlan(5).ip_options(&[1; 8]).udp(1000, 53).payload(b"data"),
        v4().protocol(proto::EXPERIMENT).payload(b"data"),
        v6().tcp(1000, 80).payload(b"data"),
        v6_with_all.clone().udp(1000, 53).payload(b"data"),
        v6_with_all.auth(1, 2, &[0; 12]).tcp(1000, 80),
        v6().fragment(0, false).icmp_echo(5, 6).payload(b"data"),
        v6().fragment(1448, true).protocol(6).payload([0; 32]),
        v6().dest_options(&[&[1, 12][..], &[0; 12]].concat())
            .protocol(proto::EXPERIMENT)
            .payload(b"data"),
        FrameBuilder::ethernet(0x0806).vlan(5).payload([1; 28]),
    ]
}

fn sctp() -> FrameBuilder {
    let data = [0, 3, 0, 16, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0];
    v4().qinq(5).vlan(6).sctp(1, 2).payload(data)
}

fn icmp() -> FrameBuilder {
    v4().icmp_error(3, 3, &v4().udp(3, 4).build_packet())
}

fn echo() -> FrameBuilder {
    v4().icmp_echo(5, 6).payload(b"data")
}

/// The start of an ICMP message as a packet of its own, of 4 and of 5 bytes.
fn short_icmp(message: &[u8; 5]) -> Vec<FrameBuilder> {
    vec![v4().protocol(1).payload(&message[..4]), v4().protocol(1).payload(message)]
}

fn whole(frame: &FrameBuilder) -> Captured {
    let frame = frame.build();
    let len = frame.len();
    (frame, len)
}

/// The frame ending at every byte.
fn truncated(frame: &FrameBuilder) -> Vec<Captured> {
    let frame = frame.build();
    (0..frame.len()).map(|end| (frame[..end].to_vec(), end)).collect()
}

/// The frame captured up to each of these bytes.
fn cut(frame: &FrameBuilder, ends: Range<usize>) -> Vec<Captured> {
    let frame = frame.build();
    let len = frame.len();
    (ends.start..ends.end.min(len)).map(|end| (frame[..end].to_vec(), len)).collect()
}

/// Captures that claim many more bytes than an IP packet has, or fewer than they hold.
fn claims() -> Vec<Captured> {
    let arp = FrameBuilder::ethernet(0x0806).payload([1; 28]).pad().build();
    vec![(v4().udp(1, 2).build(), 100_000), (v6().tcp(1, 2).build(), 70_000), (arp, 40)]
}

/// Frames with one or two bytes changed at random, always the same ones. Few have IPv6 options:
/// tshark gives up over a wrong one, and millrace does not look at them.
fn mutated() -> Vec<Captured> {
    let frames = [ordinary(), fragments()].concat();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        // The constants of Knuth's MMIX.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut mutated = Vec::new();
    for _ in 0..4 {
        for frame in &frames {
            let (mut bytes, len) = whole(frame);
            for _ in 0..=random(2) {
                bytes[12 + random(len.min(100) - 12)] = random(256) as u8;
            }
            mutated.push((bytes, len));
        }
    }
    mutated
}

/// IPv4 and IPv6 packets behind the headers of another link type, whole, truncated and cut.
fn link_type(number: u32, v4_header: &[u8], v6_header: &[u8]) -> Vec<u8> {
    let behind = |header: &[u8], ip: FrameBuilder| {
        let packets = transports(&ip).into_iter().chain(transports(&ip.clone().vlan(5)));
        packets.map(|frame| [header, &frame.build_packet()].concat()).collect::<Vec<_>>()
    };
    let packets = [behind(v4_header, v4()), behind(v6_header, v6())].concat();
    let least = v4_header.len().max(v6_header.len());
    let captured = packets.iter().flat_map(|packet| {
        let len = packet.len();
        let ends = [len, least + 34, least + 10, least + 1, 0].map(|end| end.min(len));
        ends.into_iter()
            .flat_map(move |end| [(packet[..end].to_vec(), end), (packet[..end].to_vec(), len)])
    });
    pcap(number, captured)
}

/// A Linux cooked header with this EtherType.
fn cooked(ether_type: u16) -> [u8; 16] {
    let mut header = [0; 16];
    header[3] = 1;
    header[14..].copy_from_slice(&ether_type.to_be_bytes());
    header
}

/// The header of its second version.
fn cooked_v2(ether_type: u16) -> [u8; 20] {
    let mut header = [0; 20];
    header[..2].copy_from_slice(&ether_type.to_be_bytes());
    header[9] = 1;
    header
}

/// A pcap file, one packet in a millisecond.
fn pcap(link_type: u32, packets: impl IntoIterator<Item = Captured>) -> Vec<u8> {
    let mut file = Vec::new();
    let words = |file: &mut Vec<u8>, words: &[u32]| {
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    };
    words(&mut file, &[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 0xffff, link_type]);
    for (i, (bytes, len)) in packets.into_iter().enumerate() {
        let (second, millisecond) = (i as u32 / 1000, i as u32 % 1000);
        let start = (START_NS / 1_000_000_000) as u32;
        words(&mut file, &[start + second, millisecond * 1000, bytes.len() as u32, len as u32]);
        file.extend(bytes);
    }
    file
}
