// SPDX-License-Identifier: BSD-3-Clause
//! Marks of a connection that ends: which packets are counted by their mark between the first FIN
//! and the last.

use super::marks::{arrive, drain, of_one_slot};
use engine::{Engine, ProtoState, RuleRequest, RuleResult};
use wire::{FrameBuilder, tcp};

/// While a FIN waits for its acknowledgment, any packet may be this one, so that no mark is enough.
/// From then on marks are enough again, for what the other end has left to send.
#[test]
fn a_mark_is_enough_again_once_a_fin_is_acknowledged() {
    let (mut engine, layout) = of_one_slot(4);
    let ends = FrameBuilder::ipv4([10, 0, 0, 1], [10, 9, 9, 9]).tcp(1, 80).window(9000);
    let ends = [ends.clone(), ends.reversed()];
    let segment = |from: usize, flags: u8, seq: u32, ack: u32, len: usize| {
        ends[from].clone().flags(flags).seq(seq).ack(ack).payload(vec![0; len]).build()
    };
    let opening = [
        segment(0, tcp::SYN, 100, 0, 0),
        segment(1, tcp::SYN | tcp::ACK, 500, 101, 0),
        segment(0, tcp::ACK, 101, 501, 0),
        segment(1, tcp::ACK, 501, 101, 0),
    ];
    opening.iter().for_each(|frame| arrive(&mut engine, 1, &[(frame, None)]));
    let mut of_server = None;
    drain(&mut engine);
    while let Some(RuleRequest::Install { rule, tuple, .. }) = engine.next_request() {
        if tuple.sport == 80 {
            of_server = Some(layout.encode(rule));
        }
        engine.apply_result(rule, RuleResult::Installed { pace: 1000, took: 100 });
    }
    assert!(of_server.is_some(), "both directions have a rule");
    // Returns how many of four marked segments of the server are counted by their mark.
    let mut seq = 501;
    let mut counted = |engine: &mut Engine, ack: u32| {
        let before = engine.mark_stats().counted;
        for _ in 0..4 {
            arrive(engine, 2, &[(&segment(1, tcp::ACK, seq, ack, 10), of_server)]);
            seq += 10;
        }
        engine.mark_stats().counted - before
    };
    assert!(counted(&mut engine, 101) >= 3, "the first one of a rule is looked at");
    arrive(&mut engine, 3, &[(&segment(0, tcp::FIN | tcp::ACK, 101, 541, 0), None)]);
    assert_eq!(counted(&mut engine, 101), 0, "the FIN is not acknowledged");
    assert!(counted(&mut engine, 102) >= 3, "only the acknowledgment itself is looked at");
    engine.flush(usize::MAX);
    let record = engine.next_record().expect("it was alive");
    assert_eq!((record.proto_state, record.reply.packets), (ProtoState::CloseWait, 14));
}
