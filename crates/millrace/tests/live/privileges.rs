// SPDX-License-Identifier: BSD-3-Clause
//! Tests a run without root and without hugepages, and that a run of root drops privileges.

use crate::bump::Setup;
use crate::captures::{Talk, is_complete, read_pcap};
use std::collections::BTreeSet;
use std::os::unix::fs::chown;
use std::process::Command;
use testkit::host::{has_root_and, is_installed, is_root, skip};
use testkit::scratch::Scratch;

/// User id of `nobody` on Debian and most other systems.
const NOBODY: u32 = 65_534;

#[test]
fn an_unprivileged_user_runs_a_bump() {
    let scratch = Scratch::new(std::env::temp_dir(), "nobody");
    let mut setup = Setup::in_scratch(scratch);
    let talk = Talk::new(1, 200);
    let [a, b, a_out, b_out] = ["a", "b", "a_out", "b_out"].map(|name| setup.path(name));
    talk.write(&a, &b);
    if is_root() {
        let Some(nobody) = nobody() else { return };
        for file in ["", "a", "b"] {
            chown(setup.path(file), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        setup = setup.launcher(nobody);
    }
    let a = format!("net_pcap0,rx_pcap={a},tx_pcap={a_out}");
    let b = format!("net_pcap1,rx_pcap={b},tx_pcap={b_out}");
    let mut bump = setup.pair(&a, &b).start();
    let status = std::fs::read_to_string(format!("/proc/{}/status", bump.id())).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    assert_ne!(field("Uid:").split_whitespace().next(), Some("0"));
    assert_eq!(u64::from_str_radix(field("CapEff:").trim(), 16), Ok(0));
    bump.wait_until("all frames", |_| {
        is_complete(&b_out, &talk.frames[0]) && is_complete(&a_out, &talk.frames[1])
    });
    let ended = bump.finish();
    ended.assert_good();
    assert_eq!(read_pcap(&b_out), talk.frames[0]);
}

/// Returns the effective and permitted capabilities of all threads of a process, with true if
/// `exec` may add capabilities.
fn privileges(id: u32) -> BTreeSet<(u64, bool)> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
    let of_task = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let [effective, permitted] = ["CapEff:", "CapPrm:"]
            .map(|name| u64::from_str_radix(field(name).unwrap().trim(), 16).unwrap());
        Some((effective | permitted, field("NoNewPrivs:").unwrap().trim() == "0"))
    };
    tasks.filter_map(of_task).collect()
}

/// The threads include those of DPDK and its drivers.
#[test]
fn a_run_of_root_keeps_only_what_it_needs() {
    if !has_root_and(&[]) {
        return;
    }
    const NETWORK: u64 = 1 << 12 | 1 << 13;
    const DAC_OVERRIDE: u64 = 1 << 1;
    for (pair, needed) in [("net_null0", 0), ("net_tap0,iface=priv-tap", NETWORK)] {
        let mut bump = Setup::new("root").pair(pair, "net_null1,no-rx=1").start();
        let kept = BTreeSet::from([(needed, false)]);
        let id = bump.id();
        bump.wait_until("privileges are given up", |_| privileges(id) == kept);
        assert_eq!(bump.finish().status, Some(0));
    }
    // Millrace opens a file again by its name. In a directory of another user, that needs a
    // capability.
    let setup = Setup::new("others");
    chown(setup.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut bump = setup.pair("net_null0", "net_null1,no-rx=1").start();
    let kept = BTreeSet::from([(DAC_OVERRIDE, false)]);
    let id = bump.id();
    bump.wait_until("privileges are given up", |_| privileges(id) == kept);
    assert_eq!(bump.finish().status, Some(0));
}

/// Returns a command prefix that runs the program as `nobody`. `None` if that user cannot execute
/// it.
fn nobody() -> Option<Command> {
    if !is_installed("setpriv") {
        skip("not installed: setpriv");
        return None;
    }
    let id = NOBODY.to_string();
    let as_nobody = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
        command
    };
    let program = env!("CARGO_BIN_EXE_millrace");
    if !as_nobody().args(["test", "-x", program]).status().is_ok_and(|status| status.success()) {
        skip(&format!("nobody may not run {program}"));
        return None;
    }
    Some(as_nobody())
}
