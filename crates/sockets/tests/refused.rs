// SPDX-License-Identifier: BSD-3-Clause
//! What the kernel refuses is offered again, or is unsent: whatever counts as sent has arrived. The
//! loopback interface of a namespace gets a small MTU, or a queue that is slow and short.

mod common;

use common::{run, udp_streams};
use generator::Totals;
use sockets::{UdpOptions, UdpPort, UdpRx};
use std::net::UdpSocket;
use testkit::host::skip;
use testkit::namespace::in_namespace;
use testkit::process::succeeds;

/// Sends the stream to a socket of the standard library that has room for all; returns the totals,
/// and how many datagrams are in it.
fn send(text: &str, options: UdpOptions) -> (Totals, UdpPort, u64) {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&sink, 4 << 20).unwrap();
    sink.set_nonblocking(true).unwrap();
    let texts = [format!("dst=127.0.0.1 dport={} {text}", sink.local_addr().unwrap().port())];
    let port = UdpPort::open(&udp_streams(&texts), options).unwrap();
    let totals = run(&texts, (port.transmit().unwrap(), Vec::<UdpRx>::new()), &mut []);
    let mut arrived = 0;
    while sink.recv(&mut [0; 9216]).is_ok() {
        arrived += 1;
    }
    (totals, port, arrived)
}

#[test]
fn datagrams_above_the_mtu_are_unsent() {
    in_namespace("datagrams_above_the_mtu_are_unsent", || {
        assert!(succeeds("ip link set lo mtu 1500 up"));
        for io_uring in [false, true] {
            let options = UdpOptions { io_uring, ..UdpOptions::default() };
            let (totals, port, arrived) =
                send("count=500 rate=20kpps size=64,3000,1514,9000,1518", options);
            assert_eq!((totals.unsent(), totals.sent[0], arrived), (200, 300, 300));
            assert_eq!((totals.streams[0].sent, port.counts().refused()), (300, 200));
            assert_eq!(port.counts().last_error().unwrap().raw_os_error(), Some(90));
        }
    });
}

#[test]
fn a_full_socket_is_offered_its_packets_again() {
    in_namespace("a_full_socket_is_offered_its_packets_again", || {
        assert!(succeeds("ip link set lo up"));
        if !succeeds("tc qdisc add dev lo root tbf rate 4mbit burst 3kb limit 1mb") {
            return skip("this kernel has no token bucket filter");
        }
        let small = UdpOptions { buffer_bytes: 4608, ..UdpOptions::default() };
        for io_uring in [false, true] {
            let options = UdpOptions { io_uring, ..small };
            let (totals, port, arrived) = send("count=200 size=1400", options);
            assert_eq!((totals.unsent(), totals.sent[0], arrived), (0, 200, 200));
            assert!(totals.senders[0].port_full > 0 && port.counts().no_buffers() == 0);
        }

        // So slow that the run ends before.
        assert!(succeeds("tc qdisc change dev lo root tbf rate 8kbit burst 3kb limit 1mb"));
        let (totals, _, _) = send("count=200 size=1400", small);
        assert!(totals.unsent() > 0 && totals.sent[0] < 100, "{totals:?}");
        assert_eq!(totals.streams[0].sent, totals.sent[0]);
    });
}

#[test]
fn packets_that_a_queue_of_the_interface_dropped_are_sent_again() {
    in_namespace("packets_that_a_queue_of_the_interface_dropped_are_sent_again", || {
        assert!(succeeds("ip link set lo up"));
        if !succeeds("tc qdisc add dev lo root tbf rate 4mbit burst 3kb limit 6kb") {
            return skip("this kernel has no token bucket filter");
        }
        for io_uring in [false, true] {
            let options = UdpOptions { io_uring, ..UdpOptions::default() };
            let (totals, port, arrived) = send("count=200 size=1400", options);
            assert_eq!((totals.unsent(), totals.sent[0], arrived), (0, 200, 200));
            assert!(port.counts().no_buffers() > 0 && port.counts().refused() == 0);
        }
    });
}
