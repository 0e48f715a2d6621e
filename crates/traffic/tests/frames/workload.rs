// SPDX-License-Identifier: BSD-3-Clause
//! Tests the frames of the workload: ledger, TCP connections and mix.

use crate::seen::{Direction, Seen, see};
use std::collections::HashMap;
use traffic::{MAX_FRAME, Profile, Side, Workload};
use wire::tcp::{ACK, FIN, RST, SYN};

const FRAMES: usize = 400_000;

/// Returns a profile of few slots, so that many connections come to their end.
fn small() -> Profile {
    Profile { concurrent: 200, background_ppm: 5000, ..Profile::default() }
}

fn for_each_frame(profile: Profile, mut look: impl FnMut(Side, &[u8], Option<Seen>)) -> Workload {
    let mut workload = Workload::new(42, profile);
    let mut frame = Vec::new();
    for _ in 0..FRAMES {
        let side = workload.next(&mut frame);
        look(side, &frame, see(&frame));
    }
    workload
}

#[test]
fn the_same_seed_gives_the_same_frames() {
    let (mut a, mut b) = (Workload::new(1, small()), Workload::new(1, small()));
    let mut other = Workload::new(2, small());
    let (mut frame, mut same, mut differs) = (Vec::new(), [0xee; MAX_FRAME], Vec::new());
    let mut differences = 0;
    for _ in 0..50_000 {
        let side = a.next(&mut frame);
        // The earlier content of the buffer must not change the frame.
        same.fill(0xee);
        let (same_side, len) = b.fill(&mut same);
        assert_eq!((side, &frame[..]), (same_side, &same[..len]));
        other.next(&mut differs);
        differences += u32::from(differs != frame);
    }
    assert_eq!(a.ledger(), b.ledger());
    assert!(differences > 49_000, "another seed gives other frames");
}

#[test]
fn the_ledger_is_what_was_seen() {
    let (mut frames, mut bytes) = ([0; 2], [0; 2]);
    let (mut background, mut tagged, mut ipv6) = (0, 0, 0);
    let mut by_protocol: HashMap<u8, u64> = HashMap::new();
    let mut flows: HashMap<Direction, ()> = HashMap::new();
    let workload = for_each_frame(small(), |side, frame, seen| {
        frames[side as usize] += 1;
        bytes[side as usize] += frame.len() as u64;
        let Some(seen) = seen else {
            background += 1;
            return;
        };
        tagged += u64::from(seen.vlans > 0);
        ipv6 += u64::from(seen.direction.src.0.is_ipv6());
        *by_protocol.entry(seen.direction.protocol).or_default() += 1;
        flows.insert(seen.direction.flow(), ());
    });
    let ledger = workload.ledger();
    assert_eq!((ledger.frames, ledger.bytes), (frames, bytes));
    assert_eq!((ledger.background, ledger.tagged, ledger.ipv6), (background, tagged, ipv6));
    assert_eq!((ledger.tcp, ledger.udp), (by_protocol[&6], by_protocol[&17]));
    assert_eq!(ledger.icmp, by_protocol[&1] + by_protocol[&58]);
    assert_eq!(ledger.started, flows.len() as u64, "no two flows have the same tuple");
    assert!(ledger.active() <= 200 && ledger.finished > 5_000);
}

#[test]
fn clients_open_and_are_on_side_a() {
    let mut client: HashMap<Direction, Direction> = HashMap::new();
    for_each_frame(small(), |side, _, seen| {
        let Some(Seen { direction, .. }) = seen else { return };
        let first = *client.entry(direction.flow()).or_insert(direction);
        let expected = if direction.src == first.src { Side::A } else { Side::B };
        assert_eq!(side, expected);
    });
}

#[derive(Default)]
struct Connection {
    /// Next sequence number by side.
    next: [Option<u32>; 2],
    /// Last acknowledgement number by side.
    acked: [Option<u32>; 2],
    fin: [bool; 2],
    reset: bool,
    packets: usize,
}

impl Connection {
    fn see(&mut self, side: Side, seen: &Seen) {
        let tcp = seen.tcp.unwrap();
        let (here, there) = (side as usize, side.other() as usize);
        match self.packets {
            0 => assert_eq!((side, tcp.flags), (Side::A, SYN)),
            1 if tcp.flags & RST != 0 => assert_eq!((side, tcp.flags), (Side::B, RST | ACK)),
            1 => assert_eq!((side, tcp.flags), (Side::B, SYN | ACK)),
            2 => assert_eq!((side, tcp.flags, seen.payload_len), (Side::A, ACK, 0)),
            _ => assert_eq!(tcp.flags & (SYN | ACK), ACK),
        }
        assert!(!self.reset, "nothing follows a reset");
        assert!(!self.fin[here] || tcp.flags == ACK, "only ACK follows a FIN of the same side");
        if let Some(next) = self.next[here] {
            assert_eq!(tcp.seq, next, "the sequence has no gap and no overlap");
        }
        if tcp.flags & ACK != 0 {
            let sent = self.next[there].expect("something to acknowledge");
            assert!(sent.wrapping_sub(tcp.ack) < 1 << 20, "acknowledges what was sent");
            if let Some(before) = self.acked[here] {
                let forward = tcp.ack.wrapping_sub(before);
                assert!(forward < 1 << 20, "an acknowledgement is never taken back");
            }
            self.acked[here] = Some(tcp.ack);
        }
        let phantom = u32::from(tcp.flags & SYN != 0) + u32::from(tcp.flags & FIN != 0);
        self.next[here] = Some(tcp.seq.wrapping_add(seen.payload_len as u32 + phantom));
        let window = u32::from(tcp.window) << 7;
        if let (Some(edge), Some(next)) = (self.acked[there], self.next[here]) {
            assert!(next.wrapping_sub(edge) <= window, "the window holds what is in flight");
        }
        self.fin[here] |= tcp.flags & FIN != 0;
        self.reset |= tcp.flags & RST != 0;
        self.packets += 1;
    }

    fn is_over(&self) -> bool {
        self.reset || self.fin == [true, true] && self.acked == [self.next[1], self.next[0]]
    }
}

#[test]
fn tcp_connections_are_consistent_from_syn_to_the_end() {
    let mut connections: HashMap<Direction, Connection> = HashMap::new();
    for_each_frame(small(), |side, _, seen| {
        let Some(seen @ Seen { tcp: Some(_), .. }) = seen else { return };
        connections.entry(seen.direction.flow()).or_default().see(side, &seen);
    });
    let count = |what: fn(&Connection) -> bool| connections.values().filter(|c| what(c)).count();
    let over = count(Connection::is_over);
    assert!(connections.len() - over <= 200, "all but those in the slots have ended");
    assert!(count(|c| c.reset) * 100 > over, "some are reset");
    assert!(count(|c| c.fin == [true, true]) * 2 > over, "most are closed");
}

#[test]
fn the_mix_is_that_of_the_profile() {
    let mut flows: HashMap<Direction, (usize, u64)> = HashMap::new();
    let mut sizes = [0u32; 3];
    for_each_frame(small(), |_, frame, seen| {
        let Some(seen) = seen else { return };
        flows.entry(seen.direction.flow()).or_insert((seen.vlans, 0)).1 += 1;
        let class = match frame.len() {
            0..100 => 0,
            100..1000 => 1,
            _ => 2,
        };
        sizes[class] += 1;
    });
    let percent = |what: &dyn Fn(&Direction, usize) -> bool| {
        let hits = flows.iter().filter(|(flow, (vlans, _))| what(flow, *vlans)).count();
        hits * 100 / flows.len()
    };
    assert!((27..33).contains(&percent(&|flow, _| flow.src.0.is_ipv6())));
    assert!((13..17).contains(&percent(&|_, vlans| vlans == 1)));
    assert!((3..7).contains(&percent(&|_, vlans| vlans == 2)));
    assert!((22..28).contains(&percent(&|flow, _| flow.protocol == 17)));
    assert!((2..6).contains(&percent(&|flow, _| matches!(flow.protocol, 1 | 58))));

    let total: u32 = sizes.iter().sum();
    let [small, middle, large] = sizes.map(|n| n * 100 / total);
    assert!((30..60).contains(&small) && (30..60).contains(&middle) && (5..25).contains(&large));

    let mut packets: Vec<u64> = flows.values().map(|(_, packets)| *packets).collect();
    packets.sort_unstable_by_key(|n| std::cmp::Reverse(*n));
    let busiest: u64 = packets[..packets.len() / 100].iter().sum();
    let share = busiest * 100 / packets.iter().sum::<u64>();
    assert!(share >= 15, "one flow in a hundred has {share} % of the packets: no heavy tail");
}

#[test]
fn a_profile_of_one_protocol_has_no_other() {
    let profile = Profile { lookup_percent: 0, stream_percent: 0, ping_percent: 100, ..small() };
    let workload = for_each_frame(profile, |_, _, _| {});
    assert_eq!((workload.ledger().tcp, workload.ledger().udp), (0, 0));
}

#[test]
#[should_panic(expected = "120 % of flows are not TCP")]
fn a_profile_of_more_than_the_whole_is_refused() {
    Workload::new(1, Profile { lookup_percent: 111, ..Profile::default() });
}
