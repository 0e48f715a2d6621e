// SPDX-License-Identifier: BSD-3-Clause
//! Measures how far packets of a connection overtake each other when the NIC begins to forward it,
//! and when the worker forwards it again.

use crate::bump::{Ended, Line, Setup, count};
use crate::captures::read_pcap;
use crate::instance::text;
use crate::offload::assert_no_rule_left;
use crate::twin::driver;
use crate::{is_run_now, scaled};
use std::collections::BTreeMap;
use testkit::capture::write_pcap;
use testkit::host::has_cpus;
use wire::FrameBuilder;
use wire::tcp::{ACK, RST};

/// Connections at a time.
const CONNECTIONS: u16 = 8;
/// Packets of a connection before it goes back to the worker, and after that.
const BEFORE: u32 = 3000;
const AFTER: u32 = 600;
/// Packets of a connection in a row, which are parts of two or three bursts.
const ROW: usize = 100;
/// Packets that a worker receives at a time. The software NIC forwards some of a burst before the
/// others.
const BURST: usize = 64;
/// Packets that wait in a receive queue.
const DESCRIPTORS: usize = 1024;

/// Returns how often new connections take the place of the ones before. `make prove-bypass` sets
/// more.
fn rounds() -> u16 {
    (scaled("MILLRACE_LOOPS", 4500) / 300) as u16
}

fn connection(round: u16, number: u16) -> FrameBuilder {
    let there = FrameBuilder::ipv4([10, 0, 0, 1], [10, 1, 0, 1]);
    there.tcp(10_000 + round * CONNECTIONS + number, 80).flags(ACK)
}

/// Returns the packets of side A, numbered in each connection, and one of side B for each
/// connection. An RST takes each connection from the NIC.
fn frames() -> [Vec<Vec<u8>>; 2] {
    let mut frames = [Vec::new(), Vec::new()];
    for round in 0..rounds() {
        let connections = (0..CONNECTIONS).map(|number| connection(round, number));
        let connections: Vec<_> = connections.collect();
        frames[1].extend(connections.iter().map(|one| one.clone().reversed().build()));
        let numbers: Vec<u32> = (0..BEFORE + AFTER).collect();
        for row in numbers.chunks(ROW) {
            for (one, number) in
                connections.iter().flat_map(|one| row.iter().map(move |n| (one, *n)))
            {
                let flags = if number == BEFORE { RST | ACK } else { ACK };
                let payload = [&number.to_be_bytes()[..], &[0; 16]].concat();
                frames[0].push(one.clone().flags(flags).payload(&payload).build());
            }
        }
    }
    frames
}

/// How far packets of one connection were out of order.
#[derive(Clone, Copy, Debug, Default)]
struct Disorder {
    /// Most later packets that left before a packet.
    passed_by: usize,
    /// Most earlier packets that left after a packet.
    passed: usize,
    /// Packets that others passed, and all packets that left.
    packets: usize,
    left: usize,
}

impl Disorder {
    fn add(&mut self, numbers: &[u32]) {
        self.left += numbers.len();
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        let mut left: Vec<u32> = Vec::new();
        for number in numbers {
            let place = left.partition_point(|other| other < number);
            let rank = sorted.partition_point(|other| other < number);
            self.passed_by = self.passed_by.max(left.len() - place);
            self.passed = self.passed.max(rank - place);
            self.packets += usize::from(left.len() > place);
            left.insert(place, *number);
        }
    }
}

/// Returns the numbers of each connection in the order in which they left.
fn numbers(frames: &[Vec<u8>]) -> BTreeMap<u16, Vec<u32>> {
    let mut numbers: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    for frame in frames {
        let port = u16::from_be_bytes(frame[34..36].try_into().unwrap());
        numbers
            .entry(port)
            .or_default()
            .push(u32::from_be_bytes(frame[54..58].try_into().unwrap()));
    }
    numbers
}

/// Sends the packets of side A at this rate, until all connections are back at the worker.
/// `add_pairs` adds the pairs with the source of side A and the port of side B.
fn run(speed: &str, add_pairs: impl Fn(Setup, &str, &str) -> Setup) -> Ended {
    let setup = Setup::new("handover");
    let [a, b, sent] = ["a", "b", "sent"].map(|name| setup.path(name));
    let frames = frames();
    write_pcap(&a, &frames[0]);
    write_pcap(&b, &frames[1]);
    let source = format!("replay={a},speed={speed}");
    let port_b = format!("net_twin1,lower=(net_pcap0,rx_pcap={b},tx_pcap={sent}),switch=s");
    let setup = add_pairs(setup, &source, &port_b).args(&["--offload", "after 8"]);
    let socket = format!("{}/handover-{}.sock", std::env::temp_dir().display(), std::process::id());
    let setup = setup.args(&["--socket", &socket]);
    let mut bump = setup.config("[offload]\nbypass_tcp = \"after 16\"\n").start();
    bump.wait_until("silence after all packets", |bump| {
        let is_over = |line: &Line| line.is_silent() && line.flows > 0.0;
        bump.lines().windows(6).any(|lines| lines.iter().all(is_over))
    });
    bump.wait_until("connections go back", |_| {
        !text(&socket, &["offload", "--limit", "1000"]).contains(" bypassed ")
    });
    let ended = bump.finish();
    ended.assert_balanced();
    assert_no_rule_left(&ended.summary());
    ended
}

fn bypassed(ended: &Ended, what: &str) -> u64 {
    count(&ended.summary()["offload"]["bypassed"][what])
}

/// Measures and prints the disorder of what left.
fn measure(name: &str, ended: &Ended) -> Disorder {
    let numbers = numbers(&read_pcap(&ended.path("sent")));
    let mut disorder = Disorder::default();
    numbers.values().for_each(|numbers| disorder.add(numbers));
    let (rules, packets) = (bypassed(ended, "rules"), bypassed(ended, "packets"));
    eprintln!("{name}: {rules} rules, {packets} packets bypassed: {disorder:?}");
    assert!(2 * rules > u64::from(rounds() * CONNECTIONS), "{rules} rules");
    assert!(disorder.packets > 0, "RSTs are overtaken by later packets of their burst");
    disorder
}

/// The worker has sent each burst before it polls the NIC again.
#[test]
fn a_packet_is_overtaken_within_a_burst_of_the_worker_that_polls_the_nic() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    for workers in ["1", "2"] {
        let ended = run("300M", |setup, source, port_b| {
            let setup = setup.args(&["--workers", workers]);
            setup.pair(&format!("net_twin0,{source},switch=s"), port_b)
        });
        let disorder = measure(&format!("{workers} workers"), &ended);
        assert!(disorder.passed_by < BURST && disorder.passed < BURST, "{disorder:?}");
        // With two workers, the NIC loses packets if one is long away while it sends.
        let all = usize::from(rounds() * CONNECTIONS) * (BEFORE + AFTER) as usize;
        assert!(workers == "2" || disorder.left == all, "{disorder:?} of {all}");
    }
}

/// Another thread classifies the packets, and forwards some, while others wait for the worker in a
/// queue. How many later packets overtake one depends on how long the worker is away.
#[test]
fn a_packet_overtakes_at_most_those_that_wait_for_the_worker() {
    if !is_run_now() || driver().is_none() || !has_cpus(2) {
        return;
    }
    let ended = run("1G", |setup, source, port_b| {
        let from = format!("net_twin2,{source}");
        setup.pair("net_twin0,wire=w,switch=s", port_b).pair(&from, "net_twin3,wire=w")
    });
    let disorder = measure("a wire", &ended);
    assert!(disorder.passed <= DESCRIPTORS + BURST, "{disorder:?}");
}
