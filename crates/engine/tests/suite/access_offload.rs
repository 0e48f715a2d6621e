// SPDX-License-Identifier: BSD-3-Clause
//! Connections that a rule with `no-offload` permits get no NIC rule, and lose the one they have.

use acl::{AccessList, Action, parse_rule};
use engine::{
    AccessLists, AccessUpdate, BypassConfig, Config, Cursor, Engine, ListBinding, ListDirection,
    MarkLayout, MarkVerification, NoRuleReason, OffloadConfig, OffloadPolicy, Query, RuleRequest,
    RuleResult, Side, Verdict,
};
use std::sync::Arc;
use wire::{BytesPacket, FrameBuilder};

fn lists(rules: &[[&str; 2]]) -> AccessLists {
    let sides = [(Side::A, "a"), (Side::B, "b")];
    let bindings = sides.into_iter().enumerate().map(|(at, (side, name))| {
        let parsed = rules.iter().map(|rule| parse_rule(rule[at], &|_| None).unwrap());
        let (rules, default) = (parsed.collect(), Action::Deny);
        let list = Arc::new(AccessList { name: name.into(), rules, default });
        ListBinding { list, places: vec![(side, ListDirection::In)] }
    });
    AccessLists::new(&bindings.collect::<Vec<_>>()).unwrap()
}

fn engine(access: AccessLists) -> Engine {
    let offload = OffloadConfig {
        layout: layout(),
        first_index: 0,
        slots: 16,
        check: MarkVerification::Always,
        admission: OffloadPolicy::After { packets: 1 },
        rules_max: 16,
        zone_rules_max: None,
        bypass: [BypassConfig::OFF; 2],
        chooses_marks: false,
    };
    Engine::new(&Config {
        capacity_ipv4: 16,
        capacity_ipv6: 16,
        access: Some(Arc::new(access)),
        offload: Some(offload),
        ..Config::default()
    })
}

/// A NIC that installs every rule at once, and the engine that requests them.
struct Bump {
    engine: Engine,
    /// Mark of the rule at each side.
    marks: [Option<u32>; 2],
}

impl Bump {
    fn new(access: AccessLists) -> Self {
        Self { engine: engine(access), marks: [None; 2] }
    }

    /// Sends packets of a connection in both directions. Returns how many rules were installed, and
    /// how many removed.
    fn exchange(&mut self, dport: u16) -> [usize; 2] {
        let query = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).udp(4000, dport);
        let sides = [(Side::A, query.clone().build()), (Side::B, query.reversed().build())];
        let (mut counts, engine) = ([0; 2], &mut self.engine);
        for _ in 0..2000 {
            for (side, frame) in &sides {
                let mut verdicts = [Verdict::Hold];
                let now = engine.stats().packets() * 1_000_000;
                let packet = BytesPacket::new(frame).marked(self.marks[*side as usize]);
                engine.process_from(*side, now, &[packet], &mut verdicts);
                engine.queue_drained(*side);
                assert_eq!(verdicts, [Verdict::Forward]);
            }
            engine.expire(engine.stats().packets() * 1_000_000, 64);
            engine.recheck_rules(engine.stats().packets() * 1_000_000, 64);
            while let Some(request) = engine.next_request() {
                let (at, rule, result) = match request {
                    RuleRequest::Install { rule, side, .. } => {
                        self.marks[side as usize] = Some(layout().encode(rule));
                        (0, rule, RuleResult::Installed { pace: 1000, took: 100 })
                    }
                    RuleRequest::Remove { rule, side } => {
                        self.marks[side as usize] = None;
                        (1, rule, RuleResult::Removed)
                    }
                };
                counts[at] += 1;
                engine.apply_result(rule, result);
            }
        }
        counts
    }
}

fn layout() -> MarkLayout {
    MarkLayout::new(24, OffloadConfig::indices(16)).unwrap()
}

#[test]
fn no_rule_is_requested_in_either_direction() {
    for (rules, expected) in [
        (["permit", "permit"], [2, 0]),
        (["permit+reflect", "deny"], [2, 0]),
        (["permit no-offload", "permit"], [0, 0]),
        (["permit+reflect no-offload", "deny"], [0, 0]),
    ] {
        let mut bump = Bump::new(lists(&[rules]));
        assert_eq!(bump.exchange(53), expected, "{rules:?}");
    }
    let rules = [["permit no-offload proto udp dport 53", "permit"], ["permit", "permit"]];
    let mut bump = Bump::new(lists(&rules));
    assert_eq!(bump.exchange(53), [0, 0]);
    assert_eq!(bump.exchange(54), [2, 0], "of another rule");
    let mut reasons = Vec::new();
    let query = Query { with_rules: true, ..Query::default() };
    bump.engine.list(&query, &mut Cursor::default(), 64, &mut |flow| {
        if flow.record.dport == 53 {
            reasons.extend(flow.rules.unwrap().map(|view| view.reason));
        }
    });
    assert_eq!(reasons, [Some(NoRuleReason::NoOffload); 2]);
}

/// A change of lists withdraws rules, and the next one allows them again.
#[test]
fn a_change_of_lists_withdraws_rules() {
    let first = lists(&[["permit+reflect", "deny"]]);
    let mut bump = Bump::new(first);
    assert_eq!(bump.exchange(53), [2, 0]);
    let change = |engine: &mut Engine, old: [&str; 2], new: [&str; 2]| {
        engine.set_access(AccessUpdate::new(&lists(&[old]), Arc::new(lists(&[new]))));
        let (mut cursor, mut opened) = (Cursor::default(), 0);
        while engine.open_access(&mut cursor, 8, &mut opened) {}
    };
    let (with, without) = (["permit+reflect", "deny"], ["permit+reflect no-offload", "deny"]);
    change(&mut bump.engine, with, without);
    assert_eq!(bump.exchange(53), [0, 2]);
    assert_eq!(bump.exchange(53), [0, 0]);
    change(&mut bump.engine, without, with);
    assert_eq!(bump.exchange(53), [2, 0]);
}
