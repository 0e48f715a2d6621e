// SPDX-License-Identifier: BSD-3-Clause
//! Judges NICs of Hyper-V and Azure: which two devices are one NIC, and which library is missing.

use super::{Finding, Status};
use crate::host::{Host, Software, VMBUS_USER_DRIVER, VmbusNic};

#[cfg(test)]
mod tests;

const NETVSC: &str = "net_netvsc";

pub(super) fn diagnose(host: &Host) -> Vec<Finding> {
    let nics = host.vmbus.as_deref().unwrap_or_default();
    let mut findings = Vec::new();
    if !nics.is_empty() {
        findings.extend(drivers(nics, &host.software));
    }
    findings.extend(nics.iter().map(diagnose_nic));
    findings
}

/// True if the host does not need the NIC and its kernel driver has it.
pub(crate) fn is_idle(nic: &VmbusNic) -> bool {
    nic.interface.as_ref().is_some_and(|interface| interface.usage().is_none())
}

/// Checks that DPDK has the drivers of both devices; nothing without DPDK, which has a finding of
/// its own.
fn drivers(nics: &[VmbusNic], software: &Software) -> Option<Finding> {
    const TOPIC: &str = "vmbus drivers";
    let dpdk = software.dpdk.as_ref()?;
    let has = |wanted: &str| dpdk.drivers.iter().any(|driver| driver == wanted);
    if !has(NETVSC) {
        let lacks = "DPDK lacks net_netvsc, so no NIC here is a port";
        let finding = Finding::new(TOPIC, Status::Warn, lacks);
        return Some(finding.advise("install librte_net_netvsc (Debian: librte-net-netvsc23)"));
    }
    let mut missing = Vec::new();
    let mut vf_drivers: Vec<_> =
        nics.iter().filter_map(|nic| nic.vf.as_ref()?.dpdk_driver()).collect();
    vf_drivers.sort_unstable();
    vf_drivers.dedup();
    if vf_drivers.is_empty() {
        // Nothing shows a VF once user space has its netvsc device: any of the two will do.
        vf_drivers = ["net_mlx5", "net_mana"].into_iter().filter(|it| has(it)).take(1).collect();
        if vf_drivers.is_empty() {
            missing.push("librte_net_mlx5 or librte_net_mana".to_owned());
        }
    }
    let without = vf_drivers.iter().filter(|driver| !has(driver));
    missing.extend(without.map(|driver| format!("librte_{driver}")));
    if !software.has_ibverbs {
        missing.push("libibverbs.so.1".to_owned());
    }
    if missing.is_empty() {
        let found = format!("{NETVSC}, and for VFs {}", vf_drivers.join(" and "));
        return Some(Finding::new(TOPIC, Status::Ok, found));
    }
    let vf = vf_drivers.first().unwrap_or(&"net_mlx5").trim_start_matches("net_");
    let found = format!("missing: {}", missing.join(", "));
    let finding = Finding::new(TOPIC, Status::Warn, found);
    Some(finding.advise(format!(
        "the port will not come up: its VF needs {vf}; install them (Debian: librte-net-mlx5-23, \
         libibverbs1)"
    )))
}

fn diagnose_nic(nic: &VmbusNic) -> Finding {
    let topic = format!("nic {}", nic.uuid);
    let uuid = &nic.uuid;
    let mut what = format!("netvsc on {}", nic.driver.as_deref().unwrap_or("no driver"));
    if let Some(interface) = &nic.interface {
        what = format!("{what}, {}", interface.name);
    }
    if let Some(mac) = &nic.mac {
        what = format!("{what}, {mac}");
    }
    what = match &nic.vf {
        Some(vf) => {
            format!("{what}; one NIC with its VF {} ({}, {})", vf.address, vf.interface, vf.driver)
        }
        None if nic.interface.is_some() => format!("{what}; without a VF"),
        None => what,
    };
    if nic.driver.as_deref() == Some(VMBUS_USER_DRIVER) {
        return Finding::new(&topic, Status::Ok, format!("{what}; ready as port {uuid}"));
    }
    let Some(interface) = &nic.interface else {
        let unseen = "no interface of it is visible: in use by another network namespace, or \
                      unknown";
        return Finding::new(&topic, Status::Note, format!("{what}; {unseen}"));
    };
    if let Some(usage) = interface.usage() {
        return Finding::new(&topic, Status::Note, format!("{what}; {usage}"))
            .advise("never give it to Millrace or unbind it: this host would lose its network");
    }
    let slow = match nic.vf {
        Some(_) => "",
        None => " (without a VF it is slow: turn on accelerated networking)",
    };
    Finding::new(&topic, Status::Note, format!("{what}; idle")).advise(format!(
        "for a port: driverctl -b vmbus set-override {uuid} {VMBUS_USER_DRIVER}, then --pair \
         {uuid},...{slow}"
    ))
}
