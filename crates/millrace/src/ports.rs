// SPDX-License-Identifier: BSD-3-Clause
//! Ports of the generator and of the reflector: one or two, opened and configured for workers.

use crate::config::{Devargs, MBUF_DATA_BYTES_MAX, PairError, split_pair};
use crate::host::{Cpus, Memory};
use crate::netdev::Interfaces;
use crate::output::tell;
use crate::placement::describe_placement;
use crate::start::start_eal;
use crate::twin;
use anyhow::bail;
use dpdk::{Eal, EalConfig, Lcore, Mempool, Port, PortConfig, Queues};
use std::io;

/// Packet buffers of a worker: its rings, bursts and caches. One less than a power of two.
const MBUFS: u32 = 16_383;
/// Bytes for a frame, at least: one of an Ethernet MTU.
const DATA_BYTES: u16 = 2048;
/// What DPDK takes beside the packet buffers.
const EAL_MB: u32 = 64;
const DESCRIPTORS: u16 = 1024;
/// Ethernet header, two VLAN tags and FCS.
const L2_BYTES: u32 = 14 + 2 * 4 + 4;

/// One port, or two, as the command line names them.
#[derive(Clone, Debug)]
pub(crate) struct PortNames(Vec<Devargs>);

/// Ports that are open, and the workers for them.
pub(crate) struct OpenPorts {
    pub(crate) eal: Eal,
    pub(crate) ports: Vec<Port>,
    pub(crate) queues: Vec<Queues>,
    pub(crate) lcores: Vec<Lcore>,
    pub(crate) mempool: Mempool,
    interfaces: Interfaces,
}

impl std::str::FromStr for PortNames {
    type Err = PairError;

    fn from_str(text: &str) -> Result<Self, PairError> {
        match split_pair(text) {
            Ok((a, b)) => Ok(Self(vec![a, b])),
            Err(PairError::One(one)) => Ok(Self(vec![Devargs::parse(&one)?])),
            Err(other) => Err(other),
        }
    }
}

impl PortNames {
    /// Number of ports.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Starts DPDK with so many workers, and opens the ports with a queue of each kind. Refuses
    /// Linux interfaces whose MTU is below `needed_mtu`.
    pub(crate) fn open(
        &self,
        workers: usize,
        mtu: Option<u16>,
        needed_mtu: usize,
    ) -> anyhow::Result<OpenPorts> {
        let cpus = Cpus::of_this_host();
        cpus.measure_load();
        let chosen: Vec<u32> = cpus.by_preference().into_iter().take(workers).collect();
        let mut config = EalConfig {
            lcores: chosen.iter().map(|cpu| *cpu as usize).collect(),
            ports: self.0.iter().map(ToString::to_string).collect(),
            ..EalConfig::default()
        };
        config.drivers.extend(twin::driver(&config.ports)?);
        let interfaces = Interfaces::prepare(self.0.iter().map(|port| (port, mtu)))?;
        self.refuse_small_mtu(&interfaces, needed_mtu)?;
        let needed_mtu = needed_mtu.max(mtu.unwrap_or(0).into());
        let data_bytes = self.data_bytes(&interfaces, needed_mtu)?;
        // Without hugepages a page of 4096 bytes holds parts of one buffer only.
        let pages = MBUFS * (u32::from(data_bytes) + 512).div_ceil(4096);
        config.memory_mb = EAL_MB + pages.div_ceil((1 << 20) / 4096);
        config.no_huge = Memory::free_hugepages_mb_of_this_host() < u64::from(config.memory_mb);
        let mut eal = start_eal(&config)?;
        for note in interfaces.notes() {
            tell(io::stderr(), format_args!("millrace: {note}"));
        }
        tell(io::stderr(), describe_placement(&chosen, &cpus));
        let lcores = eal.take_lcores();
        let mempool = Mempool::new(&eal, "frames", MBUFS, data_bytes, None)?;
        let (ports, queues) = (Vec::new(), Vec::new());
        let mut open = OpenPorts { eal, ports, queues, lcores, mempool, interfaces };
        for port in &self.0 {
            open.add(port, mtu)?;
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

    /// Bytes of a packet buffer: not every driver takes several buffers for one frame, and
    /// `net_af_packet` wants as much as its own frames have.
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

impl OpenPorts {
    fn add(&mut self, name: &Devargs, mtu: Option<u16>) -> anyhow::Result<()> {
        let mut port = Port::probe(&self.eal, &self.interfaces.devargs(name))?;
        self.interfaces.adopt(name, &mut port)?;
        let config = PortConfig {
            rx_queues: 1,
            tx_queues: 1,
            rxd: DESCRIPTORS,
            txd: DESCRIPTORS,
            mempools: vec![self.mempool],
            mtu: self.interfaces.mtu(name, mtu),
        };
        self.queues.push(port.configure(&config)?);
        self.ports.push(port);
        Ok(())
    }

    /// Restores Linux interfaces, and closes the ports.
    pub(crate) fn close(self) {
        drop(self.queues);
        drop(self.interfaces);
    }
}
