// SPDX-License-Identifier: BSD-3-Clause
//! Starts `millrace gen --serve` as another process, which ends with this one. DPDK starts once in
//! a process, so each set of ports needs a process of its own.

use super::testbed::{Running, end_with_us, this_program};
use crate::tester::RemoteTester;
use anyhow::Context;
use std::io::BufReader;
use std::net::SocketAddr;
use std::process::ChildStderr;
use std::time::Duration;

/// Longest time until the generator answers: it takes all of its memory before.
const READY: Duration = Duration::from_secs(60);
/// What the daemon prints before its address.
const LISTENS: &str = "millrace: the generator listens at ";

/// A running daemon. Dropping the value ends it.
pub(super) struct ServingGenerator {
    /// The daemon writes to it.
    _stderr: BufReader<ChildStderr>,
    _process: Running,
    address: SocketAddr,
}

impl ServingGenerator {
    /// Starts the daemon on these ports, with options of `millrace gen`.
    pub(super) fn start(ports: &str, options: &[String]) -> anyhow::Result<Self> {
        let mut command = end_with_us(this_program()?)?;
        command.args(["gen", ports]).args(options).args(["--serve", "0"]);
        let mut process = Running::start(&mut command)?;
        let (address, stderr) = process.wait_for_line(LISTENS)?;
        let address = address.parse().context("the generator names no address")?;
        Ok(Self { _stderr: stderr, _process: process, address })
    }

    /// Returns a tester that drives the daemon.
    pub(super) fn tester(&self) -> anyhow::Result<RemoteTester> {
        let address = self.address;
        Ok(RemoteTester::connect(&address.ip().to_string(), address.port(), READY)?)
    }
}

/// Returns the devargs of an end of a memif. The name of its socket is abstract (unix(7)), so there
/// is no file to remove.
fn memif(number: u32, role: &str, wire: &str) -> String {
    let pid = std::process::id();
    format!(
        "net_memif{number},role={role},socket=millrace-bench-{pid}-{wire},\
         socket-abstract=yes,rsize=14"
    )
}

/// Returns two ports that are joined in memory.
pub(super) fn cable() -> String {
    [memif(0, "server", "cable"), memif(1, "client", "cable")].join(",")
}
