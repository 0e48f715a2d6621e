// SPDX-License-Identifier: BSD-3-Clause
//! Starts `millrace gen --daemon` as another process, which ends with this one. DPDK starts once in
//! a process, so each set of ports needs a process of its own.

use super::testbed::{Running, end_with_us, this_program};
use crate::tester::RemoteTester;
use anyhow::Context;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::BufReader;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command};
use std::time::Duration;

/// Longest time until a device or a generator answers: it takes all of its memory before.
pub(super) const READY: Duration = Duration::from_secs(60);
/// What the daemon prints before its address.
const LISTENS: &str = "millrace: the generator listens at ";

/// Where the generator's ports are.
pub(super) struct Wiring {
    /// Ports A and B.
    ports: String,
    /// Queues that connections are spread over, and queues to receive from, at each port.
    tx_queues: u32,
    rx_queues: u32,
    /// File of the network namespace of the ports; `None` is that of this process.
    namespace: Option<PathBuf>,
}

impl Wiring {
    /// Both ports are joined by one memif.
    pub(super) fn cable() -> Self {
        let wire = abstract_socket("cable");
        Self::ports(&format!("{},{}", memif(0, "server", &wire), memif(1, "client", &wire)))
    }

    /// A device is at the other ends of two memifs with these sockets. It receives from `tx_queues`
    /// queues, and sends to `rx_queues`.
    pub(super) fn memif([a, b]: &[String; 2], [tx_queues, rx_queues]: [u32; 2]) -> Self {
        let ports = format!("{},{}", memif(0, "client", a), memif(1, "client", b));
        Self { tx_queues, rx_queues, ..Self::ports(&ports) }
    }

    /// Ports in the network namespace with this file.
    pub(super) fn inside(ports: &str, namespace: PathBuf) -> Self {
        Self { namespace: Some(namespace), ..Self::ports(ports) }
    }

    /// Ports with a queue in each direction.
    pub(super) fn ports(ports: &str) -> Self {
        Self { ports: ports.to_owned(), tx_queues: 1, rx_queues: 1, namespace: None }
    }
}

/// Returns devargs for a socket with an abstract name (unix(7)): there is no file to remove.
/// Both ends must be in one network namespace.
pub(super) fn abstract_socket(wire: &str) -> String {
    format!("socket=millrace-bench-{}-{wire},socket-abstract=yes", std::process::id())
}

/// Returns devargs for a socket that is a file.
pub(super) fn file_socket(path: &Path) -> String {
    format!("socket={},socket-abstract=no", path.display())
}

/// Returns the devargs of an end of a memif.
pub(super) fn memif(number: u32, role: &str, socket: &str) -> String {
    format!("net_memif{number},role={role},{socket},rsize=14")
}

/// Returns a command that runs `program` in a network namespace, and ends with this process.
pub(super) fn inside(namespace: &Path, program: &Path) -> anyhow::Result<Command> {
    let mut command = end_with_us("nsenter")?;
    command.arg(format!("--net={}", namespace.display())).arg("--").arg(program);
    Ok(command)
}

/// A running daemon. Dropping the value ends it.
pub(super) struct ServingGenerator {
    /// The daemon writes to it.
    _stderr: BufReader<ChildStderr>,
    _process: Running,
    address: SocketAddr,
    namespace: Option<PathBuf>,
}

impl ServingGenerator {
    /// Starts the daemon with options of `millrace gen`.
    pub(super) fn start(wiring: &Wiring, options: &[String]) -> anyhow::Result<Self> {
        let program = this_program()?;
        let mut command = match &wiring.namespace {
            None => end_with_us(program)?,
            Some(namespace) => inside(namespace, &program)?,
        };
        command.arg("gen").arg(&wiring.ports).args(options).args(["--daemon", "0"]);
        for (option, count) in
            [("--tx-queues", wiring.tx_queues), ("--rx-queues", wiring.rx_queues)]
        {
            // The option excludes others, such as `--senders`.
            if count > 1 {
                command.args([option, &count.to_string()]);
            }
        }
        let mut process = Running::start(&mut command)?;
        let (address, stderr) = process.wait_for_line(LISTENS)?;
        let address = address.parse().context("the generator names no address")?;
        let namespace = wiring.namespace.clone();
        Ok(Self { _stderr: stderr, _process: process, address, namespace })
    }

    /// Returns a tester that drives the daemon.
    pub(super) fn tester(&self) -> anyhow::Result<RemoteTester> {
        let connect = || {
            let host = self.address.ip().to_string();
            Ok(RemoteTester::connect(&host, self.address.port(), READY)?)
        };
        let Some(namespace) = &self.namespace else { return connect() };
        // A socket stays in the namespace of the thread that has made it.
        let connect_inside = || {
            let file = File::open(namespace).context("the network namespace has gone")?;
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .context("cannot enter the network namespace")?;
            connect()
        };
        let joined = std::thread::scope(|scope| scope.spawn(connect_inside).join());
        joined.expect("a panic ends this process")
    }
}
