// SPDX-License-Identifier: BSD-3-Clause
//! Several workers share each end: whichever of them gets a frame, its connection completes, and no
//! two workers use one tuple.

use proptest::prelude::*;
use stateful::{Counter, Note, Output, Profile, Role, Sharing, Stack, StackConfig};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use wire::FrameBuilder;
use wire::ethernet::Ethernet;
use wire::ipv4::Ipv4;
use wire::rss::{RssFields, RssSpread};

const CONNECTIONS: u64 = 600;

/// Frames to the other end, without a limit.
#[derive(Default)]
struct Sent(VecDeque<Vec<u8>>);

impl Output for Sent {
    fn room(&mut self) -> usize {
        usize::MAX
    }

    fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut frame = vec![0; 2048];
        let len = write(&mut frame);
        frame.truncate(len);
        self.0.push_back(frame);
    }
}

/// Returns the queue of a frame by RSS.
fn queue_of(spread: &RssSpread, frame: &[u8]) -> u16 {
    let ip = Ipv4::new(Ethernet::new(frame).unwrap().payload()).unwrap();
    let ports = &frame[Ethernet::LEN + ip.header_len()..][..4];
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    let addresses: [IpAddr; 2] = [ip.src().into(), ip.dst().into()];
    spread.queue(ip.protocol(), addresses, [port(0), port(2)])
}

/// How a frame gets to a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arrival {
    /// As RSS says, and the workers know that.
    Known,
    /// As `Known`; of UDP, all frames get to the first worker.
    TcpOnly,
    /// As RSS says, and the workers do not know.
    Unknown,
    /// At any worker.
    Random,
    /// At any worker, and the workers believe in RSS.
    Wrong,
}

struct World {
    ends: [Vec<Stack>; 2],
    spread: Arc<RssSpread>,
    arrival: Arrival,
    random: u64,
}

impl World {
    fn new(workers: u16, arrival: Arrival, (clients, ports): (u32, u16), seed: u32) -> Self {
        let text = format!(
            "clients = \"16.0.0.1-16.0.0.{clients}\"\nclient_ports = \"1024-{}\"\n\
             [timeouts]\nreuse_ms = 0\n\
             [[template]]\nport = 80\ncps = 1e6\nlimit = {CONNECTIONS}\n\
             client = [{{send = 20}}, {{receive = 20}}]\n\
             server = [{{receive = 20}}, {{send = 20}}]\n\
             [[template]]\nproto = \"udp\"\nport = 53\ncps = 1e6\nlimit = {CONNECTIONS}\n\
             client = [{{send = 20}}, {{receive = 20}}]\n\
             server = [{{receive = 20}}, {{send = 20}}]\n",
            1023 + ports
        );
        let profile = Arc::new(Profile::from_toml(&text, &|_| Err(String::new())).unwrap());
        let hashed =
            RssFields { tcp: true, udp: arrival != Arrival::TcpOnly, ..RssFields::default() };
        let key = [0x6d, 0x5b].repeat(20);
        let queues = (0..128).map(|entry| entry % workers).collect();
        let spread = Arc::new(RssSpread::new(&key, queues, [hashed; 2]));
        let is_known = !matches!(arrival, Arrival::Unknown | Arrival::Random);
        let end = |role, own: u8| {
            let stack = |worker| {
                let spread = is_known.then(|| Arc::clone(&spread));
                Stack::new(StackConfig {
                    profile: Arc::clone(&profile),
                    role,
                    capacity: 2000,
                    macs: [[2, 0, 0, 0, 0, own], [2, 0, 0, 0, 0, 3 - own]],
                    mtu: 1500,
                    sharing: Sharing { worker, workers, spread },
                    seed: seed.into(),
                    begun_us: 0,
                })
            };
            (0..workers).map(stack).collect()
        };
        let ends = [end(Role::Client, 1), end(Role::Server, 2)];
        Self { ends, spread, arrival, random: u64::from(seed) | 1 }
    }

    fn worker_of(&mut self, frame: &[u8], workers: usize) -> usize {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        match self.arrival {
            Arrival::Known | Arrival::TcpOnly | Arrival::Unknown => {
                queue_of(&self.spread, frame).into()
            }
            Arrival::Random | Arrival::Wrong => (self.random >> 33) as usize % workers,
        }
    }

    /// Brings frames to their end until none are left, and collects the answers.
    fn deliver(&mut self, end: usize, frames: &mut Sent, now: u64) -> Sent {
        let mut answers = Sent::default();
        while let Some(frame) = frames.0.pop_front() {
            let workers = self.ends[end].len();
            let first = self.worker_of(&frame, workers);
            self.ends[end][first].count_received(&frame);
            let mut next = Some(first);
            let mut visits = 0;
            while let Some(worker) = next {
                let stack = &mut self.ends[end][worker];
                stack.note(0, &frame);
                stack.look_up(1);
                next = stack.process(0, &frame, now, &mut answers).map(usize::from);
                visits += 1;
            }
            assert!(visits <= 2, "a frame is handed off once");
        }
        answers
    }

    /// Runs until all connections have ended.
    fn run(&mut self) {
        let mut now = 0;
        self.ends[0].iter_mut().for_each(|client| client.start(1.0, 0, 0));
        while !self.ends[0].iter().all(Stack::is_done) {
            now += 50_000;
            assert!(
                now < 2_000_000_000,
                "{:?}",
                [0, 1].map(|end| self.sum(end, Counter::Completed))
            );
            let mut to = [Sent::default(), Sent::default()];
            for (end, stacks) in self.ends.iter_mut().enumerate() {
                for stack in stacks {
                    stack.expire(now, &mut to[1 - end]);
                    stack.open(now, &mut to[1 - end]);
                }
            }
            while to.iter().any(|frames| !frames.0.is_empty()) {
                for end in 0..2 {
                    let answers = self.deliver(end, &mut to[end], now);
                    to[1 - end].0.extend(answers.0);
                }
            }
        }
    }

    fn sum(&self, end: usize, counter: Counter) -> u64 {
        self.ends[end].iter().map(|stack| stack.counters()[counter]).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_connection_completes_wherever_its_frames_arrive(
        workers in 1u16..9,
        arrival in prop::sample::select(vec![
            Arrival::Known, Arrival::Unknown, Arrival::Random, Arrival::Wrong,
        ]),
        pools in (1u32..20, 300u16..2000),
        seed in any::<u32>(),
    ) {
        let mut world = World::new(workers, arrival, pools, seed);
        world.run();
        for end in 0..2 {
            prop_assert_eq!(world.sum(end, Counter::Completed), 2 * CONNECTIONS);
            prop_assert_eq!(world.sum(end, Counter::Attempted), 2 * CONNECTIONS);
            prop_assert_eq!(world.sum(end, Counter::Stray), 0);
            let sent = world.sum(1 - end, Counter::FramesSent);
            prop_assert_eq!(world.sum(end, Counter::FramesReceived), sent);
            let handed_off = world.sum(end, Counter::HandedOff);
            prop_assert!(handed_off == 0 || !(workers == 1 || arrival == Arrival::Known));
        }
        // The work is divided.
        let least = world.ends[0].iter().map(|it| it.counters()[Counter::Completed]).min();
        prop_assert!(least >= Some(2 * CONNECTIONS / u64::from(workers) - 2), "{:?}", least);
    }
}

/// A worker without tuples opens nothing, says so, and does not wait.
#[test]
fn a_worker_without_tuples_counts_what_it_cannot_open() {
    let mut world = World::new(2, Arrival::TcpOnly, (20, 2000), 1);
    world.run();
    let counters = world.ends[0].iter().map(Stack::counters);
    let of_workers: Vec<_> =
        counters.map(|it| (it[Counter::Completed], it[Counter::Unopened])).collect();
    assert_eq!(of_workers, [(CONNECTIONS, 0), (CONNECTIONS / 2, CONNECTIONS / 2)]);
}

/// An ICMP error that arrives at a wrong worker gets to the one whose datagram it quotes.
#[test]
fn an_error_gets_to_the_worker_of_its_connection() {
    let mut world = World::new(2, Arrival::Unknown, (20, 2000), 1);
    let clients = &mut world.ends[0];
    clients.iter_mut().for_each(|client| client.start(1.0, 0, 0));
    let mut sent = Sent::default();
    clients[1].open(1_000_000, &mut sent);
    let is_udp = |frame: &&Vec<u8>| frame[Ethernet::LEN + 9] == 17;
    let quoted = Ethernet::new(sent.0.iter().find(is_udp).unwrap()).unwrap().payload();
    let client: [u8; 4] = Ipv4::new(quoted).unwrap().src().octets();
    let error = FrameBuilder::ipv4([48, 0, 0, 1], client).icmp_error(3, 3, quoted).build();
    assert_eq!(clients[0].note(0, &error), Note::OfWorker(1));
    assert_eq!(clients[1].note(0, &error), Note::Noted);
    let refused = clients.iter().map(|client| client.counters()[Counter::Refused]);
    assert_eq!(refused.collect::<Vec<_>>(), [0, 1]);
}

/// A damaged answer that arrives at a wrong worker says why the connection of the other one fails.
#[test]
fn a_wrong_checksum_is_the_reason_at_the_worker_of_its_connection() {
    let mut world = World::new(2, Arrival::Unknown, (20, 2000), 1);
    let [clients, servers] = &mut world.ends;
    clients.iter_mut().for_each(|client| client.start(1.0, 0, 0));
    let (mut sent, mut answers) = (Sent::default(), Sent::default());
    clients[1].open(1_000_000, &mut sent);
    let is_tcp = |frame: &&Vec<u8>| frame[Ethernet::LEN + 9] == 6;
    let syn = sent.0.iter().find(is_tcp).unwrap().clone();
    servers[1].note(0, &syn);
    assert_eq!(servers[1].process(0, &syn, 0, &mut answers), None);
    let mut syn_ack = answers.0.pop_front().unwrap();
    syn_ack[Ethernet::LEN + 24] ^= 1;
    assert_eq!(clients[0].note(0, &syn_ack), Note::OfWorker(1));
    assert_eq!(clients[1].note(0, &syn_ack), Note::Noted);
    let bad = clients.iter().map(|client| client.counters()[Counter::BadChecksums]);
    assert_eq!(bad.collect::<Vec<_>>(), [0, 1]);
    for second in 1..60 {
        clients[1].expire(second * 1_000_000_000, &mut sent);
    }
    assert_eq!(clients[1].counters()[Counter::Checksum], 1);
}

/// A server hands a damaged packet off, too, if it does not know the peer: another worker may.
#[test]
fn a_damaged_packet_of_an_unknown_peer_gets_to_its_worker() {
    let mut world = World::new(2, Arrival::Unknown, (20, 2000), 1);
    let [clients, servers] = &mut world.ends;
    clients.iter_mut().for_each(|client| client.start(1.0, 0, 0));
    let mut sent = Sent::default();
    clients[1].open(1_000_000, &mut sent);
    let mut syn = sent.0.pop_front().unwrap();
    syn[Ethernet::LEN + 24] ^= 1;
    assert_eq!(servers[0].note(0, &syn), Note::OfWorker(1));
    assert_eq!(servers[1].note(0, &syn), Note::Noted);
    let bad = servers.iter().map(|server| server.counters()[Counter::BadChecksums]);
    assert_eq!(bad.collect::<Vec<_>>(), [0, 1]);
}
