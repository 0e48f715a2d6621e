// SPDX-License-Identifier: BSD-3-Clause
//! Takes a snapshot of the host from `/sys` and `/proc`. It only reads, and only below a given
//! root, so that tests can show it any machine. Unreadable values are `None`, or empty where that
//! means the same.

mod boot;
mod cgroup;
mod cpus;
mod energy;
pub mod locks;
mod memory;
mod nics;
mod nodes;
mod processes;
mod software;
mod vmbus;

pub(crate) use boot::{Boot, BootLoader, Tuned};
pub(crate) use cpus::BUSY_PERCENT;
pub use cpus::{CPU_MAX, CpuList, CpuLoad, Cpus, Processor, format_cpus};
pub use energy::{EnergyMeter, NoEnergy};
pub(crate) use memory::{HugepagePool, NO_LIMIT};
pub use memory::{Memory, start_again_without_hugepages};
pub use nics::Nic;
pub(crate) use nics::{Interface, USER_DRIVERS};
pub use nodes::{node_of_interface, node_of_pci};
pub use processes::{Process, busiest_process_on};
pub(crate) use software::Privileges;
pub use software::Software;
pub use vmbus::vfs_without_master;
pub(crate) use vmbus::{USER_DRIVER as VMBUS_USER_DRIVER, VmbusNic};

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A host at one moment.
#[derive(Debug)]
pub struct Host {
    pub(crate) cpus: Cpus,
    pub(crate) processor: Processor,
    pub(crate) memory: Memory,
    /// Every NIC on the PCI bus; `None` without such a bus.
    pub(crate) nics: Option<Vec<Nic>>,
    /// Every NIC on VMBus; `None` without such a bus.
    pub(crate) vmbus: Option<Vec<VmbusNic>>,
    pub(crate) software: Software,
    pub(crate) boot: Boot,
    /// Load of the cpus, if it was measured.
    pub(crate) load: Option<CpuLoad>,
    /// Process that keeps the busiest cpu busy, if it is known.
    pub(crate) busiest: Option<Process>,
    /// Linux interfaces; `None` if the kernel does not list them.
    pub(crate) interfaces: Option<Vec<Interface>>,
}

impl Host {
    /// Reads the host whose root directory is `root`.
    pub fn read(root: &Path) -> Self {
        let root = Root(root);
        let nics = nics::read(root);
        Self {
            cpus: Cpus::read(root),
            processor: Processor::read(root),
            memory: Memory::read(root),
            vmbus: vmbus::read(root, nics.as_deref().unwrap_or_default()),
            nics,
            software: Software::read(root),
            boot: Boot::read(root),
            load: None,
            busiest: None,
            interfaces: nics::read_interfaces(root),
        }
    }

    /// Adds what a copy of files cannot tell: the load of this host's cpus, measured for a tenth of
    /// a second, and the process that keeps the busiest one busy. `gro` says whether an interface
    /// has GRO on.
    pub fn measure(&mut self, gro: impl Fn(&str) -> Option<bool>) {
        let load = CpuLoad::measure();
        let busiest = load.busiest().filter(|(_, percent)| *percent > BUSY_PERCENT);
        self.busiest = busiest.and_then(|(cpu, _)| busiest_process_on(cpu));
        self.load = Some(load);
        let interfaces = self.interfaces.iter_mut().flatten();
        interfaces.for_each(|interface| interface.gro = gro(&interface.name));
    }
}

/// The directory that stands for `/`.
#[derive(Clone, Copy)]
struct Root<'a>(&'a Path);

/// Most bytes that are read of a file.
const TEXT_MAX: u64 = 16 << 20;

impl Root<'_> {
    /// Returns the contents of a file without blanks at its ends; `None` if it is no regular file.
    /// Bytes that are not UTF-8, as names of interfaces may have, become U+FFFD.
    fn text(self, path: &str) -> Option<String> {
        let path = self.0.join(path);
        // To open a pipe would block.
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(TEXT_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    fn number(self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Returns the value of `name` in a file of `name: value` lines.
    fn field(self, path: &str, name: &str) -> Option<String> {
        self.text(path)?.lines().find_map(|line| {
            let rest = line.strip_prefix(name)?;
            Some(rest.trim_start().strip_prefix(':')?.trim().to_owned())
        })
    }

    /// Returns the names in a directory, sorted.
    fn names(self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns the last part of a symbolic link's target.
    fn link(self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.0.join(path)).ok()?;
        target.file_name()?.to_str().map(str::to_owned)
    }

    fn has(self, path: &str) -> bool {
        self.0.join(path).exists()
    }
}
