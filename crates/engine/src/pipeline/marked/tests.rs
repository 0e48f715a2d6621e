// SPDX-License-Identifier: BSD-3-Clause
//! Checks that rules are verified while their marks are ignored, and that marked packets are
//! counted while nothing is evaluated.

use crate::api::{
    BypassConfig, Config, MarkLayout, MarkUse, MarkVerification, OffloadConfig, OffloadPolicy,
    RuleRequest, RuleResult, Side, Verdict,
};
use crate::base::Micros;
use crate::engine::Engine;
use wire::{BytesPacket, FrameBuilder};

const NOW: u64 = 1_000_000_000;

/// First packets of a rule whose key is compared.
const FIRST: u8 = 4;

fn offload() -> OffloadConfig {
    OffloadConfig {
        layout: MarkLayout::new(32, 16).unwrap(),
        first_index: 0,
        slots: 8,
        check: MarkVerification::Sampled { first: FIRST, one_in: u32::MAX },
        admission: OffloadPolicy::After { packets: 1 },
        rules_max: 8,
        zone_rules_max: None,
        chooses_marks: false,
        bypass: [BypassConfig::OFF; 2],
    }
}

/// One flow, and the frame and mark of its first direction, whose rule is installed.
struct OneFlow {
    engine: Engine,
    frame: Vec<u8>,
    mark: u32,
}

impl OneFlow {
    fn new(offload: OffloadConfig) -> Self {
        let flow = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(7, 53);
        let (frame, answer) = (flow.clone().build(), flow.reversed().build());
        let config = Config { offload: Some(offload), ..Config::default() };
        let mut engine = Engine::new(&config);
        for frame in [&frame, &answer, &frame] {
            engine.process(NOW, &[BytesPacket::new(frame)], &mut [Verdict::Drop]);
        }
        // That of the answers is not even requested.
        let Some(RuleRequest::Install { rule, side: Side::A, .. }) = engine.next_request() else {
            panic!("no rule is requested")
        };
        engine.apply_result(rule, RuleResult::Installed { pace: 1, took: 100 });
        let mark = offload.layout.encode(rule);
        Self { engine, frame, mark }
    }

    /// Sends as many bursts of one marked packet, which are processed in this way.
    fn send(&mut self, bursts: usize, way: MarkUse) {
        self.engine.pipeline.mark_use = way;
        for _ in 0..bursts {
            let packet = BytesPacket::new(&self.frame).marked(Some(self.mark));
            self.engine.process(NOW, &[packet], &mut [Verdict::Drop]);
        }
    }

    fn checked(&self) -> u64 {
        self.engine.mark_stats().checked
    }
}

/// Otherwise, marks seem to cost more than they do until each rule has marked some packets.
#[test]
fn rules_are_verified_while_their_marks_are_ignored() {
    let mut flow = OneFlow::new(offload());
    flow.send(80, MarkUse::Ignored);
    assert_eq!((flow.checked(), flow.engine.mark_stats().ignored), (FIRST.into(), 80));
    assert_eq!(flow.engine.offload_stats().effective, 1);
    flow.send(20, MarkUse::Used);
    // The first packet is one of the sample.
    assert_eq!((flow.checked(), flow.engine.mark_stats().counted), (u64::from(FIRST) + 1, 20));
}

/// Where no mark is ever trusted, there is nothing to verify beforehand.
#[test]
fn nothing_is_verified_beforehand_if_each_packet_is() {
    let mut flow = OneFlow::new(OffloadConfig { check: MarkVerification::Always, ..offload() });
    flow.send(20, MarkUse::Ignored);
    assert_eq!(flow.checked(), 0);
    flow.send(20, MarkUse::Used);
    assert_eq!(flow.checked(), 20);
}

/// A mark whose rule is gone verifies nothing, nor does one on another's packet.
#[test]
fn only_packets_of_the_rule_verify_it() {
    let mut flow = OneFlow::new(offload());
    let of_flow = std::mem::replace(
        &mut flow.frame,
        FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(8, 53).build(),
    );
    flow.send(80, MarkUse::Ignored);
    assert_eq!((flow.checked(), flow.engine.offload_stats().effective), (20, 0));
    flow.frame = of_flow;
    flow.mark ^= 1 << 31;
    flow.send(80, MarkUse::Ignored);
    assert_eq!((flow.checked(), flow.engine.offload_stats().effective), (20, 0));
}

/// In a trial, marks are used in a window in which no direction is evaluated.
#[test]
fn marked_packets_are_counted_side_by_side_while_nothing_is_evaluated() {
    let mut flow = OneFlow::new(offload());
    flow.send(20, MarkUse::Used);
    let marked = flow.engine.pipeline.marked.as_ref().unwrap();
    let (record, mark, meta) = (marked.records[0], marked.marks[0], marked.plain.metas[0]);
    let v4 = &mut flow.engine.trackers.v4;
    v4.allow_marks((true, false), 0);
    assert!(v4.eval_interval().is_none());
    assert_eq!(v4.count_marked((&[record], &[mark]), &[meta], Micros::of(NOW), |_| None), 1);
}
