// SPDX-License-Identifier: BSD-3-Clause
//! Finds why a device was not opened, and what to do about it, from DPDK's log and from what the
//! kernel shows of the device. DPDK itself seldom says either.

use crate::Log;
use crate::eal::is_pci;
use std::fs;
use std::path::{Path, PathBuf};

/// Kernel drivers that leave a device to DPDK.
const FOR_DPDK: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// Drivers of the kernel with which vfio shares an IOMMU group (vfio_dev_driver_allowed), and of
/// bridges, which are never given away.
const SHARE_GROUP: [&str; 3] = ["pcieport", "pci-stub", "shpchp"];

/// Virtual devices that need an argument, and the argument.
const NEEDED: [(&str, &str); 3] =
    [("net_af_packet", "iface"), ("net_af_xdp", "iface"), ("net_virtio_user", "path")];

/// Messages of drivers that the kernel refuses a socket or a device, for want of a privilege.
const PRIVILEGES: [&str; 4] = [
    "Could not open AF_PACKET socket",
    "/dev/net/tun: Operation not permitted",
    "TUNSETIFF): Operation not permitted",
    "You don't have permission to capture",
];

/// Returns the cause of a failure to open `devargs`, with advice; `None` if it is not known.
pub(crate) fn of(devargs: &str, log: &Log) -> Option<String> {
    match is_pci(devargs) {
        true => PciDevice::new(devargs, Path::new("/")).cause(log),
        false => of_virtual(devargs, log),
    }
}

fn of_virtual(devargs: &str, log: &Log) -> Option<String> {
    let (name, arguments) = devargs.split_once(',').unwrap_or((devargs, ""));
    let driver = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let needed = NEEDED.iter().find(|(known, _)| *known == driver);
    let has = |key: &str| arguments.split(',').any(|one| one.split('=').next() == Some(key));
    if let Some((_, key)) = needed.filter(|(_, key)| !has(key)) {
        return Some(format!("it needs the argument {key}=..., as in {name},{key}=..."));
    }
    PRIVILEGES.iter().any(|text| log.mentions(text)).then(|| {
        "it needs root, or CAP_NET_RAW and CAP_NET_ADMIN: \
         sudo setcap cap_net_raw,cap_net_admin+ep $(command -v millrace)"
            .to_owned()
    })
}

/// A PCI device as the kernel shows it.
struct PciDevice {
    /// With the domain.
    address: String,
    /// `/`, or a folder of a test.
    root: PathBuf,
}

impl PciDevice {
    fn new(devargs: &str, root: &Path) -> Self {
        let address = devargs.split(',').next().unwrap_or_default();
        let address = address.strip_prefix("pci:").unwrap_or(address).to_lowercase();
        let address = match address.split(':').count() {
            2 => format!("0000:{address}"),
            _ => address,
        };
        Self { address, root: root.to_owned() }
    }

    fn path(&self, address: &str, entry: &str) -> PathBuf {
        self.root.join("sys/bus/pci/devices").join(address).join(entry)
    }

    /// Returns the kernel driver of a device; `None` if no driver has it.
    fn driver(&self, address: &str) -> Option<String> {
        last_part(&fs::read_link(self.path(address, "driver")).ok()?)
    }

    fn cause(&self, log: &Log) -> Option<String> {
        let Self { address, .. } = self;
        if !self.path(address, "").exists() {
            return Some("there is no PCI device with this address; lspci lists all".to_owned());
        }
        let bind = format!("dpdk-devbind.py --bind=vfio-pci {address}");
        match self.driver(address) {
            None => Some(format!("no kernel driver has it; give it to DPDK: {bind}")),
            Some(driver) if !FOR_DPDK.contains(&driver.as_str()) => Some(format!(
                "the kernel has it, with its driver {driver}; if the host can do without this NIC \
                 (`millrace doctor` says what uses it), give it to DPDK: {bind}"
            )),
            Some(driver) => self.cause_in_log(&driver, log),
        }
    }

    fn cause_in_log(&self, driver: &str, log: &Log) -> Option<String> {
        if log.mentions("Cannot set up DMA remapping, error 12") {
            return Some(
                "the limit of locked memory is too small: ulimit -l unlimited, or \
                 LimitMEMLOCK=infinity in a unit of systemd"
                    .to_owned(),
            );
        }
        if log.mentions("Expecting 'PA' IOVA mode") {
            return Some(format!(
                "its driver {driver} needs root and hugepages: sysctl vm.nr_hugepages=512; with an \
                 IOMMU, vfio-pci needs neither"
            ));
        }
        let failed = log.lines().iter().filter(|line| line.contains("Cannot open /dev/"));
        let failed = failed.chain(log.lines().iter().filter(|line| line.contains("/dev/vfio/")));
        for line in failed {
            let file = line.split_whitespace().find(|word| word.starts_with("/dev/"))?;
            let file = file.trim_end_matches(':');
            if line.contains("Device or resource busy") {
                return Some(self.holder(file));
            }
            if line.contains("Permission denied") {
                return Some(format!("this user may not open {file}: chown USER {file}"));
            }
        }
        log.mentions("group is not viable").then(|| self.others_of_group())
    }

    /// Names the process that has `file` open, as far as this user may see it.
    fn holder(&self, file: &str) -> String {
        let has_open = |process: &PathBuf| {
            let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            let mut targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
            targets.any(|target| target == Path::new(file))
        };
        let is_other = |process: &PathBuf| {
            let number = process.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
            number.is_some_and(|number| number != std::process::id())
        };
        let processes = fs::read_dir(self.root.join("proc")).into_iter().flatten().flatten();
        let mut processes = processes.map(|entry| entry.path()).filter(is_other);
        match processes.find(has_open) {
            Some(process) => {
                let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
                let number = last_part(&process).unwrap_or_default();
                format!("process {number} ({}) uses it", name.trim_end())
            }
            None => "another process uses it, which this user may not see".to_owned(),
        }
    }

    /// Names the devices of the IOMMU group that are not given to DPDK.
    fn others_of_group(&self) -> String {
        let group = fs::read_dir(self.path(&self.address, "iommu_group/devices"));
        let addresses = group.into_iter().flatten().flatten();
        let addresses = addresses.filter_map(|entry| last_part(&entry.path()));
        let is_with_kernel = |address: &String| {
            let stays = |driver: &str| FOR_DPDK.contains(&driver) || SHARE_GROUP.contains(&driver);
            self.driver(address).is_some_and(|driver| !stays(&driver))
        };
        let mut others: Vec<_> = addresses.filter(is_with_kernel).collect();
        others.sort();
        let others = others.join(" ");
        format!("all devices of its IOMMU group go to DPDK together; the kernel has {others}")
    }
}

fn last_part(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder with the kernel's view of some devices, removed on drop.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, devices: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("cause-{name}-{}", std::process::id()));
            for (address, driver) in devices {
                let device = root.join("sys/bus/pci/devices").join(address);
                let group = device.join("iommu_group/devices");
                fs::create_dir_all(&group).unwrap();
                for (other, _) in devices {
                    fs::write(group.join(other), "").unwrap();
                }
                if !driver.is_empty() {
                    symlink(format!("../../../bus/pci/drivers/{driver}"), device.join("driver"))
                        .unwrap();
                }
            }
            Self(root)
        }

        fn cause(&self, devargs: &str, line: &str) -> String {
            let cause = PciDevice::new(devargs, &self.0).cause(&Log::of(&[line]));
            cause.unwrap_or_default()
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_device_that_dpdk_does_not_have_is_named_with_its_driver() {
        let root = Root::new("driver", &[("0000:01:00.0", "e1000e"), ("0000:02:00.0", "")]);
        assert!(root.cause("03:00.0", "").contains("there is no PCI device"));
        let cause = root.cause("0000:01:00.0,a=b", "");
        for part in ["its driver e1000e", "dpdk-devbind.py --bind=vfio-pci 0000:01:00.0"] {
            assert!(cause.contains(part), "{cause}");
        }
        assert!(root.cause("pci:02:00.0", "").starts_with("no kernel driver has it"));
    }

    /// Lines as DPDK 22.11 logs them.
    #[test]
    fn lines_of_the_log_have_a_cause() {
        let root = Root::new(
            "log",
            &[
                ("0000:01:00.0", "vfio-pci"),
                ("0000:02:00.0", "e1000e"),
                ("0000:03:00.0", "pcieport"),
            ],
        );
        let process = root.0.join("proc/4711");
        fs::create_dir_all(process.join("fd")).unwrap();
        fs::write(process.join("comm"), "dpdk-testpmd\n").unwrap();
        symlink("/dev/vfio/4", process.join("fd/9")).unwrap();
        for (line, part) in [
            (
                "EAL: Cannot set up DMA remapping, error 12 (Cannot allocate memory)",
                "ulimit -l unlimited",
            ),
            (
                "EAL:   Expecting 'PA' IOVA mode but current mode is 'VA', not initializing",
                "needs root and hugepages",
            ),
            (
                "EAL: Cannot open /dev/vfio/4: Device or resource busy",
                "process 4711 (dpdk-testpmd) uses it",
            ),
            ("EAL: Cannot open /dev/vfio/5: Device or resource busy", "another process uses it"),
            ("EAL: Cannot open /dev/vfio/4: Permission denied", "chown USER /dev/vfio/4"),
            ("EAL: 0000:01:00.0 VFIO group is not viable!", "the kernel has 0000:02:00.0"),
            ("EAL: something else", ""),
        ] {
            let cause = root.cause("01:00.0", line);
            assert!(cause.contains(part) && cause.is_empty() == part.is_empty(), "{line}: {cause}");
        }
    }

    #[test]
    fn virtual_devices_lack_arguments_or_privileges() {
        let cause = |devargs, line: &str| of(devargs, &Log::of(&[line])).unwrap_or_default();
        assert!(cause("net_af_packet0", "").contains("net_af_packet0,iface=..."));
        assert!(cause("net_af_packet12,qpairs=2", "").contains("iface="));
        assert_eq!(cause("net_af_packet0,iface=eth1", ""), "");
        let line = "open_packet_iface(): Could not open AF_PACKET socket";
        assert!(cause("net_af_packet0,iface=eth1", line).contains("setcap cap_net_raw,"));
    }
}
