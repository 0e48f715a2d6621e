// SPDX-License-Identifier: BSD-3-Clause
//! Tests AF_XDP (`net_af_xdp`) with a generator, the bump and a reflector, each in a network
//! namespace of its own. On veth interfaces, the kernel copies the packets.

use crate::bump::{count, turn};
use crate::lan::{ENDS, Lan};
use serde_json::Value;
use std::process::Stdio;
use testkit::host::{has_root_and, skip};
use testkit::process::{Process, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");

/// True if DPDK has the driver on this machine.
fn has_driver() -> bool {
    let found = std::process::Command::new("sh")
        .args(["-c", "ls /usr/lib/*/dpdk/pmds-*/librte_net_af_xdp.so*"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        skip("DPDK has no net_af_xdp here");
    }
    found
}

fn port(number: usize, interface: &str) -> String {
    format!("net_af_xdp{number},iface={interface}")
}

#[test]
fn packets_pass_the_bump_over_af_xdp() {
    if !has_driver() || !has_root_and(&["ip", "unshare", "nsenter"]) {
        return;
    }
    let _turn = turn();
    let Some(lan) = Lan::with_cables() else { return };
    lan.set_up();
    let mut bump = lan.bump.command(PROGRAM);
    let pair = [port(0, ENDS[0]), port(1, ENDS[1])].join(",");
    bump.args(["run", "--pair", &pair, "--workers", "1", "--json", "-"]);
    let mut bump = Process::spawn(bump.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut reflector = lan.b.namespace.command(PROGRAM);
    reflector.args(["reflect", &port(0, lan.b.interface), "--quiet"]);
    let mut reflector = Process::spawn(reflector.stdout(Stdio::null()).stderr(Stdio::null()));
    for (namespace, interface) in
        [(&lan.bump, ENDS[0]), (&lan.bump, ENDS[1]), (&lan.b.namespace, lan.b.interface)]
    {
        let link = format!("ip link show dev {interface}");
        wait_until("a program is at the interface", || namespace.run(&link).contains("xdp"));
    }
    let mut generator = lan.a.namespace.command(PROGRAM);
    generator.args(["gen", &port(0, lan.a.interface), "--verify", "--workers", "1", "--json", "-"]);
    generator.args(["--late", "2", "--stream", "count=2000 rate=2kpps size=imix sport=1-500"]);
    let output = generator.stderr(Stdio::null()).output().unwrap();
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for process in [&mut reflector, &mut bump] {
        process.signal("TERM");
    }
    let summary = bump.rest_of_stdout();
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let of = |member: &str| count(&results["verified"][member]);
    assert_eq!((count(&results["sent"]["packets"]), of("damaged")), (2000, 0), "{results:#}");
    // Other programs use the cpus too. The kernel drops packets for which it has no room.
    assert!(of("lost") < 200, "{results:#}");
    let received: u64 =
        [0, 1].map(|port| count(&summary["ports"][port]["rx_packets"])).iter().sum();
    assert!(received >= 2 * (2000 - of("lost")), "{summary:#}");
}
