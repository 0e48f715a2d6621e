// SPDX-License-Identifier: BSD-3-Clause
//! The reflector over UDP sockets, asked by sockets of the standard library and by the generator.

mod common;

use common::{run, udp_streams};
use generator::{Inbox, Laps, Phase, Task, mailbox};
use sockets::{Echo, EchoOptions, EchoPort, EchoReport, UdpOptions, UdpPort};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use traffic::neighbour::Neighbour;
use traffic::reflector_query::{ReflectorCounters, query, read_answer_payload};

/// A reflector whose turns the test takes.
struct Reflector {
    port: EchoPort,
    tasks: Vec<Echo>,
    inboxes: Vec<Inbox<EchoReport>>,
}

impl Reflector {
    fn new(address: &str, options: EchoOptions) -> Self {
        let port = EchoPort::open(address.parse().unwrap(), options).unwrap();
        let (mut tasks, mut inboxes) = (Vec::new(), Vec::new());
        for number in 0..options.sockets {
            let (outbox, inbox) = mailbox(u64::MAX, EchoReport::default);
            tasks.push(port.task(number, outbox).unwrap());
            inboxes.push(inbox);
        }
        Self { port, tasks, inboxes }
    }

    fn turn(&mut self) {
        self.tasks
            .iter_mut()
            .for_each(|task| _ = task.turn(0, Phase::new().get(), &mut Laps::off()));
    }

    /// Ends it; returns the sum of the reports.
    fn finish(&mut self) -> EchoReport {
        self.tasks.iter_mut().for_each(|task| task.finish(0));
        let mut sum = EchoReport::default();
        for inbox in &mut self.inboxes {
            inbox.take_all(|report| {
                sum.received += report.received;
                sum.bytes += report.bytes;
                sum.reflected += report.reflected;
                sum.too_long += report.too_long;
                sum.port_full += report.port_full;
                sum.refused += report.refused;
                sum.answered += report.answered;
            });
        }
        sum
    }
}

/// A client that waits for answers.
fn client(address: &str) -> UdpSocket {
    let client = UdpSocket::bind((address, 0)).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client
}

#[test]
fn datagrams_go_back_to_their_senders_one_by_one_and_in_batches() {
    for (batch, io_uring) in [(1, false), (8, false), (1, true), (8, true)] {
        let options = EchoOptions { batch, io_uring, room: 1500, ..EchoOptions::default() };
        let mut reflector = Reflector::new("[::]:0", options);
        let port = reflector.port.address().port();
        let clients = [client("127.0.0.1"), client("::1"), client("127.0.0.1")];
        for client in &clients {
            let to = SocketAddr::new(client.local_addr().unwrap().ip(), port);
            client.connect(to).unwrap();
        }
        let lengths = [0, 1, 16, 1499, 1500, 1501, 4000];
        for (number, client) in clients.iter().enumerate() {
            for len in lengths {
                assert_eq!(client.send(&vec![number as u8; len]).unwrap(), len);
            }
        }
        // An empty datagram ends what io_uring does, and the next turn begins anew.
        for _ in 0..2 * clients.len() * lengths.len() {
            reflector.turn();
        }
        let mut room = [9; 5000];
        for (number, client) in clients.iter().enumerate() {
            for expected in lengths.into_iter().filter(|len| *len <= 1500) {
                let len = client.recv(&mut room).unwrap();
                assert_eq!(&room[..len], vec![number as u8; expected], "{options:?}");
            }
            client.set_nonblocking(true).unwrap();
            assert!(client.recv(&mut room).is_err(), "nothing goes back cut");
        }
        let report = reflector.finish();
        assert_eq!((report.received, report.reflected, report.too_long), (21, 15, 6));
        assert_eq!((report.port_full, report.refused), (0, 0));
        assert_eq!(report.bytes, 3 * (16 + 1 + 1499 + 3 * 1500), "{options:?}");
        assert_eq!(reflector.port.drops().unwrap(), 0);
    }
}

#[test]
fn packets_that_nobody_takes_in_time_are_drops_of_the_reflector() {
    for io_uring in [false, true] {
        let options = EchoOptions { io_uring, buffer_bytes: 20_000, ..EchoOptions::default() };
        let mut reflector = Reflector::new("127.0.0.1:0", options);
        let client = client("127.0.0.1");
        for _ in 0..1000 {
            client.send_to(&[1; 1000], reflector.port.address()).unwrap();
        }
        for _ in 0..100 {
            reflector.turn();
        }
        let (report, drops) = (reflector.finish(), reflector.port.drops().unwrap());
        assert!(report.reflected > 0 && drops > 0, "{report:?}");
        assert_eq!(report.received + drops, 1000);
    }
}

#[test]
fn a_sender_that_is_gone_stops_nothing() {
    for io_uring in [false, true] {
        let options = EchoOptions { io_uring, ..EchoOptions::default() };
        let mut reflector = Reflector::new("127.0.0.1:0", options);
        let (gone, there) = (client("127.0.0.1"), client("127.0.0.1"));
        for _ in 0..20 {
            gone.send_to(&[1; 100], reflector.port.address()).unwrap();
        }
        drop(gone);
        for _ in 0..20 {
            there.send_to(&[2; 100], reflector.port.address()).unwrap();
            reflector.turn();
        }
        // What came while an error ended the receiving of io_uring.
        reflector.turn();
        for _ in 0..20 {
            assert_eq!(there.recv(&mut [0; 200]).unwrap(), 100);
        }
        let report = reflector.finish();
        assert_eq!((report.received, report.reflected, report.refused), (40, 40, 0));
        assert!(reflector.port.counts().unreachable() > 0);
    }
}

#[test]
fn the_generator_is_answered_by_several_sockets() {
    for (io_uring, zero_copy) in [(false, false), (true, false), (true, true)] {
        let options = EchoOptions { sockets: 3, io_uring, zero_copy, ..EchoOptions::default() };
        let mut reflector = Reflector::new("[::]:0", options);
        let port = reflector.port.address().port();
        let texts = [
            format!("dst=127.0.0.1 dport={port} count=5000 rate=50kpps size=64-1500+7"),
            format!("dst=::1 dport={port} count=5000 rate=50kpps size=100-1500+13"),
        ];
        let options = UdpOptions { sockets: 4, ..UdpOptions::default() };
        let generator = UdpPort::open(&udp_streams(&texts), options).unwrap();
        let mut others: Vec<&mut dyn Task> = Vec::new();
        for task in &mut reflector.tasks {
            others.push(task);
        }
        let link = (generator.transmit().unwrap(), generator.receive().unwrap());
        let totals = run(&texts, link, &mut others);
        for stream in &totals.streams {
            assert_eq!((stream.sent, stream.lost()), (5000, 0), "{stream:?}");
        }
        assert_eq!((totals.damaged, totals.foreign, totals.received[0]), (0, 0, 10_000));
        let report = reflector.finish();
        assert_eq!((report.received, report.reflected), (10_000, 10_000));
    }
}

#[test]
fn a_query_is_answered_with_the_counters() {
    let end = |address: &str| {
        (Neighbour { address: address.parse().unwrap(), mac: [2, 0, 0, 0, 0, 1] }, 7)
    };
    let query = query(end("127.0.0.1"), end("127.0.0.1"), &[], 9);
    let payload = &query.bytes()[14 + 20 + 8..];
    let counted = ReflectorCounters { received: 5, reflected: 3, dropped: 2, missed: 1 };
    for (batch, joined, io_uring) in
        [(1, false, false), (8, false, false), (8, true, false), (8, false, true)]
    {
        let options = EchoOptions { batch, joined, io_uring, ..EchoOptions::default() };
        let mut reflector = Reflector::new("127.0.0.1:0", options);
        reflector.port.published().set(counted);
        let client = client("127.0.0.1");
        client.connect(reflector.port.address()).unwrap();
        for other in [&payload[..95], payload] {
            client.send(other).unwrap();
        }
        (0..4).for_each(|_| reflector.turn());
        let mut room = [0; 200];
        let len = client.recv(&mut room).unwrap();
        assert_eq!(room[..len], payload[..95]);
        let len = client.recv(&mut room).unwrap();
        assert_eq!(read_answer_payload(&room[..len]), Some((9, counted)), "{options:?}");
        let report = reflector.finish();
        assert_eq!((report.received, report.reflected, report.answered), (2, 2, 1));
    }
}

#[test]
fn a_port_that_another_has_is_refused() {
    let other = client("127.0.0.1");
    let error = EchoPort::open(other.local_addr().unwrap(), EchoOptions::default()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    // Sockets that share a port with each other do not share it with another reflector.
    let several = EchoOptions { sockets: 2, ..EchoOptions::default() };
    let first = EchoPort::open("127.0.0.1:0".parse().unwrap(), several).unwrap();
    let error = EchoPort::open(first.address(), several).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn joined_datagrams_go_back_joined_and_are_all_verified() {
    for (gso, gro) in [(true, true), (false, true), (true, false)] {
        let options = EchoOptions { joined: true, ..EchoOptions::default() };
        let mut reflector = Reflector::new("[::]:0", options);
        let port = reflector.port.address().port();
        let texts = [
            format!("dst=127.0.0.1 dport={port} count=10000 rate=50kpps burst=100 size=300"),
            format!("dst=::1 dport={port} count=1000 rate=10kpps burst=70 size=100*5,1400*9"),
        ];
        let options = UdpOptions { gso, gro, batch: 128, ..UdpOptions::default() };
        let generator = UdpPort::open(&udp_streams(&texts), options).unwrap();
        let link = (generator.transmit().unwrap(), generator.receive().unwrap());
        let totals = run(&texts, link, &mut [&mut reflector.tasks[0]]);
        for (stream, count) in totals.streams.iter().zip([10_000, 1000]) {
            assert_eq!((stream.sent, stream.lost()), (count, 0), "{stream:?}");
            assert_eq!(stream.received.reordered, 0, "{stream:?}");
        }
        assert_eq!((totals.damaged, totals.received_bytes), (0, totals.sent_bytes));
        let report = reflector.finish();
        assert_eq!((report.received, report.reflected, report.refused), (11_000, 11_000, 0));
    }
}
