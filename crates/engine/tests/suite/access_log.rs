// SPDX-License-Identifier: BSD-3-Clause
//! Packets that access lists log: which ones, at what rate, and none without a follower.

use acl::{AccessList, Action, parse_rule};
use engine::{
    AccessLimits, AccessLists, Config, Engine, ListBinding, ListDirection, Side, Verdict,
};
use std::sync::Arc;
use wire::{BytesPacket, FrameBuilder};

const SECOND: u64 = 1_000_000_000;

fn engine(logs_per_second: u32) -> Engine {
    let list = |name: &str, side, rules: &[&str]| {
        let rules = rules.iter().map(|rule| parse_rule(rule, &|_| None).unwrap()).collect();
        let list = Arc::new(AccessList { name: name.into(), rules, default: Action::Permit });
        ListBinding { list, places: vec![(side, ListDirection::In)] }
    };
    let bindings = [
        list(
            "a",
            Side::A,
            &["deny log proto udp dport 53", "count log proto udp dport 54", "permit log"],
        ),
        list("b", Side::B, &["reject log proto udp sport 55"]),
    ];
    let limits = AccessLimits { logs_per_second, ..AccessLimits::default() };
    let lists = AccessLists::new(&bindings).unwrap().with_limits(limits);
    let (capacity_ipv4, capacity_ipv6) = (100, 100);
    let access = Some(Arc::new(lists));
    Engine::new(&Config { capacity_ipv4, capacity_ipv6, access, ..Config::default() })
}

/// Sends a UDP packet of a host at side A, or its answer; returns the logs.
fn send(engine: &mut Engine, side: Side, dport: u16) -> Vec<(String, u32, Side, String)> {
    let packet = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).udp(4000, dport);
    let frame = if side == Side::A { packet.build() } else { packet.reversed().build() };
    let mut verdicts = [Verdict::Hold];
    engine.process_from(side, SECOND, &[BytesPacket::new(&frame)], &mut verdicts);
    let logs = std::iter::from_fn(|| engine.next_log());
    logs.map(|log| {
        assert_eq!((log.at, log.bytes), (SECOND, frame.len() as u64));
        (log.list.name.clone(), log.rule, log.side, log.packet.to_string())
    })
    .collect()
}

fn rules(logs: &[(String, u32, Side, String)]) -> Vec<(&str, u32)> {
    logs.iter().map(|(list, rule, ..)| (list.as_str(), *rule)).collect()
}

#[test]
fn each_decision_is_logged_once() {
    let mut engine = engine(1000);
    assert_eq!(send(&mut engine, Side::A, 53), []);
    engine.follow_logs(true);
    let text = "udp 10.0.0.1:4000 > 10.0.1.2:53".to_owned();
    for _ in 0..2 {
        let log = ("a".to_owned(), 0, Side::A, text.clone());
        assert_eq!(send(&mut engine, Side::A, 53), [log], "a denied packet");
    }
    for _ in 0..2 {
        let logs = send(&mut engine, Side::A, 54);
        assert_eq!(rules(&logs), [("a", 1), ("a", 2)], "each packet is counted and compared");
    }
    assert_eq!(rules(&send(&mut engine, Side::A, 55)), [("a", 2)], "the first of a connection");
    assert_eq!(send(&mut engine, Side::A, 55), [], "the decision is stored");
    for _ in 0..2 {
        let logs = send(&mut engine, Side::B, 55);
        assert_eq!(rules(&logs), [("b", 0)], "each packet of a stored denial");
        assert_eq!(logs[0].3, "udp 10.0.1.2:55 > 10.0.0.1:4000");
    }
    let stats = engine.stats();
    assert_eq!((stats.logged, stats.logs_suppressed), (9, 0));
    engine.follow_logs(false);
    assert_eq!(send(&mut engine, Side::A, 53), []);
    assert_eq!(engine.stats().logged, 9);
}

#[test]
fn logs_are_limited_per_second() {
    let mut engine = engine(20);
    engine.follow_logs(true);
    let logged: usize = (0..30).map(|_| send(&mut engine, Side::A, 53).len()).sum();
    assert_eq!(logged, 2, "a tenth of a second at once");
    assert_eq!((engine.suppressed_logs(), engine.suppressed_logs()), (28, 0));
    assert_eq!((engine.stats().logged, engine.stats().logs_suppressed), (2, 28));
}
