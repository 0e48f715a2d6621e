// SPDX-License-Identifier: BSD-3-Clause
//! Connections that a rule with `no-offload` permits get no NIC rule, and lose the one they have.
//! Before lists change, connections are called back from the NIC.

use acl::{AccessList, Action, parse_rule};
use engine::{
    AccessLists, AccessUpdate, BypassAfter, BypassConfig, BypassCount, Config, Cursor, Engine,
    ListBinding, ListDirection, MarkLayout, MarkVerification, NoRuleReason, OffloadConfig,
    OffloadPolicy, Query, RuleAction, RuleId, RuleRequest, RuleResult, Side, Verdict,
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

fn engine(access: AccessLists, bypass: BypassConfig) -> Engine {
    let offload = OffloadConfig {
        layout: layout(),
        first_index: 0,
        slots: 16,
        check: MarkVerification::Always,
        admission: OffloadPolicy::After { packets: 1 },
        rules_max: 16,
        zone_rules_max: None,
        bypass: [bypass; 2],
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
    /// Rule at each side, and what it does.
    rules: [Option<(RuleId, RuleAction)>; 2],
    now: u64,
}

impl Bump {
    fn new(access: AccessLists) -> Self {
        Self { engine: engine(access, BypassConfig::OFF), rules: [None; 2], now: 0 }
    }

    /// Sends a packet of a connection in each direction, unless the NIC forwards it by itself.
    fn send(&mut self, dport: u16) -> Vec<Verdict> {
        let query = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).udp(4000, dport);
        let sides = [(Side::A, query.clone().build()), (Side::B, query.reversed().build())];
        let engine = &mut self.engine;
        let of_side = |(side, frame): (Side, Vec<u8>)| {
            let mark = match self.rules[side as usize] {
                Some((rule, RuleAction::Bypass)) => {
                    let passed = BypassCount { packets: 1, bytes: frame.len() as u64 };
                    engine.apply_result(rule, RuleResult::Passed(passed));
                    return None;
                }
                Some((rule, RuleAction::Mark)) => Some(layout().encode(rule)),
                None => None,
            };
            let mut verdicts = [Verdict::Hold];
            self.now += 1_000_000;
            let packet = BytesPacket::new(&frame).marked(mark);
            engine.process_from(side, self.now, &[packet], &mut verdicts);
            engine.queue_drained(side);
            Some(verdicts[0])
        };
        let verdicts = sides.into_iter().filter_map(of_side).collect();
        engine.expire(self.now, 64);
        engine.recheck_rules(self.now, 64);
        verdicts
    }

    /// Does what the engine requests. Returns how many rules were installed, and how many removed.
    fn serve(&mut self) -> [usize; 2] {
        let mut counts = [0; 2];
        while let Some(request) = self.engine.next_request() {
            let (at, rule, result) = match request {
                RuleRequest::Install { rule, side, action, .. } => {
                    self.rules[side as usize] = Some((rule, action));
                    (0, rule, RuleResult::Installed { pace: 1000, took: 100 })
                }
                RuleRequest::Remove { rule, side } => {
                    self.rules[side as usize] = None;
                    (1, rule, RuleResult::Removed)
                }
            };
            counts[at] += 1;
            self.engine.apply_result(rule, result);
        }
        counts
    }

    /// Sends packets of a connection in both directions. Returns how many rules were installed, and
    /// how many removed.
    fn exchange(&mut self, dport: u16) -> [usize; 2] {
        let mut counts = [0; 2];
        for _ in 0..2000 {
            let verdicts = self.send(dport);
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Forward), "{verdicts:?}");
            let more = self.serve();
            counts = [0, 1].map(|at| counts[at] + more[at]);
        }
        counts
    }

    /// Sends packets of a connection until the NIC has both directions.
    fn exchange_until_bypassed(&mut self, dport: u16) {
        for _ in 0..16 {
            self.exchange(dport);
        }
        assert_eq!((self.engine.bypasses(), self.send(dport)), (2, vec![]));
    }
}

/// Replaces the lists, and lets the new ones decide about all connections.
fn change(engine: &mut Engine, old: [&str; 2], new: [&str; 2]) {
    engine.set_access(AccessUpdate::new(&lists(&[old]), Arc::new(lists(&[new]))));
    let (mut cursor, mut opened) = (Cursor::default(), 0);
    while engine.open_access(&mut cursor, 8, &mut opened) {}
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
    let (with, without) = (["permit+reflect", "deny"], ["permit+reflect no-offload", "deny"]);
    change(&mut bump.engine, with, without);
    assert_eq!(bump.exchange(53), [0, 2]);
    assert_eq!(bump.exchange(53), [0, 0]);
    change(&mut bump.engine, without, with);
    assert_eq!(bump.exchange(53), [2, 0]);
}

#[test]
fn connections_are_called_back_before_lists_change() {
    let (permit, deny) = (["permit+reflect", "deny"], ["deny", "deny"]);
    let bypass = BypassConfig { udp: BypassAfter::Packets(16), tcp: BypassAfter::Never };
    let mut bump = Bump { engine: engine(lists(&[permit]), bypass), rules: [None; 2], now: 0 };
    bump.exchange_until_bypassed(53);

    // The engine asks for the removal, a few slots at a time, and says what is left.
    assert_eq!(bump.engine.recall_bypasses(0), 2);
    assert_eq!(bump.serve(), [0, 0]);
    let mut left = bump.engine.recall_bypasses(64);
    assert_eq!((left, bump.serve()), (2, [0, 2]));
    left = bump.engine.recall_bypasses(64);
    assert_eq!(left, 0);
    // Until the lists change, no connection goes back.
    bump.exchange(53);
    assert_eq!((bump.engine.recall_bypasses(64), bump.send(53).len()), (0, 2));

    change(&mut bump.engine, permit, deny);
    bump.serve();
    assert_eq!(bump.send(53), [Verdict::Drop; 2]);
    // Lists that permit it again let the NIC have it again.
    change(&mut bump.engine, deny, permit);
    bump.exchange_until_bypassed(53);

    // A connection that was not called back in time is not judged by the old lists once it is.
    change(&mut bump.engine, permit, deny);
    assert_eq!(bump.engine.bypasses(), 2, "the NIC has not answered");
    bump.serve();
    assert_eq!((bump.engine.bypasses(), bump.send(53)), (0, vec![Verdict::Drop; 2]));
}
