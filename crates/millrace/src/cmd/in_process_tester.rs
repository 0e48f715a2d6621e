// SPDX-License-Identifier: BSD-3-Clause
//! Opens the tester of this process: the stateful generator on these ports, or a simulated device.

use crate::connections::{Ends, SessionOptions, TaskQueues};
use crate::ports::{BurstArgs, PortNames, Tuning};
use crate::tester::{
    GeneratorTester, Load, SimulatedDevice, SimulatedTester, Tester, TesterError, profile_of,
};
use doctor::host::CpuList;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Connections of each end at a time, unless the load has a limit of its own.
const CAPACITY: u32 = 4_000_000;

/// Options of workers and ports.
#[derive(Clone, Debug, Default, clap::Args)]
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
    #[command(flatten)]
    queues: QueueArgs,
}

/// Numbers of queues; by default one in each direction.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct QueueArgs {
    /// Receive from N queues of each port: as many as the device sends to, over memif
    #[arg(long, value_name = "N", conflicts_with = "senders",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    rx_queues: Option<u16>,
    /// Spread connections over N transmit queues of each port: as many as the device receives from
    #[arg(long, value_name = "N", conflicts_with = "senders",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    tx_queues: Option<u16>,
}

impl QueueArgs {
    pub(crate) fn is_given(self) -> bool {
        self.rx_queues.or(self.tx_queues).is_some()
    }

    fn counts(self) -> TaskQueues {
        TaskQueues { rx: self.rx_queues.unwrap_or(1), tx: self.tx_queues.unwrap_or(1) }
    }
}

impl WorkerArgs {
    /// Returns the options of `gen` in this form.
    pub(crate) fn new(
        workers: Option<u8>,
        senders: Option<u16>,
        cpus: Option<CpuList>,
        queues: QueueArgs,
    ) -> Self {
        Self { workers, senders, cpus, queues }
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
        profile: Arc::new(profile_of(&load)),
        ends: Ends::Both,
        capacity: CAPACITY,
        next_hops: [None; 2],
        gateways: &[],
        tasks: workers.senders.unwrap_or(1),
        queues: workers.queues.counts(),
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
