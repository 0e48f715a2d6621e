// SPDX-License-Identifier: BSD-3-Clause
//! Tests a bump between two shared-memory interfaces (memif) of another DPDK process.

use crate::bump::{Bump, Setup, count};

use crate::peer::{PortCounts, Testpmd, at};
use serde_json::Value;
use testkit::host::has_tools;

/// Starts a bump whose ports wait for a peer at a socket. Returns the socket's path too.
fn start(test: &str) -> (Bump, String) {
    let setup = Setup::new(test);
    let socket = setup.path("memif");
    let [a, b] = [0, 1].map(|id| format!("net_memif{id},role=server,id={id},{}", at(&socket)));
    (setup.pair(&a, &b).start(), socket)
}

/// Returns how often the bump reported that a link is `state`.
fn times_logged(bump: &Bump, state: &str) -> usize {
    let text = bump.stderr();
    text.lines().filter(|line| line.contains(&format!("the link is {state}"))).count()
}

#[test]
fn another_dpdk_process_counts_the_same() {
    if !has_tools(&["dpdk-testpmd", "setpriv"]) {
        return;
    }
    let (mut bump, socket) = start("memif");
    let mut peer = Testpmd::start(&socket);
    bump.wait_until("both links are up", |bump| times_logged(bump, "up") == 2);
    // A few bursts circulate, until testpmd receives only.
    peer.enter("start tx_first 8", "io packet forwarding");
    bump.wait_for_line("packets both ways", |line| line.up_kpps > 0.0 && line.down_kpps > 0.0);
    peer.enter("stop", "Done.");
    peer.enter("set fwd rxonly", "Set rxonly packet forwarding mode");
    peer.enter("start", "rxonly packet forwarding");
    bump.wait_for_line("silence", |line| line.is_silent());
    peer.enter("stop", "Done.");
    let counts = peer.counts();
    let ended = bump.finish();
    ended.assert_balanced();
    let summary = ended.summary();
    assert_eq!(summary["drops"]["tx_full"], 0);
    let ports = [0, 1].map(|port| &summary["ports"][port]);
    let seen = |port: &Value| PortCounts {
        received: count(&port["tx_packets"]),
        sent: count(&port["rx_packets"]),
    };
    assert_eq!(counts, ports.map(seen));
    assert!(counts[0].sent > 0 && counts[1].sent > 0, "{counts:?}");
}

/// The peer is killed while no packets pass. When a peer dies, `net_memif` unmaps the shared memory
/// while a worker may use it, so packets of that moment are not predictable.
#[test]
fn a_peer_that_is_killed_and_comes_back_is_served_again() {
    if !has_tools(&["dpdk-testpmd", "setpriv"]) {
        return;
    }
    let (mut bump, socket) = start("memif-restart");
    for round in 1..=3 {
        let mut peer = Testpmd::start(&socket);
        bump.wait_until("both links are up", |bump| times_logged(bump, "up") == 2 * round);
        peer.enter("start tx_first 8", "io packet forwarding");
        bump.wait_for_line("packets both ways", |line| line.up_kpps > 0.0 && line.down_kpps > 0.0);
        peer.enter("stop", "Done.");
        bump.wait_for_line("silence", |line| line.is_silent());
        drop(peer);
        // The first two messages that the links are down came before the first peer.
        bump.wait_until("both links are down", |bump| {
            times_logged(bump, "down") == 2 * (round + 1)
        });
    }
    let ended = bump.finish();
    ended.assert_balanced();
    assert!(!ended.stderr.contains("is gone"), "{}", ended.stderr);
}
