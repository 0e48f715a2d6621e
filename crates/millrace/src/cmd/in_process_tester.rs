// SPDX-License-Identifier: BSD-3-Clause
//! Opens the tester of this process: the stateful generator on these ports, or a simulated device.

use crate::connections::{Ends, SessionOptions, TaskQueues};
use crate::ports::{BurstArgs, PortNames, Tuning};
use crate::tester::{
    CAPACITY, GeneratorTester, Load, SimulatedDevice, SimulatedTester, Tester, TesterError,
    profile_of,
};
use doctor::host::CpuList;
use stateful::AddressRange;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Options of workers, ports and addresses.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    /// Run clients and servers on N cpus; by default one for each while free cpus remain
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=128))]
    workers: Option<u8>,
    /// Divide each end among N tasks, each with a queue of its port; by default 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    senders: Option<u16>,
    /// Run clients and servers on these cpus, such as 2,4-6, clients first
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Send through a router: resolve the MAC address of this next hop by ARP or neighbour
    /// discovery
    ///
    /// ADDRESS is the next hop of port A, ADDRESS,ADDRESS those of both ports. By default, each
    /// port sends to the MAC address of the other one.
    #[arg(long = "gateway", value_name = "ADDRESS", value_delimiter = ',')]
    gateways: Vec<IpAddr>,
    #[command(flatten)]
    ends: EndArgs,
}

/// Addresses of clients and servers, and queues of their ports.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct EndArgs {
    /// Addresses of clients: FIRST-LAST, or one; by default 16.0.0.0-16.0.255.255
    #[arg(long, value_name = "FIRST-LAST", value_parser = AddressRange::parse)]
    clients: Option<AddressRange>,
    /// Addresses of servers; by default 48.0.0.0-48.0.0.255
    #[arg(long, value_name = "FIRST-LAST", value_parser = AddressRange::parse)]
    servers: Option<AddressRange>,
    /// Receive from N queues of each port: as many as the device sends to, over memif
    #[arg(long, value_name = "N", conflicts_with = "senders",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    rx_queues: Option<u16>,
    /// Spread connections over N transmit queues of each port: as many as the device receives from
    #[arg(long, value_name = "N", conflicts_with = "senders",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    tx_queues: Option<u16>,
}

impl EndArgs {
    pub(crate) fn is_given(self) -> bool {
        self.clients.or(self.servers).is_some() || self.rx_queues.or(self.tx_queues).is_some()
    }

    /// Returns the addresses of clients and of servers; by default those of cps_ndr.py.
    fn addresses(self) -> [AddressRange; 2] {
        [
            self.clients.unwrap_or(AddressRange::new([16, 0, 0, 0].into(), 1 << 16)),
            self.servers.unwrap_or(AddressRange::new([48, 0, 0, 0].into(), 1 << 8)),
        ]
    }

    fn queues(self) -> TaskQueues {
        TaskQueues { rx: self.rx_queues.unwrap_or(1), tx: self.tx_queues.unwrap_or(1) }
    }
}

impl WorkerArgs {
    /// Returns the options of `gen` in this form.
    pub(crate) fn new(
        (workers, senders): (Option<u8>, Option<u16>),
        cpus: Option<CpuList>,
        gateways: Vec<IpAddr>,
        ends: EndArgs,
    ) -> Self {
        Self { workers, senders, cpus, gateways, ends }
    }

    /// True if the command line has any of these options.
    pub(crate) fn is_given(&self) -> bool {
        self.workers.is_some()
            || self.senders.is_some()
            || self.cpus.is_some()
            || !self.gateways.is_empty()
            || self.ends.is_given()
    }
}

/// A tester of this process.
#[derive(Clone, Debug)]
pub(crate) enum InProcess<'a> {
    /// Clients on the first port and servers on the second.
    Ports(&'a PortNames, &'a WorkerArgs),
    /// No port: nothing is sent.
    Simulated(SimulatedDevice),
}

impl InProcess<'_> {
    /// Opens the tester. With ports, this starts DPDK.
    pub(crate) fn open(&self, interrupted: &AtomicBool) -> Result<Box<dyn Tester>, TesterError> {
        match self {
            Self::Ports(names, workers) => open_generator(names, workers, interrupted),
            Self::Simulated(device) => Ok(Box::new(SimulatedTester::new(*device))),
        }
    }
}

/// Opens the stateful generator on these ports.
fn open_generator(
    names: &PortNames,
    workers: &WorkerArgs,
    interrupted: &AtomicBool,
) -> Result<Box<dyn Tester>, TesterError> {
    let tuning =
        Tuning { cpus: workers.cpus.clone().map(|CpuList(cpus)| cpus), ..Tuning::default() };
    let load = Load::of_rate(1.0);
    let options = SessionOptions {
        profile: Arc::new(profile_of(&load, workers.ends.addresses())?),
        ends: Ends::Both,
        capacity: CAPACITY,
        next_hops: [None; 2],
        gateways: &workers.gateways,
        tasks: workers.senders.unwrap_or(1),
        queues: workers.ends.queues(),
        workers: workers.workers.map(usize::from),
        tuning: &tuning,
        mtu: None,
        bursts: BurstArgs::default().sizes(),
        interval: Duration::from_secs(1),
        seed: 1,
        bad_link: None,
    };
    Ok(Box::new(GeneratorTester::open(names, &options, load, interrupted)?))
}
