// SPDX-License-Identifier: BSD-3-Clause
//! Calls the ethdev behind a port and its queues, by its number.
//!
//! Every call here happens at start, at a reset or at the end. Dropping the last of the port and
//! its queues stops and closes the ethdev, so no queue can name a closed one.

use crate::eal::is_pci;
use crate::error::{Errno, Step};
use crate::return_request::ReturnRequest;
use crate::{PortConfig, PortInfo, SymmetricRss, log, rss, sys};
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Resources that must be closed after an ethdev: the rings of a cable.
pub(crate) type KeepAlive = Arc<dyn Send + Sync>;

/// An ethdev that this process owns.
pub(crate) struct Ethdev {
    id: u16,
    removed: AtomicBool,
    /// True if the driver has requested a reset.
    needs_reset: AtomicBool,
    /// Number of resets begun.
    resets: AtomicU64,
    /// True from the start of a reset until it succeeds. Until then, the only call allowed is
    /// another reset.
    down: AtomicBool,
    /// The kernel's request for the device; `None` for a virtual device.
    return_request: Option<ReturnRequest>,
    /// True once the device was given back.
    is_given_back: AtomicBool,
    /// The Linux interface below a virtual device; 0 if there is none.
    if_index: u32,
    /// Dropped after [`Drop::drop`] has closed the ethdev.
    _lower: Option<KeepAlive>,
}

/// Drivers of ports that must not verify checksums. Some would do so on the host, packet by packet.
/// With others, ports of virtual machines would receive packets without filled-in checksums.
const WITHOUT_NIC: [&CStr; 5] =
    [c"net_tap", c"net_tun", c"net_vhost", c"net_virtio", c"net_virtio_user"];

/// Returns the driver's name.
fn driver(info: &sys::rte_eth_dev_info) -> &CStr {
    // SAFETY: drivers name themselves with a C string that is never freed.
    unsafe { CStr::from_ptr(info.driver_name) }
}

/// Returns the offloads for the checksums that the port is to verify.
fn checksums(info: &sys::rte_eth_dev_info) -> u64 {
    if WITHOUT_NIC.contains(&driver(info)) {
        0
    } else {
        info.rx_offload_capa & sys::BIND_RX_CHECKSUMS
    }
}

/// Returns the description of ethdev `id`, which exists.
pub(crate) fn info(id: u16) -> Result<sys::rte_eth_dev_info, Errno> {
    // SAFETY: a plain C struct that the call overwrites.
    let mut info: sys::rte_eth_dev_info = unsafe { std::mem::zeroed() };
    // SAFETY: EAL is up.
    Errno::check(unsafe { sys::rte_eth_dev_info_get(id, &mut info) })?;
    Ok(info)
}

impl Ethdev {
    /// Makes this process the owner of ethdev `id`; fails if it has an owner.
    pub(crate) fn own(
        id: u16,
        devargs: &str,
        lower: Option<KeepAlive>,
    ) -> Result<Arc<Self>, Errno> {
        // SAFETY: a plain C struct: a number and a name.
        let mut owner: sys::rte_eth_dev_owner = unsafe { std::mem::zeroed() };
        // SAFETY: EAL is up; `owner` is written, then copied.
        unsafe {
            Errno::check(sys::rte_eth_dev_owner_new(&mut owner.id))?;
            Errno::check(sys::rte_eth_dev_owner_set(id, &owner))?;
        }
        let (device, if_index) =
            info(id).map_or((std::ptr::null_mut(), 0), |info| (info.device, info.if_index));
        let is_hardware = is_pci(devargs) && !device.is_null();
        let ethdev = Arc::new(Self {
            id,
            removed: AtomicBool::new(false),
            needs_reset: AtomicBool::new(false),
            resets: AtomicU64::new(0),
            down: AtomicBool::new(false),
            return_request: is_hardware.then(|| ReturnRequest::watch(device)),
            is_given_back: AtomicBool::new(false),
            // For hardware, the state of the driver is better than that of the kernel.
            if_index: if is_hardware { 0 } else { if_index },
            _lower: lower,
        });
        for (event, flag) in ethdev.flags() {
            // SAFETY: the flag's address is valid until `drop` has unregistered the callback. If
            // there is no memory to register it, the event is not noticed; nothing else depends on
            // it.
            unsafe { sys::rte_eth_dev_callback_register(id, event, Some(raise), flag) };
        }
        Ok(ethdev)
    }

    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// True once the driver has reported that the device was removed, or the interface below it no
    /// longer exists.
    pub(crate) fn removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
            || self.interface_state() == Some(sys::BIND_INTERFACE_GONE)
    }

    /// True from the kernel's request for the device until it is given back.
    pub(crate) fn is_asked_back(&self) -> bool {
        self.return_request.as_ref().is_some_and(ReturnRequest::is_made) && !self.is_given_back()
    }

    fn is_given_back(&self) -> bool {
        self.is_given_back.load(Ordering::Relaxed)
    }

    /// True from the driver's request for a reset until the reset is done.
    pub(crate) fn needs_reset(&self) -> bool {
        self.needs_reset.load(Ordering::Relaxed)
    }

    /// Returns the number of resets begun.
    pub(crate) fn resets(&self) -> u64 {
        self.resets.load(Ordering::Relaxed)
    }

    /// True from the start of a reset until the port is started again.
    pub(crate) fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Returns the state of the link: whether it is up, and its speed in megabits per second, 0 if
    /// it is unknown.
    pub(crate) fn link(&self) -> Result<sys::shim_link, Errno> {
        let mut link = sys::shim_link { up: false, speed: 0 };
        // SAFETY: the ethdev is open.
        Errno::check(unsafe { sys::shim_link_get(self.id, &mut link) })?;
        link.up &= self.interface_state().is_none_or(|state| state == sys::BIND_INTERFACE_UP);
        Ok(link)
    }

    fn interface_state(&self) -> Option<u32> {
        // SAFETY: asks the kernel about a number, whether or not it names an interface.
        (self.if_index != 0).then(|| unsafe { sys::shim_interface_state(self.if_index) })
    }

    pub(crate) fn stats(&self) -> Result<sys::rte_eth_stats, Errno> {
        // SAFETY: a plain C struct of numbers.
        let mut stats: sys::rte_eth_stats = unsafe { std::mem::zeroed() };
        // SAFETY: the ethdev is open.
        Errno::check(unsafe { sys::rte_eth_stats_get(self.id, &mut stats) })?;
        Ok(stats)
    }

    /// Returns the extended statistic of this name; `None` if the driver has none.
    pub(crate) fn extended_stat(&self, name: &CStr) -> Option<u64> {
        let (mut number, mut value) = (0, 0);
        // SAFETY: the ethdev is open; the C string is read, and a number is written.
        let found =
            unsafe { sys::rte_eth_xstats_get_id_by_name(self.id, name.as_ptr(), &mut number) };
        Errno::check(found).ok()?;
        // SAFETY: the ethdev is open; one number is read, and one is written.
        let read = unsafe { sys::rte_eth_xstats_get_by_id(self.id, &number, &mut value, 1) };
        (read == 1).then_some(value)
    }

    /// Returns the time of the device's clock, in its ticks.
    pub(crate) fn read_clock(&self) -> Result<u64, Errno> {
        let mut ticks = 0;
        // SAFETY: the ethdev is open; a number is written.
        Errno::check(unsafe { sys::rte_eth_read_clock(self.id, &mut ticks) })?;
        Ok(ticks)
    }

    /// Returns the events, each with the argument of `raise` for it.
    fn flags(&self) -> [(sys::rte_eth_event_type, *mut c_void); 2] {
        let address = |flag: &AtomicBool| std::ptr::from_ref(flag).cast_mut().cast();
        [
            (sys::BIND_EVENT_REMOVED, address(&self.removed)),
            (sys::BIND_EVENT_RESET, address(&self.needs_reset)),
        ]
    }

    /// Sets the Linux interface whose state counts as that of the link.
    pub(crate) fn set_interface(&mut self, if_index: u32) {
        self.if_index = if_index;
    }

    fn mtu(&self) -> Result<u16, Errno> {
        let mut mtu = 0;
        // SAFETY: the ethdev is open.
        Errno::check(unsafe { sys::rte_eth_dev_get_mtu(self.id, &mut mtu) })?;
        Ok(mtu)
    }

    pub(crate) fn describe(&self, devargs: &str) -> Result<PortInfo, Errno> {
        let info = info(self.id)?;
        let mut mac = sys::rte_ether_addr { addr_bytes: [0; 6] };
        // SAFETY: the ethdev is open.
        Errno::check(unsafe { sys::rte_eth_macaddr_get(self.id, &mut mac) })?;
        let driver = driver(&info);
        // SAFETY: the ethdev is open.
        let socket_id = unsafe { sys::rte_eth_dev_socket_id(self.id) };
        Ok(PortInfo {
            devargs: devargs.to_owned(),
            driver: driver.to_string_lossy().into_owned(),
            mac: mac.addr_bytes,
            mtu: self.mtu()?,
            socket_id: u32::try_from(socket_id).ok(),
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
            can_send_on_time: info.tx_offload_capa & sys::BIND_TX_ON_TIME != 0,
            rss: SymmetricRss::None,
        })
    }

    /// Returns the driver's description of the device's firmware.
    pub(crate) fn firmware(&self) -> Option<String> {
        let mut text = [0; 128];
        // SAFETY: the ethdev is open; at most that number of bytes is written, a zero among them.
        let ret = unsafe {
            sys::rte_eth_dev_fw_version_get(self.id, text.as_mut_ptr().cast(), text.len())
        };
        let text = CStr::from_bytes_until_nul(&text).ok().filter(|_| ret == 0)?;
        Some(text.to_string_lossy().into_owned())
    }

    /// Requests marks and flags of flow rules on packets, for drivers that must know this before
    /// they are configured.
    pub(crate) fn negotiate_marks(&self) -> Result<(), Errno> {
        let mut features = sys::BIND_METADATA_MARKS;
        // SAFETY: the ethdev is open; its supported features are written.
        match Errno::check(unsafe { sys::rte_eth_rx_metadata_negotiate(self.id, &mut features) }) {
            Err(Errno::NotSupported) => Ok(()),
            result => result,
        }
    }

    /// Starts a configured ethdev, or stops it.
    pub(crate) fn set_started(&self, is_started: bool) -> Result<(), Errno> {
        // SAFETY: the ethdev is open, and no queue of it is in use: `Port` holds them all.
        Errno::check(unsafe {
            match is_started {
                true => sys::rte_eth_dev_start(self.id),
                false => sys::rte_eth_dev_stop(self.id),
            }
        })?;
        if is_started { self.receive_any_destination() } else { Ok(()) }
    }

    /// Has the driver reset the device, which is then to be configured and started.
    pub(crate) fn reset(&self) -> Result<(), Errno> {
        self.down.store(true, Ordering::Relaxed);
        self.resets.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the ethdev is open, and no queue of it is left: `Port` had them all.
        Errno::check(unsafe { sys::rte_eth_dev_reset(self.id) })?;
        // This reset serves all earlier requests.
        self.needs_reset.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Stops and closes the ethdev and returns its device to the kernel. No call is allowed
    /// afterwards.
    pub(crate) fn give_back(&self) {
        self.resets.fetch_add(1, Ordering::Relaxed);
        // What a failed reset has left is freed with the process, and the device with it.
        if !self.down.swap(true, Ordering::Relaxed) {
            self.unregister();
            self.close();
            self.is_given_back.store(true, Ordering::Relaxed);
        }
    }

    /// Configures an ethdev that is new or was reset.
    pub(crate) fn set_up(&self, config: &PortConfig) -> Result<SymmetricRss, (Step, Errno)> {
        let at = |step| move |errno| (step, errno);
        let rss = self.set_offloads(config).map_err(at(Step::Configure))?;
        let (mut rxd, mut txd) = (config.rxd, config.txd);
        // SAFETY: the ethdev is configured; both numbers are moved into its limits.
        let ret = unsafe { sys::rte_eth_dev_adjust_nb_rx_tx_desc(self.id, &mut rxd, &mut txd) };
        Errno::check(ret).map_err(at(Step::Descriptors))?;
        for queue in 0..config.rx_queues {
            self.set_up_rx(queue, rxd, config).map_err(at(Step::RxQueue(queue)))?;
        }
        for queue in 0..config.tx_queues {
            self.set_up_tx(queue, txd).map_err(at(Step::TxQueue(queue)))?;
        }
        Ok(rss)
    }

    /// Starts an ethdev whose queues are set up.
    pub(crate) fn start(&self) -> Result<(), (Step, Errno)> {
        let at = |step| move |errno| (step, errno);
        // SAFETY: the ethdev and all of its queues are configured.
        Errno::check(unsafe { sys::rte_eth_dev_start(self.id) }).map_err(at(Step::Start))?;
        self.receive_any_destination().map_err(at(Step::Promiscuous))?;
        self.down.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn set_offloads(&self, config: &PortConfig) -> Result<SymmetricRss, Errno> {
        let info = info(self.id)?;
        // SAFETY: a plain C struct for which zero is "not set".
        let mut conf: sys::rte_eth_conf = unsafe { std::mem::zeroed() };
        let mtu = u32::from(config.mtu.map_or_else(|| self.mtu(), Ok)?);
        // A driver without a limit of its own reports that of Ethernet.
        let most = info.max_rx_pktlen.saturating_sub(L2_OVERHEAD).min(info.max_mtu.into());
        conf.rxmode.mtu = mtu.min(most.max(ETHERNET_MTU));
        if config.mempools.iter().any(|pool| mtu + L2_OVERHEAD > pool.data_room_bytes()) {
            conf.rxmode.offloads = info.rx_offload_capa & sys::BIND_RX_SCATTER;
        }
        // If frames pass through, chains may come from the peer port, whatever the size of frames
        // here.
        if !config.is_endpoint || conf.rxmode.offloads & sys::BIND_RX_SCATTER != 0 {
            conf.txmode.offloads = info.tx_offload_capa & sys::BIND_TX_MULTI_SEGS;
        }
        if !config.is_endpoint {
            conf.rxmode.offloads |= checksums(&info);
        }
        if config.sends_on_time {
            conf.txmode.offloads |= sys::BIND_TX_ON_TIME;
        }
        let mut symmetric = SymmetricRss::None;
        if config.rx_queues > 1 {
            (conf.rx_adv_conf.rss_conf, symmetric) = rss::best(&info);
        }
        if symmetric != SymmetricRss::None {
            conf.rxmode.mq_mode = sys::BIND_MQ_RX_RSS;
        }
        // SAFETY: drivers point to their flags for as long as the device exists.
        if unsafe { info.dev_flags.read() } & sys::BIND_FLAG_REMOVED != 0 {
            conf.intr_conf.set_rmv(1);
        }
        let (rx, tx) = (config.rx_queues, config.tx_queues);
        // SAFETY: the ethdev is open and not started; `conf` is copied, its key is never freed.
        Errno::check(unsafe { sys::rte_eth_dev_configure(self.id, rx, tx, &conf) })?;
        config.mtu.map_or(Ok(()), |mtu| self.set_mtu(mtu))?;
        Ok(symmetric)
    }

    /// Sets the MTU of the configured ethdev. Drivers without a limit do not support the call.
    fn set_mtu(&self, mtu: u16) -> Result<(), Errno> {
        // SAFETY: the ethdev is open.
        match Errno::check(unsafe { sys::rte_eth_dev_set_mtu(self.id, mtu) }) {
            Err(Errno::NotSupported) => Ok(()),
            result => result,
        }
    }

    fn set_up_rx(&self, queue: u16, rxd: u16, config: &PortConfig) -> Result<(), Errno> {
        let pool = config.mempools[usize::from(queue) % config.mempools.len()].as_raw();
        // SAFETY: the ethdev is configured with this queue and not started; the pool is never
        // freed; null asks for the driver's defaults.
        Errno::check(unsafe {
            let socket = self.socket();
            sys::rte_eth_rx_queue_setup(self.id, queue, rxd, socket, std::ptr::null(), pool)
        })
    }

    fn set_up_tx(&self, queue: u16, txd: u16) -> Result<(), Errno> {
        // SAFETY: as in `set_up_rx`.
        Errno::check(unsafe {
            let socket = self.socket();
            sys::rte_eth_tx_queue_setup(self.id, queue, txd, socket, std::ptr::null())
        })
    }

    /// Returns the NUMA node for the memory of queues; all ones is DPDK's "any".
    fn socket(&self) -> u32 {
        // SAFETY: the ethdev is open.
        unsafe { sys::rte_eth_dev_socket_id(self.id) as u32 }
    }

    /// Has the port receive frames of any destination. Drivers without address filters do not
    /// support the call and need none.
    fn receive_any_destination(&self) -> Result<(), Errno> {
        // SAFETY: the ethdev is open.
        match Errno::check(unsafe { sys::rte_eth_promiscuous_enable(self.id) }) {
            Err(Errno::NotSupported) => Ok(()),
            result => result,
        }
    }
}

/// The MTU that every port supports.
const ETHERNET_MTU: u32 = 1500;

/// Ethernet header, two VLAN tags and FCS, in bytes.
const L2_OVERHEAD: u32 = 14 + 2 * 4 + 4;

impl Ethdev {
    /// Unregisters the callback: no more events are reported.
    fn unregister(&self) {
        for (event, flag) in self.flags() {
            let callback = Some(raise as _);
            // SAFETY: the callback is one that `own` registered, or unknown. It answers EAGAIN
            // (-11) while that runs: after this, it never will.
            log::hush(|| unsafe {
                while sys::rte_eth_dev_callback_unregister(self.id, event, callback, flag) == -11 {
                    std::thread::yield_now();
                }
            });
        }
    }
}

impl Drop for Ethdev {
    fn drop(&mut self) {
        if self.is_given_back() {
            return;
        }
        self.unregister();
        // The remains of a failed reset are freed with the process.
        if !self.is_down() {
            self.close();
        }
    }
}

impl Ethdev {
    /// Stops and closes the ethdev, and removes its device from this process.
    fn close(&self) {
        let device = info(self.id).map_or(std::ptr::null_mut(), |info| info.device);
        // Drivers may log that there was nothing to remove, which is of no use to callers.
        log::hush(|| {
            // SAFETY:
            // - no queue of this ethdev is left: each holds a reference to `self`, or `Port` had
            //   them all;
            // - the device was read before the close, and is removed only if it has no other
            //   ethdev.
            unsafe {
                // Otherwise rules may stay in the NIC after the program has ended.
                let mut error: sys::rte_flow_error = std::mem::zeroed();
                sys::rte_flow_flush(self.id, &mut error);
                // Otherwise a Linux interface under the port would stay promiscuous.
                sys::rte_eth_promiscuous_disable(self.id);
                sys::rte_eth_dev_stop(self.id);
                sys::rte_eth_dev_close(self.id);
                if !device.is_null() && !has_ethdev(device) {
                    sys::rte_dev_remove(device);
                }
            }
        });
    }
}

impl fmt::Debug for Ethdev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ethdev({})", self.id)
    }
}

/// True if some ethdev belongs to `device`.
fn has_ethdev(device: *const sys::rte_device) -> bool {
    // SAFETY: EAL is up; the pointer is only compared.
    unsafe { u32::from(sys::rte_eth_find_next_of(0, device)) < sys::RTE_MAX_ETHPORTS }
}

/// Called with the address of the flag, by EAL's interrupt thread or the thread that notices the
/// reset.
extern "C" fn raise(
    _: u16,
    _: sys::rte_eth_event_type,
    flag: *mut c_void,
    _: *mut c_void,
) -> c_int {
    // SAFETY: `own` registered a flag that stays until `drop` has unregistered this.
    unsafe { &*flag.cast::<AtomicBool>() }.store(true, Ordering::Relaxed);
    0
}
