// SPDX-License-Identifier: BSD-3-Clause
//! Reads NICs of Hyper-V and Azure. Such a NIC is two devices with one MAC address: one on VMBus
//! (netvsc), and mostly a VF on the PCI bus, which carries the packets.

use super::nics::{self, Interface, here, read_interface};
use super::{Nic, Root};
use std::path::Path;

const DEVICES: &str = "sys/bus/vmbus/devices";
/// Class of network devices (`HV_NIC_GUID` in include/linux/hyperv.h).
const NETWORK: &str = "f8615163-df3e-46c5-913f-f2d2f965ed0e";
/// The driver that hands such a device to user space.
pub(crate) const USER_DRIVER: &str = "uio_hv_generic";
/// Kernel drivers of VFs, with the DPDK driver for each.
const VF_DRIVERS: [(&str, &str); 3] =
    [("mlx4_core", "net_mlx4"), ("mlx5_core", "net_mlx5"), ("mana", "net_mana")];

/// A NIC on VMBus.
#[derive(Debug)]
pub(crate) struct VmbusNic {
    /// UUID of the device.
    pub(crate) uuid: String,
    /// Its kernel driver.
    pub(crate) driver: Option<String>,
    /// Its Linux interface in this network namespace; `None` once user space has it.
    pub(crate) interface: Option<Interface>,
    /// MAC address, as long as it has an interface.
    pub(crate) mac: Option<String>,
    /// The VF with the same MAC address.
    pub(crate) vf: Option<Vf>,
}

/// A VF on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vf {
    /// PCI address.
    pub(crate) address: String,
    pub(crate) interface: String,
    /// Its kernel driver.
    pub(crate) driver: String,
}

impl Vf {
    /// Returns the driver of DPDK that the VF needs; `None` if it is not known.
    pub(crate) fn dpdk_driver(&self) -> Option<&'static str> {
        VF_DRIVERS.iter().find(|(kernel, _)| *kernel == self.driver).map(|(_, dpdk)| *dpdk)
    }
}

/// Returns the NICs on VMBus; `None` without such a bus. `nics` are those on the PCI bus.
pub(super) fn read(root: Root, nics: &[Nic]) -> Option<Vec<VmbusNic>> {
    let nics = || root.names(DEVICES).into_iter().filter_map(|uuid| read_nic(root, uuid, nics));
    root.has(DEVICES).then(|| nics().collect())
}

fn read_nic(root: Root, uuid: String, nics: &[Nic]) -> Option<VmbusNic> {
    let file = |name: &str| format!("{DEVICES}/{uuid}/{name}");
    let class = root.text(&file("class_id"))?;
    if class.trim_matches(['{', '}']) != NETWORK {
        return None;
    }
    let driver = root.link(&file("driver"));
    let name = here(root, root.names(&file("net"))).next();
    let mac = name.as_deref().and_then(|name| nics::read_mac(root, name));
    let vf = mac.as_deref().and_then(|mac| find_vf(root, mac, nics));
    let interface = name.map(|name| read_interface(root, name));
    Some(VmbusNic { driver, interface, mac, vf, uuid })
}

fn find_vf(root: Root, mac: &str, nics: &[Nic]) -> Option<Vf> {
    nics.iter().find_map(|nic| {
        let has_mac = |it: &&Interface| nics::read_mac(root, &it.name).as_deref() == Some(mac);
        let interface = nic.interfaces.iter().find(has_mac)?.name.clone();
        Some(Vf { address: nic.address.clone(), interface, driver: nic.driver.clone()? })
    })
}

/// Returns the PCI addresses of this host's VFs that no netvsc interface has. The kernel makes a VF
/// the port of its netvsc interface. Once DPDK has the netvsc device, that interface is gone, and
/// nothing in sysfs says to which device the VF belongs.
pub fn vfs_without_master() -> Vec<String> {
    vfs_without_master_in(&nics::read(Root(Path::new("/"))).unwrap_or_default())
}

fn vfs_without_master_in(nics: &[Nic]) -> Vec<String> {
    let is_vf = |nic: &&Nic| {
        let driver = nic.driver.as_deref().unwrap_or_default();
        VF_DRIVERS.iter().any(|(kernel, _)| *kernel == driver)
            && nic.interfaces.iter().any(|interface| interface.usage().is_none())
    };
    nics.iter().filter(is_vf).map(|nic| nic.address.clone()).collect()
}
