// SPDX-License-Identifier: BSD-3-Clause
//! Any bytes as a packet: no panic, exactly one counter moves, and neither a cut into segments nor
//! a snap length changes what is made of the bytes that are there.
//!
//! Input: two bytes that say where to cut, one of options, the frame.
#![no_main]

use engine::{
    BURST_MAX, ChecksumCheck, Config, DirectionCounters, Engine, FlowRecord, FlowState,
    FragmentLimits, InvalidFragments, MalformedPackets, ProtoState, Stats, TcpWindowCheck,
    UntrackedReason, Verdict, ZoneSource,
};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use wire::BytesPacket;

const TCP: u8 = 6;
const SCTP: u8 = 132;

thread_local! {
    /// By zone, and by whether fragments are known and wait: making an engine takes longer than
    /// asking one.
    static ENGINES: RefCell<Vec<Engine>> = RefCell::new({
        let fixed = ZoneSource::Fixed(u16::MAX);
        let zones = [ZoneSource::None, ZoneSource::OuterVlan, ZoneSource::InnerVlan, fixed];
        [0, 4].into_iter().flat_map(|n| zones.map(|zone| engine(zone, n))).collect()
    });
}

/// One that knows so many datagrams, each for no time: what was before changes nothing.
fn engine(zone: ZoneSource, datagrams: u32) -> Engine {
    let malformed = MalformedPackets::Drop;
    let capacity = 1;
    Engine::new(&Config {
        capacity_ipv4: capacity,
        capacity_ipv6: capacity,
        zone,
        malformed,
        // A cut leaves nothing to verify, and no numbers.
        checksums: ChecksumCheck::Trusted,
        tcp: TcpWindowCheck::Liberal,
        odd_fragments: InvalidFragments::Drop,
        fragments: FragmentLimits { datagrams, timeout: 0, ..FragmentLimits::default() },
        ..Config::default()
    })
}

/// What the engine makes of one packet.
#[derive(Debug, PartialEq)]
struct Outcome {
    verdict: Verdict,
    flow: Option<FlowRecord>,
    reason: Option<UntrackedReason>,
}

fn outcome(engine: &mut Engine, packet: BytesPacket) -> Outcome {
    let counters = |stats: &Stats, reason: UntrackedReason| {
        stats.passed[reason as usize] + stats.dropped[reason as usize]
    };
    let before = engine.stats().clone();
    let mut verdict = [Verdict::Drop];
    engine.process(1, &[packet], &mut verdict);
    release(engine, &mut verdict);
    while engine.flush(BURST_MAX) {}
    let flow = engine.next_record();
    let after = engine.stats();
    assert_eq!(after.packets(), before.packets() + 1);
    assert_eq!(after.active(), 0);
    assert_eq!(after.tracked - before.tracked, u64::from(flow.is_some()));
    let moved = |reason: &UntrackedReason| counters(after, *reason) > counters(&before, *reason);
    let reason = UntrackedReason::ALL.into_iter().find(moved);
    let is_drop = reason.is_some_and(|reason| reason.is_malformed() || reason.is_odd_fragment());
    assert_eq!(verdict[0] == Verdict::Drop, is_drop, "{reason:?}");
    Outcome { verdict: verdict[0], flow, reason }
}

/// Lets go of those that wait.
fn release(engine: &mut Engine, verdicts: &mut [Verdict]) {
    engine.release_all();
    let waiting = verdicts.iter_mut().filter(|verdict| **verdict == Verdict::Hold);
    for verdict in waiting {
        let release = engine.next_release().expect("a packet that waits is released");
        *verdict = release.verdict;
    }
    assert!(engine.next_release().is_none() && engine.stats().held == 0);
}

/// Four such packets at once, which may be parsed side by side, are four times one.
fn check_four(engine: &mut Engine, frame: &[u8], one: &Outcome) {
    let before = engine.stats().packets();
    let mut verdicts = [Verdict::Drop; 4];
    let packet = BytesPacket::new(frame);
    engine.process(1, &[packet.clone(), packet.clone(), packet.clone(), packet], &mut verdicts);
    release(engine, &mut verdicts);
    while engine.flush(BURST_MAX) {}
    assert_eq!(verdicts, [one.verdict; 4]);
    assert_eq!(engine.stats().packets(), before + 4);
    let times_4 = |tally: DirectionCounters| DirectionCounters {
        packets: 4 * tally.packets,
        bytes: 4 * tally.bytes,
        ip_bytes: 4 * tally.ip_bytes,
        ..tally
    };
    let ended = engine.next_record();
    // UDP says `udp_first` of one packet, and `udp_single` of several.
    let proto_state = ended.as_ref().map(|flow| flow.proto_state);
    let expected = one.flow.clone().map(|flow| FlowRecord {
        orig: times_4(flow.orig),
        reply: times_4(flow.reply),
        proto_state: proto_state.unwrap_or(flow.proto_state),
        ..flow
    });
    assert_eq!(ended, expected);
    assert_eq!(engine.next_record(), None);
}

/// The flow of a whole packet without what a capture that ends behind the ports does not show: the
/// flags of TCP, and the state that follows from them.
fn seen_as_far_as(cut: &FlowRecord, whole: FlowRecord) -> FlowRecord {
    if whole.proto != TCP || cut.orig.tcp_flags != 0 {
        return whole;
    }
    let orig = DirectionCounters { tcp_flags: 0, ..whole.orig };
    FlowRecord { state: cut.state, proto_state: cut.proto_state, orig, ..whole }
}

fuzz_target!(|data: &[u8]| {
    let [a, b, options, frame @ ..] = data else { return };
    let at = usize::from(u16::from_le_bytes([*a, *b])) % (frame.len() + 1);
    ENGINES.with_borrow_mut(|engines| {
        let which = usize::from(*options) % engines.len();
        let engine = &mut engines[which];
        let whole = outcome(engine, BytesPacket::new(frame));
        check_four(engine, frame, &whole);
        assert_eq!(outcome(engine, BytesPacket::cut(frame, at)), whole);
        assert_eq!(outcome(engine, BytesPacket::cut(frame, 0)), whole);

        // The capture of a longer frame: what it says of the packet, the whole frame says as well,
        // unless that has other faults behind the cut.
        let len = frame.len() + usize::from(*options) * 16;
        let cut = outcome(engine, BytesPacket::captured(&frame[..at], len, len));
        let longer = outcome(engine, BytesPacket::captured(frame, len, len));
        // But chunks of SCTP behind the cut may be such that no association begins with them.
        let all_but_state = |flow: FlowRecord| match flow.proto {
            SCTP => FlowRecord { state: FlowState::New, proto_state: ProtoState::Closed, ..flow },
            _ => flow,
        };
        match (cut.flow, longer.flow) {
            (Some(cut), Some(longer)) => {
                let longer = seen_as_far_as(&cut, longer);
                assert_eq!(all_but_state(cut), all_but_state(longer));
            }
            // A capture may end behind the ports, before the fault.
            (Some(_), None) => assert!(longer.reason.is_some_and(UntrackedReason::is_malformed)),
            (None, _) => {
                assert!(
                    cut.reason == longer.reason || cut.reason == Some(UntrackedReason::CaptureCut)
                );
            }
        }
    });
});
