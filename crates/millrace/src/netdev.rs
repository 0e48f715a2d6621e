// SPDX-License-Identifier: BSD-3-Clause
//! Owns the Linux interfaces that are ports: prepares them at the start, and has them restored at
//! the end.
//!
//! If a port is the name of an interface, such as `eth1`, the kernel redirects its frames to a
//! device of DPDK ([`redirect`]). The host sees none of them. `net_af_packet` and `net_pcap` read
//! an interface beside the host's stack. There the kernel must not join segments, and the host must
//! not answer.

mod keeper;
mod limits;
mod lock;
mod netlink;
mod redirect;

pub(crate) use keeper::{SUBCOMMAND as KEEPER, keep};
pub(crate) use netlink::{Device, interface_mac, interfaces_with_mac};

use config::{Devargs, af_packet_sizes};
use dpdk::{LossCounter, Losses, Port, linux};
use keeper::{Keeper, Offload, Step, Undo};
use lock::{InterfaceLock, NotLocked};
use netlink::Netlink;
use netlink_packet_route::link::{LinkAttribute, LinkFlags};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

/// Longest name of a Linux interface (`IFNAMSIZ` less its final zero).
const NAME_MAX: usize = 15;
/// The MTU of Ethernet.
const ETHERNET_MTU: u32 = 1500;
/// Alias that identifies devices made by Millrace.
const ALIAS: &str = "made by millrace";
/// Most frames that wait for a port behind a redirect: 4 ms at a million a second.
const QUEUE: u32 = 4096;

/// Why a Linux interface cannot be a port.
#[derive(Debug, thiserror::Error)]
#[error("port `{port}`: {fault}")]
pub(crate) struct NetdevError {
    port: String,
    fault: Fault,
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("there is no Linux interface {name}; there are {}", .all.join(", "))]
    NoSuch { name: String, all: Vec<String> },
    #[error(
        "{} uses this interface: only one instance can",
        .0.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
    )]
    InUse(Option<i32>),
    #[error(
        "it carries the default route: this host would lose its network; use another interface, \
         or remove the route"
    )]
    DefaultRoute,
    #[error("it is the loopback interface, which leads to no other host: use another one")]
    Loopback,
    #[error("it belongs to a bridge or bond: ip link set {0} nomaster")]
    HasController(String),
    #[error("net_tap has at most {most} queues, and {wanted} are wanted: take fewer")]
    TooManyQueues { wanted: u16, most: u16 },
    #[error("a device {0} exists already: ip link delete {0}")]
    InTheWay(String),
    #[error("{step}: {error}{}", way_out(.error))]
    Failed { step: &'static str, error: io::Error },
}

/// Returns the remedy for an error of the system; empty if none is known.
fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it needs root, or CAP_NET_ADMIN and CAP_NET_RAW: \
             sudo setcap cap_net_raw,cap_net_admin+ep $(command -v millrace)"
        }
        _ => "",
    }
}

/// Returns a function that converts an error of the system into a [`Fault`].
fn failed(step: &'static str) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::Failed { step, error }
}

/// The Linux interfaces of a run. Dropping this restores them.
pub(crate) struct Interfaces {
    netlink: Option<Netlink>,
    /// Interfaces by the name of their port.
    used: BTreeMap<String, Used>,
    keeper: Option<Keeper>,
    /// Notes for the user, a line each.
    notes: Vec<String>,
}

/// An interface that a port uses.
struct Used {
    device: Device,
    /// Driver chosen by Millrace; `None` if the user named one.
    driver: Option<Driver>,
    /// Number of the device to which the interface's frames are redirected; `None` until it exists.
    far: Option<u32>,
    _lock: InterfaceLock,
    /// Keeps the interface promiscuous while it is open.
    _promiscuous: Option<OwnedFd>,
}

/// How frames of an interface reach DPDK.
struct Driver {
    /// Devargs that open the port.
    devargs: String,
    /// Device that frames are redirected to; `None` without a redirect.
    far: Option<String>,
}

impl Interfaces {
    /// Locks and prepares the interface of each port that has one, before DPDK starts. Each port
    /// comes with the MTU that its pair asks for.
    pub(crate) fn prepare<'a>(
        ports: impl Iterator<Item = (&'a Devargs, Option<u16>)>,
    ) -> Result<Self, NetdevError> {
        let (used, notes) = (BTreeMap::new(), Vec::new());
        let mut interfaces = Self { netlink: None, used, keeper: None, notes };
        for (port, mtu) in ports {
            if let Some(name) = port.host_interface() {
                let taken = interfaces.take(port, name, mtu);
                taken.map_err(|fault| NetdevError { port: port.to_string(), fault })?;
            }
        }
        Ok(interfaces)
    }

    /// Returns the notes for the user, a line each.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the devargs that open `port`.
    pub(crate) fn devargs(&self, port: &Devargs) -> String {
        let used = self.used.get(&port.name);
        let driver = used.and_then(|used| used.driver.as_ref());
        driver.map_or_else(|| port.to_string(), |driver| driver.devargs.clone())
    }

    /// Returns the interface of `port` if the port reads it beside the host's stack.
    pub(crate) fn read_beside(&self, port: &Devargs) -> Option<String> {
        let used = self.used.get(&port.name)?;
        let is_redirected = used.driver.as_ref().is_some_and(|driver| driver.far.is_some());
        (!is_redirected).then(|| used.device.name.clone())
    }

    /// Returns the MTU of the interface of `port`, if it has one.
    pub(crate) fn interface_mtu(&self, port: &Devargs) -> Option<u32> {
        Some(self.used.get(&port.name)?.device.mtu)
    }

    /// Returns the frame length from which the driver of `port` may have cut a frame.
    pub(crate) fn cuts_from(&self, port: &Devargs) -> Option<u32> {
        let opened = Devargs::parse(&self.devargs(port)).ok();
        opened.as_ref().unwrap_or(port).cuts_from()
    }

    fn take(&mut self, port: &Devargs, name: &str, mtu: Option<u16>) -> Result<(), Fault> {
        let mut netlink = Netlink::open().map_err(failed("cannot query the kernel"))?;
        let device = netlink.device(name).map_err(failed("cannot query the kernel"))?;
        let Some(mut device) = device else {
            let all = netlink.names().unwrap_or_default();
            return Err(Fault::NoSuch { name: name.to_owned(), all });
        };
        let lock = InterfaceLock::take(device.index).map_err(|error| match error {
            NotLocked::InUse(by) => Fault::InUse(by),
            NotLocked::Failed(error) => failed("cannot lock it")(error),
        })?;
        self.netlink = Some(netlink);
        self.refuse_interface_in_use(&device, port.is_interface())?;
        if let Some(mtu) = mtu.filter(|mtu| u32::from(*mtu) != device.mtu) {
            let index = device.index;
            self.change(&device, Step::Mtu(device.mtu), |netlink| {
                set_mtu(netlink, index, mtu.into())
            })
            .map_err(failed("cannot set its MTU"))?;
            device.mtu = mtu.into();
        }
        if !device.is_up {
            let index = device.index;
            self.change(&device, Step::Down, |netlink| {
                netlink.set_flag(index, LinkFlags::Up, true)
            })
            .map_err(failed("cannot set it up"))?;
        }
        let driver = port.is_interface().then(|| self.choose_driver(&device)).transpose()?;
        let mut promiscuous = None;
        if driver.as_ref().is_some_and(|driver| driver.far.is_some()) {
            let held = linux::hold_promiscuous(device.index);
            promiscuous = Some(held.map_err(failed("cannot make it promiscuous"))?);
        } else {
            self.keep_host_out(&device)?;
        }
        let used = Used { device, driver, far: None, _lock: lock, _promiscuous: promiscuous };
        self.used.insert(port.name.clone(), used);
        Ok(())
    }

    /// Fails if the host needs the interface. Adds a note if the host has addresses on it.
    fn refuse_interface_in_use(
        &mut self,
        device: &Device,
        is_redirected: bool,
    ) -> Result<(), Fault> {
        let name = &device.name;
        if is_redirected && name == "lo" {
            return Err(Fault::Loopback);
        }
        if device.controller.is_some() {
            return Err(Fault::HasController(name.clone()));
        }
        let netlink = self.netlink.as_mut().expect("it was opened for this device");
        if netlink.has_default_route(device.index).map_err(failed("cannot query the routes"))? {
            return Err(Fault::DefaultRoute);
        }
        let addresses = netlink.addresses(device.index).unwrap_or_default();
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        if !addresses.is_empty() {
            let list = addresses.join(", ");
            let effect = match is_redirected {
                true => "receives no packets there during the run",
                false => "answers no ARP requests there during the run",
            };
            self.notes.push(format!("port {name}: this host has {list} there, and {effect}"));
        }
        Ok(())
    }

    /// Returns the devargs of an interface's port, and the device that frames are redirected to
    /// where the kernel can redirect.
    ///
    /// A tap delivers frames byte for byte as the kernel would send them on a wire. DPDK's driver
    /// for taps accepts no MTU above that of Ethernet (`max_rx_pktlen` in rte_eth_tap.c). Longer
    /// frames go through a veth pair whose other end is a `net_af_packet`.
    fn choose_driver(&mut self, device: &Device) -> Result<Driver, Fault> {
        let Device { name, index, mtu, .. } = device;
        let netlink = self.netlink.as_mut().expect("it was opened for this device");
        let redirect = redirect::try_out(netlink, *index);
        let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
        let far = far_name(name, *index);
        self.clear_the_way(&far)?;
        let (driver, how) = match (redirect, tun) {
            (Ok(()), Ok(_)) if *mtu <= ETHERNET_MTU => {
                let devargs = format!("net_tap_{index},iface={far}");
                let how = format!("net_tap, by a tc redirect to {far}");
                (Driver { devargs, far: Some(far) }, how)
            }
            (Ok(()), _) => {
                let near = self.lay_veth(device, &far)?;
                let sizes = af_packet_sizes(*mtu);
                let devargs = format!("net_af_packet_{index},iface={near}{sizes}");
                let how = format!("net_af_packet, by a tc redirect to {far}");
                (Driver { devargs, far: Some(far) }, how)
            }
            (Err(error), _) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(failed("cannot redirect its frames")(error));
            }
            (Err(error), _) => {
                let sizes = af_packet_sizes(*mtu);
                let devargs = format!("net_af_packet_{index},iface={name}{sizes}");
                let how = format!(
                    "net_af_packet, as tc cannot redirect its frames ({error}): checksums and \
                     segments that a sender leaves to hardware arrive unfinished"
                );
                (Driver { devargs, far: None }, how)
            }
        };
        self.notes.push(format!("port {name}: {how}; MTU {mtu}"));
        Ok(driver)
    }

    /// Removes a leftover device of an instance whose keeper was killed too. Fails if the device
    /// with this name is not ours.
    fn clear_the_way(&mut self, far: &str) -> Result<(), Fault> {
        let netlink = self.netlink.as_mut().expect("it was opened for this device");
        match netlink.device(far).map_err(failed("cannot query the kernel"))? {
            None => Ok(()),
            Some(old) if old.alias.as_deref() == Some(ALIAS) => {
                netlink.remove(old.index).map_err(failed("cannot remove an old device"))
            }
            Some(_) => Err(Fault::InTheWay(far.to_owned())),
        }
    }

    /// Makes a veth pair: `far`, which leaves nothing to hardware, and its other end. Returns the
    /// other end's name. The host's stack is kept out of both.
    fn lay_veth(&mut self, device: &Device, far: &str) -> Result<String, Fault> {
        let failed = failed("cannot create a veth pair for its port");
        let near = near_name(far);
        let netlink = self.netlink.as_mut().expect("it was opened for this device");
        netlink.add_veth([far, &near], device.mtu).map_err(&failed)?;
        for name in [far, &near] {
            let netlink = self.netlink.as_mut().expect("it was opened before");
            let end = netlink.device(name).map_err(&failed)?.unwrap_or_default();
            let alias = LinkAttribute::IfAlias(ALIAS.to_owned());
            netlink.set(end.index, alias).map_err(&failed)?;
            if name == far {
                self.change(&end, Step::Remove, |_| Ok(())).map_err(&failed)?;
            }
            linux::set_offload(name, linux::Offload::TxChecksums, false).map_err(&failed)?;
            silence(name)?;
            let netlink = self.netlink.as_mut().expect("it was opened before");
            netlink.set_flag(end.index, LinkFlags::Up, true).map_err(&failed)?;
        }
        Ok(near)
    }

    /// Switches off segment joining, since the port could not take such frames. Keeps the host from
    /// answering, since it sees the frames too.
    fn keep_host_out(&mut self, device: &Device) -> Result<(), Fault> {
        let name = &device.name;
        if !device.is_promiscuous {
            let noted = self.change(device, Step::NotPromiscuous, |_| Ok(()));
            noted.map_err(failed("cannot start the process that restores it"))?;
        }
        for offload in [Offload::Gro, Offload::Lro] {
            // An offload that cannot be queried does not exist.
            if linux::offload(name, offload.into()).unwrap_or(false) {
                let step = Step::Offload { offload, is_on: true };
                let change = |_: &mut Netlink| linux::set_offload(name, offload.into(), false);
                self.change(device, step, change)
                    .map_err(failed("cannot switch off its GRO or LRO"))?;
            }
        }
        let addresses = self.netlink.as_mut().and_then(|link| link.addresses(device.index).ok());
        let has_ipv6 = addresses.iter().flatten().any(|address| address.is_ipv6());
        // 8: answer for no address (ip-sysctl, arp_ignore). If IPv6 is switched off instead,
        // addresses are lost.
        self.set_sysctl(device, ("ipv4", "arp_ignore"), "8");
        self.set_sysctl(device, ("ipv4", "forwarding"), "0");
        if !has_ipv6 {
            self.set_sysctl(device, ("ipv6", "disable_ipv6"), "1");
        }
        Ok(())
    }

    /// Sets a key of `device` below `/proc/sys/net`. If that is forbidden, as in a container, adds
    /// a note with the command for the user.
    fn set_sysctl(&mut self, device: &Device, name: (&str, &str), value: &str) {
        let Some(before) = keeper::sysctl(&device.name, name) else { return };
        if before.trim_end() == value {
            return;
        }
        let (family, key) = name;
        let step = Step::Sysctl { family: family.into(), key: key.into(), text: before };
        let change = |_: &mut Netlink| keeper::set_sysctl(&device.name, name, value);
        if let Err(error) = self.change(device, step, change) {
            let key = format!("net.{family}.conf.{}.{key}", device.name);
            self.notes.push(format!("cannot keep the host out: sysctl -w {key}={value}: {error}"));
        }
    }

    /// Changes a setting of `device`, after the keeper has the step that undoes it.
    fn change(
        &mut self,
        device: &Device,
        step: Step,
        change: impl FnOnce(&mut Netlink) -> io::Result<()>,
    ) -> io::Result<()> {
        let undo = Undo::new(device, step);
        if self.keeper.is_none() {
            self.keeper = Some(Keeper::start()?);
        }
        let netlink = self.netlink.as_mut().expect("it was opened for this device");
        self.keeper.as_mut().expect("it was just started").change(undo, || change(netlink))
    }

    /// Makes the port `open`, which is not started, represent the interface that `port` names. It
    /// then has the interface's name, link and losses.
    pub(crate) fn adopt(&mut self, port: &Devargs, open: &mut Port) -> Result<(), NetdevError> {
        let Some(used) = self.used.get_mut(&port.name) else { return Ok(()) };
        let Some(driver) = &used.driver else { return Ok(()) };
        let mut losses: LossCounter = Box::new(|_| Losses::default());
        if let Some(far) = driver.far.clone() {
            let netlink = self.netlink.as_mut().expect("it was opened for this device");
            let index = prepare_far(netlink, &far);
            used.far = Some(index.map_err(|fault| NetdevError { port: port.to_string(), fault })?);
            let near = driver.devargs.contains("af_packet").then(|| near_name(&far));
            let passage = Passage { device: used.device.clone(), far, near };
            losses = Box::new(move |received| passage.losses(received).unwrap_or_default());
        }
        open.stand_for(&used.device.name, used.device.index, losses);
        Ok(())
    }

    /// Starts the redirects of frames, both ways.
    pub(crate) fn connect(&mut self) -> Result<(), NetdevError> {
        let pairs: Vec<_> = self
            .used
            .iter()
            .filter_map(|(port, used)| Some((port.clone(), used.device.clone(), used.far?)))
            .collect();
        for (port, device, far) in pairs {
            let redirected =
                self.redirect(&device, far).map_err(failed("cannot redirect its frames"));
            redirected.map_err(|fault| NetdevError { port, fault })?;
        }
        Ok(())
    }

    fn redirect(&mut self, device: &Device, far: u32) -> io::Result<()> {
        let index = device.index;
        let netlink = self.netlink.as_mut().expect("it was opened for this device");
        redirect::add(netlink, far, index)?;
        let made_clsact = redirect::add_clsact(netlink, index)?;
        let step = Step::Redirect { made_clsact };
        self.change(device, step, |netlink| redirect::add(netlink, index, far))
    }
}

/// The path of frames from an interface to its port and back.
struct Passage {
    /// The interface, as it was at the start.
    device: Device,
    /// The device that frames are redirected to.
    far: String,
    /// The other end of its cable, if it is a veth.
    near: Option<String>,
}

impl Passage {
    /// Returns the frames lost on the path since the start. The port has received `received`
    /// frames.
    fn losses(&self, received: u64) -> io::Result<Losses> {
        let mut netlink = Netlink::open()?;
        let far = netlink.device(&self.far)?.unwrap_or_default();
        let near = self.near.as_ref().map(|near| netlink.device(near)).transpose()?.flatten();
        // Frames lost for lack of room: in the queue of a tap, or the port's ring at a veth's near
        // end.
        let missed =
            far.tx_dropped + near.map_or(0, |near| near.rx_packets.saturating_sub(received));
        // A frame that is dropped is counted by the redirect, the interface, or both.
        let device = netlink.device_by_index(self.device.index)?.unwrap_or_default();
        let dropped = device.tx_dropped.saturating_sub(self.device.tx_dropped);
        let failed = redirect::failures(&mut netlink, far.index)?;
        Ok(Losses { missed, unsent: dropped.max(failed) })
    }
}

/// Prepares the device that frames are redirected to, which DPDK's driver has made. Returns its
/// number.
fn prepare_far(netlink: &mut Netlink, far: &str) -> Result<u32, Fault> {
    let device = netlink.device(far).map_err(failed("cannot query the kernel"))?;
    let none = || io::Error::other("its driver has created none");
    let device = device.ok_or_else(none).map_err(failed("cannot find its other end"))?;
    silence(far)?;
    let queue = LinkAttribute::TxQueueLen(QUEUE);
    netlink.set(device.index, queue).map_err(failed("cannot size its queue"))?;
    Ok(device.index)
}

/// Keeps the host's stack from sending and receiving on a device made for frames of the wire.
fn silence(device: &str) -> Result<(), Fault> {
    let keys = [("ipv6", "disable_ipv6", "1"), ("ipv4", "arp_ignore", "8")];
    keys.iter().try_for_each(|&(family, key, value)| {
        let set = keeper::set_sysctl(device, (family, key), value);
        set.map_err(failed("cannot keep the host out: /proc/sys must be writable"))
    })
}

/// Sets the MTU of a device.
fn set_mtu(netlink: &mut Netlink, index: u32, mtu: u32) -> io::Result<()> {
    netlink.set(index, LinkAttribute::Mtu(mtu))
}

/// Returns the MTU of a Linux interface; `None` if there is no such interface.
pub(crate) fn mtu(name: &str) -> Option<u32> {
    Some(Netlink::open().ok()?.device(name).ok()??.mtu)
}

/// Returns the name of the device that an interface's frames are redirected to.
fn far_name(interface: &str, index: u32) -> String {
    // With `-` it could equal the name for an interface that is called like this number.
    let name = format!("mr-{interface}");
    if name.len() <= NAME_MAX { name } else { format!("mr.{index}") }
}

/// Returns the name of the other end of a veth pair.
fn near_name(far: &str) -> String {
    format!("mp{}", &far[2..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_have_names_that_linux_takes() {
        assert_eq!(far_name("eth1", 7), "mr-eth1");
        assert_eq!(far_name("enp130s0f1np1", 7), "mr.7");
    }
}
