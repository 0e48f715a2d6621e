// SPDX-License-Identifier: BSD-3-Clause
//! Judges kernel, DPDK and privileges.

use super::{Finding, Status};
use crate::host::{Privileges, Software};
use std::path::Path;

/// The oldest kernel that DPDK 22.11 supports.
const KERNEL_LEAST: (u32, u32) = (4, 14);

/// Drivers that the tests, the demo and the benchmarks use.
const WANTED_DRIVERS: [&str; 6] =
    ["net_af_packet", "net_memif", "net_null", "net_pcap", "net_ring", "net_tap"];

pub(super) fn diagnose(software: &Software) -> Vec<Finding> {
    let mut findings = vec![kernel(software), dpdk(software)];
    findings.push(privileges(software.privileges.as_ref()));
    findings.extend(socket_families(software));
    findings
}

fn kernel(software: &Software) -> Finding {
    let Some(release) = &software.kernel else {
        return Finding::unknown("kernel", "proc/sys/kernel/osrelease");
    };
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= KERNEL_LEAST {
        return Finding::new("kernel", Status::Ok, release);
    }
    let (major, minor) = KERNEL_LEAST;
    Finding::new("kernel", Status::Warn, release)
        .advise(format!("DPDK supports Linux {major}.{minor} and later: use a newer kernel"))
}

fn dpdk(software: &Software) -> Finding {
    let Some(dpdk) = &software.dpdk else {
        if !software.has_libraries {
            return Finding::unknown("dpdk", "usr/lib");
        }
        return Finding::new("dpdk", Status::Fail, "no driver directory below /usr/lib")
            .advise("install DPDK: scripts/install-deps run, or apt-get install libdpdk-dev");
    };
    let missing: Vec<_> = WANTED_DRIVERS
        .into_iter()
        .filter(|wanted| !dpdk.drivers.iter().any(|driver| driver == wanted))
        .collect();
    let version = dpdk.version.as_deref().unwrap_or("of unknown version");
    let found =
        format!("DPDK {version}, {} network drivers in {}", dpdk.drivers.len(), dpdk.driver_dir);
    if missing.is_empty() {
        return Finding::new("dpdk", Status::Ok, found);
    }
    Finding::new("dpdk", Status::Warn, format!("{found}; not among them: {}", missing.join(", ")))
        .advise("install the packages of these drivers: apt-cache search librte-net")
}

fn privileges(privileges: Option<&Privileges>) -> Finding {
    const TOPIC: &str = "privileges";
    let Some(privileges) = privileges else {
        return Finding::unknown(TOPIC, "proc/self/status");
    };
    if privileges.root {
        return Finding::new(TOPIC, Status::Ok, "root");
    }
    let mut missing = Vec::new();
    if !(privileges.net_raw && privileges.net_admin) {
        missing.push("net_af_packet (CAP_NET_RAW and CAP_NET_ADMIN)");
    }
    if !privileges.net_admin {
        missing.push("net_tap (CAP_NET_ADMIN)");
    }
    let mut found = "not root: captures, null, ring and memif ports work".to_owned();
    if !missing.is_empty() {
        found += "; not allowed: ";
        found += &missing.join(", ");
    }
    Finding::new(TOPIC, Status::Note, found)
        .advise("for Linux interfaces and PCI devices run as root")
}

/// Says whether the driver of the software NIC is built. `driver` is its place; `fault` is why DPDK
/// would not load it from there.
pub fn software_nic(driver: Option<&Path>, fault: Option<String>) -> Finding {
    const TOPIC: &str = "software nic";
    match (driver, fault) {
        (Some(driver), None) => Finding::new(TOPIC, Status::Ok, driver.display().to_string()),
        (Some(_), Some(fault)) => Finding::new(TOPIC, Status::Warn, fault),
        (None, _) => {
            Finding::new(TOPIC, Status::Note, "not built; no net_twin, no demo of offload")
                .advise("make twin")
        }
    }
}

fn socket_families(software: &Software) -> Vec<Finding> {
    let finding = |family: &str, topic, driver| {
        let Some(families) = &software.socket_families else {
            return Finding::unknown(topic, "proc/net/protocols");
        };
        if families.contains(&family) {
            return Finding::new(topic, Status::Ok, format!("known to the kernel; {driver} works"));
        }
        Finding::new(topic, Status::Note, format!("not known to the kernel; no {driver}"))
            .advise("to use Linux interfaces as ports, boot a kernel that has it")
    };
    vec![finding("PACKET", "af_packet", "net_af_packet"), finding("XDP", "af_xdp", "net_af_xdp")]
}
