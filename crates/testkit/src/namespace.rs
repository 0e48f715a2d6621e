// SPDX-License-Identifier: BSD-3-Clause
//! Network namespaces: a test that runs inside one, and namespaces beside a test. Each lives as
//! long as the process that holds it; its interfaces go with it.

use crate::host::skip;
use crate::process::{Process, mortal, run};
use std::process::{Command, Stdio};

/// Tells a test program that it is in the namespace already.
const INSIDE: &str = "MILLRACE_TEST_INSIDE_NAMESPACE";

/// Runs `test` in a network namespace of its own, and skips where none can be made: the test
/// program runs itself again there, with the one test of this `name`.
pub fn in_namespace(name: &str, test: impl FnOnce()) {
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
        return skip("no network namespace or veth can be made here");
    };
    let test = std::env::current_exe().expect("a program has a path");
    let mut command = Command::new("unshare");
    command.args(way).arg(test).args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    assert!(command.status().expect("it was there just now").success());
}

/// A network namespace beside the test's own, with its loopback interface up.
#[derive(Debug)]
pub struct Namespace {
    holder: Process,
}

impl Namespace {
    /// Makes one; skips and returns `None` where the system does not allow it.
    pub fn new() -> Option<Self> {
        let mut command = mortal("unshare");
        command.args([
            "--net",
            "sh",
            "-c",
            "ip link set dev lo up && echo ready && exec sleep infinity",
        ]);
        let mut holder = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        if holder.first_line() != "ready\n" {
            skip("no network namespace can be made here");
            return None;
        }
        Some(Self { holder })
    }

    /// Returns a command that runs inside, and ends with the test.
    pub fn command(&self, program: &str) -> Command {
        let mut command = mortal("nsenter");
        command.args([&format!("--net=/proc/{}/ns/net", self.holder.id()), "--", program]);
        command
    }

    /// Runs a command of blank-separated words and returns what it prints.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, command: &str) -> String {
        let mut words = command.split(' ');
        run(self.command(words.next().unwrap_or_default()).args(words))
    }

    /// Returns true if a command of blank-separated words succeeds.
    pub fn succeeds(&self, command: &str) -> bool {
        let mut words = command.split(' ');
        let mut command = self.command(words.next().unwrap_or_default());
        command.args(words).output().is_ok_and(|output| output.status.success())
    }

    /// Returns the number of the process that holds it.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }
}
