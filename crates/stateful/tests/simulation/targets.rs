// SPDX-License-Identifier: BSD-3-Clause
//! Connections that repeat their messages, as often as a target demands.

use super::{Impairments, SHORT, World, profile};
use stateful::{AddressRange, Counter, Profile, Target};
use std::sync::Arc;

fn read(proto: &str, limit: u64) -> Profile {
    Profile::from_toml(&profile(proto, limit, SHORT), &|_| Err(String::new())).unwrap()
}

fn world(profile: Profile) -> World {
    World::of(Arc::new(profile), Impairments::default(), 1, 5000)
}

#[test]
fn each_connection_repeats_its_messages() {
    for proto in ["tcp", "udp"] {
        let mut profile = read(proto, 10);
        profile.repeat_messages(30).unwrap();
        assert_eq!(profile.rate_of(Target::Transactions(1.0)), 30.0 * 10_000.0);
        assert_eq!(profile.rate_of(Target::PayloadBits(1.0)), 8.0 * 40.0 * 30.0 * 10_000.0);
        let mut world = world(profile);
        world.run(2);
        assert_eq!(world.count(0, Counter::Responses), 300, "{proto}");
        assert_eq!([0, 1].map(|end| world.count(end, Counter::Completed)), [10, 10]);
        assert_eq!([0, 1].map(|end| world.count(end, Counter::PayloadReceived)), [6000, 6000]);
    }
}

/// 500 connections have 5000 transactions a second together, also while some are closed.
#[test]
fn open_connections_reach_a_rate_of_transactions_together() {
    for (proto, churn) in [("tcp", None), ("udp", None), ("tcp", Some(50.0)), ("udp", Some(50.0))] {
        let mut profile = read(proto, 1);
        profile.keep_open(500);
        profile.pace_messages(Target::Transactions(5000.0), None).unwrap();
        if let Some(rate) = churn {
            profile.release_oldest(rate);
        }
        let mut world = world(profile);
        world.ends[0].start(1.0, 0, 0);
        while world.now < 200_000_000 {
            world.step();
        }
        let before = world.count(0, Counter::Responses);
        while world.now < 1_200_000_000 {
            world.step();
            assert_eq!(world.ends[0].counters().active(), 500);
        }
        // A new connection has its first transaction after half a period on average, and one that
        // is released had its last one half a period before.
        let least = if churn.is_some() { 4900 } else { 4999 };
        let responses = world.count(0, Counter::Responses) - before;
        assert!((least..=5001).contains(&responses), "{proto} {churn:?}: {responses}");
        let completed = world.count(0, Counter::Completed);
        assert_eq!(completed > 0, churn.is_some(), "{proto}: {completed}");
        world.ends[0].set_multiplier(0.0, world.now);
        let until = world.now + 400_000_000;
        while world.ends[0].counters().active() > 0 {
            world.step();
            assert!(world.now < until, "{}", world.counters());
        }
        // A server over UDP waits as long as it would for data.
        while world.ends[1].counters().active() > 0 {
            world.step();
            assert!(world.now < until + 40_000_000_000, "{}", world.counters());
        }
        let [client, server] = [0, 1].map(|end| world.ends[end].counters());
        assert_eq!((client.failures(), server.failures()), (0, 0), "{}", world.counters());
        assert_eq!(client[Counter::Aborted] + server[Counter::Aborted], 0);
        // Clients over UDP that are released before their first message have no server.
        assert_eq!(client[Counter::Established], server[Counter::Completed], "{proto} {churn:?}");
    }
}

/// Runs 10 connections of 13 tuples for 20 seconds, and releases 5 a second.
fn run_with_few_tuples(proto: &str, impairments: Impairments) -> World {
    let mut profile = read(proto, 1);
    profile.keep_open(10);
    profile.pace_messages(Target::Transactions(100.0), None).unwrap();
    profile.release_oldest(5.0);
    profile.timeouts.idle_ms = 2000;
    profile.clients = AddressRange::parse("16.0.0.1").unwrap();
    profile.servers = AddressRange::parse("48.0.0.1").unwrap();
    profile.client_ports = 10_000..=10_012;
    let mut world = World::of(Arc::new(profile), impairments, 1, 5000);
    world.ends[0].start(1.0, 0, 0);
    while world.now < 20_000_000_000 {
        world.step();
    }
    world
}

/// A server over UDP does not see its client leave. The next client with the same address and port
/// comes when that server has given up, so fewer are open. Servers over TCP do see it: their tuples
/// return at once.
#[test]
fn a_tuple_returns_when_its_server_has_gone() {
    for (proto, open) in [("tcp", 10..=10), ("udp", 4..=9)] {
        let mut world = run_with_few_tuples(proto, Impairments::default());
        let [client, server] = [0, 1].map(|end| *world.ends[end].counters());
        assert!(client[Counter::Completed] >= 80, "{}", world.counters());
        assert!(open.contains(&client.active()), "{}", world.counters());
        assert_eq!((client.failures(), server.failures()), (0, 0), "{}", world.counters());
        assert_eq!(server[Counter::UnexpectedDatagrams], 0, "{}", world.counters());
        // Those that are kept go at the end, too.
        world.ends[0].set_multiplier(0.0, world.now);
        let now = world.now;
        assert!(!world.ends[0].abort(5000, now, &mut world.links[0]));
        assert_eq!(world.ends[0].records(), 0);
    }
}

/// Datagrams are lost. Each costs its own exchange, and not the next one of its tuple.
#[test]
fn a_failed_exchange_does_not_spoil_the_next_one() {
    let impairments = Impairments { lost: 2, ..Impairments::default() };
    let world = run_with_few_tuples("udp", impairments);
    let [client, server] = [0, 1].map(|end| *world.ends[end].counters());
    assert!(client[Counter::NoAnswer] > 0, "{}", world.counters());
    assert_eq!(server[Counter::UnexpectedDatagrams], 0, "{}", world.counters());
    let lost: u64 = world.links.iter().map(|link| link.lost).sum();
    assert!(client.failures() <= lost, "{lost}: {}", world.counters());
}

/// Each connection has three rounds, and a new one follows.
#[test]
fn connections_with_a_pace_and_a_number_of_messages_are_replaced() {
    let mut profile = read("tcp", 1);
    profile.keep_open(100);
    profile.pace_messages(Target::PayloadBits(100.0 * 320.0 * 50.0), Some(3)).unwrap();
    let mut world = world(profile);
    world.ends[0].start(1.0, 0, 0);
    while world.now < 1_000_000_000 {
        world.step();
        assert!(world.ends[0].counters().active() <= 100);
    }
    let [responses, completed] =
        [Counter::Responses, Counter::Completed].map(|it| world.count(0, it));
    // 50 rounds a second for each of 100, but at first.
    assert!((4700..=5050).contains(&responses), "{responses}");
    assert!(responses >= 3 * completed && responses <= 3 * (completed + 100), "{completed}");
}

#[test]
fn servers_refuse_a_client_that_closes_in_a_round() {
    let mut paced = read("tcp", 1);
    paced.keep_open(1);
    paced.pace_messages(Target::Transactions(10.0), None).unwrap();
    let mut once =
        Profile::from_toml(&profile("tcp", 1, ["{send = 7}, \"close\"", "{receive = 7}"]), &|_| {
            Err(String::new())
        })
        .unwrap();
    once.timeouts = paced.timeouts;
    let mut world = world(once);
    // The server expects 20 bytes of each message.
    world.ends[1] = self::world(paced).ends.into_iter().nth(1).unwrap();
    world.ends[0].start(1.0, 0, 0);
    while world.now < 100_000_000 {
        world.step();
    }
    assert_eq!(world.count(1, Counter::ClosedEarly), 1, "{}", world.counters());
}
