// SPDX-License-Identifier: BSD-3-Clause
//! Reads memory: free memory, hugepages, and the limit of locked memory.

use super::{Root, cgroup};
use results::units;
use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

const HUGEPAGES: &str = "sys/kernel/mm/hugepages";
const NODES: &str = "sys/devices/system/node";

/// Memory of the host, and limits of this process.
#[derive(Debug)]
pub struct Memory {
    /// Bytes that can be taken without swapping.
    pub(crate) available_bytes: Option<u64>,
    /// Bytes of them that the control groups of this process allow; `None` without a limit.
    pub(crate) group_bytes: Option<u64>,
    /// Pools by page size, the smallest first.
    pub(crate) hugepages: Vec<HugepagePool>,
    /// Places where hugetlbfs is mounted.
    pub(crate) hugepage_mounts: Option<Vec<String>>,
    /// Mode of transparent hugepages: `always`, `madvise` or `never`.
    pub(crate) transparent: Option<String>,
    /// Bytes that the process may lock; [`NO_LIMIT`] for no limit.
    pub(crate) lock_limit_bytes: Option<u64>,
}

/// A number of bytes that means no limit.
pub(crate) const NO_LIMIT: u64 = u64::MAX;

/// Hugepages of one size.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HugepagePool {
    pub(crate) page_kb: u64,
    pub(crate) total: u64,
    /// Pages neither in use nor reserved for a process that has mapped them already.
    pub(crate) free: u64,
    /// Pages that the control groups of this process allow; `None` without a limit.
    pub(crate) allowed: Option<u64>,
    /// Total of each NUMA node.
    pub(crate) per_node: Vec<u64>,
}

impl HugepagePool {
    /// Returns the megabytes of this pool that the process can have.
    fn free_mb(&self) -> u64 {
        self.allowed.map_or(self.free, |allowed| allowed.min(self.free)) * self.page_kb / 1024
    }
}

/// Size of the pages of flow tables, in kilobytes.
const TABLE_PAGE_KB: u64 = 2048;

/// A plan needs more memory than there is.
#[derive(Debug, thiserror::Error)]
#[error(
    "flow tables and packet buffers need up to {}, but {}: {way_out}",
    units::bytes(*.needed_bytes),
    limit(*.there_is, *.is_group)
)]
pub struct TooLittle {
    needed_bytes: u64,
    there_is: u64,
    /// True if a control group allows less than the host has.
    is_group: bool,
    way_out: String,
}

/// Says how much memory there is.
fn limit(bytes: u64, is_group: bool) -> String {
    let bytes = units::bytes(bytes);
    match is_group {
        true => format!("the memory limit of its control group leaves only {bytes}"),
        false => format!("this host has only {bytes} available"),
    }
}

impl TooLittle {
    /// Replaces the text that says what to lower.
    pub fn with_way_out(self, way_out: String) -> Self {
        Self { way_out, ..self }
    }
}

/// Environment variable of a process that must leave hugepages to others.
const HUGEPAGES_OF_OTHERS: &str = "MILLRACE_NO_HUGEPAGES";

/// Executes this program again without hugepages, since other programs took the free ones. Returns
/// if that fails, or if this is already the second time. EAL cannot be started twice in one
/// process, and leaves the directory of hugepages locked. `prepare` must make sure that the program
/// inherits no descriptor above the standard ones. It returns false to cancel.
pub fn start_again_without_hugepages(prepare: impl FnOnce() -> bool) {
    if let (Ok(program), None) = (env::current_exe(), env::var_os(HUGEPAGES_OF_OTHERS)) {
        let arguments = env::args_os().skip(1);
        if !prepare() {
            return;
        }
        // `exec` returns only on failure; the caller then reports the error from before.
        let _ = Command::new(program).args(arguments).env(HUGEPAGES_OF_OTHERS, "1").exec();
    }
}

/// A run requires hugepages, and there are too few.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted_mb} MB of hugepages are needed (`eal.memory_mb`), but {free_mb} MB are free: {way_out}"
)]
pub struct TooFewHugepages {
    wanted_mb: u64,
    free_mb: u64,
    way_out: String,
}

impl TooFewHugepages {
    /// Returns the error; `None` if `pools` have `wanted_mb` free.
    fn of(wanted_mb: u64, pools: &[HugepagePool]) -> Option<Self> {
        let free_mb = free_mb(pools);
        if wanted_mb <= free_mb {
            return None;
        }
        let unlimited_mb: u64 = pools.iter().map(|pool| pool.free * pool.page_kb / 1024).sum();
        let without = "or set `huge = \"auto\"`";
        let way_out = if unlimited_mb >= wanted_mb {
            format!("raise the hugetlb limit of its control group, {without}")
        } else {
            let pool = pools.iter().find(|pool| pool.page_kb == TABLE_PAGE_KB);
            let pages = (wanted_mb - free_mb).div_ceil(TABLE_PAGE_KB / 1024);
            let all = pool.map_or(0, |pool| pool.total) + pages;
            format!("sysctl -w vm.nr_hugepages={all}, or lower `eal.memory_mb`, {without}")
        };
        Some(Self { wanted_mb, free_mb, way_out })
    }
}

impl Memory {
    /// Fails if fewer than `wanted_mb` megabytes of hugepages are free.
    pub fn refuse_too_few_hugepages(wanted_mb: u64) -> Result<(), TooFewHugepages> {
        let pools = read_hugepages(Root(std::path::Path::new("/")));
        TooFewHugepages::of(wanted_mb, &pools).map_or(Ok(()), Err)
    }

    /// Fails if the host has less memory than needed. The kernel would accept the allocation, and
    /// kill some process once the tables are written to.
    pub fn refuse_more_than_there_is(needed_bytes: u64) -> Result<(), TooLittle> {
        let memory = Self::read(Root(std::path::Path::new("/")));
        memory.refuse(needed_bytes)
    }

    /// Fails if less memory is left. Memory limits of control groups do not include hugepages.
    fn refuse(&self, needed_bytes: u64) -> Result<(), TooLittle> {
        let Some(usable) = self.usable_bytes() else { return Ok(()) };
        let there_is = usable + (self.free_hugepages_mb() << 20);
        if needed_bytes <= there_is {
            return Ok(());
        }
        let is_group = self.is_limited_by_group();
        let way_out = "lower `capacity` or the number of workers".to_owned();
        Err(TooLittle { needed_bytes, there_is, is_group, way_out })
    }

    /// Returns the bytes of ordinary memory that this process can take.
    pub(crate) fn usable_bytes(&self) -> Option<u64> {
        let available = self.available_bytes?;
        Some(self.group_bytes.map_or(available, |group| group.min(available)))
    }

    /// True if a control group allows less memory than the host has.
    pub(crate) fn is_limited_by_group(&self) -> bool {
        self.group_bytes < self.available_bytes && self.group_bytes.is_some()
    }

    /// Returns the megabytes of hugepages of all sizes that this process can have.
    pub fn free_hugepages_mb_of_this_host() -> u64 {
        if env::var_os(HUGEPAGES_OF_OTHERS).is_some() {
            return 0;
        }
        free_mb(&read_hugepages(Root(std::path::Path::new("/"))))
    }

    /// Returns the megabytes of hugepages that this process can have in the size of flow tables.
    pub fn free_table_pages_mb_of_this_host() -> u64 {
        let pools = read_hugepages(Root(std::path::Path::new("/")));
        pools.iter().find(|pool| pool.page_kb == TABLE_PAGE_KB).map_or(0, HugepagePool::free_mb)
    }

    /// Returns the megabytes of hugepages of all sizes that this process can have.
    pub(crate) fn free_hugepages_mb(&self) -> u64 {
        free_mb(&self.hugepages)
    }

    pub(super) fn read(root: Root) -> Self {
        let available = root.field("proc/meminfo", "MemAvailable");
        let kilobytes = available.and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
        let place = |line: &str| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next() == Some("hugetlbfs")).then(|| place.to_owned())
        };
        let mounts = root.text("proc/mounts");
        let transparent = root.text("sys/kernel/mm/transparent_hugepage/enabled");
        Self {
            available_bytes: kilobytes.map(|kilobytes| kilobytes << 10),
            group_bytes: cgroup::memory_bytes_left(root),
            hugepages: read_hugepages(root),
            hugepage_mounts: mounts.map(|text| text.lines().filter_map(place).collect()),
            transparent: transparent.and_then(|text| bracketed(&text)),
            lock_limit_bytes: read_lock_limit(root),
        }
    }
}

fn free_mb(pools: &[HugepagePool]) -> u64 {
    pools.iter().map(HugepagePool::free_mb).sum()
}

fn read_hugepages(root: Root) -> Vec<HugepagePool> {
    let nodes = root.names(NODES);
    let nodes: Vec<_> = nodes.iter().filter(|name| is_node(name)).collect();
    let mut pools: Vec<_> = root
        .names(HUGEPAGES)
        .iter()
        .filter_map(|name| {
            let page_kb = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let on_node = |node: &&String| {
                root.number(&format!("{NODES}/{node}/hugepages/{name}/nr_hugepages"))
            };
            Some(HugepagePool {
                page_kb,
                total: root.number(&format!("{HUGEPAGES}/{name}/nr_hugepages"))?,
                free: root.number(&format!("{HUGEPAGES}/{name}/free_hugepages"))?.saturating_sub(
                    root.number(&format!("{HUGEPAGES}/{name}/resv_hugepages")).unwrap_or(0),
                ),
                allowed: cgroup::hugepage_bytes_left(root, page_kb)
                    .and_then(|bytes| bytes.checked_div(page_kb << 10)),
                per_node: nodes.iter().filter_map(on_node).collect(),
            })
        })
        .collect();
    pools.sort_by_key(|pool| pool.page_kb);
    pools
}

/// True for names such as `node0`, but not `node` or `online`.
fn is_node(name: &str) -> bool {
    name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns the word in brackets of a text such as `always [madvise] never`.
fn bracketed(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn read_lock_limit(root: Root) -> Option<u64> {
    let limits = root.text("proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(NO_LIMIT),
        bytes => bytes.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_hugepages_are_refused_with_what_to_type() {
        let pool = |total, free, allowed| HugepagePool {
            page_kb: TABLE_PAGE_KB,
            total,
            free,
            allowed,
            per_node: Vec::new(),
        };
        assert_eq!(TooFewHugepages::of(512, &[pool(300, 256, None)]), None);
        let message = TooFewHugepages::of(513, &[pool(300, 256, None)]).unwrap().to_string();
        assert_eq!(
            message,
            "513 MB of hugepages are needed (`eal.memory_mb`), but 512 MB are free: sysctl -w \
             vm.nr_hugepages=301, or lower `eal.memory_mb`, or set `huge = \"auto\"`"
        );
        let limited = TooFewHugepages::of(513, &[pool(300, 300, Some(16))]).unwrap().to_string();
        assert!(limited.contains("32 MB are free: raise the hugetlb limit"), "{limited}");
        assert!(TooFewHugepages::of(1, &[]).is_some());
    }

    #[test]
    fn a_control_group_may_allow_less_than_the_host_has() {
        let memory = |group_bytes| Memory {
            available_bytes: Some(4 << 30),
            group_bytes,
            hugepages: Vec::new(),
            hugepage_mounts: None,
            transparent: None,
            lock_limit_bytes: None,
        };
        assert!(memory(Some(300_000_000)).refuse(300_000_000).is_ok());
        let message = memory(Some(300_000_000)).refuse(939_000_000).unwrap_err().to_string();
        assert_eq!(
            message,
            "flow tables and packet buffers need up to 939 MB, but the memory limit of its control \
             group leaves only 300 MB: lower `capacity` or the number of workers"
        );
        assert!(memory(Some(8 << 30)).refuse(4 << 30).is_ok());
        let host = memory(Some(8 << 30)).refuse(5 << 30).unwrap_err().to_string();
        assert!(host.contains("this host has only 4.29 GB available"), "{host}");
        let host = memory(None).refuse(5 << 30).unwrap_err().with_way_out("no".to_owned());
        assert!(host.to_string().ends_with("available: no"), "{host}");
    }

    #[test]
    fn what_no_host_has_is_refused_and_what_is_half_free_is_not() {
        let too_little = Memory::refuse_more_than_there_is(u64::MAX).unwrap_err();
        // Other programs take and free memory meanwhile, but not that much.
        let half = too_little.there_is / 2;
        assert!(half > 0 && Memory::refuse_more_than_there_is(half).is_ok(), "{half}");
        let there_is = units::bytes(too_little.there_is);
        let message = too_little.to_string();
        assert!(message.contains(&there_is), "{message}");
    }
}
