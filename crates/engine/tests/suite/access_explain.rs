// SPDX-License-Identifier: BSD-3-Clause
//! What is explained about a packet happens when the packet arrives.

use crate::access::{SECOND, Sent, bindings, bursts, config, lists};
use acl::{AccessList, CtStates};
use engine::{
    AccessLists, AccessSource, AccessUpdate, Config, Cursor, Engine, PacketExplanation,
    PacketQuestion, PacketRelation, TcpPickup, Tracking, Verdict,
};
use proptest::prelude::*;
use std::sync::Arc;
use wire::BytesPacket;

fn explain(engine: &Engine, sent: &Sent) -> PacketExplanation {
    let question = PacketQuestion {
        side: sent.side(),
        packet: sent.fields(CtStates::NEW, 0),
        numbers: [0; 2],
        zone: None,
        ct: None,
    };
    engine.explain(&question).unwrap()
}

/// True if the rules with these counters permit a packet.
fn permit(lists: &AccessLists, rules: [Option<u32>; 2]) -> bool {
    let all = lists.lists().flat_map(|list: &Arc<AccessList>| {
        let rules = list.rules.iter().map(|rule| rule.action);
        rules.chain([list.default]).collect::<Vec<_>>()
    });
    let actions: Vec<_> = all.collect();
    rules.iter().flatten().all(|rule| actions[*rule as usize].permits())
}

fn flags() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 2, 4, 0x10, 0x12, 0x11]), 50)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::sized(1500, 100_000)))]

    /// Each packet gets the verdict that was explained, by the same rules. Whether its connection
    /// exists is known as well.
    #[test]
    fn what_is_explained_happens(
        (first, then) in (lists(), lists()),
        visited in prop_oneof![Just(0), 1..8_u32, Just(64)],
        bursts in bursts(),
        flags in flags(),
        tracking in prop::sample::select(vec![
            Tracking::Connections, Tracking::Flows, Tracking::Off,
        ]),
        pick_up in prop::sample::select(vec![TcpPickup::Loose, TcpPickup::Strict]),
    ) {
        let config = Config { pick_up, ..config(&bindings(&first), tracking) };
        let (mut engine, mut running) = (Engine::new(&config), config.access.clone().unwrap());
        let sent = bursts.iter().flat_map(|(_, burst)| burst.iter().copied());
        let sent = sent.zip(flags.iter().cycle()).map(|(sent, flags)| match sent.is_tcp {
            true => Sent { flags: *flags, ..sent },
            false => sent,
        });
        let packets: usize = bursts.iter().map(|(_, burst)| burst.len()).sum();
        let (change, mut is_partial) = (packets / 2, false);
        for (number, sent) in sent.enumerate() {
            if number == change {
                let new = AccessLists::new(&bindings(&then)).unwrap().with_epoch(1);
                let new = Arc::new(new);
                engine.set_access(AccessUpdate::new(&running, new.clone()));
                is_partial = engine.open_access(&mut Cursor::default(), visited, &mut 0);
                running = new;
            }
            let told = explain(&engine, &sent);
            // Not a repeated SYN.
            let seq = if sent.flags == 2 { 0x1030_0000_u32.wrapping_mul(number as u32) } else { 0 };
            let frame = if sent.is_tcp { sent.frame().seq(seq) } else { sent.frame() };
            let (frame, before) = (frame.build(), engine.stats().active());
            let packet = BytesPacket::new(&frame);
            let (verdict, trace) = engine.process_traced(sent.side(), SECOND, &packet);
            let trace = trace.unwrap();
            // It does not fit its connection, which no one can foresee.
            let is_misfit = told.relation == PacketRelation::Belongs
                && told.trace.packet.ct != CtStates::INVALID
                && trace.packet.ct == CtStates::INVALID
                && trace.source == AccessSource::Search;
            if is_misfit {
                continue;
            }
            // A trace has the rules of the old lists by their old numbers.
            if told.trace.source == AccessSource::Search || !is_partial {
                prop_assert_eq!(told.trace.rules, trace.rules, "{:?} {:?}", sent, told);
            }
            let passes = permit(&running, told.trace.rules);
            prop_assert_eq!(passes, verdict == Verdict::Forward, "{:?} {:?}", sent, told);
            let is_stored = told.conn.as_ref().is_none_or(|conn| !conn.is_open);
            if is_stored && !is_partial && trace.rules != [None; 2] {
                prop_assert_eq!(told.trace.source, trace.source, "{:?} {:?}", sent, told);
            }
            let begins = engine.stats().active() > before;
            match told.relation {
                PacketRelation::Begins => prop_assert_eq!(begins, passes, "{:?}", told),
                PacketRelation::Belongs | PacketRelation::Reopens => prop_assert!(!begins),
                PacketRelation::Untracked => prop_assert_eq!(tracking, Tracking::Off),
                // It may get a record all the same, in a stray state.
                PacketRelation::Invalid => prop_assert!(sent.is_tcp && sent.flags != 2),
                PacketRelation::Error => prop_assert!(false, "there is no ICMP"),
            }
            prop_assert_eq!(
                told.conn.is_some(),
                matches!(told.relation, PacketRelation::Belongs | PacketRelation::Reopens)
            );
            prop_assert!(told.trace.source != AccessSource::NotAsked || passes);
        }
    }
}
