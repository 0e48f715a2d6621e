// SPDX-License-Identifier: BSD-3-Clause
//! Tests overload: flow records without a reader, and ports without room. Losses are counted, and
//! nothing else is affected.

use crate::bump::{Bump, Setup, count, total};
use crate::captures::{Talk, is_complete};
use crate::peer::{PortCounts, Testpmd, at};
use crate::twin::driver;
use std::fs::File;
use std::io::Read;
use std::process::Command;
use testkit::capture::write_pcap;
use testkit::host::{has_cpus, has_tools};
use testkit::process::wait_until;
use wire::{FrameBuilder, tcp};

/// Returns TCP connections one after the other, each with a SYN and an RST, all with the same
/// ports. Each has a flow record, which cannot wait in the table.
fn connections(count: usize) -> Vec<Vec<u8>> {
    let frame = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1024, 80);
    let syn = frame.clone().flags(tcp::SYN);
    let connection = [syn.build(), frame.flags(tcp::RST).seq(1).build()];
    connection.iter().cycle().take(2 * count).cloned().collect()
}

#[test]
fn packets_are_forwarded_while_nobody_takes_the_records() {
    // Far more records than the ring and the engine's queue hold.
    const CONNECTIONS: usize = 100_000;
    let setup = Setup::new("untaken").flows("pipe.jsonl");
    let [pipe, capture, out] = ["pipe.jsonl", "a", "b_out"].map(|name| setup.path(name));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let frames = connections(CONNECTIONS);
    write_pcap(&capture, &frames);
    let opener = std::thread::spawn(move || File::open(pipe).unwrap());
    let a = format!("net_pcap0,rx_pcap={capture}");
    let b = format!("net_pcap1,tx_pcap={out}");
    let mut bump = setup.pair(&a, &b).start();
    let mut records = opener.join().unwrap();

    bump.wait_until("all frames", |_| is_complete(&out, &frames));
    bump.signal("INT");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        records.read_to_string(&mut text).unwrap();
        text
    });
    let ended = bump.wait();
    let taken = reader.join().unwrap().lines().count() as u64;

    assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""));
    let summary = ended.summary();
    let (ledger, flows) = (&summary["ledger"], &summary["flows"]);
    assert_eq!(ledger["balanced"], true);
    assert_eq!((count(&ledger["tx"]), count(&ledger["dropped"])), (frames.len() as u64, 0));
    let all = CONNECTIONS as u64;
    assert_eq!((count(&flows["created"]), total(&flows["ended"])), (all, all), "{flows}");
    let lost = count(&flows["records_lost"]);
    assert!(lost > 0, "there was room for all: {flows}");
    assert_eq!(taken + lost, all);
}

/// Connections that packets end cannot wait in the table. At full rate on both ports, every second
/// packet ends one.
#[test]
fn records_of_flows_that_end_at_once_are_taken_in_time() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let setup = Setup::new("reused").without_flows();
    let capture = setup.path("a");
    write_pcap(&capture, &connections(64));
    let [a, b] = [0, 1].map(|id| format!("net_twin{id},replay={capture},loops=forever"));
    let mut bump = setup.pair(&a, &b).start();
    bump.wait_for_line("a second", |line| line.up_kpps > 0.0);
    bump.wait_for_line("another", |line| line.up_kpps > 0.0);
    let flows = &bump.finish().summary()["flows"];
    let [created, lost] = ["created", "records_lost"].map(|member| count(&flows[member]));
    // If the control thread rarely lacks its cpu, the ring is full for that time.
    assert!(created > 10_000 && lost < created / 10, "{flows}");
}

/// Returns the packets dropped so far, as the printed lines count them.
fn dropped(bump: &Bump) -> f64 {
    bump.lines().iter().map(|line| line.dropped).sum()
}

#[test]
fn what_a_port_without_a_peer_cannot_take_is_dropped_and_counted() {
    let setup = Setup::new("peerless");
    let (socket, capture) = (setup.path("memif"), setup.path("a"));
    let frames = &Talk::new(1, 500).frames[0];
    write_pcap(&capture, frames);
    let a = format!("net_pcap0,rx_pcap={capture}");
    let b = format!("net_memif0,role=server,{}", at(&socket));
    let mut bump = setup.pair(&a, &b).start();
    bump.wait_until("all frames", |bump| dropped(bump) >= frames.len() as f64);
    let ended = bump.finish();
    ended.assert_balanced();
    let summary = ended.summary();
    assert_eq!(summary["drops"]["tx_full"], frames.len());
    assert_eq!(summary["ledger"]["tx"], 0);
}

/// The peer sends without receiving. Then it receives the packets for which its queue had room.
#[test]
fn a_port_that_is_full_takes_what_it_has_room_for() {
    if !has_tools(&["dpdk-testpmd", "setpriv"]) || !has_cpus(2) {
        return;
    }
    let setup = Setup::new("full-port");
    let socket = setup.path("memif");
    let [a, b] = [0, 1].map(|id| format!("net_memif{id},role=server,id={id},{}", at(&socket)));
    let mut bump = setup.pair(&a, &b).start();
    let mut peer = Testpmd::start(&socket);
    bump.wait_until("both links are up", |bump| bump.stderr().matches("link is up").count() == 2);
    peer.enter("set fwd txonly", "Set txonly packet forwarding mode");
    peer.enter("start", "txonly packet forwarding");
    bump.wait_for_line("full ports", |line| line.dropped > 0.0);
    peer.enter("stop", "Done.");
    // By the time of a line without drops, all packets sent are forwarded or dropped.
    bump.wait_for_line("silence", |line| line.dropped == 0.0);
    peer.enter("set fwd rxonly", "Set rxonly packet forwarding mode");
    peer.enter("start", "rxonly packet forwarding");
    let mut counts = peer.counts();
    wait_until("a second in which nothing more comes", || {
        bump.wait_for_line("a second", |_| true);
        let last = std::mem::replace(&mut counts, peer.counts());
        counts == last && counts.iter().all(|port| port.received > 0)
    });
    let ended = bump.finish();
    ended.assert_balanced();
    let summary = ended.summary();
    assert!(count(&summary["drops"]["tx_full"]) > 0, "{summary}");
    assert_eq!(summary["ledger"]["dropped"], summary["drops"]["tx_full"]);
    let seen = |port: usize| {
        let member = |name: &str| count(&summary["ports"][port][name]);
        PortCounts { received: member("tx_packets"), sent: member("rx_packets") }
    };
    assert_eq!(counts, [seen(0), seen(1)]);
    let received: u64 = counts.iter().map(|port| port.received).sum();
    assert_eq!(received, count(&summary["ledger"]["tx"]));
}
