// SPDX-License-Identifier: BSD-3-Clause
//! Judges NICs: which can be a port, which must never be taken, and how to bind one to DPDK.

use super::{Finding, Status};
use crate::host::{Host, Interface, Nic, Software, USER_DRIVERS};

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
    let several_nodes = host.processor.nodes.is_some_and(|nodes| nodes > 1);
    findings.extend(nics.iter().map(|nic| diagnose_nic(nic, several_nodes)));
    findings
}

fn vfio(software: &Software) -> Finding {
    const TOPIC: &str = "vfio";
    let loaded = software.nic_modules.join(", ");
    let vfio = software.nic_modules.contains(&"vfio_pci");
    match (vfio, software.iommu_groups, software.vfio_without_iommu) {
        (true, 1.., _) => Finding::new(TOPIC, Status::Ok, "loaded, with an IOMMU"),
        (true, 0, true) => {
            Finding::new(TOPIC, Status::Warn, "loaded, without an IOMMU (unsafe mode)")
                .advise("a device can write to any memory: turn on the IOMMU if there is one")
        }
        (true, 0, false) => Finding::new(TOPIC, Status::Note, "loaded, but there is no IOMMU")
            .advise(
                "turn it on (firmware; intel_iommu=on iommu=pt), or in a VM: echo 1 > \
                 /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
            ),
        (false, ..) if !loaded.is_empty() => {
            Finding::new(TOPIC, Status::Note, format!("not loaded; {loaded} is"))
                .advise("prefer vfio: modprobe vfio-pci")
        }
        (false, ..) => Finding::new(TOPIC, Status::Note, "not loaded")
            .advise("to give a PCI device to DPDK: modprobe vfio-pci"),
    }
}

fn diagnose_nic(nic: &Nic, several_nodes: bool) -> Finding {
    let topic = format!("nic {}", nic.address);
    let mut what = format!("{} on {}", nic.id, nic.driver.as_deref().unwrap_or("no driver"));
    if let Some(node) = nic.node.filter(|_| several_nodes) {
        what = format!("{what}, NUMA node {node}");
    }
    if let Some((interface, uses)) = in_use(&nic.interfaces) {
        return Finding::new(&topic, Status::Warn, format!("{what}; {interface} {uses}"))
            .advise("never give it to Millrace or unbind it: this host would lose its network");
    }
    let address = &nic.address;
    let driver = nic.driver.as_deref().unwrap_or_default();
    if SHARING_DRIVERS.contains(&driver) || USER_DRIVERS.contains(&driver) {
        return Finding::new(&topic, Status::Ok, format!("{what}; ready as port {address}"));
    }
    let linux = match nic.interfaces.first() {
        Some(interface) => format!(", or as it is: net_af_packet0,iface={}", interface.name),
        None => String::new(),
    };
    let iommu = if nic.iommu { "" } else { "; it has no IOMMU group (see vfio)" };
    Finding::new(&topic, Status::Note, format!("{what}; idle{iommu}"))
        .advise(format!("for a port: dpdk-devbind.py --bind=vfio-pci {address}{linux}"))
}

/// Returns the first interface that the host needs, and for what.
fn in_use(interfaces: &[Interface]) -> Option<(&str, String)> {
    interfaces.iter().find_map(|interface| {
        let uses = match interface {
            Interface { default_route: true, .. } => "carries the default route".to_owned(),
            Interface { address: true, .. } => "has an address".to_owned(),
            Interface { master: Some(master), .. } => format!("belongs to {master}"),
            _ => return None,
        };
        Some((interface.name.as_str(), uses))
    })
}
