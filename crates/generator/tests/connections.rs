// SPDX-License-Identifier: BSD-3-Clause
//! Tests clients and servers at two ends of a cable, without hardware.

use dpdk::{Mempool, ring_cable};
use generator::{
    Clock, Connections, ConnectionsCommand, ConnectionsReport, PortRx, PortTx, Stage, Task,
    commands, mailbox,
};
use stateful::{Counter, Counters, Profile, Role, Sharing, Stack, StackConfig};
use std::sync::Arc;
use testkit::port::{port_config, start_eal};

const INTERVAL_NS: u64 = 10_000_000;
const LIMIT: u64 = 3000;

fn profile(first_port: u16) -> Arc<Profile> {
    let text = format!(
        "client_ports = \"{first_port}-65535\"\n\
         [[template]]\nport = 80\ncps = 1e6\nlimit = {LIMIT}\n\
         client = [{{ send = 5000 }}, {{ receive = 3000 }}]\n\
         server = [{{ receive = 5000 }}, {{ send = 3000 }}]\n\
         [[template]]\nproto = \"udp\"\nport = 53\ncps = 1e6\nlimit = {LIMIT}\n\
         client = [{{ send = 20 }}, {{ receive = 300 }}]\n\
         server = [{{ receive = 20 }}, {{ send = 300 }}]\n"
    );
    Arc::new(Profile::from_toml(&text, &|_| Err(String::new())).unwrap())
}

fn stack(profile: &Arc<Profile>, role: Role) -> Box<Stack> {
    let own = if role == Role::Client { 1 } else { 2 };
    Box::new(Stack::new(StackConfig {
        profile: Arc::clone(profile),
        role,
        capacity: 20_000,
        macs: [[2, 0, 0, 0, 0, own], [2, 0, 0, 0, 0, 3 - own]],
        mtu: 1500,
        sharing: Sharing::default(),
        seed: 7,
        begun_us: 0,
    }))
}

/// All connections complete, also those of a second profile on the same queues, and every frame
/// that one end has sent is received by the other.
#[test]
fn every_connection_over_a_cable_completes() {
    let eal = start_eal(64);
    let mempool = Mempool::new(&eal, "frames", 8191, 2048, None).unwrap();
    let clock = Clock::new(&eal);
    let (near, far) = ring_cable(&eal, "cable", 1, 1024).unwrap();
    let mut ports = [near, far];
    let config = port_config(1, 512, mempool);
    let ends = ports.each_mut().map(|port| port.configure(&config).unwrap());
    let profiles = [profile(1024), profile(2048)];
    let mut tasks = Vec::new();
    let (mut rings, mut inboxes) = (Vec::new(), Vec::new());
    for ((mut rx, mut tx), role) in ends.into_iter().zip([Role::Client, Role::Server]) {
        let (outbox, inbox) = mailbox(INTERVAL_NS, ConnectionsReport::default);
        let (ring, taken) = commands();
        let tx = PortTx::new(tx.pop().unwrap(), mempool);
        let port = (tx, PortRx::new(rx.pop().unwrap()), [2, 0, 0, 0, 0, 9]);
        let stack = stack(&profiles[0], role);
        tasks.push(Connections::new(stack, port, taken, INTERVAL_NS, outbox));
        rings.push(ring);
        inboxes.push(inbox);
    }
    let mut counted = [Counters::default(); 2];
    for round in 0..2 {
        if round == 1 {
            for (ring, role) in rings.iter_mut().zip([Role::Client, Role::Server]) {
                let stack = stack(&profiles[1], role);
                ring.push(ConnectionsCommand::Replace(stack)).unwrap();
            }
        }
        rings[0].push(ConnectionsCommand::Start { multiplier: 1.0, ramp_ns: 0 }).unwrap();
        let expected = (round + 1) * 2 * LIMIT;
        while counted.iter().any(|it| it[Counter::Completed] < expected) {
            tasks.iter_mut().for_each(|task| _ = task.turn(clock.now(), Stage::Send));
            for (inbox, counted) in inboxes.iter_mut().zip(&mut counted) {
                inbox.take_all(|report| counted.add(&report.counters));
            }
            assert!(clock.now() < 20_000_000_000, "{counted:?}");
        }
    }
    tasks.iter_mut().for_each(|task| task.finish(clock.now()));
    for (inbox, counted) in inboxes.iter_mut().zip(&mut counted) {
        inbox.take_all(|report| counted.add(&report.counters));
        assert_eq!((counted[Counter::Attempted], counted.failures()), (4 * LIMIT, 0));
        assert_eq!((counted.active(), counted[Counter::ResetsSent]), (0, 0));
    }
    let [client, server] = counted;
    assert_eq!(client[Counter::FramesSent], server[Counter::FramesReceived]);
    assert_eq!(server[Counter::FramesSent], client[Counter::FramesReceived]);
    assert_eq!(server[Counter::PayloadReceived], 2 * LIMIT * (5000 + 20));
    drop((tasks, ports));
    assert_eq!(mempool.in_use(), 0);
}
