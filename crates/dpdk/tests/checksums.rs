// SPDX-License-Identifier: BSD-3-Clause
//! What a NIC says about checksums is known of its packets.

use dpdk::{Burst, Port, PortConfig};
use std::collections::BTreeMap;
use testkit::capture::write_pcap;
use testkit::port::{mempool, port_config, start_eal_with_twin};
use testkit::scratch::Scratch;
use wire::{FrameBuilder, Packet};

/// Frames by their places, and whether the NIC can find them right.
fn frames() -> Vec<(FrameBuilder, bool)> {
    let v4 = || FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
    vec![
        (v4().tcp(1, 2), true),
        (v4().tcp(1, 2).checksum(1), false),
        (v4().udp(1, 2).ip_checksum(1), false),
        (v4().udp(1, 2), true),
        (v4().icmp_echo(1, 2), false),
    ]
}

#[test]
fn packets_that_the_nic_has_found_right_are_verified_where_they_pass() {
    let Some(eal) = start_eal_with_twin() else { return };
    let frames = frames();
    let numbered = frames.iter().zip(0..);
    let bytes = numbered.map(|((frame, _), i)| frame.clone().payload(vec![i; 30]).build());
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"), "checksums");
    let capture = scratch.path("checksums.pcap");
    write_pcap(&capture, &bytes.collect::<Vec<_>>());
    let pool = mempool(&eal, "checksums");
    for (name, is_endpoint) in [("net_twin0", false), ("net_twin1", true)] {
        let replay = format!("{name},replay={capture}");
        let mut port = Port::probe(&eal, &replay).unwrap();
        let queues = PortConfig { tx_queues: 0, is_endpoint, ..port_config(1, 64, pool) };
        let (mut queues, _) = port.configure(&queues).unwrap();
        let (mut burst, mut seen) = (Burst::new(), BTreeMap::new());
        while seen.len() < frames.len() {
            queues[0].burst(&mut burst);
            for mbuf in burst.iter() {
                seen.insert(usize::from(mbuf.head()[mbuf.frame_len() - 1]), mbuf.is_verified());
            }
            burst.free_all();
        }
        for (i, (frame, is_right)) in frames.iter().enumerate() {
            assert_eq!(seen[&i], *is_right && !is_endpoint, "{frame:?}");
        }
    }
}
