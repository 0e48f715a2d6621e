// SPDX-License-Identifier: BSD-3-Clause
//! Manages Ethernet ports: opened by devargs, configured once, reset if the driver requests it, and
//! closed when the port and its last queue are dropped.

use crate::eal::is_pci;
use crate::error::{Errno, PortError, Step};
use crate::ethdev::{Ethdev, KeepAlive};
use crate::flow::{self, FlowError, IndirectAction, LiveRules, RuleTables};
use crate::{
    Eal, Mempool, PortSpread, RxQueue, SymmetricRss, TxQueue, cause, length_errors, log, memif,
    parameters, probe, spread,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// An open port. Its queues may be on other threads; the port itself has one user.
pub struct Port {
    pub(crate) open: Arc<Ethdev>,
    /// Flow rules of the port.
    pub(crate) rules: LiveRules,
    /// Its indirect actions.
    pub(crate) indirect: HashMap<IndirectAction, u32>,
    /// Tables of rules by templates.
    pub(crate) tables: RuleTables,
    /// Requested size of the flow queue, in operations.
    pub(crate) flow_operations: u32,
    /// Size of the flow queue in operations; the error if there is none.
    pub(crate) flow_queue: Result<u32, FlowError>,
    info: PortInfo,
    config: Option<PortConfig>,
    asked_for_marks: bool,
    /// Numbers of receive and transmit queues that exist.
    queues: [u16; 2],
    /// Number of successful resets.
    times_reset: u64,
    /// The counters before the last reset.
    stats_before: PortStats,
    /// Counts frames lost between the port and the Linux interface that it represents.
    losses: Option<LossCounter>,
    _one_user: PhantomData<Cell<()>>,
}

/// Properties of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Devargs with which the port was opened.
    pub devargs: String,
    /// Name of its driver.
    pub driver: String,
    /// MAC address.
    pub mac: [u8; 6],
    /// Bytes of payload that an Ethernet frame may carry.
    pub mtu: u16,
    /// NUMA node, if known.
    pub socket_id: Option<u32>,
    /// Maximum number of receive queues.
    pub max_rx_queues: u16,
    /// Maximum number of transmit queues.
    pub max_tx_queues: u16,
    /// True if the port can send each frame at the time that the frame carries:
    /// [`PortConfig::sends_on_time`].
    pub can_send_on_time: bool,
    /// How packets are spread over the receive queues; `None` until the port is configured.
    pub rss: SymmetricRss,
}

/// Configuration of a port.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Number of receive queues. With more than one, both directions of a connection arrive at one
    /// queue if the port supports that; [`PortInfo::rss`] has the kind.
    pub rx_queues: u16,
    /// Number of transmit queues.
    pub tx_queues: u16,
    /// Descriptors of each receive queue, clamped to the limits of the port.
    pub rxd: u16,
    /// Descriptors of each transmit queue, clamped to the limits of the port.
    pub txd: u16,
    /// Pools for received packets: queue `q` uses `mempools[q % len]`.
    pub mempools: Vec<Mempool>,
    /// Bytes of payload that a frame may carry; `None` leaves the MTU unchanged. Ports without a
    /// limit accept any.
    pub mtu: Option<u16>,
    /// True if the program sends and receives frames here, but does not forward them. Such a port
    /// verifies no checksums, and sends chains of mbufs only if it may receive them: NICs are
    /// faster without both.
    pub is_endpoint: bool,
    /// True if the port sends frames that carry a [`SendTime`](crate::SendTime) at that time, and
    /// the others at once, in their order. Configuring a port that cannot do so fails.
    pub sends_on_time: bool,
}

/// Frames lost between a port and the interface that it represents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Frames lost on their way to the port.
    pub missed: u64,
    /// Frames lost after the port has sent them.
    pub unsent: u64,
}

/// Returns the losses; the argument is the number of frames that the port has received.
pub type LossCounter = Box<dyn Fn(u64) -> Losses + Send>;

/// The port's own counters since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub ipackets: u64,
    /// Packets sent.
    pub opackets: u64,
    /// Bytes received, without FCS.
    pub ibytes: u64,
    /// Bytes sent, without FCS.
    pub obytes: u64,
    /// Packets lost because no receive descriptor was free.
    pub imissed: u64,
    /// Packets received with an error.
    pub ierrors: u64,
    /// Packets that could not be sent. For a Linux interface, this includes packets that count as
    /// sent, because the kernel took them, but that did not reach the interface.
    pub oerrors: u64,
    /// Number of times that there was no mbuf for a received packet.
    pub rx_nombuf: u64,
}

/// All queues of a port.
pub type Queues = (Vec<RxQueue>, Vec<TxQueue>);

/// State of a port's resets, for any thread.
#[derive(Clone, Debug)]
pub struct Resets(Arc<Ethdev>);

impl Resets {
    /// True from the driver's request for a reset until the reset is done; false for a device that
    /// is gone.
    pub fn is_needed(&self) -> bool {
        self.0.needs_reset() && !self.0.removed()
    }

    /// True if the kernel waits for the return of the device: it is being unplugged, or bound to
    /// another driver. [`Port::give_back`] returns it.
    pub fn is_asked_back(&self) -> bool {
        self.0.is_asked_back()
    }

    /// Returns the number of resets begun.
    pub fn begun(&self) -> u64 {
        self.0.resets()
    }

    /// True from the start of a reset until the port is started again. Until then, the only call
    /// allowed is another reset.
    pub fn is_down(&self) -> bool {
        self.0.is_down()
    }
}

/// State of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Packets can pass.
    pub up: bool,
    /// Megabits per second, if the driver knows them.
    pub speed_mbps: Option<u32>,
}

impl Port {
    /// Opens the port that `devargs` names: a PCI address among [`crate::EalConfig::ports`], or a
    /// virtual device with its parameters, such as `net_af_packet0,iface=eth1`.
    pub fn probe(eal: &Eal, devargs: &str) -> Result<Self, PortError> {
        memif::remove_stale_socket(devargs);
        let (result, log) = log::capture(|| probe::find_or_probe(devargs));
        let port = devargs.to_owned();
        // EAL logs the first text if no bus knows the name, the second after a driver has tried.
        let was_tried = match probe::is_too_long_to_probe(devargs) {
            true => !log.mentions("failed to parse device"),
            false => log.mentions("cannot attach"),
        };
        let errno = match result {
            Ok(id) => return Self::take(eal, id, devargs, None)?.with_read_arguments(),
            Err(errno) => errno,
        };
        let cause = cause::of(devargs, &log);
        if !was_tried || errno == Errno::NotSupported {
            return Err(PortError::NoDriver { port, log, cause });
        }
        // These lines only repeat that EAL failed, or are about several processes.
        let log = log.without(&["cannot attach", "Failed to attach", "mp action callback"]);
        let parameters = parameters::of(devargs);
        Err(PortError::Probe { port, errno, log, cause, parameters })
    }

    /// Refuses arguments that the driver of the port does not read.
    fn with_read_arguments(self) -> Result<Self, PortError> {
        let PortInfo { devargs: port, driver, .. } = &self.info;
        match port.split_once(',') {
            Some((_, arguments)) if is_pci(port) && parameters::reads_none(driver) => {
                let [port, driver, arguments] =
                    [port.as_str(), driver, arguments].map(str::to_owned);
                Err(PortError::UnreadArguments { port, driver, arguments })
            }
            _ => Ok(self),
        }
    }

    /// Takes ownership of the port with number `id`, and of `lower`, which must outlive it.
    pub(crate) fn take(
        _eal: &Eal,
        id: u16,
        devargs: &str,
        lower: Option<KeepAlive>,
    ) -> Result<Self, PortError> {
        let in_use = |_| PortError::InUse { port: devargs.to_owned() };
        let open = Ethdev::own(id, devargs, lower).map_err(in_use)?;
        let info = open.describe(devargs).map_err(|errno| fail(devargs, Step::Info, errno))?;
        Ok(Self {
            open,
            rules: LiveRules::new(),
            indirect: HashMap::new(),
            tables: RuleTables::default(),
            flow_operations: 0,
            flow_queue: Err(flow::no_queue()),
            info,
            config: None,
            asked_for_marks: false,
            queues: [0; 2],
            times_reset: 0,
            stats_before: PortStats::default(),
            losses: None,
            _one_user: PhantomData,
        })
    }

    /// Makes the port represent a Linux interface. The port takes the interface's name and link
    /// state, and `losses` counts frames lost between both.
    ///
    /// # Panics
    /// If the port is configured.
    pub fn stand_for(&mut self, interface: &str, if_index: u32, losses: LossCounter) {
        let open = Arc::get_mut(&mut self.open).expect("a port without queues");
        open.set_interface(if_index);
        self.info.devargs = interface.to_owned();
        self.losses = Some(losses);
    }

    /// True if the port represents a Linux interface.
    pub fn stands_for_interface(&self) -> bool {
        self.losses.is_some()
    }

    /// Returns DPDK's number of the port, by which flow rules name it.
    pub fn id(&self) -> u16 {
        self.open.id()
    }

    /// Returns the properties of the port.
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Sets queues, offloads and MTU, starts the port, and lets it receive frames of any
    /// destination.
    ///
    /// # Panics
    /// If called twice, or with receive queues and no mempool.
    pub fn configure(&mut self, config: &PortConfig) -> Result<Queues, PortError> {
        assert!(self.config.is_none(), "a port is configured once");
        self.config = Some(config.clone());
        assert!(config.rx_queues == 0 || !config.mempools.is_empty(), "packets need a mempool");
        self.check_queues("receive", self.info.max_rx_queues, config.rx_queues)?;
        self.check_queues("transmit", self.info.max_tx_queues, config.tx_queues)?;
        self.start(config)
    }

    /// Sets up and starts a port that is new or was reset.
    fn start(&mut self, config: &PortConfig) -> Result<Queues, PortError> {
        let (result, log) = log::capture(|| {
            let rss = self.open.set_up(config)?;
            self.flow_queue = self.set_up_flow_queue();
            self.open.start()?;
            Ok(rss)
        });
        self.info.rss = result.map_err(|(step, errno)| PortError::Configure {
            port: self.info.devargs.clone(),
            step,
            errno,
            log,
        })?;
        self.queues = [config.rx_queues, config.tx_queues];
        let open = &self.open;
        // SAFETY: the port is started with these queues, and no others of it are left.
        let rx = (0..config.rx_queues).map(|queue| unsafe { RxQueue::new(open, queue) }).collect();
        // SAFETY: as above.
        let tx = (0..config.tx_queues).map(|queue| unsafe { TxQueue::new(open, queue) }).collect();
        Ok((rx, tx))
    }

    /// Returns the RSS key and table of the port. `None` if RSS is not symmetric, or the driver
    /// does not report it.
    pub fn spread(&self) -> Option<PortSpread> {
        let is_symmetric = self.info.rss != SymmetricRss::None;
        is_symmetric.then(|| spread::of(self.id()).ok()).flatten()
    }

    /// Returns a handle on the state of the port's resets.
    pub fn resets(&self) -> Resets {
        Resets(Arc::clone(&self.open))
    }

    /// Resets the port, which its driver requests after errors of the device, and starts it again
    /// with the same configuration. `queues` are all queues of the port; after a failed reset there
    /// are none, and the only possible call is another reset. The flow rules of the port no longer
    /// exist. Its counters may restart.
    ///
    /// # Panics
    /// If a queue is missing, or the port was never configured.
    pub fn reset(&mut self, queues: Queues) -> Result<Queues, PortError> {
        let config = self.config.clone().expect("the port was never configured");
        self.assert_all(&queues.0, &queues.1);
        drop(queues);
        self.queues = [0; 2];
        self.stats_before = self.stats();
        self.rules = LiveRules::new();
        self.indirect.clear();
        // The driver frees templates, tables and their rules.
        self.tables = RuleTables::default();
        self.flow_queue = Err(flow::no_queue());
        let (result, log) = log::capture(|| self.open.reset());
        result.map_err(|errno| {
            let port = self.info.devargs.clone();
            PortError::Configure { port, step: Step::Reset, errno, log }
        })?;
        if self.asked_for_marks {
            // If the driver refuses, it has kept the earlier setting.
            log::hush(|| _ = self.open.negotiate_marks());
        }
        let queues = self.start(&config)?;
        self.times_reset += 1;
        Ok(queues)
    }

    /// Closes the port and returns its device to the kernel, which has asked for it
    /// ([`Resets::is_asked_back`]). `queues` are all queues of the port; there are none any more.
    /// For everyone else the port stays down, with its last counters.
    ///
    /// # Panics
    /// If a queue is missing.
    pub fn give_back(&mut self, queues: Queues) {
        self.assert_all(&queues.0, &queues.1);
        drop(queues);
        self.queues = [0; 2];
        self.stats_before = self.stats();
        self.rules = LiveRules::new();
        self.tables = RuleTables::default();
        self.flow_queue = Err(flow::no_queue());
        self.indirect.clear();
        self.open.give_back();
    }

    /// Returns the number of successful resets.
    pub fn times_reset(&self) -> u64 {
        self.times_reset
    }

    /// Returns the time of the port's clock in ticks, whose rate depends on the device.
    pub fn read_clock(&self) -> Result<u64, Errno> {
        self.open.read_clock()
    }

    /// Returns the driver's description of the device's firmware, if any.
    pub fn firmware(&self) -> Option<String> {
        self.open.firmware()
    }

    /// Requests that the driver delivers marks and flags of flow rules with packets. Some drivers
    /// need this before [`Port::configure`]; most deliver them anyway.
    pub fn negotiate_marks(&mut self) -> Result<(), Errno> {
        self.asked_for_marks = true;
        self.open.negotiate_marks()
    }

    /// Stops the port, or starts it again. `queues` are all its queues, so that no thread uses one.
    /// With some drivers, the flow rules of the port no longer exist afterwards, and must not be
    /// used.
    ///
    /// # Panics
    /// If a queue is missing.
    pub fn set_started(
        &mut self,
        is_started: bool,
        queues: (&mut [RxQueue], &mut [TxQueue]),
    ) -> Result<(), Errno> {
        self.assert_all(queues.0, queues.1);
        if !is_started {
            self.tables.forget_rules();
        }
        self.open.set_started(is_started)
    }

    fn assert_all(&self, rx: &[RxQueue], tx: &[TxQueue]) {
        let rx = rx.iter().filter(|queue| queue.port_id() == self.id()).count();
        let tx = tx.iter().filter(|queue| queue.port_id() == self.id()).count();
        assert!([rx, tx] == self.queues.map(usize::from), "a queue may be in use elsewhere");
    }

    /// Returns the port's counters; all zero if they cannot be read, and unchanged while the port
    /// is down.
    pub fn stats(&self) -> PortStats {
        if self.open.is_down() {
            return self.stats_before;
        }
        let Ok(stats) = self.open.stats() else { return PortStats::default() };
        let read = |name: &CStr| self.open.extended_stat(name);
        let of_length = length_errors::missing(&self.info.driver, read);
        let losses = self.losses.as_ref().map(|losses| losses(stats.ipackets)).unwrap_or_default();
        PortStats {
            ipackets: stats.ipackets,
            opackets: stats.opackets,
            ibytes: stats.ibytes,
            obytes: stats.obytes,
            imissed: stats.imissed + losses.missed,
            ierrors: stats.ierrors + of_length,
            oerrors: stats.oerrors + losses.unsent,
            rx_nombuf: stats.rx_nombuf,
        }
    }

    /// Returns the extended statistic of this name, such as `c"tx_switch_packets"`; `None` if the
    /// driver has none, or while the port is down.
    pub fn extended_stat(&self, name: &CStr) -> Option<u64> {
        if self.open.is_down() { None } else { self.open.extended_stat(name) }
    }

    /// Returns the state of the link without waiting. For a virtual device, it includes the state
    /// of the Linux interface below it.
    pub fn link(&self) -> Link {
        let down = Link { up: false, speed_mbps: None };
        if self.open.is_down() {
            return down;
        }
        self.open.link().map_or(down, |link| Link {
            up: link.up,
            speed_mbps: Some(link.speed).filter(|&speed| speed > 0),
        })
    }

    /// True once the device, or the Linux interface below it, no longer exists. Its queues may
    /// still be used: they receive nothing, and packets that they send are lost.
    pub fn removed(&self) -> bool {
        self.open.removed()
    }

    fn check_queues(
        &self,
        direction: &'static str,
        has: u16,
        wanted: u16,
    ) -> Result<(), PortError> {
        if wanted <= has {
            return Ok(());
        }
        let PortInfo { devargs, driver, .. } = self.info.clone();
        Err(PortError::TooFewQueues { port: devargs, driver, direction, has, wanted })
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("info", &self.info).finish_non_exhaustive()
    }
}

fn fail(devargs: &str, step: Step, errno: Errno) -> PortError {
    PortError::Configure { port: devargs.to_owned(), step, errno, log: Default::default() }
}
