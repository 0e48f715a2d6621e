// SPDX-License-Identifier: BSD-3-Clause
//! Access lists with two workers: a packet that arrives at one and belongs to a connection of the
//! other is judged there, by the lists of the port at which it arrived.

use crate::access::{SECOND, bind, config, list};
use acl::Action;
use engine::{
    Config, Engine, FragmentLimits, ListDirection, RuleHits, Side, SteeringConfig,
    SteeringMismatch, Tracking, Verdict,
};
use std::sync::Arc;
use wire::rss::{RssFields, RssSpread};
use wire::{BytesPacket, FrameBuilder};

struct Workers([Engine; 2]);

impl Workers {
    /// Connections begin at port A only. Packets with odd ports go to the one, with even ports to
    /// the other.
    fn new() -> Self {
        let a = list("a", Action::Deny, &["permit+reflect ct new"]);
        let b = list("b", Action::Deny, &["permit ct established,related,reply"]);
        let lists = [bind(a, Side::A, ListDirection::In), bind(b, Side::B, ListDirection::In)];
        let all = RssFields { tcp: true, udp: true, sctp: true, addresses: true };
        let key = [0x6d, 0x5b].repeat(20);
        let spread = Arc::new(RssSpread::new(&key, vec![0, 1], [all; 2]));
        let mismatch = SteeringMismatch::default();
        Self([0, 1].map(|worker_index| {
            let (spread, mismatch) = (spread.clone(), mismatch.clone());
            let steering = Some(SteeringConfig { spread, worker_index, mismatch });
            let fragments = FragmentLimits { hold: 0, ..FragmentLimits::default() };
            let own = config(&lists, Tracking::Connections);
            Engine::new(&Config { steering, fragments, has_all_packets: true, ..own })
        }))
    }

    /// Lets a packet arrive at a worker. Returns its verdict, and whether the other gave it.
    fn send(&mut self, (side, worker): (Side, usize), frame: &FrameBuilder) -> (Verdict, bool) {
        let (frame, mut verdict) = (frame.build(), [Verdict::Hold]);
        let packets = [BytesPacket::new(&frame)];
        self.0[worker].process_from(side, SECOND, &packets, &mut verdict);
        let is_handed = verdict == [Verdict::Elsewhere];
        if is_handed {
            let handoffs = [self.0[worker].handed()[0].handoff];
            let moment = (side, SECOND);
            self.0[1 - worker].process_handoffs(moment, &packets, &handoffs, &mut verdict);
        }
        (verdict[0], is_handed)
    }

    /// Returns how many packets each rule has decided about: of both workers together.
    fn hits(&mut self) -> [u64; 4] {
        let mut hits = [RuleHits::default(); 4];
        for engine in &mut self.0 {
            let mut cursor = engine::Cursor::default();
            while engine.settle_rules(&mut cursor, 64) {}
            engine.add_rule_hits(&mut hits);
        }
        hits.map(|hits| hits.packets)
    }
}

/// Returns a datagram from a host behind port A.
fn udp(port: u16) -> FrameBuilder {
    FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 2]).udp(port, 53).payload([7; 64])
}

/// The NIC spreads fragments by their addresses only.
#[test]
fn fragments_are_judged_where_their_connection_is() {
    let mut workers = Workers::new();
    let fragment = |port| udp(port).fragments(32).swap_remove(0);
    let is_handed = |port: &u16| Workers::new().send((Side::A, 0), &fragment(*port)).1;
    let port = (1..100).find(is_handed).expect("half of them are");
    // From port B nothing begins, whichever worker decides.
    let from_b = FrameBuilder::ipv4([10, 0, 1, 2], [10, 0, 0, 1]).udp(53, port).payload([7; 64]);
    let from_b = from_b.fragments(32).swap_remove(0);
    assert_eq!(workers.send((Side::B, 0), &from_b), (Verdict::Drop, true));
    assert_eq!(workers.send((Side::A, 0), &fragment(port)), (Verdict::Forward, true));
    assert_eq!(workers.send((Side::B, 0), &from_b), (Verdict::Forward, true));
    assert_eq!(workers.hits(), [2, 0, 0, 1]);
}

#[test]
fn errors_are_judged_where_their_connection_is() {
    let mut workers = Workers::new();
    let error = |port| {
        let quoted = udp(port).build_packet();
        FrameBuilder::ipv4([10, 0, 1, 9], [10, 0, 0, 1]).icmp_error(3, 4, &quoted)
    };
    let is_handed = |port: &u16| Workers::new().send((Side::B, 0), &error(*port)).1;
    let port = (1..100).find(is_handed).expect("half of them are");
    assert_eq!(workers.send((Side::B, 0), &error(port)), (Verdict::Drop, true));
    assert_eq!(workers.send((Side::A, 1), &udp(port)), (Verdict::Forward, false));
    assert_eq!(workers.send((Side::B, 0), &error(port)), (Verdict::Forward, true));
    assert_eq!(workers.hits()[2..], [0, 1]);
}
