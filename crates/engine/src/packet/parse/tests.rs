// SPDX-License-Identifier: BSD-3-Clause
//! Tests the parsers: the fast one against the general one, and both against etherparse, over
//! frames with flipped, set, cut and added bytes.

mod counted;

use super::fast;
use super::lengths::Lengths;
use super::sub_burst::{SubBurst, below};
use crate::api::{
    ChecksumCheck, Config, FlowRecord, FragmentLimits, MalformedPackets, NeighbourDiscovery, Stats,
    UntrackedReason, Verdict, ZoneSource,
};
use crate::base::{BURST_MAX, SimdLevel};
use crate::engine::Engine;
use crate::packet::{Batch, Batches};
use etherparse::err::packet::SliceError;
use etherparse::err::{Layer, LenError};
use etherparse::{IpPayloadSlice, LenSource, LinkExtSlice, NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::LazyLock;
use wire::{FrameBuilder, Packet, proto};

/// A packet whose first segment ends anywhere, and of which a capture may have only a part.
#[derive(Clone, Copy)]
struct Segments<'a> {
    head: &'a [u8],
    rest: &'a [u8],
    frame_len: usize,
}

impl<'a> Segments<'a> {
    fn cut(frame: &'a [u8], at: usize, frame_len: usize) -> Self {
        let (head, rest) = frame.split_at(at.min(frame.len()));
        Segments { head, rest, frame_len }
    }
}

impl Packet for Segments<'_> {
    fn head(&self) -> &[u8] {
        self.head
    }

    fn frame_len(&self) -> usize {
        self.frame_len
    }

    fn copy_to(&self, buf: &mut [u8]) -> usize {
        let all = self.head.iter().chain(self.rest);
        buf.iter_mut().zip(all).map(|(to, from)| *to = *from).count()
    }

    fn segments(&self, see: &mut dyn FnMut(&[u8])) {
        [self.head, self.rest].into_iter().for_each(see);
    }
}

/// Returns the engine's result for a single packet.
struct SingleParser(Engine);

impl SingleParser {
    fn new() -> Self {
        let malformed = MalformedPackets::Pass;
        // Each packet must get its own verdict.
        let fragments = FragmentLimits { datagrams: 0, ..FragmentLimits::default() };
        SingleParser(Engine::new(&Config {
            capacity_ipv4: 1,
            capacity_ipv6: 1,
            malformed,
            checksums: ChecksumCheck::Trusted,
            neighbour_discovery: NeighbourDiscovery::Tracked,
            fragments,
            ..Config::default()
        }))
    }

    fn parse(&mut self, packet: Segments) -> Result<FlowRecord, UntrackedReason> {
        let before = self.0.stats().passed;
        self.0.process(1, &[packet], &mut [Verdict::Drop]);
        while self.0.flush(BURST_MAX) {}
        let after = self.0.stats().passed;
        match self.0.next_record() {
            Some(flow) => Ok(flow),
            None => Err(UntrackedReason::ALL
                .into_iter()
                .find(|&reason| after[reason as usize] > before[reason as usize])
                .expect("a packet is tracked or passed")),
        }
    }
}

/// A frame that prints as one line.
#[derive(Clone)]
struct Frame(Vec<u8>);

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Number of frames for the fast parser, and as many for the general one.
const SHORT: usize = 30;

/// Valid frames of every kind, and some malformed ones.
static FRAMES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let v4 = || FrameBuilder::ipv4([10, 0, 0, 200], [192, 168, 0, 1]).payload([0x45; 30]);
    let v6 = || FrameBuilder::ipv6([0x20; 16], [0x2a; 16]).payload([0x60; 30]);
    let ah = || v6().auth(1, 2, &[3; 12]);
    let plain = [
        v4().tcp(1, 2),
        v4().udp(1, 2),
        v4().tcp(80, 80).pad(),
        v4().udp(9, 9).pad(),
        v4().tcp(1, 2).tcp_options(&[1; 12]).vlan(5),
        v4().udp(1, 2).vlan(4095),
        v6().tcp(1, 2),
        v6().udp(1, 2),
        v6().tcp(1, 2).vlan(0),
        v6().udp(1, 2).vlan(5),
    ];
    let long = [
        v4().udp(1, 2).qinq(7).vlan(5),
        v4().udp(1, 2).qinq(7).vlan(5).vlan(1),
        v4().tcp(1, 2).ip_options(&[1; 12]),
        v4().tcp(1, 2).fragment(0, true).payload([0x45; 28]),
        v4().udp(1, 2).fragment(64, false),
        v4().sctp(1, 2),
        v4().icmp_echo(1, 2),
        v4().icmp(13, 0, [0; 4]).payload([0; 12]),
        v4().icmp(3, 1, [0; 4]),
        v4().gre(0x0800, None),
        v4().gre(0x6558, Some(7)),
        v4().esp(0x0102_0304, 1),
        v4().protocol(proto::AUTH).payload([6, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4]),
        v6().icmp_echo(1, 2),
        v6().icmp(135, 0, [0; 4]),
        v6().hop_by_hop(&[1; 6]).udp(1, 2),
        v6().hop_by_hop(&[0xc2, 4, 0, 0, 0, 46]).ip_len(0).udp(1, 2),
        v6().dest_options(&[1; 14]).routing(&[0; 6]).tcp(1, 2),
        v6().fragment(0, true).udp(1, 2).payload([0x60; 32]),
        v6().fragment(0, false).udp(1, 2),
        ah().tcp(1, 2),
        (0..8).fold(v6(), |frame, _| frame.dest_options(&[])).udp(1, 2),
        v6().dest_options(&[0; 254]).tcp(1, 2),
        FrameBuilder::ethernet(0x0806).payload([1; 28]),
        FrameBuilder::ieee_802_3().payload([1; 40]),
    ];
    // Both parsers get equally many frames.
    plain.iter().cycle().take(SHORT).chain(&long).map(FrameBuilder::build).collect()
});

/// A frame with up to a handful of changes, most of them where headers are.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let change = (0..8_u8, any::<u16>(), any::<u8>());
    (0..FRAMES.len(), prop::collection::vec(change, 0..5)).prop_map(|(which, changes)| {
        let mut frame = FRAMES[which].clone();
        for (what, place, value) in changes {
            let at = usize::from(place) % frame.len().max(1);
            let near = usize::from(place) % frame.len().clamp(1, 64);
            match what {
                0 if at < frame.len() => frame[at] ^= 1 << (value % 8),
                1..=3 if near < frame.len() => frame[near] ^= 1 << (value % 8),
                4 | 5 if near < frame.len() => frame[near] = value,
                6 => frame.truncate(at),
                7 => frame.extend(vec![value; at % 80]),
                _ => {}
            }
        }
        frame
    })
}

/// Random bytes behind a valid EtherType.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let types = prop::sample::select(vec![0x0800_u16, 0x86dd, 0x8100, 0x88a8, 0x9100, 5]);
    let first = prop::sample::select(vec![0x45_u8, 0x46, 0x60, 0x81, 0]);
    (types, first, prop::collection::vec(any::<u8>(), 0..400)).prop_map(|(kind, first, rest)| {
        [&[0; 12][..], &kind.to_be_bytes(), &[first], &rest].concat()
    })
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let frame = prop_oneof![9 => any_frame(), 1 => any_bytes()];
    prop::collection::vec(frame.prop_map(Frame), 40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    /// An empty first segment leads to the general parser.
    #[test]
    fn both_ways_agree(frames in frames(), captured in any::<u16>(), more in 0..2000_usize) {
        let mut parser = SingleParser::new();
        for Frame(frame) in frames {
            let whole = parser.parse(Segments::cut(&frame, frame.len(), frame.len()));
            prop_assert_eq!(&parser.parse(Segments::cut(&frame, 0, frame.len())), &whole);

            // Also for a cut capture, and a frame that claims to be longer.
            let (at, len) = (usize::from(captured) % (frame.len() + 1), frame.len() + more);
            let short = parser.parse(Segments::cut(&frame[..at], at, len));
            prop_assert_eq!(parser.parse(Segments::cut(&frame[..at], 0, len)), short);
        }
    }

    #[test]
    fn etherparse_agrees(frames in frames()) {
        let mut parser = SingleParser::new();
        for Frame(frame) in frames {
            let ours = parser.parse(Segments::cut(&frame, frame.len(), frame.len()));
            // Quotes of ICMP errors have tests of their own.
            if ours == Err(UntrackedReason::Unrelated) {
                continue;
            }
            match SlicedPacket::from_ethernet(&frame) {
                Ok(theirs) => compare(&frame, &theirs, ours),
                Err(error) => if let Ok(flow) = ours {
                    prop_assert!(only_they_refuse(&error, &flow), "{error:?}, but {flow:?}");
                },
            }
        }
    }
}

#[test]
fn plain_packets_take_the_short_way() {
    let mut batches = Batches { v4: Batch::new(), v6: Batch::new() };
    for (i, frame) in FRAMES.iter().enumerate() {
        let lengths = Lengths { frame: frame.len(), bytes: frame.len() };
        let taken = fast::parse(frame, lengths, 0, ZoneSource::None, &mut batches);
        assert_eq!(taken, i < SHORT, "{frame:02x?}");
    }
}

/// Returns statistics and connections of one burst.
fn outcome(frames: &[Vec<u8>], zone: ZoneSource, vectors: SimdLevel) -> (Stats, Vec<FlowRecord>) {
    let mut engine = Engine::new(&Config { cycle_counter: || 0, zone, ..small() });
    engine.pipeline.set_simd(vectors);
    let packets: Vec<_> = frames.iter().map(|f| Segments::cut(f, f.len(), f.len())).collect();
    engine.process(1, &packets, &mut [Verdict::Drop; BURST_MAX]);
    while engine.flush(BURST_MAX) {}
    let flows = std::iter::from_fn(|| engine.next_record()).collect();
    (engine.stats().clone(), flows)
}

fn small() -> Config {
    Config {
        capacity_ipv4: 64,
        capacity_ipv6: 64,
        malformed: MalformedPackets::Pass,
        ..Config::default()
    }
}

/// Frames by kind, as they are parsed side by side, and the offset of their addresses.
const KINDS: [(Range<usize>, usize); 4] = [(0..4, 26), (4..6, 30), (6..8, 22), (8..10, 26)];

/// Plain frames of one kind that share some addresses and ports.
fn run() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let value = prop::sample::select(vec![0, 1, 127, 128, 255_u8]);
    let changes = prop::collection::vec((0..36_usize, value), 0..4);
    let frames = prop::collection::vec((any::<prop::sample::Index>(), changes), 1..9);
    (0..KINDS.len(), frames).prop_map(|(kind, frames)| {
        let (which, addresses) = KINDS[kind].clone();
        let ends = if which.start < 6 { 12 } else { 36 };
        let frame = |(index, changes): (prop::sample::Index, Vec<(usize, u8)>)| {
            let mut frame = FRAMES[which.start + index.index(which.len())].clone();
            changes.into_iter().for_each(|(at, value)| frame[addresses + at % ends] = value);
            frame
        };
        frames.into_iter().map(frame).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::sized(8_000, 200_000)))]
    #[test]
    fn side_by_side_is_one_by_one(
        runs in prop::collection::vec(
            prop_oneof![2 => run(), 1 => any_frame().prop_map(|frame| vec![frame])],
            1..16,
        ),
        zone in prop::sample::select(vec![
            ZoneSource::None,
            ZoneSource::OuterVlan,
            ZoneSource::InnerVlan,
            ZoneSource::Fixed(65_535),
        ]),
    ) {
        let mut frames = runs.concat();
        frames.truncate(BURST_MAX);
        let found = outcome(&frames, zone, SimdLevel::detect());
        prop_assert_eq!(found, outcome(&frames, zone, SimdLevel::None));
    }
}

/// Fails if the processor has AVX2 and it is not used. Elsewhere it tests nothing.
#[test]
fn plain_packets_of_a_kind_are_parsed_side_by_side() {
    let vectors = SimdLevel::detect();
    if vectors == SimdLevel::None {
        println!("skipped: no vectors");
        return;
    }
    let mut batches = Batches { v4: Batch::new(), v6: Batch::new() };
    let mut taken = |frames: &[usize]| {
        let packet = |&i: &usize| Segments::cut(&FRAMES[i], FRAMES[i].len(), FRAMES[i].len());
        let packets: Vec<_> = frames.iter().map(packet).collect();
        let part = SubBurst { packets: &packets, first: 0, zone: ZoneSource::None, simd: vectors };
        batches.v4.clear();
        batches.v6.clear();
        let rest = part.side_by_side(below(packets.len()), &mut batches);
        let taken = packets.len() - rest.count_ones() as usize;
        assert_eq!(batches.v4.len() + batches.v6.len(), taken);
        taken
    };
    for (kind, _) in KINDS {
        let plain: Vec<usize> = kind.clone().cycle().take(11).collect();
        assert_eq!(taken(&plain), 8, "{kind:?}");
        for (other, place) in (0..FRAMES.len()).flat_map(|other| (0..4).map(move |p| (other, p))) {
            let mut group = [plain[0], plain[1], plain[2], plain[3]];
            group[place] = other;
            let is_same = other < SHORT && kind.contains(&(other % 10));
            let frame = Frame(FRAMES[other].clone());
            assert_eq!(taken(&group), if is_same { 4 } else { 0 }, "{kind:?}, {frame:?}");
        }
    }
}

/// Errors of etherparse that do not matter for tracking.
fn only_they_refuse(error: &SliceError, flow: &FlowRecord) -> bool {
    // etherparse parses an authentication header in IPv4; here it is a protocol like any other.
    let is_ah_in_v4 = flow.src.is_ipv4() && flow.proto == proto::AUTH;
    is_ah_in_v4
        || match error {
            // Hop-by-hop options that come late, or an authentication header without a body.
            SliceError::Ipv6Exts(_) => true,
            SliceError::Len(error) => {
                matches!(
                    error.layer,
                    // etherparse requires all fixed fields of an authentication header.
                    Layer::IpAuthHeader
                // Eight bytes of every message, the whole body of timestamps; in either IP version.
                | Layer::Icmpv4
                | Layer::Icmpv4Timestamp
                | Layer::Icmpv4TimestampReply
                | Layer::Icmpv6
                // Here these are protocols like any other.
                | Layer::Igmp
                ) || is_to_be_segmented(error)
            }
            _ => false,
        }
}

/// True if the total length of the packet is 0: here it is then as long as the frame.
fn is_to_be_segmented(error: &LenError) -> bool {
    error.layer == Layer::Ipv4Packet
        && error.len_source == LenSource::Ipv4HeaderTotalLen
        && error.len == 0
}

/// Compares a packet that etherparse accepts. It lists where the two may differ.
#[track_caller]
fn compare(frame: &[u8], theirs: &SlicedPacket, ours: Result<FlowRecord, UntrackedReason>) {
    let (net, payload) = match &theirs.net {
        Some(NetSlice::Ipv4(ip)) => (theirs.net.as_ref(), Some(ip.payload())),
        Some(NetSlice::Ipv6(ip)) => (theirs.net.as_ref(), Some(ip.payload())),
        Some(NetSlice::Arp(_)) | None => (None, None),
    };
    let Some((net, payload)) = net.zip(payload) else {
        let reasons = [UntrackedReason::NonIp, UntrackedReason::Llc, UntrackedReason::VlanDepth];
        assert!(ours.is_err_and(|reason| reasons.contains(&reason)), "{theirs:?}");
        return;
    };
    match ours {
        Ok(flow) => same_packet(theirs, net, payload, &flow, frame.len()),
        Err(reason) => {
            assert!(only_we_refuse(reason, theirs, net, payload), "{reason:?} {theirs:?}")
        }
    }
}

/// Packets that are untracked here although etherparse accepts them.
fn only_we_refuse(
    reason: UntrackedReason,
    theirs: &SlicedPacket,
    net: &NetSlice,
    payload: &IpPayloadSlice,
) -> bool {
    let extensions = match net {
        NetSlice::Ipv6(ip) => Some((ip.extensions().clone(), ip.header().payload_length())),
        _ => None,
    };
    // With length 0, etherparse uses the rest of the frame as payload. Here only a jumbogram, which
    // has hop-by-hop options, may have that length.
    let has_no_length = extensions.as_ref().is_some_and(|(_, len)| *len == 0);
    match reason {
        // etherparse parses MACsec, and up to three tags.
        UntrackedReason::NonIp => {
            theirs.link_exts.iter().any(|ext| matches!(ext, LinkExtSlice::Macsec(_)))
        }
        UntrackedReason::VlanDepth => theirs.link_exts.len() == 3,
        UntrackedReason::Fragment
        | UntrackedReason::FragmentTiny
        | UntrackedReason::FragmentLength => payload.fragmented,
        UntrackedReason::ExtensionLimit => extensions
            .is_some_and(|(all, _)| all.slice().len() > 256 || all.into_iter().count() > 8),
        // etherparse does not parse fragments, SCTP, GRE and ESP.
        UntrackedReason::TransportTruncated => {
            let is_ours = matches!(payload.ip_number.0, proto::SCTP | proto::GRE | proto::ESP);
            payload.fragmented || is_ours || has_no_length
        }
        UntrackedReason::TcpOffset => payload.fragmented,
        // etherparse takes 0 for the rest of the packet; here only jumbograms may have it.
        UntrackedReason::UdpLength => {
            let is_zero = |udp: &etherparse::UdpSlice| udp.length() == 0;
            let is_zero = matches!(&theirs.transport, Some(TransportSlice::Udp(u)) if is_zero(u));
            payload.fragmented || is_zero
        }
        UntrackedReason::ExtensionTruncated => has_no_length,
        _ => false,
    }
}

/// Compares addresses, ports, protocol, tags and lengths.
fn same_packet(
    theirs: &SlicedPacket,
    net: &NetSlice,
    payload: &IpPayloadSlice,
    ours: &FlowRecord,
    frame_len: usize,
) {
    let vlan: Vec<u16> = theirs
        .link_exts
        .iter()
        .map(|ext| match ext {
            LinkExtSlice::Vlan(tag) => tag.vlan_identifier().value(),
            LinkExtSlice::Macsec(_) => panic!("a flow in MACsec: {theirs:?}"),
        })
        .collect();
    assert_eq!(ours.vlan.ids(), vlan);
    assert_eq!(ours.orig.bytes, frame_len as u64);

    let (src, dst, ip_len, is_ah) = match net {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let is_ah = header.protocol().0 == proto::AUTH;
            let ends = (header.source_addr().into(), header.destination_addr().into());
            (ends.0, ends.1, usize::from(header.total_len()), is_ah)
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let len = match (header.payload_length(), header.next_header().0) {
                // Their length cannot be read from the frame, so the frame's length is used.
                (0, proto::HOP_BY_HOP) => frame_len - 14 - 4 * vlan.len(),
                (len, _) => 40 + usize::from(len),
            };
            let ends = (header.source_addr().into(), header.destination_addr().into());
            (ends.0, ends.1, len, false)
        }
        NetSlice::Arp(_) => unreachable!("compared before"),
    };
    assert_eq!((ours.src, ours.dst), (src, dst));
    assert_eq!(ours.orig.ip_bytes, ip_len as u64);

    // An authentication header is followed in IPv6, but not in IPv4.
    let number = if is_ah { proto::AUTH } else { payload.ip_number.0 };
    assert_eq!(ours.proto, number);
    let u16_at = |at: usize| u16::from_be_bytes([payload.payload[at], payload.payload[at + 1]]);
    let (sport, dport) = match (number, src) {
        (proto::TCP | proto::UDP | proto::SCTP, _) => (u16_at(0), u16_at(2)),
        (proto::ICMP, IpAddr::V4(_)) => {
            let has_id = matches!(payload.payload[0], 0 | 8 | 13..=18);
            (if has_id { u16_at(4) } else { 0 }, u16_at(0))
        }
        (proto::ICMPV6, IpAddr::V6(_)) => {
            let has_id = matches!(payload.payload[0], 128 | 129);
            (if has_id { u16_at(4) } else { 0 }, u16_at(0))
        }
        (proto::ESP, _) => (u16_at(0), u16_at(2)),
        (proto::GRE, _) => match (u16_at(0) & 0x2007, u16_at(0) >> 14) {
            (0x2000, 0) => (u16_at(4), u16_at(6)),
            (0x2000, _) => (u16_at(8), u16_at(10)),
            _ => (0, 0),
        },
        _ => (0, 0),
    };
    assert_eq!((ours.sport, ours.dport), (sport, dport));
    match &theirs.transport {
        Some(TransportSlice::Tcp(tcp)) if !is_ah => {
            assert_eq!(ours.orig.tcp_flags, tcp.slice()[13]);
            assert_eq!((sport, dport), (tcp.source_port(), tcp.destination_port()));
        }
        Some(TransportSlice::Udp(udp)) if !is_ah => {
            assert_eq!((sport, dport), (udp.source_port(), udp.destination_port()));
        }
        _ => assert!(number == proto::TCP || ours.orig.tcp_flags == 0),
    }
}
