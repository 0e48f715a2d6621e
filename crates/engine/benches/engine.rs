// SPDX-License-Identifier: BSD-3-Clause
//! Measures the time of the engine alone per packet, with frames in memory: `cargo bench -p
//! engine`.
//!
//! Before each burst, its frames are copied into a small ring of buffers, so they are in the cache,
//! as after reception from a NIC. The copy is not timed. Names of benchmarks say what the table
//! does and whether it fits into the caches: 10 k IPv4 flows take about 1 MB, 1 M flows about 130
//! MB. Frames, order and hash secret come from fixed seeds.

use criterion::{Criterion, Throughput};
use engine::{
    BURST_MAX, BypassConfig, Config, EndReason, EndpointMatch, Engine, Evict, MarkLayout,
    MarkVerification, OffloadConfig, OffloadPolicy, RuleRequest, RuleResult, Tracking, Verdict,
    ZoneRule,
};
use std::collections::{HashMap, HashSet};
use std::hint::black_box;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use testkit::random::Random;
use traffic::scenario;
use wire::{BytesPacket, FrameBuilder, ethernet::ether_type, proto};

const SECOND: u64 = 1_000_000_000;

/// Makes a frame of flow `i` in one direction; `reversed` gives the other.
type Flow = fn(i: u32) -> FrameBuilder;

fn v4(i: u32) -> FrameBuilder {
    FrameBuilder::ipv4(0x0a00_0000 + i % 0x00ff_ffff, 0xac10_0000 + i % 0xffff).pad()
}

fn v6(i: u32) -> FrameBuilder {
    FrameBuilder::ipv6((0x2001_0db8 << 96) | u128::from(i), (0xfd << 120) | u128::from(i % 999))
}

fn udp_v4(i: u32) -> FrameBuilder {
    v4(i).udp(i as u16, 53)
}

fn tcp_v4(i: u32) -> FrameBuilder {
    v4(i).tcp(i as u16, 443)
}

fn udp_v6(i: u32) -> FrameBuilder {
    v6(i).udp(i as u16, 53)
}

/// Returns mixed traffic: four of six flows are TCP, one of these with a VLAN tag; two of six are
/// IPv6.
fn mixed(i: u32) -> FrameBuilder {
    match i % 6 {
        0 | 1 => tcp_v4(i),
        2 => tcp_v4(i).vlan(7),
        3 => udp_v4(i),
        4 => udp_v6(i),
        _ => v6(i).tcp(i as u16, 443),
    }
}

/// Returns one frame of each direction of flows `from..to`, in random order.
fn frames(flow: Flow, from: u32, to: u32) -> Vec<Vec<u8>> {
    let both = |i| [flow(i).build(), flow(i).reversed().build()];
    let mut frames: Vec<_> = (from..to).flat_map(both).collect();
    Random::new(u64::from(to)).shuffle(&mut frames);
    frames
}

/// Returns one frame of each flow of `from..to`, in one direction, in order.
fn first_frames(flow: Flow, from: u32, to: u32) -> Vec<Vec<u8>> {
    (from..to).map(|i| flow(i).build()).collect()
}

fn engine(capacity: u32) -> Engine {
    Engine::new(&config(capacity))
}

fn config(capacity: u32) -> Config {
    Config {
        capacity_ipv4: capacity,
        capacity_ipv6: capacity,
        embryonic_percent: 100,
        evict: Evict::Nothing,
        secret: [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210],
        ..Config::default()
    }
}

/// An engine, and the buffers of its packets.
struct Bench {
    engine: Engine,
    ring: Vec<u8>,
    at: usize,
    /// Marks of packets, by the bytes of their addresses and ports ([`TUPLE`]).
    marks: HashMap<Vec<u8>, u32>,
}

/// Position of addresses and ports in an IPv4 frame without VLAN tag and IP options.
const TUPLE: std::ops::Range<usize> = 26..38;

impl Bench {
    const BUFFER: usize = 512;

    fn new(engine: Engine) -> Self {
        Bench { engine, ring: vec![0; 1024 * Self::BUFFER], at: 0, marks: HashMap::new() }
    }

    /// Answers all rule requests of the engine like a NIC that accepts them.
    fn mark(&mut self, layout: MarkLayout) {
        while let Some(RuleRequest::Install { rule, tuple, .. }) = self.engine.next_request() {
            let (IpAddr::V4(src), IpAddr::V4(dst)) = (tuple.src, tuple.dst) else { continue };
            let ports = [tuple.sport.to_be_bytes(), tuple.dport.to_be_bytes()].concat();
            let tuple = [&src.octets()[..], &dst.octets(), &ports].concat();
            self.marks.insert(tuple, layout.encode(rule));
            self.engine.apply_result(rule, RuleResult::Installed { pace: 1000, took: 100 });
        }
    }

    /// Processes the frames, at most a burst, and takes the flow records. Returns the time of both.
    fn burst(&mut self, now: u64, frames: &[Vec<u8>]) -> Duration {
        if self.at + frames.len() * Self::BUFFER > self.ring.len() {
            self.at = 0;
        }
        let buffers = &mut self.ring[self.at..];
        for (buffer, frame) in buffers.chunks_mut(Self::BUFFER).zip(frames) {
            buffer[..frame.len()].copy_from_slice(frame);
        }
        let mut packets: [_; BURST_MAX] = std::array::from_fn(|_| BytesPacket::new(&[]));
        for ((packet, buffer), frame) in
            packets.iter_mut().zip(buffers.chunks(Self::BUFFER)).zip(frames)
        {
            let frame = &buffer[..frame.len()];
            *packet = BytesPacket::new(frame).marked(self.marks.get(&frame[TUPLE]).copied());
        }
        self.at += frames.len() * Self::BUFFER;
        let mut verdicts = [Verdict::Forward; BURST_MAX];
        let start = Instant::now();
        self.engine.process(now, black_box(&packets[..frames.len()]), &mut verdicts);
        while let Some(flow) = self.engine.next_record() {
            black_box(flow);
        }
        let time = start.elapsed();
        black_box(verdicts);
        time
    }

    /// Processes all frames in bursts; returns the time.
    fn all(&mut self, now: u64, frames: &[Vec<u8>]) -> Duration {
        frames.chunks(BURST_MAX).map(|burst| self.burst(now, burst)).sum()
    }

    /// Expires all flows and takes their flow records. Returns the time of both.
    fn expire_all(&mut self, now: u64) -> Duration {
        let mut time = Duration::ZERO;
        loop {
            let start = Instant::now();
            let processed = self.engine.expire(now, BURST_MAX);
            while let Some(flow) = self.engine.next_record() {
                black_box(flow);
            }
            time += start.elapsed();
            if processed == 0 {
                return time;
            }
        }
    }
}

/// Measures bursts of `size` frames, which repeat `frames` without end, all at the same time of the
/// engine. Calls `bench` only if the benchmark is selected, and `check` after the last burst.
fn bursts(
    c: &mut Criterion,
    (name, size): (&str, usize),
    frames: &[Vec<u8>],
    bench: impl Fn() -> Bench,
    check: impl Fn(&Bench),
) {
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(size as u64));
    let mut bursts = frames.chunks_exact(size).cycle();
    let mut made = None;
    group.bench_function(name, |b| {
        let used = made.get_or_insert_with(&bench);
        b.iter_custom(|iterations| {
            bursts.by_ref().take(iterations as usize).map(|burst| used.burst(SECOND, burst)).sum()
        });
    });
    group.finish();
    made.iter().for_each(check);
}

/// Measures packets that get their verdict before a lookup in the table.
fn parse(c: &mut Criterion) {
    let nine_extensions = |i| (0..9).fold(v6(i), |frame, _| frame.dest_options(&[])).udp(1, 2);
    let cases: [(&str, Flow); 5] = [
        ("parse/arp", |_| FrameBuilder::ethernet(ether_type::ARP).payload([1; 46])),
        ("parse/ipv4_fragment", |i| v4(i).fragment(1480, false).protocol(proto::UDP)),
        ("parse/ipv4_vlan_udp_bad_length", |i| udp_v4(i).qinq(7).vlan(8).udp_len(7)),
        ("parse/ipv6_tcp_bad_offset", |i| v6(i).tcp(1, 2).data_offset(4)),
        ("parse/ipv6_nine_extensions", nine_extensions),
    ];
    for (name, flow) in cases {
        let frames = first_frames(flow, 0, 1024);
        bursts(c, (name, BURST_MAX), &frames, || Bench::new(engine(1)), |_| ());
    }
}

/// Returns an engine with this capacity that has processed `frames`.
fn with_flows(capacity: u32, frames: &[Vec<u8>]) -> Bench {
    let mut bench = Bench::new(engine(capacity));
    bench.all(SECOND, frames);
    bench
}

/// Measures packets whose flows are in the table.
fn lookup_hit(c: &mut Criterion) {
    let cases: [(&str, Flow, u32); 7] = [
        ("lookup_hit/udp_ipv4_1k_in_l2", udp_v4, 1_000),
        ("lookup_hit/udp_ipv4_10k_in_cache", udp_v4, 10_000),
        ("lookup_hit/tcp_ipv4_10k_in_cache", tcp_v4, 10_000),
        ("lookup_hit/tcp_ipv4_100k", tcp_v4, 100_000),
        ("lookup_hit/udp_ipv6_10k_in_cache", udp_v6, 10_000),
        ("lookup_hit/udp_ipv4_1m_out_of_cache", udp_v4, 1_000_000),
        ("lookup_hit/udp_ipv6_1m_out_of_cache", udp_v6, 1_000_000),
    ];
    for (name, flow, flows) in cases {
        let frames = frames(flow, 0, flows);
        let check = |bench: &Bench| {
            assert_eq!(bench.engine.stats().active(), u64::from(flows));
        };
        bursts(c, (name, BURST_MAX), &frames, || with_flows(1 << 20, &frames), check);
    }
}

/// Measures packets of known connections while rules assign their zones. Only the last rule matches
/// the packets.
fn zone_rules(c: &mut Criterion) {
    let frames = frames(udp_v4, 0, 10_000);
    for count in [1, 16, 256_u16] {
        let rule = |i: u16| ZoneRule {
            from: None,
            proto: None,
            end: EndpointMatch { address: None, port: (i + 1 < count).then_some(20_000 + i) },
            peer: EndpointMatch::default(),
            zone: 7,
        };
        let zone_rules = (0..count).map(rule).collect();
        let bench = || {
            let engine =
                Engine::new(&Config { zone_rules: Vec::clone(&zone_rules), ..config(1 << 20) });
            let mut bench = Bench::new(engine);
            bench.all(SECOND, &frames);
            bench
        };
        let check = |bench: &Bench| assert_eq!(bench.engine.zone_status(7).connections, 10_000);
        bursts(c, (&format!("zone_rules/{count}_udp_ipv4_10k"), BURST_MAX), &frames, bench, check);
    }
}

/// Returns the depth of tracking that the name of a benchmark says.
fn tracking(name: &str) -> Tracking {
    if name.starts_with("flows_") { Tracking::Flows } else { Tracking::Connections }
}

/// Measures packets with NIC marks, where all, two thirds or none of the directions have a rule.
fn marked(c: &mut Criterion) {
    let layout = MarkLayout::new(32, 2 << 20).expect("wide enough");
    let offload = OffloadConfig {
        layout,
        first_index: 0,
        check: MarkVerification::Sampled { first: 4, one_in: 64 },
        admission: OffloadPolicy::After { packets: 1 },
        rules_max: 2 << 20,
        zone_rules_max: None,
        chooses_marks: false,
        bypass: [BypassConfig::OFF; 2],
        slots: 1 << 20,
    };
    let both = |flow, flows| frames(flow, 0, flows);
    let mut article = Vec::new();
    traffic::article::tcp_connections(1, |_, frame| article.push(frame.to_vec()));
    let cases = [
        ("udp_ipv4_1k_in_l2", both(udp_v4, 1_000), 100),
        ("udp_ipv4_1k_in_l2_two_thirds", both(udp_v4, 1_000), 67),
        ("tcp_ipv4_1k_in_l2", both(tcp_v4, 1_000), 100),
        ("tcp_ipv4_1k_in_l2_two_thirds", both(tcp_v4, 1_000), 67),
        ("tcp_ipv4_1k_in_l2_none", both(tcp_v4, 1_000), 0),
        ("tcp_article", article.clone(), 100),
        ("tcp_article_two_thirds", article.clone(), 67),
        ("tcp_article_none", article, 0),
        ("udp_ipv4_10k_in_cache", both(udp_v4, 10_000), 100),
        ("tcp_ipv4_10k_in_cache", both(tcp_v4, 10_000), 100),
        ("udp_ipv4_1m_out_of_cache", both(udp_v4, 1_000_000), 100),
        ("tcp_ipv4_1m_out_of_cache", both(tcp_v4, 1_000_000), 100),
        ("flows_udp_ipv4_10k_in_cache", both(udp_v4, 10_000), 100),
        ("flows_tcp_ipv4_10k_in_cache", both(tcp_v4, 10_000), 100),
    ];
    for (name, frames, percent) in cases {
        let directions = frames.iter().map(|frame| &frame[TUPLE]).collect::<HashSet<_>>().len();
        let rules_max = directions as u32 * percent / 100;
        let with_rules = || {
            let offload = OffloadConfig { rules_max, ..offload };
            let deepest = tracking(name);
            let config = Config { tracking: deepest, deepest, ..config(1 << 20) };
            let engine = Engine::new(&Config { offload: Some(offload), ..config });
            let mut bench = Bench::new(engine);
            for burst in (0..8).flat_map(|_| frames.chunks(BURST_MAX)) {
                bench.burst(SECOND, burst);
                bench.mark(layout);
            }
            bench
        };
        let check = |bench: &Bench| assert_eq!(bench.marks.len(), rules_max as usize);
        bursts(c, (&format!("marked/{name}"), BURST_MAX), &frames, with_rules, check);
    }
}

/// Measures packets whose flows are not in the table, which is full.
fn lookup_miss(c: &mut Criterion) {
    for (name, capacity) in [
        ("lookup_miss/udp_ipv4_10k_full_in_cache", 10_000),
        ("lookup_miss/udp_ipv4_1m_full_out_of_cache", 1_000_000),
    ] {
        let full = || with_flows(capacity, &first_frames(udp_v4, 0, capacity));
        let others = frames(udp_v4, capacity, capacity + 200_000);
        let check = |bench: &Bench| {
            assert_eq!(bench.engine.stats().created, u64::from(capacity));
        };
        bursts(c, (name, BURST_MAX), &others, full, check);
    }
}

/// Measures first packets of flows, which fill the table to three quarters, and the expiry of these
/// flows.
fn insert_and_expire(c: &mut Criterion) {
    for (size, capacity) in [("10k_in_cache", 13_333), ("1m_out_of_cache", 1_333_333)] {
        let frames = first_frames(udp_v4, 0, capacity / 4 * 3);
        let mut bench = Bench::new(engine(capacity));
        let mut group = c.benchmark_group("engine");
        group.throughput(Throughput::Elements(frames.len() as u64));
        let mut now = 0;
        group.bench_function(format!("insert/udp_ipv4_{size}"), |b| {
            b.iter_custom(|iterations| {
                let once = |_| {
                    now += 10 * SECOND;
                    let time = bench.all(now, &frames);
                    bench.expire_all(now + 6 * SECOND);
                    time
                };
                (0..iterations).map(once).sum()
            });
        });
        group.bench_function(format!("expire/udp_ipv4_{size}"), |b| {
            b.iter_custom(|iterations| {
                let once = |_| {
                    now += 10 * SECOND;
                    bench.all(now, &frames);
                    bench.expire_all(now + 6 * SECOND)
                };
                (0..iterations).map(once).sum()
            });
        });
        group.finish();
    }
}

/// Measures whole TCP connections of eight packets each, which reuse the same ports.
fn short(c: &mut Criterion) {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    scenario::short_tcp(1, 28_000, |_, frame| frames.push(frame.to_vec()));
    let check = |bench: &Bench| {
        assert!(bench.engine.stats().ended[EndReason::Reuse as usize] > 0);
    };
    let name = "short/tcp_ipv4_28k";
    bursts(c, (name, BURST_MAX), &frames, || with_flows(1 << 20, &frames), check);
}

/// Measures mixed traffic of known flows, in bursts of 32 and 64.
fn burst(c: &mut Criterion) {
    for (size, flows) in [("10k_in_cache", 10_000), ("1m_out_of_cache", 1_000_000)] {
        let frames = frames(mixed, 0, flows);
        for packets in [32, 64] {
            let name = format!("burst_{packets}/mixed_{size}");
            bursts(c, (&name, packets), &frames, || with_flows(1 << 20, &frames), |_| ());
        }
    }
}

fn main() {
    let mut c = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for group in
        [parse, lookup_hit, zone_rules, marked, lookup_miss, insert_and_expire, short, burst]
    {
        group(&mut c);
    }
    c.final_summary();
}
