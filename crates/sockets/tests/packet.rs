// SPDX-License-Identifier: BSD-3-Clause
//! Whole frames over packet sockets at both ends of a veth pair, in a namespace of the test's own.

mod common;

use common::{run, udp_streams};
use generator::{Task, mailbox};
use sockets::{EchoOptions, EchoPort, EchoReport, PacketOptions, PacketPort, UdpOptions, UdpPort};
use testkit::host::skip;
use testkit::namespace::in_namespace;
use testkit::process::succeeds;

/// A pair of interfaces without addresses: the kernel sends nothing of its own.
fn set_up() {
    assert!(succeeds("ip link add x0 type veth peer name x1"));
    for interface in ["x0", "x1"] {
        assert!(succeeds(&format!("ip link set {interface} addrgenmode none mtu 1500 up")));
    }
}

#[test]
fn frames_of_every_protocol_cross_an_interface() {
    in_namespace("frames_of_every_protocol_cross_an_interface", || {
        set_up();
        for qdisc_bypass in [false, true] {
            let options = PacketOptions { qdisc_bypass, ..PacketOptions::default() };
            let [near, far] = ["x0", "x1"].map(|name| PacketPort::open(name, options).unwrap());
            let texts = [
                "count=5000 rate=20kpps size=64-1518+7",
                "count=500 rate=2kpps proto=tcp size=100 sport=1024-2047",
                "count=500 rate=2kpps src=2001:2::1 size=120",
                "count=300 rate=1kpps vlan=5 size=90",
                "count=200 rate=1kpps proto=sctp size=90",
            ];
            let texts = texts.map(str::to_owned);
            let link = (near.transmit(), vec![far.receive(), near.receive()]);
            let totals = run(&texts, link, &mut []);
            for (stream, count) in totals.streams.iter().zip([5000, 500, 500, 300, 200]) {
                assert_eq!((stream.sent, stream.lost()), (count, 0), "{stream:?}");
            }
            assert_eq!((totals.damaged, totals.foreign, totals.unsent()), (0, 0, 0));
            // None of its own comes back, and the kernel takes tags out.
            let queues: Vec<u64> = totals.queues.iter().map(|it| it.counts.packets).collect();
            assert_eq!(queues, [6500, 0]);
            assert_eq!(totals.sent_bytes[0] - totals.received_bytes[0], 300 * 4);
            assert_eq!((far.drops().unwrap(), near.counts().refused()), (0, 0));
        }
    });
}

#[test]
fn frames_above_the_mtu_are_unsent_and_drops_are_reported() {
    in_namespace("frames_above_the_mtu_are_unsent_and_drops_are_reported", || {
        set_up();
        let small = PacketOptions { buffer_bytes: 20_000, ..PacketOptions::default() };
        let near = PacketPort::open("x0", PacketOptions::default()).unwrap();
        let far = PacketPort::open("x1", small).unwrap();
        let texts = ["count=1000 size=100,2000".to_owned()];
        let totals = run(&texts, (near.transmit(), vec![near.receive()]), &mut []);
        assert_eq!((totals.unsent(), totals.sent[0], near.counts().refused()), (500, 500, 500));
        let drops = far.drops().unwrap();
        assert!(drops > 300 && drops < 500, "{drops}");
        assert_eq!(far.drops().unwrap(), drops);
    });
}

#[test]
fn frames_that_a_queue_never_takes_are_unsent_and_the_others_go_on() {
    in_namespace("frames_that_a_queue_never_takes_are_unsent_and_the_others_go_on", || {
        set_up();
        if !succeeds("tc qdisc add dev x0 root tbf rate 1gbit burst 1kb limit 1mb") {
            return skip("this kernel has no token bucket filter");
        }
        let near = PacketPort::open("x0", PacketOptions::default()).unwrap();
        let texts = ["count=900 rate=1kpps size=100", "count=300 rate=1kpps size=1500"];
        let texts = texts.map(str::to_owned);
        let totals = run(&texts, (near.transmit(), vec![near.receive()]), &mut []);
        assert_eq!((totals.streams[0].sent, totals.streams[1].sent), (900, 0), "{totals:?}");
        assert_eq!((totals.unsent(), near.counts().refused()), (300, 300));
        assert_eq!(near.counts().last_error().unwrap().raw_os_error(), Some(105));
    });
}

/// The kernel leaves the checksum of what it sends over a veth pair to the other end.
#[test]
fn answers_of_a_kernel_have_their_checksums() {
    in_namespace("answers_of_a_kernel_have_their_checksums", || {
        set_up();
        assert!(succeeds("ip link set x1 address 02:00:00:00:00:07"));
        assert!(succeeds("ip addr add 198.18.1.1/24 dev x1"));
        assert!(succeeds("ip neigh add 198.18.1.2 lladdr 02:00:00:00:00:01 dev x1"));
        let options = EchoOptions::default();
        let port = EchoPort::open("198.18.1.1:7".parse().unwrap(), options).unwrap();
        let (outbox, _inbox) = mailbox(u64::MAX, EchoReport::default);
        let mut echo = port.task(0, outbox).unwrap();
        let near = PacketPort::open("x0", PacketOptions::default()).unwrap();
        let text = "count=2000 rate=10kpps src=198.18.1.2 dst=198.18.1.1 size=64-1518+7";
        let texts = [format!("{text} dst_mac=02:00:00:00:00:07")];
        let others: &mut [&mut dyn Task] = &mut [&mut echo];
        let totals = run(&texts, (near.transmit(), vec![near.receive()]), others);
        assert_eq!((totals.streams[0].sent, totals.streams[0].lost()), (2000, 0));
        assert_eq!(totals.damaged, 0);
    });
}

#[test]
fn an_interface_that_is_not_there_is_refused() {
    assert!(PacketPort::open("no-such-one", PacketOptions::default()).is_err());
    let none = udp_streams(&[]);
    assert!(UdpPort::open(&none, UdpOptions::default()).is_ok());
}
