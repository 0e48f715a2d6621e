// SPDX-License-Identifier: BSD-3-Clause
//! Captures through `net_pcap`: frames arrive as written, also where they need a chain of mbufs.

use dpdk::{Burst, Eal, FrameTooLong, Mempool, Port, PortConfig, PortError};
use testkit::capture::write_pcap;
use testkit::port::{eal_config, port_config};
use testkit::scratch::Scratch;
use wire::Packet;

#[test]
fn frames_arrive_as_written() {
    let eal = Eal::init(&eal_config(256)).unwrap();
    let frames: Vec<Vec<u8>> = [60, 61, 256, 1000, 1514, 9000].map(frame).to_vec();
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"), "pcap");
    let path = scratch.path("frames.pcap");
    write_pcap(&path, &frames);
    // Room for one segment each; for some; for as little as drivers allow.
    for (room, name) in [(9216, "whole"), (2048, "chained"), (192, "cut")] {
        let pool = Mempool::new(&eal, name, 511, room, None).unwrap();
        let devargs = format!("net_pcap_{name},rx_pcap={path}");
        check(Port::probe(&eal, &devargs).unwrap(), pool, room.into(), &frames);
        assert_eq!(pool.in_use(), 0);
    }
    long_devargs(&eal, &path);
}

/// Those of one port: more than DPDK 24.11 would probe.
fn long_devargs(eal: &Eal, path: &str) {
    let roundabout = format!("{}/{path}", "/.".repeat(100));
    let open = |devargs: &str| Port::probe(eal, devargs);
    for name in ["net_pcap_long", "vdev:net_pcap_longer"] {
        let port = open(&format!("{name},rx_pcap={roundabout}")).unwrap();
        assert!(port.info().devargs.starts_with(name));
    }
    let error = open(&format!("net_pcap_none,rx_pcap={roundabout}.none")).unwrap_err();
    let PortError::Probe { log, .. } = &error else { panic!("{error:?}") };
    assert!(log.lines().iter().any(|line| line.contains(".none")), "{error:?}");
    let error = open(&format!("net_nonesuch,rx_pcap={roundabout}")).unwrap_err();
    assert!(matches!(error, PortError::NoDriver { .. }), "{error:?}");
}

fn check(mut port: Port, pool: Mempool, room: usize, frames: &[Vec<u8>]) {
    let queues = PortConfig { tx_queues: 0, ..port_config(1, 64, pool) };
    let (mut rx, _) = port.configure(&queues).unwrap();
    let mut burst = Burst::new();
    while rx[0].burst(&mut burst) > 0 {}
    assert_eq!(burst.len(), frames.len());
    for (mbuf, frame) in burst.iter().zip(frames) {
        assert_eq!(mbuf.frame_len(), frame.len());
        assert_eq!(mbuf.head(), &frame[..frame.len().min(room)]);
        assert_eq!(mbuf.segment_count() > 1, frame.len() > room);
        for len in [0, 1, 191, 192, 193, 9999] {
            let mut copy = vec![0xee; len];
            let copied = mbuf.copy_to(&mut copy);
            assert_eq!(copied, len.min(frame.len()));
            assert_eq!(copy[..copied], frame[..copied]);
            assert!(copy[copied..].iter().all(|&byte| byte == 0xee));
        }
    }
    // A chain has no room for a new frame, a single mbuf exactly its own.
    for (mbuf, frame) in burst.iter_mut().zip(frames) {
        if frame.len() > room {
            assert_eq!(mbuf.write(&[1; 60]), Err(FrameTooLong { frame_len: 60, room: 0 }));
        } else {
            let refused = Err(FrameTooLong { frame_len: room + 1, room });
            assert_eq!(mbuf.write(&vec![1; room + 1]), refused);
            mbuf.write(&vec![2; room]).unwrap();
            assert_eq!(mbuf.head(), vec![2; room]);
        }
    }
    assert_eq!(port.stats().ipackets, frames.len() as u64);
}

fn frame(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + len) as u8).collect()
}
