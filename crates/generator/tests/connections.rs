// SPDX-License-Identifier: BSD-3-Clause
//! Tests clients and servers at two ends of a cable, without hardware.

use dpdk::{Eal, Mempool, Port, ring_cable};
use generator::{
    Clock, Connections, ConnectionsCommand, ConnectionsReport, Inbox, Laps, PortRx, PortTx, Stage,
    Task, commands, hand_offs, mailbox,
};
use rtrb::Producer;
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

fn stack(profile: &Arc<Profile>, role: Role, sharing: Sharing) -> Box<Stack> {
    let own = if role == Role::Client { 1 } else { 2 };
    Box::new(Stack::new(StackConfig {
        profile: Arc::clone(profile),
        role,
        capacity: 20_000,
        macs: [[2, 0, 0, 0, 0, own], [2, 0, 0, 0, 0, 3 - own]],
        mtu: 1500,
        sharing,
        seed: 7,
        begun_us: 0,
    }))
}

/// Tasks of both ends of a cable. The frames of a task arrive at the task of the other end with the
/// next number, or the same one if there is one task.
struct Run {
    clock: Clock,
    tasks: Vec<Connections<PortTx, PortRx>>,
    /// By end: commands for each task.
    rings: [Vec<Producer<ConnectionsCommand>>; 2],
    inboxes: [Vec<Inbox<ConnectionsReport>>; 2],
    counted: [Counters; 2],
}

const ROLES: [Role; 2] = [Role::Client, Role::Server];

fn sharing(worker: u16, workers: u16) -> Sharing {
    Sharing { worker, workers, spread: None }
}

impl Run {
    fn new(clock: Clock, ports: &mut [Port; 2], mempool: Mempool, profile: &Arc<Profile>) -> Self {
        let queues = ports[0].info().max_rx_queues;
        let config = port_config(queues, 512, mempool);
        let ends = ports.each_mut().map(|port| port.configure(&config).unwrap());
        let mut run = Self {
            clock,
            tasks: Vec::new(),
            rings: Default::default(),
            inboxes: Default::default(),
            counted: Default::default(),
        };
        for (end, (mut rx, tx)) in ends.into_iter().enumerate() {
            rx.rotate_left(1);
            let queues_of_tasks = rx.into_iter().zip(tx).zip(hand_offs(queues));
            for (number, ((rx, tx), hand_off)) in (0..).zip(queues_of_tasks) {
                let (outbox, inbox) = mailbox(INTERVAL_NS, ConnectionsReport::default);
                let (ring, taken) = commands();
                let port = (PortTx::new(tx, mempool), PortRx::new(rx), [2, 0, 0, 0, 0, 9]);
                let stack = stack(profile, ROLES[end], sharing(number, queues));
                let task = Connections::new(stack, port, taken, INTERVAL_NS, outbox);
                run.tasks.push(task.sharing(hand_off));
                run.rings[end].push(ring);
                run.inboxes[end].push(inbox);
            }
        }
        run
    }

    fn replace(&mut self, profile: &Arc<Profile>) {
        for (rings, role) in self.rings.iter_mut().zip(ROLES) {
            let workers = rings.len() as u16;
            for (number, ring) in (0..).zip(rings) {
                let stack = stack(profile, role, sharing(number, workers));
                ring.push(ConnectionsCommand::Replace(stack)).unwrap();
            }
        }
    }

    fn run_until_completed(&mut self, expected: u64) {
        for ring in &mut self.rings[0] {
            ring.push(ConnectionsCommand::Start { multiplier: 1.0, ramp_ns: 0 }).unwrap();
        }
        while self.counted.iter().any(|it| it[Counter::Completed] < expected) {
            let now = self.clock.now();
            self.tasks
                .iter_mut()
                .for_each(|task| _ = task.turn(now, Stage::Send, &mut Laps::off()));
            self.collect();
            assert!(now < 20_000_000_000, "{:?}", self.counted);
        }
    }

    fn collect(&mut self) {
        for (inboxes, counted) in self.inboxes.iter_mut().zip(&mut self.counted) {
            for inbox in inboxes {
                inbox.take_all(|report| counted.add(&report.counters));
            }
        }
    }
}

/// All connections complete, also those of a second profile on the same queues, and every frame
/// that one end has sent is received by the other.
fn every_connection_over_a_cable_completes(
    eal: &Eal,
    mempool: Mempool,
    (queues, frames): (u16, u32),
) {
    let name = format!("cable{queues}x{frames}");
    let (near, far) = ring_cable(eal, &name, queues, frames).unwrap();
    let mut ports = [near, far];
    let profiles = [profile(1024), profile(2048)];
    let mut run = Run::new(Clock::new(eal), &mut ports, mempool, &profiles[0]);
    run.run_until_completed(2 * LIMIT);
    run.replace(&profiles[1]);
    run.run_until_completed(4 * LIMIT);
    let now = run.clock.now();
    run.tasks.iter_mut().for_each(|task| task.finish(now));
    run.collect();
    for counted in &run.counted {
        assert_eq!((counted[Counter::Attempted], counted.failures()), (4 * LIMIT, 0));
        assert_eq!((counted.active(), counted[Counter::ResetsSent]), (0, 0));
        assert_eq!(counted[Counter::HandOffsLost], 0);
    }
    let [client, server] = &run.counted;
    assert_eq!(client[Counter::FramesSent], server[Counter::FramesReceived]);
    assert_eq!(server[Counter::FramesSent], client[Counter::FramesReceived]);
    assert_eq!(server[Counter::PayloadReceived], 2 * LIMIT * (5000 + 20));
    // With several tasks, every frame arrives at a wrong one.
    let handed_off = [client, server].map(|it| it[Counter::HandedOff]);
    let received = [client, server].map(|it| it[Counter::FramesReceived]);
    assert_eq!(handed_off, if queues == 1 { [0, 0] } else { received });
    drop((run, ports));
    assert_eq!(mempool.in_use(), 0);
}

#[test]
fn every_connection_completes_though_all_frames_of_several_tasks_go_astray() {
    let eal = start_eal(96);
    let mempool = Mempool::new(&eal, "frames", 16383, 2048, None).unwrap();
    // Short queues fill at both ends, each of which waits for room at the other one.
    for cable in [(1, 1024), (3, 1024), (1, 32)] {
        every_connection_over_a_cable_completes(&eal, mempool, cable);
    }
}
