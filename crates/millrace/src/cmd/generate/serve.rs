// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace gen --serve`: a daemon that generates connections as its clients ask.

use super::metrics;
use crate::cmd::in_process_tester::{EndArgs, InProcess, WorkerArgs};
use crate::ports::PortNames;
use crate::signals;
use crate::tester::{Daemon, SimulatedDevice};
use anyhow::{Context, bail};
use report::output::write_line;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Options of the daemon.
#[derive(clap::Args)]
pub(super) struct ServeArgs {
    /// Generate connections as clients at ADDRESS ask: PORT, on loopback, or IP:PORT
    ///
    /// Clients, such as `millrace bench cps --server HOST`, send one JSON object per line over TCP:
    /// start, update, stop, stats or clear. The JSON-RPC of TRex is not spoken. Port 0 means any
    /// free port. There is no access control. Ctrl-C ends the daemon.
    #[arg(long, value_name = "ADDRESS", value_parser = metrics::address, conflicts_with_all = [
        "streams", "rate", "send_on_time", "profile", "backend", "verify", "reflector", "stats",
        "payload", "duration", "ramp", "receivers", "json", "metrics",
        "live", "html", "csv", "pcapng", "interval", "selftest", "late", "stateful",
    ])]
    serve: Option<SocketAddr>,
    #[command(flatten)]
    ends: EndArgs,
    /// Serve a simulated device, in simulated time, instead of ports
    #[arg(long, hide = true, value_name = "DEVICE", conflicts_with = "ports", requires = "serve")]
    simulate: Option<SimulatedDevice>,
}

impl ServeArgs {
    /// Returns the address of the daemon, if there is to be one.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.serve
    }

    /// Returns the addresses and queues of both ends.
    pub(super) fn ends(&self) -> EndArgs {
        self.ends
    }
}

/// Serves until a signal comes.
pub(super) fn run(
    address: SocketAddr,
    args: &ServeArgs,
    ports: Option<(&PortNames, &WorkerArgs)>,
) -> anyhow::Result<ExitCode> {
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let in_process = match (args.simulate, ports) {
        (Some(device), _) => InProcess::Simulated(device),
        (None, Some((ports, workers))) => InProcess::Ports(ports, workers),
        (None, None) => bail!("--serve needs PORTS"),
    };
    let daemon = Daemon::listen(address)
        .with_context(|| format!("--serve {address}: cannot listen there"))?;
    let mut tester = in_process.open(&interrupted)?;
    let text = format!("millrace: the generator listens at {}", daemon.address());
    write_line(io::stderr(), text);
    daemon.serve(&mut *tester, &interrupted)?;
    Ok(ExitCode::SUCCESS)
}
