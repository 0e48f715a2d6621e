// SPDX-License-Identifier: BSD-3-Clause
//! Drops the capabilities that a run does not need once its ports and files are open
//! (capabilities(7)).

use config::plan::Plan;
use report::output::write_line;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A set of capabilities; bit n is capability n of linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities(u64);

impl Capabilities {
    const NONE: Self = Self(0);
    const DAC_OVERRIDE: Self = Self(1 << 1);
    /// `NET_ADMIN` and `NET_RAW`: to end promiscuous mode, and to create flow rules on some NICs.
    const NETWORK: Self = Self(1 << 12 | 1 << 13);
    /// `IPC_LOCK`, `SYS_RAWIO` and `SYS_ADMIN`: to lock and look up the memory that a NIC reads,
    /// when a port is reset.
    const DEVICES: Self = Self(1 << 14 | 1 << 17 | 1 << 21);

    /// Returns the capabilities of both sets.
    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the capabilities that a run of this plan needs, if it opens `files` again.
    pub(crate) fn of(plan: &Plan, files: &[PathBuf]) -> Self {
        let ports = plan.pairs.iter().flat_map(|pair| [&pair.a, &pair.b]);
        let of_ports = ports.fold(Self::NONE, |all, port| match () {
            () if port.is_pci() || port.is_vmbus() => all.union(Self::NETWORK).union(Self::DEVICES),
            () if port.interface().is_some() || port.name.starts_with("net_t") => {
                all.union(Self::NETWORK)
            }
            () => all,
        });
        match files.iter().all(|file| is_ours(file)) {
            true => of_ports,
            false => of_ports.union(Self::DAC_OVERRIDE),
        }
    }

    /// Drops all capabilities of this process but these, for good.
    pub(crate) fn keep_only(self) {
        if !dpdk::linux::limit_privileges(self.0) {
            let message = "millrace: some threads keep their privileges; the run goes on";
            write_line(io::stderr(), message);
        }
    }
}

/// True if this user owns the folder of the file and, if it exists, the file.
fn is_ours(file: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let is_owned = |path: &Path| fs::metadata(path).is_ok_and(|found| found.uid() == user);
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    is_owned(folder) && (!file.exists() || is_owned(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_take_a_capability() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("flows.jsonl");
        assert!(is_ours(&file));
        fs::write(&file, "").unwrap();
        assert!(is_ours(&file));
        assert_eq!(is_ours(Path::new("/proc/1/nowhere")), rustix::process::geteuid().is_root());
    }
}
