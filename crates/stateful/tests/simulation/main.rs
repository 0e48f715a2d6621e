// SPDX-License-Identifier: BSD-3-Clause
//! Runs clients and servers against each other over a simulated link that loses, duplicates and
//! reorders frames, in simulated time.

mod recorded;
mod targets;
mod unreachable;

use proptest::prelude::*;
use stateful::{
    AddressRange, BURST_MAX, Counter, Output, Profile, Role, Sharing, Stack, StackConfig,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Microseconds that a frame needs to the other end.
const DELAY_NS: u64 = 50_000;
const STEP_NS: u64 = 20_000;

/// Shares of frames that are impaired, per thousand.
#[derive(Clone, Copy, Debug, Default)]
struct Impairments {
    lost: u64,
    duplicated: u64,
    late: u64,
    damaged: u64,
}

/// Frames on their way, by time of arrival.
#[derive(Default)]
struct Link {
    frames: BTreeMap<(u64, u64), Vec<u8>>,
    sent: u64,
    lost: u64,
    now: u64,
    random: u64,
    impairments: Impairments,
    /// Frames that are accepted at a time.
    room: usize,
    taken: usize,
}

impl Link {
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 1000
    }

    fn carry(&mut self, mut frame: Vec<u8>) {
        let Impairments { lost, duplicated, late, damaged } = self.impairments;
        if self.draw() < lost {
            self.lost += 1;
            return;
        }
        if self.draw() < duplicated {
            self.put(frame.clone(), DELAY_NS);
        }
        if self.draw() < damaged {
            let at = 14 + self.draw() as usize % (frame.len() - 14);
            frame[at] ^= 1 << (self.random % 8);
        }
        let more = if self.draw() < late { 300_000 } else { 0 };
        self.put(frame, DELAY_NS + more);
    }

    fn put(&mut self, frame: Vec<u8>, delay: u64) {
        self.sent += 1;
        self.frames.insert((self.now + delay, self.sent), frame);
    }

    fn arrived(&mut self) -> Vec<Vec<u8>> {
        let later = self.frames.split_off(&(self.now + 1, 0));
        std::mem::replace(&mut self.frames, later).into_values().collect()
    }
}

impl Output for Link {
    fn room(&mut self) -> usize {
        self.room - self.taken
    }

    fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        assert!(self.taken < self.room);
        self.taken += 1;
        // Bytes of earlier frames are there.
        let mut frame = vec![0xa5; 9234];
        let len = write(&mut frame);
        frame.truncate(len);
        self.carry(frame);
    }
}

struct World {
    ends: [Stack; 2],
    links: [Link; 2],
    now: u64,
}

impl World {
    fn new(profile: &str, impairments: Impairments, seed: u64, room: usize) -> Self {
        let profile = Profile::from_toml(profile, &|_| Err(String::new())).unwrap();
        Self::of(Arc::new(profile), impairments, seed, room)
    }

    fn of(profile: Arc<Profile>, impairments: Impairments, seed: u64, room: usize) -> Self {
        let stack = |role, own: u8| {
            Stack::new(StackConfig {
                profile: Arc::clone(&profile),
                role,
                capacity: 1000,
                macs: [[2, 0, 0, 0, 0, own], [2, 0, 0, 0, 0, 3 - own]],
                mtu: 1500,
                sharing: Sharing::default(),
                seed: seed + u64::from(own),
                begun_us: 0,
            })
        };
        let link = |number: u64| Link {
            random: (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number,
            impairments,
            room,
            ..Link::default()
        };
        let ends = [stack(Role::Client, 1), stack(Role::Server, 2)];
        Self { ends, links: [link(3), link(5)], now: 0 }
    }

    /// Lets a step of time pass.
    fn step(&mut self) {
        self.now += STEP_NS;
        for link in &mut self.links {
            (link.now, link.taken) = (self.now, 0);
        }
        for number in 0..2 {
            let frames = self.links[1 - number].arrived();
            let (end, out) = (&mut self.ends[number], &mut self.links[number]);
            for burst in frames.chunks(BURST_MAX) {
                burst.iter().for_each(|frame| end.count_received(frame));
                (0..).zip(burst).for_each(|(at, frame)| _ = end.note(at, frame));
                end.look_up(burst.len());
                for (at, frame) in burst.iter().enumerate() {
                    assert_eq!(end.process(at, frame, self.now, out), None);
                }
            }
            while end.expire(self.now, out) && out.room() > 0 {}
            end.open(self.now, out);
        }
    }

    /// Runs until all connections have ended; fails after `seconds`.
    fn run(&mut self, seconds: u64) {
        self.ends[0].start(1.0, 0, 0);
        self.run_on(seconds);
    }

    fn run_on(&mut self, seconds: u64) {
        while !(self.ends[0].is_done() && self.ends.iter().all(|end| end.records() == 0)) {
            self.step();
            assert!(self.now < seconds * 1_000_000_000, "{}", self.counters());
        }
    }

    /// Returns the counters of both ends that are not 0, as text.
    fn counters(&self) -> String {
        let count = |(number, end): (usize, &Stack)| {
            let counters = end.counters();
            let is_counted = |counter: &Counter| counters[*counter] > 0;
            let text = |counter: Counter| format!("{}={} ", counter.name(), counters[counter]);
            let all: String = Counter::ALL.into_iter().filter(is_counted).map(text).collect();
            format!("{number}: {all}\n")
        };
        self.ends.iter().enumerate().map(count).collect()
    }

    fn count(&self, end: usize, counter: Counter) -> u64 {
        self.ends[end].counters()[counter]
    }
}

fn profile(proto: &str, limit: u64, [client, server]: [&str; 2]) -> String {
    format!(
        "[timeouts]\nreuse_ms = 1\nretries = 12\nsyn_retries = 10\n\
         [[template]]\nproto = \"{proto}\"\nport = 80\ncps = 10000\nlimit = {limit}\n\
         client = [{client}]\nserver = [{server}]\n"
    )
}

const SHORT: [&str; 2] = ["{send = 20}, {receive = 20}", "{receive = 20}, {send = 20}"];

#[test]
fn a_short_connection_takes_seven_packets() {
    let mut world = World::new(&profile("tcp", 100, SHORT), Impairments::default(), 1, 1000);
    world.run(2);
    for end in 0..2 {
        let counters = world.ends[end].counters();
        for counter in [Counter::Attempted, Counter::Established, Counter::Completed] {
            assert_eq!(counters[counter], 100, "{end} {}", counter.name());
        }
        assert_eq!((counters.failures(), counters.active()), (0, 0));
        assert_eq!(counters[Counter::Stray] + counters[Counter::ResetsSent], 0);
    }
    let sent = [0, 1].map(|end| world.count(end, Counter::FramesSent));
    assert_eq!(sent, [400, 300]);
    assert_eq!(sent[0], world.count(1, Counter::FramesReceived));
    let latencies = world.ends[0].latencies();
    assert_eq!((latencies.setup.len(), latencies.response.len()), (100, 100));
    assert_eq!(latencies.first_byte.len(), 100);
    // Two ways of 50 us, and up to a step of the simulation for each.
    assert!((100..=140).contains(&latencies.setup.min()), "{}", latencies.setup.min());
}

#[test]
fn a_server_can_wait_until_the_client_closes() {
    const CLIENT: &str = "{send = 20}, {delay_us = 100000}";
    let run = |server| {
        let text = profile("tcp", 1, [CLIENT, server]);
        let mut world = World::new(&text, Impairments::default(), 1, 1000);
        world.ends[0].start(1.0, 0, 0);
        let sent_by_server = [5, 200].map(|ms| {
            while world.now < ms * 1_000_000 {
                world.step();
            }
            world.count(1, Counter::FramesSent)
        });
        assert_eq!([0, 1].map(|end| world.count(end, Counter::Completed)), [1, 1]);
        sent_by_server
    };
    // The SYN+ACK; then the acknowledgements of the data and of the FIN, with the own FIN.
    assert_eq!(run("{receive = 20}, \"wait_for_close\""), [1, 3]);
    // The own FIN, which acknowledges the data, comes at once.
    assert_eq!(run("{receive = 20}"), [2, 3]);
}

#[test]
fn an_exchange_over_udp_takes_two_packets() {
    let mut world = World::new(&profile("udp", 50, SHORT), Impairments::default(), 1, 1000);
    world.run(2);
    assert_eq!(world.count(0, Counter::Completed), 50);
    assert_eq!(world.count(1, Counter::Completed), 50);
    assert_eq!([0, 1].map(|end| world.count(end, Counter::FramesSent)), [50, 50]);
}

/// Connections live 50 to 150 ms, so that 8000 end each second. The client has exactly as many open
/// as it should, and at the server on average no more than one percent less are established.
#[test]
fn the_number_of_open_connections_is_exact_under_churn() {
    let programs =
        ["{send = 20}, {receive = 20}, {delay_ms = [50, 150]}", "{receive = 20}, {send = 20}"];
    let text = profile("tcp", 800, programs).replace("limit", "continuous = true\nlimit");
    let mut world = World::new(&text, Impairments::default(), 1, 5000);
    world.ends[0].start(100.0, 0, 0);
    let (mut sum, mut samples) = (0, 0);
    while world.now < 1_000_000_000 {
        world.step();
        if world.now > 100_000_000 {
            assert_eq!(world.ends[0].counters().active(), 800);
            let established = world.ends[1].counters();
            let open = established[Counter::Established] - established[Counter::Completed];
            (sum, samples) = (sum + open, samples + 1);
        }
    }
    assert!((792..=800).contains(&(sum / samples)), "{} established", sum / samples);
    assert!(world.count(0, Counter::Completed) > 6000, "{}", world.counters());
    assert_eq!(world.ends[0].counters().failures(), 0);
}

/// The first byte of a response comes after 20 ms, the last one after 50 ms.
#[test]
fn first_and_last_byte_of_a_response_are_timed() {
    let server = "{receive = 20}, {delay_ms = 20}, {send = 5}, {delay_ms = 30}, {send = 15}";
    let client = "{send = 20}, {receive = 5}, {receive = 15}, {send = 1}";
    for proto in ["tcp", "udp"] {
        let server = format!("{server}, {{receive = 1}}");
        let text = profile(proto, 10, [client, &server]);
        let mut world = World::new(&text, Impairments::default(), 1, 1000);
        world.run(2);
        let latencies = world.ends[0].latencies();
        let range = |it: &hdrhistogram::Histogram<u64>| (it.len(), it.min(), it.max());
        let (count, least, most) = range(&latencies.first_byte);
        assert!(count == 10 && least >= 19_800 && most < 21_000, "{proto}: {least} to {most}");
        let (count, least, most) = range(&latencies.response);
        assert!(count == 10 && least >= 49_700 && most < 51_500, "{proto}: {least} to {most}");
    }
}

/// 2 % of the frames of long streams are lost: most are found by duplicate acknowledgements.
#[test]
fn lost_segments_are_sent_again_before_their_timeout() {
    let long = ["{send = 20}, {receive = 200000}", "{receive = 20}, {send = 200000}"];
    let impairments = Impairments { lost: 20, ..Impairments::default() };
    let mut world = World::new(&profile("tcp", 20, long), impairments, 1, 5000);
    world.run(60);
    let server = world.ends[1].counters();
    assert!(server[Counter::FastRetransmits] > 20, "{}", world.counters());
    assert!(server[Counter::DuplicateAcks] > 3 * 20, "{}", world.counters());
    assert!(server[Counter::TimeoutRetransmits] > 0, "{}", world.counters());
    assert_eq!(world.count(0, Counter::Completed), 20);
}

/// Each packet to the client is damaged.
#[test]
fn packets_with_wrong_checksums_are_the_cause_of_failures() {
    for proto in ["tcp", "udp"] {
        let text = profile(proto, 50, SHORT);
        let mut profile = Profile::from_toml(&text, &|_| Err(String::new())).unwrap();
        (profile.timeouts.syn_retries, profile.timeouts.answer_ms) = (1, 100);
        let mut world = World::of(Arc::new(profile), Impairments::default(), 1, 5000);
        world.links[1].impairments.damaged = 1000;
        world.ends[0].start(1.0, 0, 0);
        while world.now < 4_000_000_000 {
            world.step();
        }
        let [checksum, others] =
            [Counter::Checksum, Counter::NoSynAck].map(|it| world.count(0, it));
        // Some bits make a packet malformed or foreign, or are behind its end.
        assert!(checksum > 30 && others < 10, "{proto}: {}", world.counters());
    }
}

/// The server sends other bytes than the client's profile says.
#[test]
fn wrong_bytes_are_a_cause_of_failures() {
    for proto in ["tcp", "udp"] {
        let wrong =
            ["{send = 20}, {receive = 20}", "{receive = 20}, {send = \"twenty other bytes..\"}"];
        let mut world = World::new(&profile(proto, 50, SHORT), Impairments::default(), 1, 5000);
        let other = World::new(&profile(proto, 50, wrong), Impairments::default(), 1, 5000);
        world.ends[1] = other.ends.into_iter().nth(1).unwrap();
        world.ends[0].start(1.0, 0, 0);
        while world.now < 2_000_000_000 {
            world.step();
        }
        assert_eq!(world.count(0, Counter::WrongData), 50, "{proto}: {}", world.counters());
    }
}

/// Clients with one address and 50 ports: a port rests for 200 ms after its connection, whatever
/// became of it.
#[test]
fn ports_rest_after_each_end_of_a_connection() {
    let reset = ["{send = 20}, {receive = 20}, \"reset\"", "{receive = 20}, {send = 20}"];
    for (proto, programs, lost) in
        [("tcp", SHORT, 0), ("tcp", reset, 0), ("udp", SHORT, 0), ("udp", SHORT, 500)]
    {
        let text = profile(proto, 100_000, programs);
        let mut profile = Profile::from_toml(&text, &|_| Err(String::new())).unwrap();
        (profile.timeouts.reuse_ms, profile.timeouts.answer_ms) = (200, 10);
        profile.clients = AddressRange::parse("16.0.0.1").unwrap();
        profile.servers = AddressRange::parse("48.0.0.1").unwrap();
        profile.client_ports = 10_000..=10_049;
        let impairments = Impairments { lost, ..Impairments::default() };
        let mut world = World::of(Arc::new(profile), impairments, 1, 5000);
        world.ends[0].start(1.0, 0, 0);
        while world.now < 2_000_000_000 {
            world.step();
        }
        // Each port at most 10 times in 2 seconds, and one that is open.
        let attempted = world.count(0, Counter::Attempted);
        assert!((400..=550).contains(&attempted), "{proto} {lost}: {}", world.counters());
    }
}

/// 500 connections are held, and 2000 a second are closed, the oldest first: each lives 250 ms.
#[test]
fn the_oldest_connections_are_released() {
    for proto in ["tcp", "udp"] {
        let text = profile(proto, 1, SHORT);
        let mut profile = Profile::from_toml(&text, &|_| Err(String::new())).unwrap();
        profile.timeouts.idle_ms = 50;
        profile.timeouts.answer_ms = 50;
        profile.keep_open(500);
        profile.release_oldest(2000.0);
        let mut world = World::of(Arc::new(profile), Impairments::default(), 1, 5000);
        world.ends[0].start(1.0, 0, 0);
        while world.now < 100_000_000 {
            world.step();
        }
        assert_eq!(world.ends[0].counters().active(), 500, "{proto}");
        let [begun, from] = [world.count(0, Counter::Completed), world.now];
        while world.now < 1_100_000_000 {
            world.step();
            let counters = world.ends[0].counters();
            assert_eq!(counters.active(), 500, "{proto}");
            // Those that are closing or opening take no more than one percent.
            let open = counters[Counter::Established] - counters[Counter::Completed];
            assert!(open >= 495, "{proto}: {open} at {}", world.now);
        }
        let seconds = (world.now - from) as f64 / 1e9;
        let rate = (world.count(0, Counter::Completed) - begun) as f64 / seconds;
        assert!((1980.0..=2020.0).contains(&rate), "{proto}: {rate}");
        assert_eq!(world.ends[0].counters().failures(), 0, "{}", world.counters());
        world.ends[0].set_multiplier(0.0, world.now);
        while world.ends[0].counters().active() > 0 {
            world.step();
            assert!(world.now < 2_000_000_000, "{}", world.counters());
        }
        assert_eq!(world.count(0, Counter::Aborted), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Every connection completes over a bad link, with its data intact, in both directions.
    #[test]
    fn tcp_completes_over_a_bad_link(
        seed in any::<u32>(),
        lost in 0u64..60,
        duplicated in 0u64..50,
        late in 0u64..50,
        damaged in 0u64..20,
        sizes in prop::collection::vec((1u32..30_000, 1u32..30_000), 1..4),
        room in 1usize..100,
    ) {
        let actions = |client: bool| {
            let one = |(there, back): &(u32, u32)| match client {
                true => format!("{{send = {there}}}, {{receive = {back}}}"),
                false => format!("{{receive = {there}}}, {{delay_ms = [0, 3]}}, {{send = {back}}}"),
            };
            sizes.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let programs = [actions(true), actions(false)];
        let profile = profile("tcp", 5, programs.each_ref().map(String::as_str));
        let impairments = Impairments { lost, duplicated, late, damaged };
        let mut world = World::new(&profile, impairments, seed.into(), room);
        world.run(600);
        let counters = world.counters();
        prop_assert_eq!(world.count(0, Counter::Completed), 5, "{}", counters);
        let payload: u64 = sizes.iter().map(|(there, _)| u64::from(*there)).sum();
        prop_assert_eq!(world.count(1, Counter::PayloadReceived), 5 * payload);
        prop_assert_eq!(world.count(0, Counter::WrongData), 0);
        let is_damaged = world.count(0, Counter::BadChecksums) + world.count(0, Counter::Malformed);
        prop_assert!(damaged > 0 || is_damaged == 0);
    }
}
