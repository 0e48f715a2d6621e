// SPDX-License-Identifier: BSD-3-Clause
//! ICMP errors about packets of a client: which of them end its connections.

use super::{Impairments, SHORT, World, profile};
use stateful::{Counter, Note, Profile};
use std::sync::Arc;
use wire::FrameBuilder;
use wire::ethernet::Ethernet;
use wire::icmp::{v4, v6};

const V6: &str = "clients = \"2001:2::1\"\nservers = \"2001:2::9\"\n";

/// A client whose server is not there, with one connection that is opening.
fn client(proto: &str, addresses: &str) -> World {
    let text = addresses.to_owned() + &profile(proto, 1, SHORT);
    let profile = Profile::from_toml(&text, &|_| Err(String::new())).unwrap();
    let mut world = World::of(Arc::new(profile), Impairments::default(), 1, 1000);
    world.ends[0].start(1.0, 0, 0);
    while world.links[0].frames.is_empty() {
        world.step();
    }
    world
}

/// Answers the client's packet, which `change` may alter, with an error.
fn answer(world: &mut World, (kind, code): (u8, u8), change: impl Fn(&mut Vec<u8>)) {
    let sent = world.links[0].frames.values().next().expect("a frame").clone();
    let mut packet = Ethernet::new(&sent).unwrap().payload().to_vec();
    change(&mut packet);
    let builder = match packet[0] >> 4 {
        4 => {
            let ours: [u8; 4] = packet[12..16].try_into().unwrap();
            FrameBuilder::ipv4([10, 0, 0, 1], ours)
        }
        _ => {
            let ours: [u8; 16] = packet[8..24].try_into().unwrap();
            FrameBuilder::ipv6([0x2001, 2, 0, 0, 0, 0, 0, 7], ours)
        }
    };
    let frame = builder.icmp_error(kind, code, &packet).build();
    let noted = world.ends[0].note(0, &frame);
    assert_eq!(noted, Note::Noted);
}

#[test]
fn errors_end_connections_that_are_opening() {
    for (proto, addresses, error, cause) in [
        ("tcp", "", (v4::UNREACHABLE, 3), Counter::Unreachable),
        ("tcp", "", (v4::UNREACHABLE, 13), Counter::Unreachable),
        ("udp", "", (v4::UNREACHABLE, 3), Counter::Refused),
        ("udp", "", (v4::UNREACHABLE, 1), Counter::Unreachable),
        ("tcp", V6, (v6::UNREACHABLE, 4), Counter::Unreachable),
        ("udp", V6, (v6::UNREACHABLE, 4), Counter::Refused),
        ("udp", V6, (v6::UNREACHABLE, 3), Counter::Unreachable),
    ] {
        let mut world = client(proto, addresses);
        answer(&mut world, error, |_| {});
        let counters = world.ends[0].counters();
        assert_eq!((counters[cause], counters.active()), (1, 0), "{proto} {error:?}");
        assert_eq!((counters[Counter::IcmpErrors], world.ends[0].records()), (1, 0));
    }
}

#[test]
fn errors_about_other_packets_are_stray() {
    let mut world = client("tcp", "");
    // Another sequence number, another port, and a packet that is too long.
    answer(&mut world, (v4::UNREACHABLE, 3), |packet| packet[27] ^= 1);
    answer(&mut world, (v4::UNREACHABLE, 3), |packet| packet[21] ^= 1);
    assert_eq!(world.count(0, Counter::Stray), 2);
    let counters = world.ends[0].counters();
    assert_eq!((counters[Counter::IcmpErrors], counters.active()), (0, 1));
    // One about an open connection is counted, and the connection completes.
    let text = profile(
        "tcp",
        1,
        ["{send = 20}, {receive = 20}", "{receive = 20}, {delay_ms = 9}, {send = 20}"],
    );
    let profile = Profile::from_toml(&text, &|_| Err(String::new())).unwrap();
    let mut world = World::of(Arc::new(profile), Impairments::default(), 1, 1000);
    world.ends[0].start(1.0, 0, 0);
    let is_data = |frame: &Vec<u8>| frame.len() > 70;
    while !world.links[0].frames.values().any(is_data) {
        world.step();
    }
    world.links[0].frames.retain(|_, frame| is_data(frame));
    answer(&mut world, (v4::UNREACHABLE, 1), |_| {});
    assert_eq!(world.count(0, Counter::IcmpErrors), 1);
    world.run_on(2);
    assert_eq!(world.count(0, Counter::Completed), 1, "{}", world.counters());
}
