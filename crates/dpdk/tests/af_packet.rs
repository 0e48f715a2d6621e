// SPDX-License-Identifier: BSD-3-Clause
//! `net_af_packet` on a pair of Linux interfaces: the kernel takes VLAN tags out of received
//! frames, and they must be back in place when a frame arrives here. An interface that goes down or
//! away is seen.
//!
//! The test runs itself again in a network namespace of its own, which ends with it; where the
//! system does not let it make one, it is skipped.

use dpdk::{Burst, Eal, Port, RxQueue, TxQueue};
use std::time::{Duration, Instant};
use testkit::namespace::in_namespace;
use testkit::port::{eal_config, mempool, port_config};
use testkit::process::{succeeds, wait_until};
use wire::Packet;

#[test]
fn frames_cross_linux_unchanged_and_interfaces_may_vanish() {
    in_namespace("frames_cross_linux_unchanged_and_interfaces_may_vanish", send_and_receive);
}

fn send_and_receive() {
    assert!(succeeds("ip link add name x0 type veth peer name x1"));
    for interface in ["x0", "x1"] {
        // Without addresses of its own the kernel sends nothing on these interfaces.
        assert!(succeeds(&format!("ip link set {interface} addrgenmode none")));
        assert!(succeeds(&format!("ip link set {interface} up")));
    }
    let eal = Eal::init(&eal_config(256)).unwrap();
    let pool = mempool(&eal, "veth");
    let queues = port_config(1, 256, pool);
    let mut a = Port::probe(&eal, "net_af_packet0,iface=x0").unwrap();
    let mut b = Port::probe(&eal, "net_af_packet1,iface=x1").unwrap();
    let (a_rx, mut a_tx) = a.configure(&queues).unwrap();
    let (mut b_rx, b_tx) = b.configure(&queues).unwrap();

    for tags in [&[][..], &[0x0064], &[0xefff], &[0x0064, 0x00c8], &[0x0064, 0x00c8, 0x012c]] {
        let frame = tagged(tags);
        let mut burst = Burst::new();
        assert!(pool.alloc_bulk(&mut burst, 1));
        burst[0].write(&frame).unwrap();
        assert_eq!(cross(&mut a_tx[0], &mut b_rx[0], &mut burst), frame, "tags {tags:x?}");
    }

    // The state of the interfaces is that of the ports; a port without one can still be used.
    let up = |port: &Port, wanted| {
        wait_until("the kernel reports the carrier", || port.link().up == wanted);
    };
    up(&a, true);
    assert!(succeeds("ip link set x1 down"));
    up(&a, false);
    up(&b, false);
    assert!(succeeds("ip link set x1 up"));
    up(&a, true);
    assert!(!a.removed() && !b.removed());
    assert!(succeeds("ip link del x0"));
    wait_until("both interfaces are gone", || a.removed() && b.removed());
    assert!(!a.link().up);
    let mut burst = Burst::new();
    assert_eq!(b_rx[0].burst(&mut burst), 0);
    assert!(pool.alloc_bulk(&mut burst, 1));
    a_tx[0].burst(&mut burst);
    burst.free_all();
    drop((a, a_tx, a_rx, b, b_tx, b_rx));
    assert_eq!(pool.in_use(), 0);
}

/// Sends the one packet in `burst` and waits for one on the other side.
fn cross(tx: &mut TxQueue, rx: &mut RxQueue, burst: &mut Burst) -> Vec<u8> {
    assert_eq!(tx.burst(burst), 1);
    let start = Instant::now();
    while rx.burst(burst) == 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "the frame did not arrive");
    }
    let mut frame = vec![0; burst[0].frame_len()];
    assert_eq!(burst[0].copy_to(&mut frame), frame.len());
    burst.free_all();
    frame
}

/// A frame of an experimental EtherType behind 802.1Q tags with these control fields.
fn tagged(tags: &[u16]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in tags {
        frame.extend([0x81, 0x00]);
        frame.extend(tag.to_be_bytes());
    }
    frame.extend([0x88, 0xb5]);
    frame.extend((0..100).map(|i| i + tags.len() as u8));
    frame
}
