// SPDX-License-Identifier: BSD-3-Clause
//! Tests links that are down at the start, links that go down, and interfaces that vanish during a
//! run. The run reports them and continues with the others.

use crate::bump::{Ended, Setup};
use crate::captures::Talk;
use crate::lan::{ENDS, Lan};
use testkit::capture::write_pcap;
use testkit::host::{has_cpus, has_root_and};
use testkit::process::wait_until;

const TOOLS: [&str; 6] = ["ip", "ethtool", "ping", "unshare", "nsenter", "setpriv"];

#[test]
fn a_link_that_is_down_at_the_start_is_reported_once() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let [a, b] = Lan::ports();
    lan.set_up();
    // Millrace sets up the interface at its own end.
    lan.b.namespace.run(&format!("ip link set dev {} down", lan.b.interface));
    let mut bump = Setup::new("down").launcher(lan.bump.command("env")).pair(&a, &b).start();
    for second in ["a second", "another second"] {
        bump.wait_for_line(second, |_| true);
    }
    let ended = bump.finish();
    ended.assert_balanced();
    let down = "the link is down; packets to it are dropped";
    assert_eq!(ended.stderr, format!("millrace: port {b}: {down}\n"));
}

#[test]
fn a_link_that_comes_and_goes_is_reported_and_survived() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let setup = Setup::new("link");
    let [a, b] = Lan::ports();
    let mut bump = setup.launcher(lan.bump.command("env")).pair(&a, &b).start();
    lan.set_up();
    lan.assign_addresses();
    let reaches = || lan.a.namespace.succeeds("ping -c 1 -W 1 10.9.0.2");
    for end in ENDS {
        bump.wait_for_message(&format!("iface={end}: the link is up"));
    }
    // If either end of a veth pair goes down, the link is down.
    for (namespace, interface, port) in
        [(&lan.bump, ENDS[0], 0), (&lan.b.namespace, lan.b.interface, 1)]
    {
        let told = bump.stderr().lines().count();
        namespace.run(&format!("ip link set dev {interface} down"));
        let port = ENDS[port];
        bump.wait_for_message(&format!("iface={port}: the link is down; packets to it"));
        lan.a.namespace.succeeds("ping -c 1 -W 1 10.9.0.2");
        namespace.run(&format!("ip link set dev {interface} up"));
        bump.wait_until("the link is up again", |bump| {
            let text = bump.stderr();
            let mut lines = text.lines().skip(told);
            lines.any(|line| line.ends_with(&format!("iface={port}: the link is up")))
        });
        wait_until("the other host is there again", reaches);
    }
    let ended = bump.finish();
    ended.assert_balanced();
    assert!(!ended.stderr.contains("is gone"), "{}", ended.stderr);
}

#[test]
fn an_interface_that_vanishes_leaves_the_other_pair_alone() {
    if !has_root_and(&TOOLS) || !has_cpus(2) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let setup = Setup::new("vanish");
    let [a, b] = Lan::ports();
    let capture = setup.path("a");
    write_pcap(&capture, &Talk::new(1, 100).frames[0]);
    let endless = format!("net_pcap0,rx_pcap={capture},infinite_rx=1");
    let mut bump = setup
        .launcher(lan.bump.command("env"))
        .pair(&a, &b)
        .pair(&endless, "net_null0,no-rx=1")
        .start();
    lan.set_up();
    for end in ENDS {
        bump.wait_for_message(&format!("iface={end}: the link is up"));
        lan.bump.run(&format!("ip link delete dev {end}"));
        bump.wait_for_message(&format!(
            "iface={end}: the device is gone; the other ports continue"
        ));
        bump.wait_for_line("packets of the other pair", |line| line.up_kpps > 0.0);
    }
    let ended = bump.finish();
    assert!(!ended.stderr.contains("every port"), "{}", ended.stderr);
    assert_lost(&ended);
}

#[test]
fn a_run_with_no_port_left_ends() {
    if !has_root_and(&TOOLS) {
        return;
    }
    let Some(lan) = Lan::with_cables() else { return };
    let [a, b] = Lan::ports();
    let setup = Setup::new("gone").launcher(lan.bump.command("env"));
    let bump = setup.pair(&a, &b).start();
    for end in ENDS {
        lan.bump.run(&format!("ip link delete dev {end}"));
    }
    let ended = bump.wait();
    assert!(ended.stderr.contains("every port is gone"), "{}", ended.stderr);
    assert_lost(&ended);
}

/// Checks that the exit status tells of lost devices, and the last message too.
#[track_caller]
fn assert_lost(ended: &Ended) {
    ended.assert_accounted();
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    let words = "exit status 1, because the device is gone: ";
    assert!(last.contains(words) && ENDS.iter().all(|end| last.contains(end)), "{last}");
}
