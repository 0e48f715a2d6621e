// SPDX-License-Identifier: BSD-3-Clause
//! Checks how many packets pay for a bypass, and that a direction gets one after so many.

use super::*;
use crate::api::{
    BypassAfter, BypassConfig, Config, MarkLayout, MarkVerification, OffloadConfig, OffloadPolicy,
    RuleAction, RuleRequest, RuleResult, Side, Stage, Verdict,
};
use crate::engine::Engine;
use wire::{BytesPacket, FrameBuilder};

const SECOND: Nanos = 1_000_000_000;

/// Packets of 100 cycles each, where a nanosecond has two and a half.
fn measured() -> PacketCost {
    let (mut cost, mut stats) = (PacketCost::UNKNOWN, Stats::default());
    for seconds in 1..10 {
        cost.measure((seconds * SECOND, seconds * SECOND * 5 / 2), &stats);
        stats.stage_cycles[0] += 100 * 2000;
        stats.sampled_packets += 2000;
    }
    cost
}

#[test]
fn a_rule_pays_when_packets_have_taken_as_long_as_it() {
    let cost = measured();
    assert!((cost.nanos() - 40.0).abs() < 1e-6, "{cost:?}");
    // 20 microseconds to install it and 20 to remove it.
    assert_eq!(cost.payback_packets(20_000), 1000);
    assert_eq!(cost.payback_packets(1), 64);
    assert_eq!(cost.payback_packets(u64::MAX), 1 << 24);
}

#[test]
fn without_a_measurement_the_number_is_a_guess() {
    assert_eq!(PacketCost::UNKNOWN.payback_packets(20_000), PAYBACK_UNKNOWN);
    assert_eq!(measured().payback_packets(0), PAYBACK_UNKNOWN);
    // A counter that stands still.
    let (mut cost, mut stats) = (PacketCost::UNKNOWN, Stats::default());
    for seconds in 1..4 {
        cost.measure((seconds * SECOND, 7), &stats);
        stats.sampled_packets += 2000;
    }
    assert_eq!(cost.nanos(), 0.0);
}

#[test]
fn few_packets_are_not_measured() {
    let mut cost = measured();
    let before = cost.nanos();
    let stats = Stats {
        sampled_packets: cost.last.packets + PACKETS_MIN - 1,
        stage_cycles: [1 << 40; Stage::ALL.len()],
        ..Stats::default()
    };
    cost.measure((100 * SECOND, 250 * SECOND), &stats);
    assert_eq!(cost.nanos(), before);
}

/// Returns after how many packets the bypass of a flow is requested.
fn packets_until_bypass(payback: Option<u32>) -> u32 {
    let bypass = BypassConfig { udp: BypassAfter::Payback, tcp: BypassAfter::Never };
    let offload = OffloadConfig {
        layout: MarkLayout::new(32, 16).unwrap(),
        first_index: 0,
        slots: 8,
        check: MarkVerification::Always,
        admission: OffloadPolicy::After { packets: 1 },
        rules_max: 8,
        zone_rules_max: None,
        chooses_marks: false,
        bypass: [bypass; 2],
    };
    let mut engine = Engine::new(&Config { offload: Some(offload), ..Config::default() });
    if let (Some(rules), Some(packets)) = (engine.trackers.v4.rules_mut(), payback) {
        Side::BOTH.into_iter().for_each(|side| rules.set_payback_packets(side, packets));
    }
    let flow = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(7, 53);
    let (frame, answer) = (flow.clone().build(), flow.reversed().build());
    engine.process(SECOND, &[BytesPacket::new(&frame)], &mut [Verdict::Drop]);
    engine.process(SECOND, &[BytesPacket::new(&answer)], &mut [Verdict::Drop]);
    for packets in 2..100_000 {
        engine.process(SECOND, &[BytesPacket::new(&frame)], &mut [Verdict::Drop]);
        while let Some(request) = engine.next_request() {
            let (rule, result) = match request {
                RuleRequest::Install { action: RuleAction::Bypass, .. } => return packets,
                RuleRequest::Install { rule, .. } => {
                    (rule, RuleResult::Installed { pace: 1000, took: 100 })
                }
                RuleRequest::Remove { rule, .. } => (rule, RuleResult::Removed),
            };
            engine.apply_result(rule, result);
        }
    }
    panic!("no bypass is requested")
}

/// A direction is evaluated every 64th packet, and its mark rule goes first.
#[test]
fn a_direction_is_bypassed_once_that_pays() {
    for (payback, expected) in [(None, PAYBACK_UNKNOWN), (Some(200), 200), (Some(5000), 5000)] {
        let packets = packets_until_bypass(payback);
        assert!((expected..=expected + 2 * 64).contains(&packets), "{packets}, not {expected}");
    }
}
