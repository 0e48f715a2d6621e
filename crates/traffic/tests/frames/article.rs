// SPDX-License-Identifier: BSD-3-Clause
//! Tests the loads of the FlowTable article: the numbers of packets, and both directions of each
//! connection.

use crate::seen::{Direction, see};
use etherparse::{NetSlice, SlicedPacket};
use std::collections::HashMap;
use traffic::Side;
use traffic::article::{
    ACKS, CONNECTIONS, IMIX, REPEATS, SCTP_FRAMES, UNOPENED, imix, imix_up, long_tcp, many_flows,
    small_tcp, tcp_connections,
};
use wire::tcp::{ACK, SYN};

const SCTP: u8 = 132;

/// By direction of a connection: the side where its frames enter, their length and their number.
type Flows = HashMap<Direction, (Side, usize, u32)>;

fn count(flows: &mut Flows, side: Side, direction: Direction, frame: &[u8]) {
    let (enters, len, times) = flows.entry(direction).or_insert((side, frame.len(), 0));
    assert_eq!((*enters, *len), (side, frame.len()), "a flow has one side and one size");
    *times += 1;
}

fn assert_mirrored(flows: &Flows) {
    for (direction, &(side, len, times)) in flows {
        let Direction { src, dst, .. } = *direction;
        let back = Direction { src: dst, dst: src, ..*direction };
        assert_eq!(flows.get(&back), Some(&(side.other(), len, times)), "{direction:?}");
    }
}

/// Returns the direction of an SCTP frame, which `see` cannot read; `None` for other protocols.
fn sctp(frame: &[u8]) -> Option<Direction> {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &sliced.net else { panic!("{:?}", sliced.net) };
    let (header, segment) = (ip.header(), ip.payload().payload);
    let port = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    let protocol = header.protocol().0;
    let (src, dst) =
        ((header.source_addr().into(), port(0)), (header.destination_addr().into(), port(2)));
    assert_eq!(usize::from(header.total_len()) + 14, frame.len());
    (protocol == SCTP).then_some(Direction { src, dst, protocol })
}

#[test]
fn the_mix_is_that_of_the_article() {
    let (mut udp, mut probes, mut in_order, mut last) = (Flows::new(), Flows::new(), 0, None);
    imix(5, |side, frame| {
        if let Some(direction) = sctp(frame) {
            assert_eq!(frame.len(), 62);
            return count(&mut probes, side, direction, frame);
        }
        let seen = see(frame).unwrap();
        assert_eq!(seen.direction.protocol, 17);
        count(&mut udp, side, seen.direction, frame);
        in_order += u32::from(side == Side::A && last == Some(seen.direction));
        last = (side == Side::A).then_some(seen.direction).or(last);
    });
    assert_eq!(udp.len(), 2 * CONNECTIONS as usize);
    for (len, times) in IMIX {
        let alike = udp.values().filter(|(_, l, t)| (*l, *t) == (len, times)).count();
        assert_eq!(alike, 2 * 398, "{len} bytes");
    }
    assert_eq!(probes.len(), 2);
    assert!(probes.values().all(|(_, _, times)| *times == SCTP_FRAMES));
    assert_mirrored(&udp);
    assert_mirrored(&probes);
    assert!(in_order < 40, "the frames are shuffled: {in_order}");
}

#[test]
fn connections_open_and_go_on() {
    let mut flows = Flows::new();
    let mut expected_ack = None;
    let mut begun = 0;
    tcp_connections(5, |side, frame| {
        let seen = see(frame).unwrap();
        let tcp = seen.tcp.unwrap();
        assert_eq!(frame.len(), 60);
        let begins = begun < 2 * CONNECTIONS;
        begun += 1;
        let expected = match (side, begins) {
            (Side::A, true) => SYN,
            (Side::B, true) => SYN | ACK,
            (_, false) => ACK,
        };
        assert_eq!(tcp.flags, expected);
        match side {
            Side::A => expected_ack = Some(tcp.seq.wrapping_add(begins.into())),
            Side::B => assert_eq!(Some(tcp.ack), expected_ack.take()),
        }
        count(&mut flows, side, seen.direction, frame);
    });
    assert_eq!(flows.len(), 2 * CONNECTIONS as usize);
    assert!(flows.values().all(|(_, _, times)| *times == 1 + ACKS));
    assert_mirrored(&flows);
}

#[test]
fn long_connections_have_nineteen_of_twenty_frames() {
    let (mut long, mut unopened) = (Flows::new(), Flows::new());
    long_tcp(5, |side, frame| {
        let seen = see(frame).unwrap();
        let is_syn = seen.tcp.unwrap().flags & SYN != 0;
        let flows = if is_syn { &mut unopened } else { &mut long };
        count(flows, side, seen.direction, frame);
    });
    assert_eq!(long.len(), 2 * CONNECTIONS as usize);
    assert_eq!(unopened.len(), 2 * UNOPENED as usize);
    assert!(unopened.values().all(|(_, len, times)| (*len, *times) == (60, 1)));
    for (len, times) in IMIX {
        let alike = long.values().filter(|(_, l, t)| (*l, *t) == (len, times)).count();
        assert_eq!(alike, 2 * 398, "{len} bytes");
    }
    assert_mirrored(&long);
    assert_mirrored(&unopened);
    let frames: u32 = long.values().map(|(_, _, times)| times).sum();
    let others = 2 * UNOPENED;
    assert!((19..=20).contains(&((frames + others) / others)), "{others} of {frames}");
}

#[test]
fn only_probes_come_down_in_the_mix_up() {
    let (mut up, mut probes) = (0, 0);
    imix_up(5, |side, frame| {
        probes += u32::from(sctp(frame).is_some());
        up += u32::from(side == Side::A);
        assert!(side == Side::A || sctp(frame).is_some());
    });
    let of_udp: u32 = IMIX.iter().map(|(_, times)| times * CONNECTIONS / 3).sum();
    assert_eq!((up, probes), (of_udp + SCTP_FRAMES, 2 * SCTP_FRAMES));
}

#[test]
fn the_small_tcp_of_the_article_is_one_connection_that_never_opens() {
    let mut frames: Vec<(Side, Vec<u8>)> = Vec::new();
    small_tcp(5, |side, frame| frames.push((side, frame.to_vec())));
    assert_eq!(frames.len(), 2 * REPEATS as usize);
    assert!(frames.chunks(2).all(|both| both == &frames[..2]), "all are equal");
    let [(_, syn), (_, syn_ack)] = &frames[..2] else { panic!("two frames") };
    let [syn, syn_ack] = [syn, syn_ack].map(|frame| see(frame).unwrap());
    assert_eq!(
        (syn.direction.src, syn.direction.dst),
        (syn_ack.direction.dst, syn_ack.direction.src)
    );
    let [syn, syn_ack] = [syn.tcp.unwrap(), syn_ack.tcp.unwrap()];
    assert_eq!((syn.flags, syn_ack.flags), (SYN, SYN | ACK));
    assert_eq!(syn_ack.ack, syn.seq.wrapping_add(1));
}

#[test]
fn each_of_many_flows_has_a_frame() {
    let (mut flows, mut down) = (Flows::new(), 0);
    many_flows(5, 1000, |side, frame| match side {
        Side::A => count(&mut flows, side, see(frame).unwrap().direction, frame),
        Side::B => down += u32::from(sctp(frame).is_some()),
    });
    assert_eq!((flows.len(), down), (1000, 1));
    assert!(flows.values().all(|(_, len, times)| (*len, *times) == (60, 1)));
}

/// Collects the frames of a load.
fn frames(load: impl Fn(&mut dyn FnMut(Side, &[u8]))) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    load(&mut |_, frame| frames.push(frame.to_vec()));
    frames
}

#[test]
fn another_seed_has_other_flows_and_the_same_one_the_same() {
    for load in [
        |seed| frames(|sink| imix(seed, sink)),
        |seed| frames(|sink| small_tcp(seed, sink)),
        |seed| frames(|sink| tcp_connections(seed, sink)),
        |seed| frames(|sink| long_tcp(seed, sink)),
        |seed| frames(|sink| many_flows(seed, 10, sink)),
    ] {
        assert_eq!(load(1), load(1));
        assert_ne!(load(1), load(2));
    }
}
