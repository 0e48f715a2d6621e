// SPDX-License-Identifier: BSD-3-Clause
//! After `Engine::new` nothing is allocated: not for hits, not for new flows, not for flows that
//! end, not for a full table, not for packets that are wrong.

use engine::{
    BURST_MAX, BypassConfig, ChecksumCheck, Config, Cursor, EndReason, Engine, Evict, Filter,
    MarkLayout, MarkStats, MarkVerification, OffloadConfig, OffloadPolicy, Query, RuleId,
    RuleRequest, RuleResult, Side, TcpWindowCheck, Timeouts, UntrackedReason, Verdict,
    ZonePolicies,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use testkit::random::Random;
use wire::{BytesPacket, FrameBuilder, tcp};

/// The system's allocator; counts what this thread asks of it.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to `System` with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promise is the one `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and releases during `work`.
fn calls(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

/// Frames of `flows` flows, IPv4 and IPv6, some of them tagged.
fn frames(flows: u16, flags: u8) -> Vec<Vec<u8>> {
    let frame = |i: u16| {
        let [a, b] = i.to_be_bytes();
        let frame = match i % 3 {
            0 => FrameBuilder::ipv4([10, 0, a, b], [10, 9, 9, 9]),
            1 => FrameBuilder::ipv4([10, 0, a, b], [10, 9, 9, 9]).vlan(i % 7),
            _ => FrameBuilder::ipv6([a; 16], [b; 16]).hop_by_hop(&[0; 6]),
        };
        frame.tcp(i, 80).flags(flags).build()
    };
    (0..flows).map(frame).collect()
}

/// Packets of these frames: whole, in two segments, and cut by a capture.
fn packets(frames: &[Vec<u8>]) -> Vec<BytesPacket<'_>> {
    let shape = |(i, frame): (usize, &'_ Vec<u8>)| match i % 5 {
        0 => (20, frame.len()),
        1 => (frame.len(), 30),
        _ => (frame.len(), frame.len()),
    };
    let packet = |(i, frame)| match shape((i, frame)) {
        (cut, len) if cut < len => BytesPacket::cut(frame, cut),
        (len, captured) => BytesPacket::captured(&frame[..captured], len, len),
    };
    frames.iter().enumerate().map(packet).collect()
}

fn process(engine: &mut Engine, now: u64, packets: &[BytesPacket]) {
    let mut verdicts = [Verdict::Forward; BURST_MAX];
    for burst in packets.chunks(BURST_MAX) {
        engine.process(now, burst, &mut verdicts);
    }
}

/// As a NIC that does whatever it is asked.
fn answer_all(engine: &mut Engine) {
    while let Some(request) = engine.next_request() {
        match request {
            RuleRequest::Install { rule, .. } => {
                engine.apply_result(rule, RuleResult::Installed { pace: 1000, took: 100 })
            }
            RuleRequest::Remove { rule, .. } => engine.apply_result(rule, RuleResult::Removed),
        }
    }
    engine.queue_drained(Side::A);
    engine.queue_drained(Side::B);
    engine.recheck_rules(0, 100);
}

/// Walks through all flows, and through those with rules; returns how many there are.
fn walk(engine: &Engine) -> u64 {
    let mut found = 0;
    for has_rules in [false, true] {
        let (query, mut cursor) =
            (Query { has_rules, with_rules: true, ..Query::default() }, Cursor::default());
        while engine.list(&query, &mut cursor, 64, &mut |_| found += 1) {}
    }
    found
}

/// Ends some flows, those of a zone.
fn sweep(engine: &mut Engine) -> u64 {
    let (filter, mut cursor) = (Filter { zone: Some(3), ..Filter::default() }, Cursor::default());
    let mut taken = 0;
    while engine.sweep(&filter, &mut cursor, 64).more {
        taken += take(engine);
    }
    taken
}

fn take(engine: &mut Engine) -> u64 {
    while engine.next_event().is_some() {}
    std::iter::from_fn(|| engine.next_record()).count() as u64
}

#[test]
fn nothing_is_allocated_after_start() {
    nothing_is_allocated(TcpWindowCheck::Liberal, Evict::Nothing);
}

/// All of them are 0, which is invalid sooner or later.
#[test]
fn nothing_is_allocated_where_numbers_are_judged() {
    nothing_is_allocated(TcpWindowCheck::Strict, Evict::Embryonic);
}

fn nothing_is_allocated(tcp: TcpWindowCheck, evict: Evict) {
    let [acks, syns, resets] = [tcp::ACK, tcp::SYN, tcp::RST].map(|flags| frames(3000, flags));
    let [acks, syns, resets] = [&acks, &syns, &resets].map(|frames| packets(frames));
    // Room for some 1600 IPv4 flows and for part of the IPv6 flows.
    let offload = OffloadConfig {
        layout: MarkLayout::new(32, 3000).unwrap(),
        first_index: 0,
        check: MarkVerification::Sampled { first: 1, one_in: 16 },
        admission: OffloadPolicy::After { packets: 2 },
        rules_max: 1500,
        zone_rules_max: None,
        chooses_marks: false,
        bypass: [BypassConfig::OFF; 2],
        slots: 1500,
    };
    let (capacity_ipv4, capacity_ipv6) = (2000, 100);
    let (layout, offload) = (offload.layout, Some(offload));
    let config = Config {
        capacity_ipv4,
        capacity_ipv6,
        tcp,
        offload,
        evict,
        embryonic_percent: 100,
        timeouts: Timeouts::SHORT,
        ..Config::default()
    };
    let mut engine = Engine::new(&config);
    // Each mark is somebody's, now and then that of the packet it is on.
    let rule = |i| RuleId { index: i as u32 % 3000, generation: 1, direction: 0 };
    let mark = |i| Some(layout.encode(rule(i)));
    let marked: Vec<_> =
        acks.iter().enumerate().map(|(i, packet)| packet.clone().marked(mark(i))).collect();
    let (mut taken, mut listed) = (0, 0);
    let allocated = calls(|| {
        for turn in 0..4 {
            engine.subscribe(turn > 1);
            let now = turn * 20_000_000_000;
            process(&mut engine, now, &acks);
            process(&mut engine, now + 1, &acks);
            // Rules are made, and packets come with any mark.
            answer_all(&mut engine);
            for marks in marked.chunks(BURST_MAX) {
                engine.process(now + 1, marks, &mut [Verdict::Forward; BURST_MAX]);
            }
            // More records than may wait: some are lost, none takes memory.
            for _ in 0..5 {
                process(&mut engine, now + 2, &resets);
                process(&mut engine, now + 3, &syns);
            }
            taken += take(&mut engine);
            listed += walk(&engine);
            taken += sweep(&mut engine);
            answer_all(&mut engine);
            while engine.expire(now + 10_000_000_000, 32) > 0 {
                taken += take(&mut engine);
                answer_all(&mut engine);
            }
        }
        process(&mut engine, 100_000_000_000, &acks);
        while engine.flush(100) {
            taken += take(&mut engine);
        }
        taken += take(&mut engine);
    });
    assert_eq!(allocated, 0);

    did_what_it_was_watched_at(&engine, tcp, evict);
    let stats = engine.stats();
    assert_eq!(taken + stats.records_lost, stats.created);
    assert!(listed > 4 * 1500, "{listed}");
}

fn did_what_it_was_watched_at(engine: &Engine, tcp: TcpWindowCheck, evict: Evict) {
    let stats = engine.stats();
    assert!(stats.tracked > 20_000 && stats.created > 6_000, "{stats:?}");
    let evicts = evict == Evict::Embryonic;
    assert_eq!(stats.passed[UntrackedReason::TableFull as usize] > 0, !evicts);
    assert_eq!(stats.ended[EndReason::Evicted as usize] > 0, evicts);
    assert!(stats.passed[UntrackedReason::CaptureCut as usize] > 0);
    for reason in [EndReason::Idle, EndReason::Reuse, EndReason::Flushed, EndReason::Exit] {
        assert!(stats.ended[reason as usize] > 0, "{reason:?}: {stats:?}");
    }
    let is_judged = tcp == TcpWindowCheck::Strict;
    assert_eq!(stats.records_lost > 0, !is_judged || evicts, "{stats:?}");
    assert_eq!(stats.anomalies.iter().any(|&packets| packets > 0), is_judged, "{stats:?}");
    let MarkStats { stale, mismatched, checked, .. } = engine.mark_stats();
    assert!(stale > 0 && mismatched > 0 && checked > 0, "{:?}", engine.mark_stats());
}

/// Whoever gives a worker what is to hold in zones takes back what held before, and sets it free.
#[test]
fn nothing_is_allocated_when_policies_change() {
    let frames = [tcp::SYN, tcp::ACK].map(|flags| frames(1000, flags));
    let [syns, acks] = [&frames[0], &frames[1]].map(|frames| packets(frames));
    let config = |tcp, timeouts| Config { tcp, timeouts, capacity_ipv4: 2000, ..Config::default() };
    let long = config(TcpWindowCheck::Strict, Timeouts::default());
    let short = config(TcpWindowCheck::Liberal, Timeouts::SHORT);
    let zones = [&short, &long, &short].map(|config| Arc::new(ZonePolicies::new(config)));
    let mut given_back = [const { None }; 3];
    let mut engine = Engine::new(&long);
    let mut retimed = 0;
    let allocated = calls(|| {
        engine.subscribe(true);
        process(&mut engine, 0, &syns);
        for (place, zones) in given_back.iter_mut().zip(&zones) {
            *place = Some(engine.set_zones(zones.clone()));
            process(&mut engine, 1, &acks);
            let mut cursor = Cursor::default();
            while engine.review(&mut cursor, 16, &mut retimed) {
                while engine.next_event().is_some() {}
            }
        }
    });
    assert_eq!(allocated, 0);
    assert_eq!(retimed, 800);
}

#[test]
fn the_counter_counts() {
    assert!(calls(|| drop(std::hint::black_box(Box::new(1)))) >= 2);
}

/// Frames that share a buffer: whole ones of UDP to begin with.
struct Forge(Vec<u8>);

impl Forge {
    /// A fragment from this address, with this number and field of offset and flags.
    fn fragment(&mut self, source: u32, id: u16, field: u16) -> BytesPacket<'_> {
        self.0[18..20].copy_from_slice(&id.to_be_bytes());
        self.0[20..22].copy_from_slice(&field.to_be_bytes());
        self.0[26..30].copy_from_slice(&source.to_be_bytes());
        BytesPacket::new(&self.0)
    }
}

const MORE: u16 = 0x2000;

/// A datagram in three parts, which come in this order; how many of them were tracked at once or
/// after they had waited.
fn send_in_parts(engine: &mut Engine, forge: &mut Forge, id: u16, order: [u16; 3]) -> u64 {
    let tracked = engine.stats().tracked;
    for part in order {
        let field = part * 4 | if part < 2 { MORE } else { 0 };
        let packet = forge.fragment(0x0a00_0001, id, field);
        engine.process(u64::from(id) * 1_000_000, &[packet], &mut [Verdict::Drop]);
        while engine.next_release().is_some() {}
    }
    engine.stats().tracked - tracked
}

/// A million fragments of one sender, or of as many senders as there are, which wants to get at the
/// datagrams of another.
fn an_honest_sender_is_served_beside(mut source: impl FnMut(u32) -> u32) {
    let frame = FrameBuilder::ipv4([0; 4], [10, 9, 9, 9]).udp(1, 2).payload([7; 24]).build();
    let mut forge = Forge(frame);
    let checksums = ChecksumCheck::Trusted;
    let mut engine = Engine::new(&Config { capacity_ipv4: 4096, checksums, ..Config::default() });
    let (mut random, mut honest) = (Random::new(1), 0);
    let allocated = calls(|| {
        for i in 0..1_000_000_u32 {
            let bits = random.bits() as u32;
            // Parts of all kinds: first ones, others, overlapping ones.
            let field = (bits >> 8 & 0x1f) as u16 * 2 | MORE;
            let packet = forge.fragment(source(bits), (bits >> 16) as u16, field);
            engine.process(u64::from(i) * 1000, &[packet], &mut [Verdict::Drop]);
            while engine.next_release().is_some() {}
            while engine.next_record().is_some() {}
            if i % 1000 == 999 {
                let id = (i / 1000) as u16 + 1;
                let order = if id % 2 == 0 { [0, 1, 2] } else { [2, 0, 1] };
                honest += send_in_parts(&mut engine, &mut forge, id, order);
            }
        }
        engine.release_all();
        while engine.next_release().is_some() {}
    });
    assert_eq!((allocated, honest), (0, 3000));
    let stats = engine.stats();
    assert_eq!((stats.packets(), stats.held), (1_003_000, 0));
    assert!(stats.passed[UntrackedReason::Fragment as usize] > 100_000, "{stats:?}");
}

#[test]
fn fragments_of_one_sender_take_no_memory_and_no_place_of_others() {
    an_honest_sender_is_served_beside(|_| 0x0a01_0101);
}

#[test]
fn nor_do_fragments_of_many_senders() {
    an_honest_sender_is_served_beside(|bits| 0x0b00_0000 | bits >> 12);
}
