// SPDX-License-Identifier: BSD-3-Clause
//! Replays sessions of captures over the simulated link.

use super::{Impairments, World};
use stateful::{Counter, Pauses, Profile, Transport};
use std::path::Path;
use std::sync::Arc;
use testkit::capture::{Packet, Pcap, real_captures};
use wire::FrameBuilder;
use wire::tcp::{ACK, FIN, PSH, RST, SYN};

const MS: u64 = 1_000_000;
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// Segments of a connection: client or server, milliseconds, flags, place in the stream, payload.
type Segment<'a> = (bool, u64, u8, u32, &'a [u8]);

fn tcp((is_client, ms, flags, place, payload): Segment<'_>, [sport, dport]: [u16; 2]) -> Packet {
    let base = [u32::MAX - 1, 70_000].map(|seq: u32| seq.wrapping_add(1));
    let own = base[usize::from(!is_client)];
    let seq = if flags & SYN != 0 { own.wrapping_sub(1) } else { own.wrapping_add(place) };
    let builder = match is_client {
        true => FrameBuilder::ipv4(CLIENT, SERVER).tcp(sport, dport),
        false => FrameBuilder::ipv4(SERVER, CLIENT).tcp(dport, sport),
    };
    let ack = base[usize::from(is_client)];
    Packet::new(ms * MS, builder.flags(flags).seq(seq).ack(ack).payload(payload).build())
}

fn handshake(ms: u64) -> [Segment<'static>; 3] {
    [(true, ms, SYN, 0, b""), (false, ms + 1, SYN | ACK, 0, b""), (true, ms + 2, ACK, 0, b"")]
}

fn udp(is_client: bool, ms: u64, payload: &[u8]) -> Packet {
    let builder = match is_client {
        true => FrameBuilder::ipv4(CLIENT, SERVER).udp(4000, 53),
        false => FrameBuilder::ipv4(SERVER, CLIENT).udp(53, 4000),
    };
    Packet::new(ms * MS, builder.payload(payload).build())
}

fn read(packets: &[Packet], sessions: Option<&str>, pauses: Pauses) -> Result<Profile, String> {
    let file = |_: &Path| Ok(Pcap::plain().file(packets));
    let profile = Profile::from_capture(Path::new("a.pcap"), (sessions, pauses), &file);
    profile.map_err(|fault| fault.to_string())
}

/// Replays each session once; fails if one does.
fn replay(mut profile: Profile, impairments: Impairments, seconds: u64) -> World {
    for template in &mut profile.templates {
        (template.cps, template.limit) = (100.0, Some(1));
    }
    profile.timeouts.reuse_ms = 1;
    profile.timeouts.retries = 12;
    let count = profile.templates.len() as u64;
    let mut world = World::of(Arc::new(profile), impairments, 1, 1000);
    world.run(seconds);
    // The last datagrams are on their way when their client has ended.
    while world.ends.iter().any(|end| end.counters()[Counter::Completed] < count) {
        world.step();
        assert!(world.now < seconds * 1000 * MS, "{}", world.counters());
    }
    for end in 0..2 {
        assert_eq!(world.count(end, Counter::Completed), count, "{}", world.counters());
    }
    world
}

/// A request in two segments, out of order and one of them twice; a response after 40 ms that the
/// server closes. The client closes 500 ms later.
fn connection() -> Vec<Packet> {
    let segments: [Segment<'_>; 8] = [
        (true, 5, ACK | PSH, 4, b"/ HTTP"),
        (true, 5, ACK | PSH, 0, b"GET "),
        (true, 6, ACK | PSH, 4, b"/ HTTP"),
        (false, 45, ACK | PSH, 0, b"HTTP/1.0 200 OK"),
        (false, 45, ACK | FIN, 15, b""),
        (true, 46, ACK, 10, b""),
        (true, 545, ACK | FIN, 10, b""),
        (false, 545, ACK, 16, b""),
    ];
    handshake(0).into_iter().chain(segments).map(|it| tcp(it, [4000, 80])).collect()
}

#[test]
fn a_connection_is_replayed_with_its_pauses() {
    let profile = read(&connection(), None, Pauses::All).unwrap();
    assert_eq!(profile.templates.len(), 1);
    assert_eq!((profile.templates[0].transport, profile.templates[0].port), (Transport::Tcp, 80));
    let mut world = replay(profile, Impairments::default(), 5);
    assert_eq!([0, 1].map(|end| world.count(end, Counter::PayloadReceived)), [15, 10]);
    // The server waits 39 ms; the client closes after the server, and half a second later.
    let response = world.ends[0].latencies().response.max();
    assert!((39_000..41_000).contains(&response), "{response}");
    assert!((530..600).contains(&(world.now / MS)), "{}", world.now);
    let mut world =
        replay(read(&connection(), None, Pauses::None).unwrap(), Impairments::default(), 5);
    assert!(world.ends[0].latencies().response.max() < 1000);
    assert!(world.now < 100 * MS, "{}", world.now);
    let impairments = Impairments { lost: 100, duplicated: 50, late: 50, damaged: 10 };
    replay(read(&connection(), None, Pauses::Udp).unwrap(), impairments, 600);
}

#[test]
fn an_exchange_of_datagrams_keeps_their_sizes() {
    let packets = [
        udp(true, 0, b"one"),
        udp(true, 0, b"two"),
        udp(false, 1500, b"answer"),
        udp(true, 1600, b"three"),
    ];
    let profile = read(&packets, None, Pauses::Udp).unwrap();
    // A client waits longer than the server pauses.
    assert_eq!(profile.timeouts.answer_ms, 2500);
    let world = replay(profile, Impairments::default(), 5);
    assert_eq!([0, 1].map(|end| world.count(end, Counter::FramesSent)), [3, 1]);
    assert!((1600..1700).contains(&(world.now / MS)), "{}", world.now);
}

/// Two connections to one port have different servers, and the second has the ports of the first.
#[test]
fn sessions_of_one_port_are_told_apart() {
    let second: [Segment<'_>; 2] =
        [(true, 2005, ACK | PSH, 0, b"quit"), (false, 2006, ACK | PSH, 0, b"bye")];
    let syn = |it: Segment<'_>| {
        let mut packet = tcp(it, [4000, 80]);
        // Another initial sequence number of the client.
        if it.2 == SYN {
            packet = Packet::new(
                it.1 * MS,
                FrameBuilder::ipv4(CLIENT, SERVER).tcp(4000, 80).flags(SYN).seq(99).build(),
            );
        }
        packet
    };
    let mut packets = connection();
    packets.push(syn((true, 2000, SYN, 0, b"")));
    let fault = read(&packets, Some("2"), Pauses::All).unwrap_err();
    assert!(fault.contains("a.pcap has no session to replay: session 2 (tcp 10.0.0.1:4000 to"));
    assert!(fault.ends_with("10.0.0.2:80) was not accepted"), "{fault}");
    let profile = read(&packets, None, Pauses::All).unwrap();
    assert_eq!(profile.templates.len(), 1);
    assert!(profile.notes[0].contains("1 sessions are left out: session 2"), "{:?}", profile.notes);
    packets.truncate(11);
    let third = handshake(2000).into_iter().chain(second);
    packets.extend(third.map(|it| tcp(it, [4001, 80])));
    let profile = read(&packets, None, Pauses::None).unwrap();
    assert_eq!(profile.templates.len(), 2);
    let world = replay(profile, Impairments::default(), 5);
    assert_eq!([0, 1].map(|end| world.count(end, Counter::PayloadReceived)), [18, 14]);
    assert_eq!(read(&packets, Some("tcp/80"), Pauses::All).unwrap().templates.len(), 2);
    assert_eq!(read(&packets, Some("2-9"), Pauses::All).unwrap().templates[0].name, "1/2");
    let fault = read(&packets, Some("udp,7"), Pauses::All).unwrap_err();
    let sessions = "tcp 10.0.0.1:4000 to 10.0.0.2:80, tcp 10.0.0.1:4001 to 10.0.0.2:80";
    assert!(fault.ends_with(&format!("none of its 2 sessions is chosen: {sessions}")), "{fault}");
    for wrong in ["", "sctp", "tcp/x", "0", "3-2", "tcp/80/1"] {
        let fault = read(&packets, Some(wrong), Pauses::All).unwrap_err();
        assert!(fault.contains("is none of tcp, udp, tcp/PORT"), "{wrong}: {fault}");
    }
}

#[test]
fn what_a_capture_lacks_is_named() {
    let told = |packets: &[Packet], expected: &str| {
        let fault = read(packets, None, Pauses::All).unwrap_err();
        assert!(fault.contains(expected), "{fault}");
    };
    let mut packets = connection();
    packets.remove(4);
    told(&packets, "(tcp 10.0.0.1:4000 to 10.0.0.2:80): 4 bytes before packet 4 are not in the");
    let mut packets = connection();
    packets.remove(6);
    told(&packets, "15 bytes before packet 7 are");
    packets.truncate(6);
    let builder = FrameBuilder::ipv4(CLIENT, SERVER).tcp(4000, 80).flags(ACK).seq(9);
    packets.push(Packet::new(600 * MS, builder.ack(70_017).build()));
    told(&packets, "packet 7 acknowledges 15 bytes that are not in the capture");
    let mut packets = connection();
    packets[6].bytes.truncate(60);
    told(&packets, "packet 7 was cut when it was captured");
    told(&connection()[3..], "session 1 (tcp 10.0.0.1:4000 to 10.0.0.2:80) begins before the");
    told(&[udp(true, 0, &[1; 1473])], "packet 1 has 1473 bytes of payload; a datagram has at most");
    let fragment = FrameBuilder::ipv4(CLIENT, SERVER).udp(1, 2).payload([0; 99]).fragments(64);
    told(&[Packet::new(0, fragment[0].build())], "packet 1 is a fragment");
    told(&[Packet::new(0, vec![0; 60])], "there is neither TCP nor UDP in it");
    told(&[], "has no session to replay");
    // A RST ends a connection like a FIN that the capture lacks.
    let mut packets = connection();
    packets.truncate(7);
    packets.push(tcp((true, 50, RST, 10, b""), [4000, 80]));
    replay(read(&packets, None, Pauses::All).unwrap(), Impairments::default(), 5);
}

/// Real captures: every session that is whole is replayed, or the fault names a packet.
#[test]
fn real_sessions_are_replayed() {
    let Some(folder) = real_captures("trex") else { return };
    let (mut replayed, mut refused) = (0, Vec::new());
    for below in ["avl", "cap2"] {
        for entry in std::fs::read_dir(folder.join(below)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "pcap") {
                continue;
            }
            let file = |path: &Path| std::fs::read(path).map_err(|error| error.to_string());
            match Profile::from_capture(&path, (None, Pauses::None), &file) {
                Ok(profile) => {
                    replay(profile, Impairments::default(), 60);
                    replayed += 1;
                }
                Err(fault) => refused.push(fault.to_string()),
            }
        }
    }
    println!("{replayed} replayed; refused: {refused:#?}");
    assert!(replayed > 20, "{refused:#?}");
    let has_place = |fault: &String| fault.contains("packet ") || fault.contains("no session");
    assert!(refused.iter().all(has_place), "{refused:#?}");
}
