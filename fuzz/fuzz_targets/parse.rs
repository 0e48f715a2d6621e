// SPDX-License-Identifier: BSD-3-Clause
//! Any bytes as a packet: no panic, exactly one counter moves, and neither a cut into segments nor
//! a snap length changes what is made of the bytes that are there.
//!
//! Input: two bytes that say where to cut, one of options, the frame.
#![no_main]

use engine::{
    BURST_MAX, Config, Engine, FlowRecord, Malformed, Reason, Stats, Tally, Verdict, ZoneFrom,
};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use wire::BytesPacket;

thread_local! {
    /// By zone: making an engine takes longer than asking one.
    static ENGINES: RefCell<Vec<Engine>> = RefCell::new(
        [ZoneFrom::None, ZoneFrom::OuterVlan, ZoneFrom::InnerVlan].map(engine).into(),
    );
}

fn engine(zone: ZoneFrom) -> Engine {
    let malformed = Malformed::Drop;
    let capacity = 1;
    Engine::new(&Config {
        capacity_ipv4: capacity,
        capacity_ipv6: capacity,
        zone,
        malformed,
        ..Config::default()
    })
}

/// What the engine makes of one packet.
#[derive(Debug, PartialEq)]
struct Outcome {
    verdict: Verdict,
    flow: Option<FlowRecord>,
    reason: Option<Reason>,
}

fn outcome(engine: &mut Engine, packet: BytesPacket) -> Outcome {
    let counters = |stats: &Stats, reason: Reason| {
        stats.passed[reason as usize] + stats.dropped[reason as usize]
    };
    let before = engine.stats().clone();
    let mut verdict = [Verdict::Drop];
    engine.process(1, &[packet], &mut verdict);
    while engine.flush(BURST_MAX) {}
    let flow = engine.next_record();
    let after = engine.stats();
    assert_eq!(after.packets(), before.packets() + 1);
    assert_eq!(after.active(), 0);
    assert_eq!(after.tracked - before.tracked, u64::from(flow.is_some()));
    let moved = |reason: &Reason| counters(after, *reason) > counters(&before, *reason);
    let reason = Reason::ALL.into_iter().find(moved);
    let is_drop = reason.is_some_and(Reason::is_malformed);
    assert_eq!(verdict[0] == Verdict::Drop, is_drop, "{reason:?}");
    Outcome { verdict: verdict[0], flow, reason }
}

/// Four such packets at once, which may be parsed side by side, are four times one.
fn check_four(engine: &mut Engine, frame: &[u8], one: &Outcome) {
    let before = engine.stats().packets();
    let mut verdicts = [Verdict::Drop; 4];
    let packet = BytesPacket::new(frame);
    engine.process(1, &[packet.clone(), packet.clone(), packet.clone(), packet], &mut verdicts);
    while engine.flush(BURST_MAX) {}
    assert_eq!(verdicts, [one.verdict; 4]);
    assert_eq!(engine.stats().packets(), before + 4);
    let times_4 = |tally: Tally| Tally {
        packets: 4 * tally.packets,
        bytes: 4 * tally.bytes,
        ip_bytes: 4 * tally.ip_bytes,
        ..tally
    };
    let expected = one.flow.clone().map(|flow| FlowRecord {
        orig: times_4(flow.orig),
        reply: times_4(flow.reply),
        ..flow
    });
    assert_eq!(engine.next_record(), expected);
    assert_eq!(engine.next_record(), None);
}

fuzz_target!(|data: &[u8]| {
    let [a, b, options, frame @ ..] = data else { return };
    let at = usize::from(u16::from_le_bytes([*a, *b])) % (frame.len() + 1);
    ENGINES.with_borrow_mut(|engines| {
        let engine = &mut engines[usize::from(*options) % 3];
        let whole = outcome(engine, BytesPacket::new(frame));
        check_four(engine, frame, &whole);
        assert_eq!(outcome(engine, BytesPacket::cut(frame, at)), whole);
        assert_eq!(outcome(engine, BytesPacket::cut(frame, 0)), whole);

        // The capture of a longer frame: what it says of the packet, the whole frame says as well,
        // unless that has other faults behind the cut.
        let len = frame.len() + usize::from(*options) * 16;
        let cut = outcome(engine, BytesPacket::captured(&frame[..at], len, len));
        let longer = outcome(engine, BytesPacket::captured(frame, len, len));
        if let Some(flow) = cut.flow {
            assert_eq!(Some(flow), longer.flow);
        } else {
            assert!(cut.reason == longer.reason || cut.reason == Some(Reason::CaptureCut));
        }
    });
});
