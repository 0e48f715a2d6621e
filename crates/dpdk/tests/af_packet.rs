// SPDX-License-Identifier: BSD-3-Clause
//! `net_af_packet` on a pair of Linux interfaces: the kernel takes VLAN tags out of received
//! frames, and they must be back in place when a frame arrives here. An interface that goes down or
//! away is seen.
//!
//! The test runs itself again in a network namespace of its own, which ends with it; where the
//! system does not let it make one, it is skipped.

use dpdk::{Burst, Eal, EalConfig, Mempool, Port, PortConfig, RxQueue, TxQueue};
use std::process::Command;
use std::time::{Duration, Instant};
use wire::Packet;

const INSIDE: &str = "DPDK_TEST_INSIDE_NAMESPACE";

#[test]
fn frames_cross_linux_unchanged_and_interfaces_may_vanish() {
    if std::env::var_os(INSIDE).is_some() {
        return send_and_receive();
    }
    // As root in a namespace alone; as anyone else in a user namespace, where that is allowed.
    let ways: [&[&str]; 2] = [&["--net"], &["--net", "--map-root-user"]];
    let Some(way) = ways.into_iter().find(|way| can_make_veth(way)) else {
        eprintln!("skipped: no network namespace or veth can be made here");
        return;
    };
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    let status = command.args(way).arg(test).arg("--nocapture").env(INSIDE, "1").status().unwrap();
    assert!(status.success());
}

fn can_make_veth(way: &[&str]) -> bool {
    let ip = ["ip", "link", "add", "x0", "type", "veth", "peer", "x1"];
    let output = Command::new("unshare").args(way).args(ip).output();
    output.is_ok_and(|output| output.status.success())
}

fn send_and_receive() {
    ip("link add name x0 type veth peer name x1");
    for interface in ["x0", "x1"] {
        // Without addresses of its own the kernel sends nothing on these interfaces.
        ip(&format!("link set {interface} addrgenmode none"));
        ip(&format!("link set {interface} up"));
    }
    let config = EalConfig { no_huge: true, memory_mb: 256, ..Default::default() };
    let eal = Eal::init(&config).unwrap();
    let pool = Mempool::new(&eal, "veth", 1023, 2048, None).unwrap();
    let queues = PortConfig {
        rx_queues: 1,
        tx_queues: 1,
        rxd: 256,
        txd: 256,
        mempools: vec![pool],
        mtu: None,
        is_endpoint: false,
        sends_on_time: false,
    };
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
    let up = |port: &Port, wanted| wait(|| port.link().up == wanted);
    up(&a, true);
    ip("link set x1 down");
    up(&a, false);
    up(&b, false);
    ip("link set x1 up");
    up(&a, true);
    assert!(!a.removed() && !b.removed());
    ip("link del x0");
    wait(|| a.removed() && b.removed());
    assert!(!a.link().up);
    let mut burst = Burst::new();
    assert_eq!(b_rx[0].burst(&mut burst), 0);
    assert!(pool.alloc_bulk(&mut burst, 1));
    a_tx[0].burst(&mut burst);
    burst.free_all();
    drop((a, a_tx, a_rx, b, b_tx, b_rx));
    assert_eq!(pool.in_use(), 0);
}

/// The kernel reports carriers late.
fn wait(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "it did not come true");
    }
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

fn ip(args: &str) {
    assert!(Command::new("ip").args(args.split(' ')).status().unwrap().success(), "ip {args}");
}
