// SPDX-License-Identifier: BSD-3-Clause
//! Judges NICs on the PCI bus: which can be a port, which must never be taken, and how to bind one
//! to DPDK.

use super::{Finding, Status};
use crate::host::{Host, Nic, Software, USER_DRIVERS, VmbusNic};

/// Drivers by which Linux and DPDK share the NIC.
const SHARING_DRIVERS: [&str; 3] = ["mlx4_core", "mlx5_core", "mana"];

pub(super) fn diagnose(host: &Host) -> Vec<Finding> {
    let Some(nics) = &host.nics else {
        return vec![Finding::unknown("nics", "sys/bus/pci/devices")];
    };
    if nics.is_empty() {
        let none =
            "none on the PCI bus; virtual ports work (net_pcap, net_memif, net_af_packet...)";
        return vec![Finding::new("nics", Status::Note, none)];
    }
    let mut findings = vec![vfio(&host.software)];
    findings.extend(bindings(host));
    findings.extend(nics.iter().map(|nic| diagnose_nic(nic, host)));
    findings
}

/// The use of a NIC, as far as this process can see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NicUse {
    /// The host needs this interface of it, for this.
    Host(String, String),
    /// A kernel driver has it, and no interface of it is in this network namespace.
    Unseen,
    /// DPDK can use it as it is.
    Ready,
    /// Nothing uses it.
    Idle,
}

impl NicUse {
    /// Returns the use of `nic`.
    pub(crate) fn of(nic: &Nic) -> Self {
        let used = nic.interfaces.iter().find_map(|it| Some((it.name.clone(), it.usage()?)));
        if let Some((interface, usage)) = used {
            return Self::Host(interface, usage);
        }
        match nic.driver.as_deref() {
            Some(driver) if USER_DRIVERS.contains(&driver) => Self::Ready,
            Some(_) if nic.interfaces.is_empty() => Self::Unseen,
            Some(driver) if SHARING_DRIVERS.contains(&driver) => Self::Ready,
            _ => Self::Idle,
        }
    }
}

/// Returns the kernel driver that hands a NIC to DPDK on this host.
pub(crate) fn user_driver(software: &Software) -> &'static str {
    let needs_uio = software.iommu_groups == 0 && software.has_noiommu == Some(false);
    if needs_uio { "uio_pci_generic" } else { "vfio-pci" }
}

fn vfio(software: &Software) -> Finding {
    const TOPIC: &str = "vfio";
    const UIO: &str = "turn the IOMMU on (firmware; intel_iommu=on iommu=pt), or in a VM, since \
        this kernel has no vfio without IOMMU: modprobe uio_pci_generic (it needs hugepages)";
    let loaded = software.nic_modules.join(", ");
    let vfio = software.nic_modules.contains(&"vfio_pci");
    let has_iommu = software.iommu_groups > 0;
    match (vfio, software.vfio_without_iommu) {
        (true, _) if has_iommu => Finding::new(TOPIC, Status::Ok, "loaded, with an IOMMU"),
        (true, Some(true)) => {
            Finding::new(TOPIC, Status::Warn, "loaded, without an IOMMU (unsafe mode)")
                .advise("a device can write to any memory: turn on the IOMMU if there is one")
        }
        (true, Some(false)) => Finding::new(TOPIC, Status::Note, "loaded, but there is no IOMMU")
            .advise(
                "turn it on (firmware; intel_iommu=on iommu=pt), or in a VM: echo 1 > \
                 /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
            ),
        (true, None) => {
            Finding::new(TOPIC, Status::Note, "loaded, but there is no IOMMU").advise(UIO)
        }
        (false, _) if user_driver(software) != "vfio-pci" => {
            let loaded = if loaded.is_empty() { "none" } else { &loaded };
            let found = format!("not loaded, and there is no IOMMU; loaded instead: {loaded}");
            Finding::new(TOPIC, Status::Note, found).advise(UIO)
        }
        (false, _) if !loaded.is_empty() => {
            Finding::new(TOPIC, Status::Note, format!("not loaded; {loaded} is"))
                .advise("prefer vfio: modprobe vfio-pci")
        }
        (false, _) => Finding::new(TOPIC, Status::Note, "not loaded")
            .advise("to give a PCI device to DPDK: modprobe vfio-pci"),
    }
}

/// Says whether a NIC that is bound to DPDK stays so across a reboot; nothing if no NIC can be.
fn bindings(host: &Host) -> Option<Finding> {
    const TOPIC: &str = "driver bindings";
    let nics = host.nics.iter().flatten();
    let mut uses = nics.map(|nic| (NicUse::of(nic), nic.driver.as_deref().unwrap_or_default()));
    let is_bound = |(usage, driver): (NicUse, &str)| {
        usage == NicUse::Idle || (usage == NicUse::Ready && USER_DRIVERS.contains(&driver))
    };
    if !uses.any(is_bound) {
        return None;
    }
    if host.boot.driverctl {
        return Some(Finding::new(TOPIC, Status::Ok, "driverctl is there, which keeps them"));
    }
    let install = if host.boot.apt { "apt-get install" } else { "install" };
    let finding = Finding::new(TOPIC, Status::Note, "no driverctl: they end with a reboot");
    Some(finding.advise(format!(
        "{install} driverctl; without it, the script of millrace doctor --fix-script keeps them"
    )))
}

fn diagnose_nic(nic: &Nic, host: &Host) -> Finding {
    let topic = format!("nic {}", nic.address);
    let mut what = format!("{} on {}", nic.id, nic.driver.as_deref().unwrap_or("no driver"));
    let several_nodes = host.processor.nodes.is_some_and(|nodes| nodes > 1);
    if let Some(node) = nic.node.filter(|_| several_nodes) {
        what = format!("{what}, NUMA node {node}");
    }
    let address = &nic.address;
    let is_other_half = |it: &&VmbusNic| it.vf.as_ref().is_some_and(|vf| vf.address == *address);
    if let Some(whole) = host.vmbus.iter().flatten().find(is_other_half) {
        let found = format!("{what}; the VF of nic {}: both are one NIC", whole.uuid);
        return Finding::new(&topic, Status::Ok, found);
    }
    match NicUse::of(nic) {
        NicUse::Host(interface, usage) => {
            Finding::new(&topic, Status::Note, format!("{what}; {interface} {usage}"))
                .advise("never give it to Millrace or unbind it: this host would lose its network")
        }
        NicUse::Unseen => {
            let unseen = "no interface of it is visible: in use by another network namespace, or \
                          unknown";
            Finding::new(&topic, Status::Note, format!("{what}; {unseen}"))
                .advise("run millrace doctor in the host's own namespace before you bind it")
        }
        NicUse::Ready => {
            Finding::new(&topic, Status::Ok, format!("{what}; ready as port {address}"))
        }
        NicUse::Idle => {
            let as_it_is = match nic.interfaces.first() {
                Some(interface) => format!(", or as it is: {}", interface.name),
                None => String::new(),
            };
            let driver = user_driver(&host.software);
            let iommu = if nic.iommu { "" } else { "; it has no IOMMU group (see vfio)" };
            Finding::new(&topic, Status::Note, format!("{what}; idle{iommu}"))
                .advise(format!("for a port: dpdk-devbind.py --bind={driver} {address}{as_it_is}"))
        }
    }
}
