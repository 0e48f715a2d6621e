// SPDX-License-Identifier: BSD-3-Clause
//! Opens and configures the ports of the generator and the reflector: one or two.

pub(crate) mod by_mac;
mod links;
mod resolution;
mod tuning;

pub(crate) use links::LinkWatch;
pub(crate) use tuning::{BurstArgs, DescriptorArgs, Tuning};

use crate::cpu_locks;
use crate::netdev::Interfaces;
use crate::placement::describe_placement;
use crate::start::start_eal;
use crate::twin_driver;
use anyhow::bail;
use by_mac::MacError;
use config::{Devargs, MBUF_DATA_BYTES_MAX, PairError, split_pair};
use config::{companions_of, nodes_of};
use doctor::host::Memory;
use dpdk::{Eal, EalConfig, Lcore, Mempool, Port, PortConfig, Queues};
use report::output::write_line;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Packet buffers per worker, for its bursts and caches.
const MBUFS_OF_WORKER: u32 = 4096;
/// Least number of packet buffers of a run.
const MBUFS_LEAST: u32 = 8192;
/// Least size of a packet buffer in bytes: a frame of Ethernet MTU fits.
const DATA_BYTES: u16 = 2048;
/// Memory that DPDK needs beside the packet buffers, in MB.
const EAL_MB: u32 = 64;
/// Bytes of Ethernet header, two VLAN tags and FCS.
const L2_BYTES: u32 = 14 + 2 * 4 + 4;

/// Longest wait for the links of the ports to come up.
const LINK_TIME: Duration = Duration::from_secs(5);
/// Time between two checks of the links.
const LINK_POLL: Duration = Duration::from_millis(10);

/// How to open ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenOptions<'a> {
    /// Number of workers beside the control thread, each with its own cpu.
    pub(crate) workers: usize,
    /// Receive queues of each port.
    pub(crate) rx_queues: u16,
    /// Transmit queues of each port.
    pub(crate) tx_queues: u16,
    /// MTU to set; `None` keeps the port's.
    pub(crate) mtu: Option<u16>,
    /// Least MTU of a Linux interface; one with less is refused.
    pub(crate) needed_mtu: usize,
    /// True if ports must send frames at the times in their timestamps; others are refused.
    pub(crate) sends_on_time: bool,
    /// Settings that the user may choose, such as cpus and descriptors.
    pub(crate) tuning: &'a Tuning,
}

/// One or two ports, as the command line names them.
#[derive(Clone, Debug)]
pub(crate) struct PortNames(Vec<Devargs>);

/// Open ports, and the lcores of the workers.
pub(crate) struct OpenPorts {
    pub(crate) eal: Eal,
    pub(crate) ports: Vec<Port>,
    pub(crate) queues: Vec<Queues>,
    pub(crate) lcores: Vec<Lcore>,
    /// Cpus of the lcores.
    pub(crate) cpus: Vec<u32>,
    pub(crate) mempool: Mempool,
    interfaces: Interfaces,
}

/// Why a text does not name one or two ports.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PortNamesError {
    #[error(transparent)]
    Mac(#[from] MacError),
    #[error(transparent)]
    Pair(#[from] PairError),
}

impl std::str::FromStr for PortNames {
    type Err = PortNamesError;

    fn from_str(text: &str) -> Result<Self, PortNamesError> {
        match split_pair(&by_mac::resolve(text)?) {
            Ok((a, b)) => Ok(Self(vec![a, b])),
            Err(PairError::One(one)) => {
                Ok(Self(vec![Devargs::parse(&one).map_err(PairError::from)?]))
            }
            Err(other) => Err(other.into()),
        }
    }
}

impl PortNames {
    /// Creates a list of one or two ports.
    pub(crate) fn new(ports: Vec<Devargs>) -> Self {
        Self(ports)
    }

    /// Returns the names of the ports. Fails unless all are Linux interfaces.
    pub(crate) fn interfaces(&self) -> anyhow::Result<Vec<&str>> {
        if let Some(other) = self.0.iter().find(|port| !port.is_interface()) {
            bail!("port {other} is no Linux interface");
        }
        Ok(self.0.iter().filter_map(Devargs::interface).collect())
    }

    /// Returns the number of ports.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Starts DPDK and opens the ports.
    pub(crate) fn open(&self, options: &OpenOptions<'_>) -> anyhow::Result<OpenPorts> {
        let &OpenOptions { workers, mtu, needed_mtu, tuning, .. } = options;
        if self.0.iter().any(|port| port.is_interface() && port.interface() == Some("lo")) {
            bail!(
                "port lo: DPDK would cut off this host's own connections; instead use \
                 `gen --backend packet lo` to send, or `reflect --backend sockets PORT` to answer"
            );
        }
        let cpus = cpu_locks::cpus_of_this_host();
        cpus.measure_load();
        let nodes = nodes_of(&self.0);
        let chosen = tuning.choose_cpus(workers, &cpus, &nodes);
        // Locked before DPDK starts, which may take long: an instance that starts now chooses other
        // cpus.
        cpu_locks::lock_until_exit(&chosen);
        let mut config = EalConfig {
            lcores: chosen.iter().map(|cpu| *cpu as usize).collect(),
            ports: self.0.iter().map(ToString::to_string).collect(),
            companions: companions_of(&self.0),
            file_prefix: tuning.file_prefix.clone(),
            ..EalConfig::default()
        };
        config.drivers.extend(twin_driver::require(&config.ports)?);
        let interfaces = Interfaces::prepare(self.0.iter().map(|port| (port, mtu)))?;
        self.refuse_small_mtu(&interfaces, needed_mtu)?;
        let needed_mtu = needed_mtu.max(mtu.unwrap_or(0).into());
        let data_bytes = self.data_bytes(&interfaces, needed_mtu)?;
        // Without hugepages, a page of 4096 bytes holds parts of one buffer only.
        let mbufs = options.mbufs(self.count());
        let pages = mbufs * (u32::from(data_bytes) + 512).div_ceil(4096);
        config.memory_mb = EAL_MB + pages.div_ceil((1 << 20) / 4096);
        config.no_huge = Memory::free_hugepages_mb_of_this_host() < u64::from(config.memory_mb);
        let mut eal = start_eal(&config)?;
        for note in interfaces.notes() {
            write_line(io::stderr(), format_args!("millrace: {note}"));
        }
        write_line(io::stderr(), describe_placement(&chosen, &cpus, &nodes));
        let lcores = eal.take_lcores();
        let mempool = Mempool::new(&eal, "frames", mbufs, data_bytes, None)?;
        let (ports, queues) = (Vec::new(), Vec::new());
        let mut open = OpenPorts { eal, ports, queues, lcores, cpus: chosen, mempool, interfaces };
        for port in &self.0 {
            open.add(port, options)?;
        }
        open.interfaces.connect()?;
        Ok(open)
    }
}

impl PortNames {
    fn refuse_small_mtu(&self, interfaces: &Interfaces, needed: usize) -> anyhow::Result<()> {
        for port in &self.0 {
            match interfaces.interface_mtu(port) {
                Some(mtu) if (mtu as usize) < needed => bail!(
                    "port {port}: frames need an MTU of {needed}, and it has {mtu}: --mtu {needed}"
                ),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the size of a packet buffer in bytes, so that each frame fits into one buffer. Not
    /// every driver can use several, and `net_af_packet` needs buffers as large as its own frames.
    fn data_bytes(&self, interfaces: &Interfaces, needed_mtu: usize) -> anyhow::Result<u16> {
        let of_ports = self.0.iter().map(|port| {
            let mtu = interfaces.interface_mtu(port).unwrap_or(0);
            let ring = match port.is_interface() {
                true => Devargs::af_packet_frame(mtu),
                false => port.ring_frame().unwrap_or(0),
            };
            ring.max(mtu + L2_BYTES) as usize
        });
        let most = of_ports.fold(needed_mtu + L2_BYTES as usize, usize::max);
        let bytes = most.next_multiple_of(64).max(DATA_BYTES.into());
        match u16::try_from(bytes).ok().filter(|bytes| *bytes <= MBUF_DATA_BYTES_MAX) {
            Some(bytes) => Ok(bytes),
            None => bail!("frames of {most} bytes: packet buffers have {MBUF_DATA_BYTES_MAX}"),
        }
    }
}

impl OpenOptions<'_> {
    /// Returns the number of packet buffers for all rings and workers; one less than a power of
    /// two.
    fn mbufs(&self, ports: usize) -> u32 {
        let rx = u32::from(self.rx_queues) * u32::from(self.tuning.rx_descriptors());
        let tx = u32::from(self.tx_queues) * u32::from(self.tuning.tx_descriptors());
        let count = (rx + tx) * ports as u32 + self.workers as u32 * MBUFS_OF_WORKER;
        count.max(MBUFS_LEAST).next_power_of_two() - 1
    }
}

impl OpenPorts {
    /// Waits until the links of all ports are up; prints those that stay down.
    pub(crate) fn wait_for_links(&self, interrupted: &AtomicBool) {
        let begun = Instant::now();
        let is_down = |port: &&Port| !port.link().up;
        while self.ports.iter().any(|port| is_down(&port)) && !interrupted.load(Relaxed) {
            if begun.elapsed() > LINK_TIME {
                for port in self.ports.iter().filter(is_down) {
                    let name = &port.info().devargs;
                    write_line(
                        io::stderr(),
                        format_args!("millrace: port {name}: the link is down"),
                    );
                }
                return;
            }
            std::thread::sleep(LINK_POLL);
        }
    }

    fn add(&mut self, name: &Devargs, options: &OpenOptions<'_>) -> anyhow::Result<()> {
        let mut port = Port::probe(&self.eal, &self.interfaces.devargs(name))?;
        self.interfaces.adopt(name, &mut port)?;
        if options.sends_on_time && !port.info().can_send_on_time {
            bail!("--send-on-time: port {name} cannot send packets at given times; leave it out");
        }
        let wanted = (options.rx_queues, options.tx_queues);
        let (rx_queues, tx_queues) = self.interfaces.queues(name, wanted)?;
        let config = PortConfig {
            rx_queues,
            tx_queues,
            rxd: options.tuning.rx_descriptors(),
            txd: options.tuning.tx_descriptors(),
            mempools: vec![self.mempool],
            mtu: self.interfaces.mtu(name, options.mtu),
            is_endpoint: true,
            sends_on_time: options.sends_on_time,
        };
        self.queues.push(port.configure(&config)?);
        self.ports.push(port);
        Ok(())
    }

    /// Restores Linux interfaces and closes the ports.
    pub(crate) fn close(self) {
        drop(self.queues);
        drop(self.interfaces);
    }
}
