// SPDX-License-Identifier: BSD-3-Clause
//! Reserves hugepages for the length of the benchmark. If too few are free, and this process may
//! change their number, it does so, and restores the number at the end.

use std::fs;

const NR: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
const COMPACT: &str = "/proc/sys/vm/compact_memory";
const ATTEMPTS: u32 = 5;
const PAGE_MB: u64 = 2;

/// A reservation of hugepages; restores their number on drop.
pub(crate) struct Hugepages {
    /// Number of hugepages before the reservation, if it was changed.
    before: Option<u64>,
}

impl Hugepages {
    /// Makes sure that `megabytes` of hugepages are free. `None` if there is not enough memory.
    pub(crate) fn reserve(megabytes: usize) -> Option<Self> {
        let wanted = (megabytes as u64).div_ceil(PAGE_MB);
        let (free, total) = (read(FREE)?, read(NR)?);
        if free >= wanted {
            return Some(Self { before: None });
        }
        let reserved = Self { before: Some(total) };
        for _ in 0..ATTEMPTS {
            // The write succeeds even if the kernel finds fewer pages.
            fs::write(NR, (total + wanted - free).to_string()).ok()?;
            if read(FREE)? >= wanted {
                break;
            }
            // The page cache fragments free memory.
            fs::write(COMPACT, "1").ok()?;
        }
        if read(FREE)? < wanted {
            eprintln!("cannot reserve {megabytes} MB of hugepages: measuring without hugepages");
            return None;
        }
        Some(reserved)
    }
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        if let Err(error) = fs::write(NR, before.to_string()) {
            eprintln!("cannot restore {before} in {NR}: {error}");
        }
    }
}

fn read(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
