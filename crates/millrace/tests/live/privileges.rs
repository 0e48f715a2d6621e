// SPDX-License-Identifier: BSD-3-Clause
//! A run without root and without hugepages, which it sees to by itself.

use crate::bump::Setup;
use crate::captures::{Talk, is_complete, read_pcap};
use crate::{Scratch, is_installed, is_root, skip};
use std::os::unix::fs::chown;
use std::process::Command;

/// `nobody` of Debian, and of most others.
const NOBODY: u32 = 65_534;

#[test]
fn an_unprivileged_user_runs_a_bump() {
    let scratch = Scratch::in_folder(&std::env::temp_dir(), "nobody");
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

/// Starts what follows as `nobody`, where that user can read the program.
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
