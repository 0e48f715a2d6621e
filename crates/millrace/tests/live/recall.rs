// SPDX-License-Identifier: BSD-3-Clause
//! Tests that connections which the NIC forwards by itself are called back before access lists
//! change: afterwards none of them passes by the old lists.

use crate::bump::{Setup, count};
use crate::instance::json;
use crate::twin::driver;
use serde_json::Value;
use std::time::Duration;
use testkit::capture::write_pcap;
use testkit::host::has_cpus;
use testkit::process::wait_until;
use wire::FrameBuilder;

/// Number of connections, all of UDP.
const CONNECTIONS: u16 = 40;

/// The only rule.
const PERMIT: &str = "permit+reflect";

/// Configuration with a list for each port.
fn config(socket: &str, recall_ms: u32) -> String {
    let lists = ["a", "b"].map(|port| {
        format!("[[list]]\nname = \"{port}\"\nport = \"{port}\"\nrules = \"{PERMIT}\"\n")
    });
    format!(
        "[control]\nsocket = \"{socket}\"\n\
         [offload]\npolicy = \"after 4\"\nbypass = \"after 8\"\n\
         [acl]\nrecall_ms = {recall_ms}\n{}",
        lists.concat()
    )
}

/// Changes the lists of a run in which the NIC forwards connections, so that they are denied.
/// Returns what the change has done.
fn deny_bypassed(personality: &str, recall_ms: u32) -> Value {
    let setup = Setup::new("recall").capacity(1 << 12);
    let (socket, file) = (setup.path("control.sock"), setup.path("bump.toml"));
    let [a, b] = [0, 1].map(|side: usize| {
        let path = setup.path(["a", "b"][side]);
        let frames = (0..CONNECTIONS).map(|port| {
            let there = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 1, 1]).udp(1000 + port, 53);
            if side == 0 { there.build() } else { there.reversed().build() }
        });
        write_pcap(&path, &frames.collect::<Vec<_>>());
        format!("net_twin{side},replay={path},loops=forever,speed=50M,{personality},switch=s")
    });
    let setup = setup.pair(&a, &b).config(&config(&socket, recall_ms));
    let bump = setup.start();
    let bypassed = || count(&json(&socket, &["stats"])["offload"]["bypassed"]["packets"]);
    wait_until("a bypass", || bypassed() > 1000);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(PERMIT, "deny proto udp")).unwrap();
    let change = json(&socket, &["ct", "reload"])["list_change"].clone();
    let mut before = bypassed();
    wait_until("the end of the bypass", || {
        std::thread::sleep(Duration::from_millis(100));
        std::mem::replace(&mut before, bypassed()) == before
    });
    let sent = || {
        let stats = json(&socket, &["stats"]);
        [&stats["ledger"]["tx"], &stats["offload"]["bypassed"]["packets"]].map(count)
    };
    let last = sent();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(sent(), last, "all packets are denied");
    let ended = bump.finish();
    ended.assert_balanced();
    change
}

#[test]
fn connections_are_called_back_before_lists_change() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    for personality in ["personality=ideal", "personality=cx5"] {
        let change = deny_bypassed(personality, 10_000);
        assert!(count(&change["bypasses"]) > 0, "{change}");
        assert_eq!(count(&change["bypasses_left"]), 0, "{change}");
        assert_eq!(count(&change["visited"]), u64::from(CONNECTIONS), "{change}");
    }
}

/// A change of lists does not wait longer for a NIC than the configuration says. What is left is
/// called back all the same.
#[test]
fn a_change_waits_no_longer_than_allowed() {
    if driver().is_none() || !has_cpus(2) {
        return;
    }
    let change = deny_bypassed("personality=cx5", 0);
    assert!(count(&change["bypasses"]) > 0, "{change}");
    assert_eq!(change["bypasses"], change["bypasses_left"], "{change}");
}
