// SPDX-License-Identifier: BSD-3-Clause
//! Reads NICs on the PCI bus and Linux interfaces: drivers, and what the host uses them for.

use super::Root;
use std::path::Path;

const DEVICES: &str = "sys/bus/pci/devices";
const INTERFACES: &str = "sys/class/net";

/// Drivers that hand a NIC to user space.
pub(crate) const USER_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// One port of a NIC.
#[derive(Debug)]
pub struct Nic {
    /// PCI address.
    pub(crate) address: String,
    /// `vendor:device`, hexadecimal.
    pub(crate) id: String,
    /// Kernel module that drives it.
    pub(crate) driver: Option<String>,
    /// NUMA node; `None` on hosts with one node.
    pub(crate) node: Option<u64>,
    /// True if it is behind an IOMMU.
    pub(crate) iommu: bool,
    /// Its Linux interfaces in this network namespace; empty if it has none here.
    pub(crate) interfaces: Vec<Interface>,
}

/// A Linux interface and what depends on it.
#[derive(Debug, Default)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// True if a default route leaves by it.
    pub(crate) default_route: bool,
    /// True if it has an IPv4 address or an IPv6 address beyond the link.
    pub(crate) address: bool,
    /// Bridge or bond that it belongs to.
    pub(crate) master: Option<String>,
    /// An interface on top of it, such as a VLAN, or a PPPoE session.
    pub(crate) upper: Option<String>,
    /// Longest packet in bytes.
    pub(crate) mtu: Option<u64>,
    /// True if GRO is on; `None` if the kernel was not asked.
    pub(crate) gro: Option<bool>,
    /// True if a device is behind it, and false for veth, bridges and the like.
    pub(crate) is_device: bool,
}

impl Interface {
    /// Returns for what the host uses the interface; `None` if for nothing that can be seen.
    pub(crate) fn usage(&self) -> Option<String> {
        match self {
            Self { default_route: true, .. } => Some("carries the default route".to_owned()),
            Self { address: true, .. } => Some("has an address".to_owned()),
            Self { master: Some(master), .. } => Some(format!("belongs to {master}")),
            Self { upper: Some(upper), .. } => Some(format!("carries {upper}")),
            _ => None,
        }
    }
}

impl Nic {
    /// Returns the PCI addresses of the NICs of this host that a user-space driver has.
    pub fn bound_to_user_space() -> Vec<String> {
        let nics = read(Root(Path::new("/"))).unwrap_or_default().into_iter();
        let is_bound =
            |nic: &Nic| nic.driver.as_deref().is_some_and(|it| USER_DRIVERS.contains(&it));
        nics.filter(is_bound).map(|nic| nic.address).collect()
    }
}

/// Returns every NIC on the PCI bus; `None` without such a bus.
pub(super) fn read(root: Root) -> Option<Vec<Nic>> {
    let nics = || root.names(DEVICES).into_iter().filter_map(|address| read_nic(root, address));
    root.has(DEVICES).then(|| nics().collect())
}

fn read_nic(root: Root, address: String) -> Option<Nic> {
    let file = |name: &str| format!("{DEVICES}/{address}/{name}");
    let class = root.text(&file("class"))?;
    if !class.starts_with("0x02") {
        return None;
    }
    let id = |name: &str| {
        let text = root.text(&file(name)).unwrap_or_default();
        text.trim_start_matches("0x").to_owned()
    };
    // The interface of a virtio NIC is one level deeper, below its virtio device.
    let mut interfaces = root.names(&file("net"));
    for name in root.names(&file("")).iter().filter(|name| name.starts_with("virtio")) {
        interfaces.extend(root.names(&file(&format!("{name}/net"))));
    }
    Some(Nic {
        id: format!("{}:{}", id("vendor"), id("device")),
        driver: root.link(&file("driver")),
        node: root.number(&file("numa_node")),
        iommu: root.link(&file("iommu_group")).is_some(),
        interfaces: here(root, interfaces).map(|name| read_interface(root, name)).collect(),
        address,
    })
}

/// Returns the Linux interfaces of this network namespace except `lo`; `None` if the kernel does
/// not list them.
pub(super) fn read_interfaces(root: Root) -> Option<Vec<Interface>> {
    let names = root.names(INTERFACES).into_iter();
    // `bonding_masters` is a file of settings.
    let names = names.filter(|name| name != "lo" && root.has(&format!("{INTERFACES}/{name}/mtu")));
    let interfaces = here(root, names.collect()).map(|name| read_interface(root, name));
    root.has(INTERFACES).then(|| interfaces.collect())
}

/// Returns the MAC address of an interface.
pub(super) fn read_mac(root: Root, name: &str) -> Option<String> {
    root.text(&format!("{INTERFACES}/{name}/address"))
}

/// Leaves out the interfaces of other network namespaces: sysfs shows those of the namespace in
/// which it was mounted, and `/proc/net` those of this process.
pub(super) fn here(root: Root, names: Vec<String>) -> impl Iterator<Item = String> {
    let devices = root.text("proc/net/dev");
    let is_here = move |name: &String| {
        let is_named = |line: &str| line.split_once(':').is_some_and(|(it, _)| it.trim() == name);
        devices.as_deref().is_none_or(|devices| devices.lines().any(is_named))
    };
    names.into_iter().filter(is_here)
}

/// True if a session of PPP over Ethernet runs over the interface. The session's own interface is
/// no upper one in sysfs.
fn carries_pppoe(root: Root, name: &str) -> bool {
    // Columns: session, address of the peer, interface.
    let sessions = root.text("proc/net/pppoe").unwrap_or_default();
    sessions.lines().skip(1).any(|line| line.split_whitespace().nth(2) == Some(name))
}

pub(super) fn read_interface(root: Root, name: String) -> Interface {
    let routes = root.text("proc/net/route").unwrap_or_default();
    let mut interface = Interface {
        master: root.link(&format!("{INTERFACES}/{name}/master")),
        upper: root
            .names(&format!("{INTERFACES}/{name}"))
            .iter()
            .find_map(|link| link.strip_prefix("upper_").map(str::to_owned))
            .or_else(|| carries_pppoe(root, &name).then(|| "a PPPoE session".to_owned())),
        mtu: root.number(&format!("{INTERFACES}/{name}/mtu")),
        is_device: root.has(&format!("{INTERFACES}/{name}/device")),
        ..Interface::default()
    };
    // Columns: interface, destination, gateway, flags, ...
    for line in routes.lines().skip(1) {
        let mut words = line.split_whitespace();
        if words.next() == Some(&name) {
            match words.next() {
                Some("00000000") => interface.default_route = true,
                _ => interface.address = true,
            }
        }
    }
    // Columns: destination, its prefix length, ..., interface (last). An unreachable default route
    // of the loopback interface is always there.
    let routes = root.text("proc/net/ipv6_route").unwrap_or_default();
    interface.default_route |= routes.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.last() == Some(&name.as_str())
            && words[0].bytes().all(|digit| digit == b'0')
            && words.get(1) == Some(&"00")
    });
    // Columns: address, index, prefix length, scope (00 is global), flags, interface.
    let addresses = root.text("proc/net/if_inet6").unwrap_or_default();
    interface.address |= addresses.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.last() == Some(&name.as_str()) && words.get(3) == Some(&"00")
    });
    Interface { name, ..interface }
}
