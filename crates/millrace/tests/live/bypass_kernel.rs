// SPDX-License-Identifier: BSD-3-Clause
//! Tests the kernel's TCP through ports that forward it by themselves.
//!
//! The links lose and reorder packets, and Millrace drops what does not fit a connection. `make
//! prove-bypass` makes ten thousand transfers.

use crate::bump::{Setup, count};
use crate::lan::{ENDS, Lan};
use crate::scaled;
use crate::twin::driver;
use std::process::Stdio;
use testkit::host::{has_cpus, has_root_and};
use testkit::namespace::Namespace;
use testkit::process::{Process, run, wait_until};

const TRANSFERS: &str = include_str!("transfers.py");
const TOOLS: [&str; 7] = ["ip", "unshare", "nsenter", "setpriv", "ethtool", "python3", "nft"];
const PORT: &str = "7070";
const THREADS: &str = "8";

/// Makes a host lose one of a hundred TCP packets that it receives.
fn lose_packets(host: &Namespace) {
    host.run("nft add table ip loss");
    host.run("nft add chain ip loss in { type filter hook prerouting priority -300; }");
    host.run("nft add rule ip loss in meta l4proto tcp numgen random mod 100 < 1 drop");
}

#[test]
fn kernel_tcp_that_the_nic_forwards_completes_and_ends() {
    if driver().is_none() || !has_cpus(2) || !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    lan.set_up();
    lan.introduce();
    lan.assign_addresses();
    [&lan.a, &lan.b].into_iter().for_each(|host| lose_packets(&host.namespace));
    let [a, b] = [0, 1].map(|end| {
        let below = format!("net_af_packet{end},iface={}", ENDS[end]);
        format!("net_twin{end},lower=({below}),switch=s,personality=cx6dx,faults=reorder:0.01")
    });
    let setup = Setup::new("bypass-kernel").duration("3000").only_config(
        "[offload]\npolicy = \"after 4\"\nbypass_tcp = \"after 16\"\n\
         [timeouts]\ntcp_established = 8\ntcp_fin_wait = 4\ntcp_time_wait = 1\n\
         tcp_close = 1\nicmp_first = 1\n\
         [policy]\npick_up = \"strict\"\ninvalid = \"drop\"\n",
    );
    let bump = setup.launcher(lan.bump.command("env")).pair(&a, &b).start();
    let python = |host: &Namespace, words: &[&str]| {
        let mut command = host.command("python3");
        command.args(["-c", TRANSFERS]).args(words);
        command
    };
    let mut server = python(&lan.b.namespace, &["serve", lan.b.v4, PORT]);
    let mut server = Process::spawn(server.stdout(Stdio::piped()));
    assert_eq!(server.first_line(), "ready\n");
    let transfers = scaled("MILLRACE_TRANSFERS", 16).to_string();
    let words = ["run", lan.b.v4, PORT, &transfers, THREADS, "20000"];
    let printed = run(&mut python(&lan.a.namespace, &words));
    assert_eq!(printed.trim(), transfers, "some transfers failed");
    wait_until("all TCP connections have ended", || {
        bump.lines().last().is_some_and(|line| line.flows == 0.0)
    });
    let ended = bump.finish();
    ended.assert_balanced();
    let summary = ended.summary();
    let bypassed = &summary["offload"]["bypassed"];
    assert_eq!(count(&bypassed["unsettled"]), 0, "{bypassed}");
    assert!(count(&bypassed["packets"]) > 1000, "{bypassed}");
    // All ended by FIN, RST or reuse of their ports, and none by its timeout.
    let is_tcp = |record: &&crate::records::Record| record.number("proto") == 6;
    let records = ended.records();
    for record in records.iter().filter(is_tcp) {
        let reason = record.text("end_reason");
        assert!(["fin", "rst", "reuse"].contains(&reason), "{record:?}");
    }
    drop(server);
}
