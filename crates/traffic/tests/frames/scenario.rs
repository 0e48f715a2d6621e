// SPDX-License-Identifier: BSD-3-Clause
//! Tests the frames of the benchmarks: their number, sizes, flags and sequence numbers.

use crate::seen::{Direction, Seen, see};
use std::collections::HashMap;
use traffic::scenario::{Protocol, SHORT_TCP_INTERLEAVE, established, short_tcp};
use traffic::{Side, flood};
use wire::tcp::{ACK, FIN, PSH, SYN};

#[test]
fn established_has_one_packet_of_each_flow_in_each_direction() {
    const FLOWS: u32 = 20_000;
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let mut directions: HashMap<Direction, Side> = HashMap::new();
        let mut networks = HashMap::<[u8; 2], u32>::new();
        let mut in_order = 0;
        let mut last = None;
        established(7, FLOWS, protocol, |side, frame| {
            assert!((60..=76).contains(&frame.len()));
            let seen = see(frame).unwrap();
            assert!(seen.payload_len > 0);
            if let Some(tcp) = seen.tcp {
                assert_eq!(tcp.flags, PSH | ACK);
            }
            assert_eq!(seen.tcp.is_some(), protocol == Protocol::Tcp);
            in_order += u32::from(last == Some(seen.direction.flow()));
            last = Some(seen.direction.flow());
            *networks.entry([frame[26], frame[27]]).or_default() += 1;
            assert!(directions.insert(seen.direction, side).is_none(), "one packet each");
        });
        assert_eq!(directions.len(), 2 * FLOWS as usize);
        for (direction, side) in &directions {
            let Direction { src, dst, .. } = *direction;
            let back = Direction { src: dst, dst: src, ..*direction };
            assert_eq!(directions[&back], side.other());
        }
        assert!(in_order < 20, "the packets are shuffled");
        assert!(networks.len() > 8, "addresses of several networks");
    }
}

#[test]
fn short_connections_are_complete_and_interleaved() {
    const CONNECTIONS: u32 = 3_000;
    let mut connections: HashMap<Direction, Vec<(Side, Seen)>> = HashMap::new();
    let mut open = 0_i32;
    let mut most_open = 0;
    short_tcp(3, CONNECTIONS, |side, frame| {
        assert!((60..=76).contains(&frame.len()));
        let seen = see(frame).unwrap();
        let packets = connections.entry(seen.direction.flow()).or_default();
        packets.push((side, seen));
        open += i32::from(packets.len() == 1) - i32::from(packets.len() == 8);
        most_open = most_open.max(open);
    });
    assert_eq!(connections.len(), CONNECTIONS as usize);
    assert!(
        most_open > SHORT_TCP_INTERLEAVE as i32 / 2 && most_open <= SHORT_TCP_INTERLEAVE as i32
    );
    for packets in connections.values() {
        let flags: Vec<u8> = packets.iter().map(|(_, seen)| seen.tcp.unwrap().flags).collect();
        let (data, fin) = (PSH | ACK, FIN | ACK);
        assert_eq!(flags, [SYN, SYN | ACK, ACK, data, data, fin, fin, ACK]);
        let mut next = [None, None];
        for (side, seen) in packets {
            let tcp = seen.tcp.unwrap();
            let (here, there) = (*side as usize, side.other() as usize);
            assert!(next[here].is_none_or(|next| next == tcp.seq));
            assert_eq!(tcp.ack, if tcp.flags & ACK != 0 { next[there].unwrap() } else { 0 });
            let phantom = u32::from(tcp.flags & (SYN | FIN) != 0);
            next[here] = Some(tcp.seq.wrapping_add(seen.payload_len as u32 + phantom));
        }
    }
}

#[test]
fn a_flood_is_one_small_packet_per_tuple() {
    for target in flood::Target::ALL {
        let mut tuples = flood::tuples(9, target, 5_000);
        flood::packets(9, target, 5_000, |side, frame| {
            let tuple = tuples.next().expect("a tuple for each packet");
            let seen = see(frame).unwrap();
            assert_eq!((side, frame.len()), (Side::A, 60));
            assert_eq!(seen.direction.src, (tuple.src.into(), tuple.sport));
            assert_eq!(seen.direction.dst, (tuple.dst.into(), tuple.dport));
            assert_eq!(seen.direction.protocol, 17);
        });
        assert!(tuples.next().is_none());
    }
}
