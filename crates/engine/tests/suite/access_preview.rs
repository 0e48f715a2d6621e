// SPDX-License-Identifier: BSD-3-Clause
//! What a walk foretells about a change of access lists happens when the lists change.

use crate::access::{SECOND, Sent, bind, bindings, bursts, config, list, lists, set_lists};
use acl::Action;
use engine::{
    AccessLists, AccessUpdate, ConnDecision, ConnView, Cursor, DecisionChange, Engine, FlowRecord,
    ListDirection, Side, Tracking, Verdict,
};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use wire::BytesPacket;

/// Returns what is foretold of each connection.
fn preview(engine: &Engine, lists: &AccessLists) -> Vec<(DecisionChange, ConnView)> {
    let (mut cursor, mut found) = (Cursor::default(), Vec::new());
    let mut calls = 0;
    while engine.preview_access(lists, &mut cursor, 3, &mut |change, view| {
        found.push((change, view()));
    }) {
        calls += 1;
        assert!(found.len() <= 3 * calls, "a call visits no more places than its budget");
    }
    found
}

/// True if a packet passes.
fn passes(engine: &mut Engine, sent: &Sent) -> bool {
    let (frame, mut verdict) = (sent.frame().build(), [Verdict::Hold]);
    engine.process_from(sent.side(), SECOND, &[BytesPacket::new(&frame)], &mut verdict);
    verdict == [Verdict::Forward]
}

/// Returns a packet of the originator, or of the responder.
fn packet(record: &FlowRecord, is_reply: bool) -> Sent {
    let is_host_of_a = match record.src {
        IpAddr::V4(src) => src.octets()[2] == 0,
        IpAddr::V6(src) => src.segments()[3] == 0,
    };
    let host = |ip| match ip {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    let (mut hosts, mut ports) = ([record.src, record.dst].map(host), [record.sport, record.dport]);
    if !is_host_of_a {
        hosts.reverse();
        ports.reverse();
    }
    Sent {
        is_v6: record.src.is_ipv6(),
        is_tcp: record.proto == 6,
        from_a: is_host_of_a != is_reply,
        hosts,
        ports,
        flags: 0x10,
    }
}

/// True if both directions of a connection pass, as far as it has had packets.
fn connection_passes(engine: &mut Engine, record: &FlowRecord, has_answers: bool) -> bool {
    let passes_forth = passes(engine, &packet(record, false));
    passes_forth & (!has_answers || passes(engine, &packet(record, true)))
}

/// Packets by hosts and ports, without their direction.
type Ends = (bool, bool, [u8; 2], [u16; 2]);

fn ends(sent: &Sent) -> Ends {
    (sent.is_v6, sent.is_tcp, sent.hosts, sent.ports)
}

/// Sends all packets to both engines. Returns the connections whose responder has sent packets.
fn send_all(engines: &mut [Engine; 2], sent: impl Iterator<Item = Sent>) -> HashSet<Ends> {
    let (mut begun_by, mut answered) = (HashMap::new(), HashSet::new());
    for sent in sent {
        let [has_passed, _] = engines.each_mut().map(|engine| passes(engine, &sent));
        match begun_by.get(&ends(&sent)) {
            Some(from_a) if *from_a != sent.from_a => _ = answered.insert(ends(&sent)),
            None if has_passed => _ = begun_by.insert(ends(&sent), sent.from_a),
            _ => {}
        }
    }
    answered
}

fn agrees(decision: ConnDecision, has_passed: bool) -> bool {
    match decision {
        ConnDecision::Permitted => has_passed,
        ConnDecision::Denied => !has_passed,
        ConnDecision::Varies => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::sized(1500, 100_000)))]

    /// One of two engines gets the other lists. What they decide then is what was foretold, and
    /// what the other engine decides is what the walk said of the lists in force.
    #[test]
    fn what_is_foretold_happens(
        (first, between, then) in (lists(), prop::option::of(lists()), lists()),
        visited in 0..20_u32,
        bursts in bursts(),
        tracking in prop::sample::select(vec![Tracking::Connections, Tracking::Flows]),
    ) {
        let config = config(&bindings(&first), tracking);
        let mut engines = [Engine::new(&config), Engine::new(&config)];
        let mut running = config.access.clone().unwrap();
        let sent = bursts.iter().flat_map(|(_, burst)| burst.iter().copied());
        let answered = send_all(&mut engines, sent);
        // The walk after an earlier change may not have reached each connection.
        if let Some(between) = &between {
            let epoch = running.epoch() + 1;
            let new = AccessLists::new(&bindings(between)).unwrap().with_epoch(epoch);
            let new = Arc::new(new);
            for engine in &mut engines {
                engine.set_access(AccessUpdate::new(&running, new.clone()));
                engine.open_access(&mut Cursor::default(), visited, &mut 0);
            }
            running = new;
        }
        let other = AccessLists::new(&bindings(&then)).unwrap();
        let foretold = preview(&engines[1], &other);
        prop_assert_eq!(foretold.len() as u64, engines[1].stats().active());
        set_lists(&mut engines[1], &running, &bindings(&then));
        for (DecisionChange { now, then }, view) in foretold {
            let has_answers = answered.contains(&ends(&packet(&view.record, false)));
            if has_answers && view.record.reply.packets == 0 && between.is_some() {
                // All its answers were denied, but the earlier change may have reached it.
                continue;
            }
            let [here, there] = engines
                .each_mut()
                .map(|engine| connection_passes(engine, &view.record, has_answers));
            prop_assert!(agrees(now, here), "now {:?}: {:?}", now, view.record);
            prop_assert!(agrees(then, there), "then {:?}: {:?}", then, view.record);
        }
    }
}

#[test]
fn each_decision_is_foretold() {
    let with =
        |rules: &[&str]| [bind(list("l", Action::Permit, rules), Side::A, ListDirection::In)];
    let config = config(&with(&["deny proto udp dport 2"]), Tracking::Flows);
    let mut engine = Engine::new(&config);
    let sent = |is_tcp, from_a, ports| Sent {
        is_v6: false,
        is_tcp,
        from_a,
        hosts: [1, 1],
        ports,
        flags: 0x10,
    };
    // Begun at side B, and side A answers: only then the list denies something.
    assert!(passes(&mut engine, &sent(false, false, [5, 2])));
    assert!(!passes(&mut engine, &sent(false, true, [5, 2])));
    assert!(passes(&mut engine, &sent(false, true, [1, 1])));
    assert!(passes(&mut engine, &sent(true, true, [1, 1])));
    assert!(passes(&mut engine, &sent(true, true, [2, 3])));
    let rules = ["deny proto udp dport 1", "deny proto tcp dport 1 tcp-flags psh"];
    let lists = AccessLists::new(&with(&rules)).unwrap();
    let mut changes: Vec<_> = preview(&engine, &lists)
        .into_iter()
        .map(|(DecisionChange { now, then }, _)| (now.name(), then.name()))
        .collect();
    changes.sort_unstable();
    let expected = [
        ("denied", "permitted"),
        ("permitted", "denied"),
        ("permitted", "permitted"),
        ("permitted", "varies"),
    ];
    assert_eq!(changes, expected);
}
