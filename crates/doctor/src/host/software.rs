// SPDX-License-Identifier: BSD-3-Clause
//! Reads kernel, DPDK, and the privileges of this process.

use super::Root;
use std::path::Path;

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;

/// The software that a run depends on.
#[derive(Debug)]
pub struct Software {
    /// Kernel release.
    pub(crate) kernel: Option<String>,
    /// True if there are folders of libraries, in which DPDK would be.
    pub(crate) has_libraries: bool,
    /// The first installation of DPDK with drivers.
    pub(crate) dpdk: Option<Dpdk>,
    /// True if the library is there that DPDK's drivers of Mellanox and Microsoft NICs need.
    pub(crate) has_ibverbs: bool,
    pub(crate) privileges: Option<Privileges>,
    /// Loaded kernel modules that can hand a NIC to DPDK.
    pub(crate) nic_modules: Vec<&'static str>,
    /// True if vfio is set to work without an IOMMU, and false if it could be; `None` if it cannot,
    /// or if that is not known because it is not loaded.
    pub(crate) vfio_without_iommu: Option<bool>,
    /// True if the kernel was built with a vfio that can work without an IOMMU; `None` if its build
    /// configuration cannot be read.
    pub(crate) has_noiommu: Option<bool>,
    /// Number of IOMMU groups; 0 if the IOMMU is off.
    pub(crate) iommu_groups: usize,
    /// Socket families of the kernel, of `PACKET` and `XDP`.
    pub(crate) socket_families: Option<Vec<&'static str>>,
    /// True if `irqbalance` runs, which moves interrupts between cpus.
    pub(crate) irqbalance: Option<bool>,
}

/// An installation of DPDK.
#[derive(Debug)]
pub(crate) struct Dpdk {
    /// Version in its pkg-config file, which comes with the headers.
    pub(crate) version: Option<String>,
    /// Directory of the drivers.
    pub(crate) driver_dir: String,
    /// Network drivers in it, such as `net_pcap`.
    pub(crate) drivers: Vec<String>,
}

/// Privileges of the process.
#[derive(Debug, Default)]
pub(crate) struct Privileges {
    pub(crate) root: bool,
    /// `CAP_NET_RAW`: needed for AF_PACKET sockets.
    pub(crate) net_raw: bool,
    /// `CAP_NET_ADMIN`: needed for TAP interfaces.
    pub(crate) net_admin: bool,
}

impl Software {
    /// Returns the kernel release of this host, as `uname -r` prints it.
    pub fn kernel_of_this_host() -> Option<String> {
        Root(Path::new("/")).text("proc/sys/kernel/osrelease")
    }

    pub(super) fn read(root: Root) -> Self {
        let modules = ["vfio_pci", "uio_pci_generic", "igb_uio"];
        let module_loaded = |name: &&&str| root.has(&format!("sys/module/{name}"));
        let noiommu = root.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
        let known = |protocols: String| {
            let names = protocols.lines().filter_map(|line| line.split_whitespace().next());
            let names: Vec<_> = names.collect();
            ["PACKET", "XDP"].into_iter().filter(|family| names.contains(family)).collect()
        };
        Self {
            kernel: root.text("proc/sys/kernel/osrelease"),
            has_libraries: root.has("usr/lib"),
            dpdk: read_dpdk(root),
            has_ibverbs: library_dirs(root)
                .iter()
                .any(|dir| root.has(&format!("{dir}/libibverbs.so.1"))),
            privileges: read_privileges(root),
            nic_modules: modules.iter().filter(module_loaded).copied().collect(),
            vfio_without_iommu: noiommu.as_deref().map(|mode| matches!(mode, "Y" | "1")),
            has_noiommu: noiommu.is_some().then_some(true).or_else(|| read_noiommu(root)),
            iommu_groups: root.names("sys/kernel/iommu_groups").len(),
            socket_families: root.text("proc/net/protocols").map(known),
            irqbalance: runs(root, "irqbalance"),
        }
    }
}

/// Reads from the kernel's build configuration whether vfio can work without an IOMMU.
fn read_noiommu(root: Root) -> Option<bool> {
    if root.has("sys/module/vfio") {
        return Some(false);
    }
    let release = root.text("proc/sys/kernel/osrelease")?;
    let places = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
    let config = places.iter().find_map(|place| root.text(place))?;
    Some(config.lines().any(|line| line == "CONFIG_VFIO_NOIOMMU=y"))
}

/// Finds DPDK. Debian has the drivers in `usr/lib/<triplet>/dpdk/pmds-<abi>`, others have them in
/// `usr/lib64` or below `usr/local`.
fn read_dpdk(root: Root) -> Option<Dpdk> {
    library_dirs(root).iter().find_map(|library| {
        let abi = root
            .names(&format!("{library}/dpdk"))
            .into_iter()
            .rfind(|name| name.starts_with("pmds-"))?;
        let driver_dir = format!("{library}/dpdk/{abi}");
        // A driver has up to three names: `librte_net_null.so`, and the same with versions.
        let mut drivers: Vec<String> = root
            .names(&driver_dir)
            .iter()
            .filter_map(|name| name.strip_prefix("librte_")?.split_once(".so"))
            .filter(|(driver, _)| driver.starts_with("net_"))
            .map(|(driver, _)| driver.to_owned())
            .collect();
        drivers.dedup();
        Some(Dpdk {
            version: root.field(&format!("{library}/pkgconfig/libdpdk.pc"), "Version"),
            drivers,
            driver_dir: format!("/{driver_dir}"),
        })
    })
}

/// Returns the directories of libraries.
fn library_dirs(root: Root) -> Vec<String> {
    let mut libraries: Vec<String> = ["usr/local/lib", "usr/lib"]
        .iter()
        .flat_map(|dir| {
            let triplets = root.names(dir).into_iter().filter(|name| name.contains("-linux-"));
            triplets.map(move |triplet| format!("{dir}/{triplet}"))
        })
        .collect();
    libraries
        .extend(["usr/local/lib64", "usr/local/lib", "usr/lib64", "usr/lib"].map(String::from));
    libraries
}

fn read_privileges(root: Root) -> Option<Privileges> {
    let status = "proc/self/status";
    let users = root.field(status, "Uid")?;
    let capabilities = root.field(status, "CapEff");
    let capabilities = capabilities.and_then(|text| u64::from_str_radix(&text, 16).ok());
    let may = |capability: u32| capabilities.unwrap_or(0) >> capability & 1 == 1;
    Some(Privileges {
        // Columns: real, effective, ...
        root: users.split_whitespace().nth(1) == Some("0"),
        net_raw: may(CAP_NET_RAW),
        net_admin: may(CAP_NET_ADMIN),
    })
}

/// True if `program` runs. `None` if it is not seen and process 1 is hidden, since other processes
/// may be hidden too.
fn runs(root: Root, program: &str) -> Option<bool> {
    let name = |process: &str| root.text(&format!("proc/{process}/comm"));
    let runs = root
        .names("proc")
        .iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .any(|process| name(process).as_deref() == Some(program));
    (runs || name("1").is_some()).then_some(runs)
}
