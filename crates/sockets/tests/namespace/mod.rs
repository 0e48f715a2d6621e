// SPDX-License-Identifier: BSD-3-Clause
//! Network namespaces of tests.

use std::process::Command;

const INSIDE: &str = "SOCKETS_TEST_INSIDE_NAMESPACE";

/// Runs `test`, whose name is `name`, in a process with a network namespace of its own, which ends
/// with it; skips it where the system makes none.
pub(crate) fn in_namespace(name: &str, test: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    // As root in a namespace alone; as anyone else in a user namespace, where that is allowed.
    let ways: [&[&str]; 2] = [&["--net"], &["--net", "--map-root-user"]];
    let can_make = |way: &&[&str]| {
        let veth = ["ip", "link", "add", "x0", "type", "veth", "peer", "x1"];
        let output = Command::new("unshare").args(*way).args(veth).output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(way) = ways.into_iter().find(can_make) else {
        eprintln!("skipped: no network namespace can be made here");
        return;
    };
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new("unshare");
    command.args(way).arg(test).args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    assert!(command.status().unwrap().success());
}

/// Runs a command of blank-separated words; true if it succeeded.
pub(crate) fn shell(words: &str) -> bool {
    let mut words = words.split_whitespace();
    Command::new(words.next().unwrap()).args(words).status().unwrap().success()
}
