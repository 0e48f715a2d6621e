// SPDX-License-Identifier: BSD-3-Clause
//! Streams over UDP sockets of the loopback interface, with an echo of the standard library.

mod common;

use common::{run, udp_streams};
use generator::Totals;
use sockets::{OpenError, UdpOptions, UdpPort, UdpRx};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Sends datagrams back, with nothing of Millrace.
struct Echo {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<SocketAddr>>>,
}

impl Echo {
    fn new(address: &str) -> Self {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        // Other tests may keep the cpu for some milliseconds.
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (mut room, mut senders) = ([0; 65_536], Vec::new());
            while !ends.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut room) {
                    socket.send_to(&room[..len], from).unwrap();
                    if !senders.contains(&from) {
                        senders.push(from);
                    }
                }
            }
            senders
        });
        Self { address, is_over, thread: Some(thread) }
    }

    fn stream(&self, text: &str) -> String {
        format!("dst={} dport={} {text}", self.address.ip(), self.address.port())
    }

    /// Ends it; returns who sent to it.
    fn end(mut self) -> Vec<SocketAddr> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn send(texts: &[String], options: UdpOptions) -> (Totals, UdpPort) {
    let port = UdpPort::open(&udp_streams(texts), options).unwrap();
    let totals = run(texts, (port.transmit().unwrap(), port.receive().unwrap()), &mut []);
    (totals, port)
}

fn assert_all_verified(totals: &Totals, counts: &[u64]) {
    assert_eq!(totals.streams.iter().map(|it| it.sent).collect::<Vec<_>>(), counts);
    assert_eq!(totals.sent[0], counts.iter().sum::<u64>());
    for stream in &totals.streams {
        assert_eq!((stream.lost(), stream.received.duplicates), (0, 0), "{stream:?}");
    }
    assert_eq!((totals.damaged, totals.foreign, totals.unsent()), (0, 0, 0));
    assert_eq!((totals.received, totals.received_bytes), (totals.sent, totals.sent_bytes));
}

#[test]
fn every_packet_of_both_families_comes_back() {
    let (echo, echo6) = (Echo::new("127.0.0.1"), Echo::new("::1"));
    let texts = [
        echo.stream("count=5000 rate=10kpps size=64-1500+7"),
        echo6.stream("count=5000 rate=10kpps size=100-1500+13"),
        echo6.stream("count=100 rate=200pps size=9000"),
    ];
    let (totals, port) = send(&texts, UdpOptions::default());
    assert_all_verified(&totals, &[5000, 5000, 100]);
    assert!(totals.streams.iter().all(|stream| stream.received.reordered == 0));
    assert_eq!((port.drops().unwrap(), port.counts().refused()), (0, 0));
    let addresses = port.addresses().unwrap();
    assert_eq!(addresses.len(), 2);
    assert_eq!((echo.end().len(), echo6.end().len()), (1, 1));
}

#[test]
fn sockets_are_bound_to_the_sources_of_a_stream() {
    let echo = Echo::new("127.0.0.1");
    let texts = [
        echo.stream("count=1200 rate=5kpps src=127.0.0.2-127.0.0.4 sport=40001-40004"),
        echo.stream("count=300 rate=1kpps src=127.0.0.9"),
    ];
    let (totals, _) = send(&texts, UdpOptions { batch: 7, ..UdpOptions::default() });
    assert_all_verified(&totals, &[1200, 300]);
    let mut senders = echo.end();
    senders.sort_unstable();
    let own: Vec<_> = senders.iter().filter(|it| it.ip().to_string() == "127.0.0.9").collect();
    assert_eq!((senders.len(), own.len()), (13, 1), "{senders:?}");
    for ip in 2..5 {
        for port in 40_001..40_005 {
            assert!(senders.contains(&SocketAddr::from(([127, 0, 0, ip], port))));
        }
    }
}

#[test]
fn streams_without_a_source_share_sockets() {
    let echo = Echo::new("127.0.0.1");
    let texts = [echo.stream("count=3000 rate=10kpps")];
    let (totals, _) = send(&texts, UdpOptions { sockets: 3, ..UdpOptions::default() });
    assert_eq!((totals.streams[0].sent, totals.streams[0].lost()), (3000, 0));
    assert_eq!(totals.queues.len(), 3);
    for queue in &totals.queues {
        assert!(queue.counts.packets > 500, "{:?}", totals.queues);
    }
    assert_eq!(echo.end().len(), 3);
}

#[test]
fn a_packet_to_several_places_names_each() {
    let echoes = [Echo::new("127.0.0.1"), Echo::new("127.0.0.1")];
    let ports = echoes.each_ref().map(|it| it.address.port().to_string()).join(",");
    let texts = [format!("dst=127.0.0.1 dport={ports} count=1000 rate=5kpps")];
    let (totals, _) = send(&texts, UdpOptions::default());
    assert_all_verified(&totals, &[1000]);
    for echo in echoes {
        assert_eq!(echo.end().len(), 1);
    }
}

#[test]
fn packets_that_the_kernel_never_takes_are_unsent_and_not_lost() {
    // Loopback has an MTU of 65,536; a datagram to a broadcast address needs a right.
    let echo = Echo::new("127.0.0.1");
    let texts = [
        "dst=255.255.255.255 dport=9 count=400 rate=2kpps".to_owned(),
        echo.stream("count=1000 rate=5kpps"),
    ];
    let (totals, port) = send(&texts, UdpOptions::default());
    assert_eq!(totals.unsent(), 400);
    let [refused, good] = &totals.streams[..] else { panic!("two streams") };
    assert_eq!((refused.sent, refused.lost()), (0, 0));
    assert_eq!((good.sent, good.lost()), (1000, 0));
    assert_eq!(port.counts().refused(), 400);
    let error = port.counts().last_error().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn a_closed_port_is_reported_as_unreachable() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let texts = [format!("dst=127.0.0.1 dport={} count=500 rate=10kpps", closed.port())];
    let (totals, port) = send(&texts, UdpOptions::default());
    // The kernel took them all, and nobody was there.
    assert_eq!((totals.unsent(), totals.streams[0].sent), (0, 500));
    assert_eq!(totals.streams[0].lost(), 500);
    assert!(port.counts().unreachable() > 0 && port.counts().refused() == 0);
}

#[test]
fn drops_of_a_full_socket_are_those_that_the_kernel_reports() {
    let echo = Echo::new("127.0.0.1");
    let texts = [echo.stream("count=20000 rate=100kpps size=9000")];
    let port = UdpPort::open(&udp_streams(&texts), UdpOptions::default()).unwrap();
    // Nobody receives until all are sent.
    let totals = run(&texts, (port.transmit().unwrap(), Vec::<UdpRx>::new()), &mut []);
    assert_eq!(totals.streams[0].sent, 20_000);
    let own = port.addresses().unwrap()[0].port();
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let line = table.lines().find(|line| line.contains(&format!(":{own:04X} "))).unwrap();
    let drops: u64 = line.split_whitespace().last().unwrap().parse().unwrap();
    assert!(drops > 0 && drops < 20_000, "{line}");
    assert_eq!(port.drops().unwrap(), drops);
}

#[test]
fn too_many_sources_and_those_of_others_are_refused() {
    let streams = udp_streams(&["dst=127.0.0.1 sport=4000-4001".to_owned()]);
    let many = UdpOptions { sockets: 256, ..UdpOptions::default() };
    assert!(matches!(UdpPort::open(&streams, many), Err(OpenError::TooMany(258))));
    let mut streams = udp_streams(&["dst=127.0.0.1".to_owned()]);
    streams[0].addresses = vec!["198.51.100.1".parse().unwrap()];
    let error = UdpPort::open(&streams, UdpOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Bind { .. }), "{error:?}");
}

#[test]
fn segments_arrive_apart_at_who_knows_nothing_of_them() {
    let echo = Echo::new("127.0.0.1");
    let texts = [
        echo.stream("count=4000 rate=4kpps size=200*3,1500*2,64*1 burst=64"),
        echo.stream("count=100 rate=100pps size=9000 burst=20"),
    ];
    let options = UdpOptions { gso: true, gro: true, batch: 64, ..UdpOptions::default() };
    let (totals, port) = send(&texts, options);
    assert_all_verified(&totals, &[4000, 100]);
    assert_eq!(port.counts().refused(), 0);
}

#[test]
fn io_uring_sends_and_receives_the_same() {
    let (echo, echo6) = (Echo::new("127.0.0.1"), Echo::new("::1"));
    let texts = [
        echo.stream("count=5000 rate=10kpps size=64-1500+7"),
        echo6.stream("count=5000 rate=10kpps size=100-1500+13"),
        echo6.stream("count=100 rate=200pps size=9000"),
    ];
    let options = UdpOptions { io_uring: true, batch: 16, ..UdpOptions::default() };
    let (totals, port) = send(&texts, options);
    assert_all_verified(&totals, &[5000, 5000, 100]);
    assert!(totals.streams.iter().all(|stream| stream.received.reordered == 0));
    assert_eq!((port.drops().unwrap(), port.counts().refused()), (0, 0));
    let options = UdpOptions { gso: true, ..options };
    let texts = [echo.stream("count=2000 rate=4kpps size=200*3,1500*2,64*1 burst=16")];
    assert_all_verified(&send(&texts, options).0, &[2000]);
}

#[test]
fn io_uring_sends_the_same_without_a_copy() {
    let (echo, echo6) = (Echo::new("127.0.0.1"), Echo::new("::1"));
    let texts = [
        echo.stream("count=2000 rate=10kpps size=64-1500+7"),
        echo6.stream("count=100 rate=500pps size=9000 burst=20"),
    ];
    let options = UdpOptions { io_uring: true, zero_copy: true, ..UdpOptions::default() };
    for gso in [false, true] {
        let (totals, port) = send(&texts, UdpOptions { gso, ..options });
        assert_all_verified(&totals, &[2000, 100]);
        assert_eq!(port.counts().refused(), 0);
    }
}
