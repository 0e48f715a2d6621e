// SPDX-License-Identifier: BSD-3-Clause
//! Random packets from random bits: the frame, and what its sender meant by it.
//!
//! Endpoints come from small pools, so that packets meet in flows. All bits zero is the plainest
//! packet, and smaller numbers are plainer, so that a failing case shrinks to a readable one.

use super::association::{Spoken, any_chunks};
use super::icmp::{self, Icmp};
use super::reference::{ACK, Endpoint, FIN, RST, SYN, Seen};
use super::room::prefix;
use super::sequence::Said;
use engine::UntrackedReason;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{BytesPacket, FrameBuilder, ethernet::ether_type, proto};

/// Random bits, taken from one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rng(pub u64);

impl Rng {
    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        let number = self.0 % n;
        self.0 /= n;
        number
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == n - 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

/// How many different endpoints there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pools {
    pub(crate) hosts: usize,
    pub(crate) ports: usize,
    pub(crate) vlans: usize,
    /// Most of them are SCTP.
    pub(crate) is_sctp: bool,
}

/// Low and high ones, and such that only differ in the first or the last word.
const V4: [u32; 6] = [0x0a00_0001, 0x0a00_0002, 0, 0xffff_ffff, 0xc0a8_0001, 0x0a00_0100];
const V6: [u128; 6] = [
    0x2001_0db8 << 96 | 1,
    0x2001_0db8 << 96 | 2,
    0,
    u128::MAX,
    0x2001_0db8 << 96 | 1 << 64 | 1,
    0xfe80 << 112 | 1,
];
const PORTS: [u16; 5] = [80, 443, 0, 65_535, 0x5000];
pub(crate) const VLANS: [u16; 4] = [5, 0, 4095, 9];

/// A host of each network, of those that may begin a connection.
pub(crate) fn sources() -> impl Iterator<Item = IpAddr> {
    let v4 = V4.iter().map(|address| IpAddr::V4(Ipv4Addr::from_bits(*address)));
    let v6 = V6.iter().map(|address| IpAddr::V6(Ipv6Addr::from_bits(*address)));
    let sources: BTreeMap<_, _> = v4.chain(v6).map(|host| (prefix(host), host)).collect();
    sources.into_values()
}

/// How a packet is handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Whole,
    /// Two segments.
    Cut(usize),
    /// Only so many bytes were captured, and others are to be accounted.
    Captured {
        bytes: usize,
        frame_len: usize,
        wire_len: usize,
    },
}

/// A frame, and what its sender meant.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) frame: Vec<u8>,
    pub(crate) shape: Shape,
    pub(crate) meaning: Result<Seen, UntrackedReason>,
}

impl Packet {
    pub(crate) fn new(dice: &mut Rng, pools: Pools) -> Self {
        if dice.one_in(8) {
            return icmp::error(dice, pools);
        }
        let draft = Draft::new(dice, pools);
        if dice.one_in(12) { faulty(dice, draft) } else { draft.finish(dice) }
    }

    pub(crate) fn bytes(&self) -> BytesPacket<'_> {
        match self.shape {
            Shape::Whole => BytesPacket::new(&self.frame),
            Shape::Cut(at) => BytesPacket::cut(&self.frame, at),
            Shape::Captured { bytes, frame_len, wire_len } => {
                BytesPacket::captured(&self.frame[..bytes], frame_len, wire_len)
            }
        }
    }
}

/// What two ends of TCP say, who begin more than once, forget what they have said, and are spoken
/// for by others: each number fits to one that the other side may have begun with.
pub(crate) fn talk(dice: &mut Rng, pools: Pools) -> Vec<Packet> {
    const FIRST: [u32; 4] = [1000, 1 << 31, 3 << 30, u32::MAX];
    let of_ends = Draft::new(&mut Rng(dice.0), Pools { is_sctp: false, ..pools });
    let ends = [(of_ends.src.0, PORTS[0]), (of_ends.dst.0, PORTS[pools.ports - 1])];
    let begun = [[dice.pick(&FIRST), dice.pick(&FIRST)], [dice.pick(&FIRST), dice.pick(&FIRST)]];
    let handshake = [(0, SYN), (1, SYN | ACK), (0, ACK)];
    let count = 3 + dice.below(14) as usize;
    let step = |n: usize| {
        let mut dice = Rng((dice.0 ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8);
        let any = [SYN, SYN | ACK, ACK, ACK, RST, FIN | ACK, RST | ACK, SYN];
        let random = (dice.below(2) as usize, dice.pick(&any));
        let (from, flags) = match handshake.get(n) {
            Some(step) if !dice.one_in(4) => *step,
            _ => random,
        };
        let later = (n / 3).min(1);
        let pick = |dice: &mut Rng| if dice.one_in(4) { 1 - later } else { later };
        let seq = begun[from][pick(&mut dice)].wrapping_add(u32::from(flags & SYN == 0));
        let ack = begun[1 - from][pick(&mut dice)].wrapping_add(1);
        Draft::said(&mut dice, (ends[from], ends[1 - from]), flags, (seq, ack)).finish(&mut dice)
    };
    (0..count).map(step).collect()
}

/// What two ends of TCP say, of which some is not seen: now and then each continues just where the
/// other one has come to.
pub(crate) fn dialogue(dice: &mut Rng, pools: Pools) -> Vec<Packet> {
    let of_ends = Draft::new(&mut Rng(dice.0), Pools { is_sctp: false, ..pools });
    let ends = [(of_ends.src.0, PORTS[0]), (of_ends.dst.0, PORTS[pools.ports - 1])];
    let mut next = [dice.pick(&[1000, u32::MAX]), dice.pick(&[1 << 31, 5])];
    let count = 6 + dice.below(20) as usize;
    let mut packets = vec![];
    for n in 0..count {
        let mut dice = Rng((dice.0 ^ n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8);
        let (from, flags) = match [(0, SYN), (1, SYN | ACK), (0, ACK)].get(n) {
            Some(step) => *step,
            None => (n % 2, dice.pick(&[ACK, ACK, ACK, ACK, ACK, FIN | ACK, RST, RST | ACK])),
        };
        // What is not seen of each, and who speaks out of turn.
        let from = if n > 2 && dice.one_in(6) { 1 - from } else { from };
        if n > 2 && dice.one_in(4) {
            next[from] = next[from].wrapping_add(dice.pick(&[500, 70_000, 3 << 29]));
        }
        let numbers = (next[from], next[1 - from]);
        let ends = (ends[from], ends[1 - from]);
        packets.push(Draft::said(&mut dice, ends, flags, numbers).finish(&mut dice));
        next[from] = next[from].wrapping_add(u32::from(flags & (SYN | FIN) != 0));
    }
    packets
}

/// A sound packet in the making.
pub(crate) struct Draft {
    pub(crate) builder: FrameBuilder,
    pub(crate) src: Endpoint,
    pub(crate) dst: Endpoint,
    pub(crate) proto: u8,
    pub(crate) icmp: Option<Icmp>,
    pub(crate) number: u32,
    tcp_flags: u8,
    /// More fragments follow: nobody knows the sum of all.
    is_fragment: bool,
    pub(crate) said: Said,
    pub(crate) spoken: Option<Spoken>,
    pub(crate) tags: Vec<u16>,
    /// Bytes of IPv4 options or IPv6 extension headers.
    pub(crate) extra: usize,
    /// Bytes of the transport header that are looked at.
    pub(crate) header_len: usize,
    has_fragment_header: bool,
}

impl Draft {
    pub(crate) fn new(dice: &mut Rng, pools: Pools) -> Self {
        let is_v4 = dice.below(2) == 0;
        let mut host = || match (dice.below(pools.hosts as u64) as usize, is_v4) {
            (i, true) => IpAddr::V4(Ipv4Addr::from_bits(V4[i])),
            (i, false) => IpAddr::V6(Ipv6Addr::from_bits(V6[i])),
        };
        let (src, dst) = (host(), host());
        let draft = Draft {
            builder: FrameBuilder::ip(src, dst),
            src: (src, 0),
            dst: (dst, 0),
            proto: 0,
            icmp: None,
            number: 0,
            tcp_flags: 0,
            is_fragment: false,
            said: Said::default(),
            spoken: None,
            tags: vec![],
            extra: 0,
            header_len: 0,
            has_fragment_header: false,
        };
        let payload_len = dice.pick(&[0, 1, 6, 30, 600]);
        let mut draft = draft.transport(dice, pools).tagged(dice, pools).extended(dice);
        if draft.spoken.is_none() {
            // What all fragments but the last one have is a multiple of 8.
            let header_len = draft.segment_len();
            let payload_len = match draft.is_fragment {
                true => (header_len + payload_len).max(1).next_multiple_of(8) - header_len,
                false => payload_len,
            };
            draft.builder = draft.builder.payload(vec![0xa5; payload_len]);
            draft.said.data = payload_len as u32;
        }
        draft
    }

    /// A segment without data.
    fn said(
        dice: &mut Rng,
        (src, dst): (Endpoint, Endpoint),
        tcp_flags: u8,
        (seq, ack): (u32, u32),
    ) -> Self {
        let (said, options) = any_numbers(&mut Rng(dice.below(1 << 16) << 9));
        let ack = if tcp_flags & ACK != 0 { ack } else { 0 };
        let said = Said { seq, ack, ..said };
        let builder = FrameBuilder::ip(src.0, dst.0).tcp(src.1, dst.1).flags(tcp_flags);
        let builder = builder.seq(seq).ack(ack).window(said.window).tcp_options(options);
        Draft {
            builder,
            src,
            dst,
            proto: proto::TCP,
            icmp: None,
            number: 0,
            tcp_flags,
            is_fragment: false,
            said,
            spoken: None,
            tags: vec![],
            extra: 0,
            header_len: 20 + options.len(),
            has_fragment_header: false,
        }
    }

    fn transport(mut self, dice: &mut Rng, pools: Pools) -> Self {
        let [sport, dport] = [0, 1].map(|_| PORTS[dice.below(pools.ports as u64) as usize]);
        let is_v4 = self.src.0.is_ipv4();
        let builder = self.builder;
        let kind = if pools.is_sctp && !dice.one_in(8) { 12 } else { dice.below(16) };
        if kind < 13 && !matches!(kind, 9..=11) {
            (self.src.1, self.dst.1) = (sport, dport);
        }
        (self.builder, self.proto, self.header_len) = match kind {
            0..=6 => {
                let flags = [ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST, FIN | ACK, ACK | 8, SYN];
                let odd = [RST | ACK, 0, 0xff, SYN | FIN, SYN | 0x48, FIN];
                self.tcp_flags = if dice.one_in(6) { dice.pick(&odd) } else { dice.pick(&flags) };
                let (said, options) = any_numbers(dice);
                let builder = builder.tcp(sport, dport).flags(self.tcp_flags);
                let builder = builder.seq(said.seq).ack(said.ack).window(said.window);
                self.said = said;
                (builder.tcp_options(options), proto::TCP, 20 + options.len())
            }
            7 | 8 => (builder.udp(sport, dport), proto::UDP, 8),
            9..=11 => {
                let number = if is_v4 { proto::ICMP } else { proto::ICMPV6 };
                let (icmp, header_len) = any_icmp(dice, is_v4);
                self.icmp = Some(icmp);
                [self.src, self.dst] = icmp.ends(number, [self.src.0, self.dst.0]);
                let [a, b] = if header_len == 8 { icmp.id } else { 77 }.to_be_bytes();
                (builder.icmp(icmp.kind, icmp.code, [a, b, 0, 9]), number, header_len)
            }
            12 => {
                let header = builder.clone().sctp(sport, dport).build_packet().len() - 12;
                let (builder, spoken) = any_chunks(builder.sctp(sport, dport), dice);
                self.spoken = Some(spoken);
                self.said.seq = spoken.tag;
                let len = builder.build_packet().len() - header;
                (builder, proto::SCTP, len)
            }
            _ => {
                // ICMP of the other IP version is a protocol like any other.
                let icmp = if is_v4 { proto::ICMPV6 } else { proto::ICMP };
                let number = dice.pick(&[proto::GRE, proto::ESP, 59, 253, icmp, 135]);
                let (builder, header_len, common) = numbered(builder, number, dice);
                self.number = common;
                (builder, number, header_len)
            }
        };
        self
    }

    fn tagged(mut self, dice: &mut Rng, pools: Pools) -> Self {
        let mut vlan = || VLANS[dice.below(pools.vlans as u64) as usize];
        let (a, b) = (vlan(), vlan());
        // Priority and drop eligibility are not part of the identifier.
        let priority = 0xb000;
        (self.builder, self.tags) = match dice.below(8) {
            0..=3 => (self.builder, vec![]),
            4 => (self.builder.vlan(a), vec![a]),
            5 => (self.builder.tag(ether_type::QINQ_OLD, priority | a), vec![a]),
            6 => (self.builder.qinq(a).vlan(b), vec![a, b]),
            _ => (self.builder.vlan(a).tag(ether_type::VLAN, priority | b), vec![a, b]),
        };
        self
    }

    /// Options, extension headers, first fragments.
    fn extended(mut self, dice: &mut Rng) -> Self {
        if !dice.one_in(4) {
            return self;
        }
        // Chunks are as long as they are.
        let is_ragged = self.spoken.is_some() && self.segment_len() % 8 != 0;
        let kind = match dice.below(6) {
            1 if is_ragged => 2,
            kind => kind,
        };
        let builder = self.builder;
        self.is_fragment = kind == 1;
        self.has_fragment_header = !self.src.0.is_ipv4() && kind < 2;
        (self.builder, self.extra) = match (self.src.0.is_ipv4(), kind) {
            (true, 0) => (builder.dont_fragment(), 0),
            (true, 1) => (builder.fragment(0, true), 0),
            (true, 2) => (builder.ip_options(&[1; 40]), 40),
            (true, _) => (builder.ip_options(&[1; 3]), 4),
            (false, 0) => (builder.fragment(0, false), 8),
            (false, 1) => (builder.hop_by_hop(&[1; 6]).fragment(0, true), 16),
            (false, 2) => (builder.dest_options(&[1; 254]), 256),
            (false, 3) => (builder.auth(1, 2, &[3; 12]), 24),
            (false, 4) => (builder.routing(&[0; 22]).dest_options(&[1; 6]), 32),
            (false, _) => ((0..8).fold(builder, |b, _| b.dest_options(&[])), 64),
        };
        self
    }

    /// Bytes behind all headers of IP.
    fn segment_len(&self) -> usize {
        self.builder.build_packet().len() - self.ip_header() - self.extra
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.src.0.is_ipv4()
    }

    /// Where the IP header begins.
    fn l3(&self) -> usize {
        14 + 4 * self.tags.len()
    }

    pub(crate) fn ip_header(&self) -> usize {
        if self.is_v4() { 20 } else { 40 }
    }

    /// Where the transport header begins.
    fn l4(&self) -> usize {
        self.l3() + self.ip_header() + self.extra
    }

    /// The value of the IP length field if `bytes` follow the fixed header.
    fn length_field(&self, bytes: usize) -> u16 {
        (bytes + if self.is_v4() { 20 } else { 0 }) as u16
    }

    /// Makes a checksum wrong, that of IPv4 or of the transport; whether there is one.
    fn spoil(&mut self, is_ip: bool) -> bool {
        let (right, is_ip) = (self.builder.build_packet(), is_ip && self.is_v4());
        let with = |sum: u16| match is_ip {
            true => self.builder.clone().ip_checksum(sum),
            false => self.builder.clone().checksum(u32::from(sum)),
        };
        // One of them is wrong.
        let spoilt = Some(with(0xdead)).filter(|builder| builder.build_packet() != right);
        self.builder = spoilt.unwrap_or_else(|| with(0xbeef));
        if is_ip {
            return true;
        }
        let summed = [proto::TCP, proto::UDP, proto::SCTP];
        let has_sum = summed.contains(&self.proto) || self.icmp.is_some();
        has_sum && !self.is_fragment
    }

    /// Of a segment of which so many bytes of the frame were captured: a scale that may have been
    /// in the rest may be any. No window is larger than with the largest one.
    fn forget_scale(&mut self, captured: usize) {
        let options = OPTIONS.into_iter().find(|(options, scale, _)| {
            self.header_len == 20 + options.len() && self.said.scale == *scale
        });
        let captured = captured.saturating_sub(self.l4() + 20);
        if let (proto::TCP, Some((.., needed))) = (self.proto, options) {
            self.said.scale = if captured < needed { Some(14) } else { self.said.scale };
        }
    }

    fn finish(mut self, dice: &mut Rng) -> Packet {
        let is_of_ip = dice.one_in(4);
        let is_spoilt = dice.one_in(12) && self.spoil(is_of_ip);
        if dice.one_in(3) {
            self.builder = self.builder.pad();
        }
        let frame = self.builder.build();
        let shape = match dice.below(6) {
            0..=3 => Shape::Whole,
            4 => Shape::Cut(dice.below(frame.len() as u64 + 1) as usize),
            _ => {
                let is_tcp = self.proto == proto::TCP;
                let header_len = if is_tcp && dice.one_in(2) { 20 } else { self.header_len };
                let needed = self.l4() + header_len;
                let bytes = needed + dice.below((frame.len() - needed) as u64 + 1) as usize;
                // Another link type: its header may be longer than the Ethernet header shown.
                let wire_len = frame.len() + dice.pick(&[0, 2, 30_000]);
                Shape::Captured { bytes, frame_len: frame.len(), wire_len }
            }
        };
        if let Shape::Captured { bytes, .. } = shape {
            self.forget_scale(bytes);
        }
        let whole = self.l3() + self.builder.build_packet().len();
        let (bytes, is_cut) = match shape {
            Shape::Captured { bytes, wire_len, .. } => (wire_len as u64, bytes < whole),
            _ => (frame.len() as u64, false),
        };
        let is_spoilt = is_spoilt && !(is_cut && !(is_of_ip && self.is_v4()));
        let meaning = Ok(Seen {
            src: self.src,
            dst: self.dst,
            proto: self.proto,
            icmp: self.icmp,
            number: self.number,
            quote: None,
            is_spoilt,
            side: None,
            tcp_flags: self.tcp_flags,
            said: self.said,
            spoken: self.spoken,
            ip_bytes: self.builder.build_packet().len() as u64,
            tags: self.tags,
            bytes,
        });
        Packet { frame, shape, meaning }
    }
}

/// Numbers on and beside the bounds of each other's windows, and options.
fn any_numbers(dice: &mut Rng) -> (Said, &'static [u8]) {
    const NUMBERS: [u32; 20] = [
        1,
        1,
        0,
        2,
        7,
        8,
        31,
        32,
        101,
        102,
        601,
        602,
        65_536,
        65_537,
        66_000,
        66_001,
        1 << 31,
        0xffff_0000,
        0xffff_0002,
        u32::MAX,
    ];
    let (seq, ack) = (dice.pick(&NUMBERS), dice.pick(&NUMBERS));
    let window = dice.pick(&[100, 65_535, 0, 1, 30]);
    let (options, scale, _) = dice.pick(&OPTIONS);
    (Said { seq, ack, window, data: 0, scale }, options)
}

/// Options, the scale that they offer, and how many of their bytes it takes to know that; behind
/// them are zeros.
const OPTIONS: [(&[u8], Option<u8>, usize); 7] = [
    (&[], None, 0),
    (&[1; 9], None, 10),
    (&[1, 3, 3, 2], Some(2), 4),
    (&[2, 4, 5, 0xb4, 1, 3, 3, 0], Some(0), 8),
    (&[3, 3, 15], Some(15), 3),
    (&[0, 3, 3, 7], None, 1),
    (&[3, 2, 7, 0, 0], None, 4),
];

/// A protocol without ports: how many bytes of its header count, and the number that its packets
/// have in common.
fn numbered(builder: FrameBuilder, proto: u8, dice: &mut Rng) -> (FrameBuilder, usize, u32) {
    let number = dice.pick(&[0, 7, 7 << 16, u32::MAX]);
    match (proto, dice.below(2)) {
        (proto::GRE, 0) => (builder.gre(0x0800, None), 4, 0),
        (proto::GRE, _) => (builder.gre(0x6558, Some(number)), 8, number),
        (proto::ESP, seq) => (builder.esp(number, seq as u32), 4, number),
        _ => (builder.protocol(proto), 0, 0),
    }
}

/// A message, and how many bytes of its header count.
fn any_icmp(dice: &mut Rng, is_v4: bool) -> (Icmp, usize) {
    let with_id =
        if is_v4 { [8, 0, 13, 14, 8, 0, 17, 18] } else { [128, 129, 128, 129, 128, 129, 128, 129] };
    let without = if is_v4 { [9, 10, 6, 40] } else { [135, 136, 5, 127] };
    if dice.one_in(3) {
        let (kind, code) = (dice.pick(&without), dice.below(2) as u8);
        (Icmp { kind, code, id: 0 }, 4)
    } else {
        (Icmp { kind: dice.pick(&with_id), code: 0, id: dice.pick(&[7, 0, 0xffff]) }, 8)
    }
}

/// A packet without a flow: one fault each.
fn faulty(dice: &mut Rng, draft: Draft) -> Packet {
    let (frame, reason) = match dice.below(4) {
        0 => return cut_off(dice, draft),
        1 => not_followed(dice, draft),
        2 => wrong_ip(dice, draft),
        _ => wrong_transport(dice, draft),
    };
    let shape = match dice.below(2) {
        0 => Shape::Whole,
        _ => Shape::Cut(dice.below(frame.len() as u64 + 1) as usize),
    };
    Packet { frame, shape, meaning: Err(reason) }
}

/// Frames that end too early, on the wire or in the capture.
fn cut_off(dice: &mut Rng, draft: Draft) -> Packet {
    let mut frame = draft.builder.build();
    let (l3, frame_len) = (draft.l3(), frame.len());
    let (below, reason) = match dice.below(3) {
        0 => (l3, UntrackedReason::EthernetTruncated),
        1 => (draft.ip_header(), UntrackedReason::IpTruncated),
        // Where there are no ports to find, the fixed header is enough.
        _ if draft.header_len == 0 => (l3 + draft.ip_header(), UntrackedReason::CaptureCut),
        // Neither both ports nor type and code.
        _ => (draft.l4() + 2, UntrackedReason::CaptureCut),
    };
    let mut bytes = dice.below(below as u64) as usize;
    if reason == UntrackedReason::IpTruncated {
        bytes += l3;
    }
    if reason == UntrackedReason::CaptureCut {
        let shape = Shape::Captured { bytes, frame_len, wire_len: frame_len };
        return Packet { frame, shape, meaning: Err(reason) };
    }
    frame.truncate(bytes);
    Packet { frame, shape: Shape::Whole, meaning: Err(reason) }
}

/// Frames that nothing is wrong with.
fn not_followed(dice: &mut Rng, draft: Draft) -> (Vec<u8>, UntrackedReason) {
    let (is_v4, extra) = (draft.is_v4(), draft.extra);
    // Behind the first of two fragment headers is the second.
    let part_len = draft.segment_len() + if draft.has_fragment_header { 8 } else { 0 };
    let builder = draft.builder;
    let v6 = FrameBuilder::ipv6([0xfe; 16], [0xfd; 16]).udp(7, 7);
    match dice.below(7) {
        0 => (
            FrameBuilder::ethernet(ether_type::ARP).payload([1; 28]).build(),
            UntrackedReason::NonIp,
        ),
        1 => (FrameBuilder::ethernet(ether_type::MIN).vlan(3).build(), UntrackedReason::NonIp),
        2 => (FrameBuilder::ieee_802_3().payload([0x42; 38]).build(), UntrackedReason::Llc),
        3 => (builder.vlan(1).vlan(2).vlan(3).build(), UntrackedReason::VlanDepth),
        4 => {
            // Behind 8 other headers it is one too many.
            let is_ninth = !is_v4 && extra == 8 * 8;
            let offset = 8 + 8 * dice.below(9) as usize;
            let is_of_flags = is_v4 && offset == 8 && draft.proto == proto::TCP;
            let reason = match () {
                () if is_ninth => UntrackedReason::ExtensionLimit,
                () if is_of_flags => UntrackedReason::FragmentTiny,
                () if part_len == 0 || part_len % 8 != 0 => UntrackedReason::FragmentLength,
                () => UntrackedReason::Fragment,
            };
            (builder.fragment(offset, true).build(), reason)
        }
        5 => ((0..9).fold(v6, |b, _| b.dest_options(&[])).build(), UntrackedReason::ExtensionLimit),
        _ => (v6.dest_options(&[1; 254]).auth(1, 2, &[]).build(), UntrackedReason::ExtensionLimit),
    }
}

fn wrong_ip(dice: &mut Rng, draft: Draft) -> (Vec<u8>, UntrackedReason) {
    let too_long = draft.length_field(draft.extra + 2000);
    let inside_extensions = draft.length_field(draft.extra.saturating_sub(1));
    let builder = draft.builder.clone();
    match (dice.below(4), draft.is_v4()) {
        (0, _) => (builder.ip_version(dice.pick(&[0, 5, 15])).build(), UntrackedReason::IpVersion),
        (1, _) => (builder.ip_len(too_long).build(), UntrackedReason::IpLength),
        // 0 is the length of what a NIC is to segment.
        (2, true) => (builder.ip_len(1 + dice.below(19) as u16).build(), UntrackedReason::IpLength),
        (3, true) if dice.one_in(2) => (
            builder.header_words(15).ip_len(59).pad_to(200).build(),
            UntrackedReason::IpHeaderLength,
        ),
        (_, true) => {
            (builder.header_words(dice.below(5) as u8).build(), UntrackedReason::IpHeaderLength)
        }
        // Length 0 with a hop-by-hop header is a jumbogram.
        (_, false) if draft.extra > 0 && inside_extensions > 0 => {
            (builder.ip_len(inside_extensions).build(), UntrackedReason::ExtensionTruncated)
        }
        (_, false) => (builder.ip_version(4).build(), UntrackedReason::IpVersion),
    }
}

fn wrong_transport(dice: &mut Rng, draft: Draft) -> (Vec<u8>, UntrackedReason) {
    // The first of several fragments may point beyond itself, so there is none here.
    let (sport, dport) = (draft.src.1, draft.dst.1);
    let builder = FrameBuilder::ip(draft.src.0, draft.dst.0).pad();
    let (header, l4) = if draft.is_v4() { (20, 34) } else { (0, 54) };
    match dice.below(6) {
        0 => {
            let beyond = builder.tcp(sport, dport).data_offset(6 + dice.below(10) as u8);
            (beyond.build(), UntrackedReason::TcpOffset)
        }
        1 => {
            let short = builder.tcp(sport, dport).data_offset(dice.below(5) as u8);
            (short.build(), UntrackedReason::TcpOffset)
        }
        2 => {
            let short = builder.udp(sport, dport).udp_len(dice.below(8) as u16);
            (short.build(), UntrackedReason::UdpLength)
        }
        3 => {
            let beyond = builder.udp(sport, dport).udp_len(9 + dice.below(999) as u16);
            (beyond.build(), UntrackedReason::UdpLength)
        }
        4 => {
            // The frame goes on, the IP packet does not.
            let tcp = builder.tcp(sport, dport).ip_len(header + dice.below(20) as u16);
            (tcp.build(), UntrackedReason::TransportTruncated)
        }
        _ => {
            let sctp = builder.pad_to(0).sctp(sport, dport).ip_len(header + dice.below(12) as u16);
            let mut frame = sctp.build();
            frame.truncate(l4 + 12);
            (frame, UntrackedReason::TransportTruncated)
        }
    }
}
