// SPDX-License-Identifier: BSD-3-Clause
//! Hugepages for the length of the benchmark: those that are free, or more of them where this
//! process may ask the kernel. What was there before is there again afterwards.

use std::fs;

const NR: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
const COMPACT: &str = "/proc/sys/vm/compact_memory";
const ATTEMPTS: u32 = 5;
const PAGE_MB: u64 = 2;

/// Enough free hugepages, as long as this lives.
pub(crate) struct Hugepages {
    /// How many there were, if their number was changed.
    before: Option<u64>,
}

impl Hugepages {
    /// Hugepages of `megabytes` in all. `None` if there are not so many to be had.
    pub(crate) fn reserve(megabytes: usize) -> Option<Self> {
        let wanted = (megabytes as u64).div_ceil(PAGE_MB);
        let (free, total) = (read(FREE)?, read(NR)?);
        if free >= wanted {
            return Some(Self { before: None });
        }
        let reserved = Self { before: Some(total) };
        for _ in 0..ATTEMPTS {
            // The kernel gives what it can; it is no error of the write if that is less.
            fs::write(NR, (total + wanted - free).to_string()).ok()?;
            if read(FREE)? >= wanted {
                break;
            }
            // Free memory lies in small pieces between files that were read.
            fs::write(COMPACT, "1").ok()?;
        }
        if read(FREE)? < wanted {
            eprintln!("no {megabytes} MB of hugepages to be had: both sides do without");
            return None;
        }
        Some(reserved)
    }
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        if let Err(error) = fs::write(NR, before.to_string()) {
            eprintln!("cannot give hugepages back, {NR} was {before}: {error}");
        }
    }
}

fn read(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
