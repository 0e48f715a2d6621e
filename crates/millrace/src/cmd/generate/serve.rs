// SPDX-License-Identifier: BSD-3-Clause
//! Implements `millrace gen --daemon`: a daemon that generates connections as its clients ask.

use super::metrics;
use super::stateful::StatefulArgs;
use crate::cmd::in_process_tester::{EndArgs, InProcess, WorkerArgs};
use crate::ports::PortNames;
use crate::signals;
use crate::tester::{Daemon, SimulatedDevice};
use anyhow::{Context, bail};
use report::output::write_line;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Port by default, as of TRex's daemon.
const PORT: &str = "4501";

/// Options of the daemon.
#[derive(clap::Args)]
pub(super) struct ServeArgs {
    /// Generate connections as clients at ADDRESS ask: PORT, on loopback, or IP:PORT
    ///
    /// Without ADDRESS, port 4501 on loopback. Clients, such as `millrace bench cps --server HOST`,
    /// send one JSON object per line over TCP, in the form of JSON-RPC 2.0 or a shorter one: start,
    /// update, stop, stats or clear. With --stateful, they may start that profile. The methods of
    /// TRex are not there. Port 0 means any free port. There is no access control. Ctrl-C ends the
    /// daemon.
    #[arg(long = "daemon", alias = "serve", value_name = "ADDRESS", num_args = 0..=1,
          default_missing_value = PORT, value_parser = metrics::address, conflicts_with_all = [
        "streams", "rate", "send_on_time", "profile", "backend", "verify", "reflector", "stats",
        "payload", "duration", "ramp", "receivers", "json", "metrics",
        "live", "html", "csv", "pcapng", "interval", "selftest", "late",
        "ends", "impair", "mtu", "seed", "rx_descriptors", "tx_descriptors", "rx_burst", "tx_burst",
        "trex_cfg",
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
    stateful: &StatefulArgs,
) -> anyhow::Result<ExitCode> {
    let profile = stateful.profile_of_daemon()?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let in_process = match (args.simulate, ports) {
        (Some(device), _) => InProcess::Simulated(device),
        (None, Some((ports, workers))) => InProcess::Ports(ports, workers),
        (None, None) => bail!("--daemon needs PORTS"),
    };
    let mut daemon = Daemon::listen(address)
        .with_context(|| format!("--daemon {address}: cannot listen there"))?;
    if let Some(capacity) = stateful.given_capacity() {
        daemon.allow(capacity);
    }
    if let Some(profile) = profile {
        daemon.offer(profile);
    }
    let mut tester = in_process.open(&interrupted)?;
    let text = format!("millrace: the generator listens at {}", daemon.address());
    write_line(io::stderr(), text);
    daemon.serve(&mut *tester, &interrupted)?;
    Ok(ExitCode::SUCCESS)
}
