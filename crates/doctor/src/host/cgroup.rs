// SPDX-License-Identifier: BSD-3-Clause
//! Reads limits of memory and of hugepages in the control groups of this process. In a container
//! they allow less than the host has. Versions 1 and 2 may both be mounted.

use super::Root;
use std::path::{Path, PathBuf};

/// Files of a limit and of its usage, in version 2 and in version 1.
const LIMITS: [(&str, &str); 2] = [("max", "current"), ("limit_in_bytes", "usage_in_bytes")];
/// Prefixes of the accounts: pages in use, and reserved pages.
const ACCOUNTS: [&str; 2] = ["", "rsvd."];
/// Counters of `memory.stat` for file pages of a group and those below, in versions 2 and 1. The
/// kernel frees such pages before it kills a process.
const FILE_PAGES: [&str; 4] =
    ["inactive_file", "active_file", "total_inactive_file", "total_active_file"];

/// Returns the bytes of pages of `page_kb` that may still be taken; `None` without a limit.
pub(super) fn hugepage_bytes_left(root: Root, page_kb: u64) -> Option<u64> {
    let size = match page_kb {
        0..1024 => format!("{page_kb}KB"),
        1024..1_048_576 => format!("{}MB", page_kb >> 10),
        _ => format!("{}GB", page_kb >> 20),
    };
    let groups = groups(root, "hugetlb");
    let accounts = groups.iter().flat_map(|group| ACCOUNTS.map(|account| (group, account)));
    let left = |(group, account): (&PathBuf, &str)| {
        limit_and_usage(root, group, &format!("hugetlb.{size}.{account}"))
    };
    accounts.filter_map(left).map(|(limit, usage)| limit.saturating_sub(usage)).min()
}

/// Returns the bytes of ordinary memory that may still be taken; `None` without a limit.
pub(super) fn memory_bytes_left(root: Root) -> Option<u64> {
    let left = |group: &PathBuf| {
        let (limit, usage) = limit_and_usage(root, group, "memory.")?;
        let counters = root.text(group.join("memory.stat").to_str()?).unwrap_or_default();
        let mut file_pages = [0; FILE_PAGES.len()];
        for line in counters.lines() {
            let (name, bytes) = line.split_once(' ').unwrap_or_default();
            if let Some(place) = FILE_PAGES.iter().position(|wanted| *wanted == name) {
                file_pages[place] = bytes.parse().unwrap_or(0);
            }
        }
        let [inactive, active, total_inactive, total_active] = file_pages;
        // Version 1 has both pairs; those of the whole tree begin with `total`.
        let freed: u64 = (inactive + active).max(total_inactive + total_active);
        Some(limit.saturating_sub(usage.saturating_sub(freed)))
    };
    groups(root, "memory").iter().filter_map(left).min()
}

/// Returns a limit of a group and what is used of it, in bytes; `None` without a limit.
fn limit_and_usage(root: Root, group: &Path, prefix: &str) -> Option<(u64, u64)> {
    let number = |name: &str| root.number(group.join(format!("{prefix}{name}")).to_str()?);
    LIMITS.iter().find_map(|(limit, usage)| Some((number(limit)?, number(usage)?)))
}

/// Returns the directories of the process's groups and of all groups above, relative to the root,
/// in the hierarchies that may limit what `controller` counts.
fn groups(root: Root, controller: &str) -> Vec<PathBuf> {
    let own = root.text("proc/self/cgroup").unwrap_or_default();
    let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
    let mounts: Vec<_> = mounts.lines().filter_map(Mount::read).collect();
    // Number, controllers (none in version 2), path.
    let own = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    own.flat_map(|(controllers, path)| {
        let mount = mounts.iter().find(|mount| mount.has(controllers, controller));
        mount.map(|mount| mount.groups(path)).unwrap_or_default()
    })
    .collect()
}

/// A mounted hierarchy of groups.
struct Mount<'a> {
    /// Group that is visible at `point`.
    top: &'a str,
    point: &'a str,
    /// `cgroup` or `cgroup2`.
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// Parses a line of mountinfo: number, parent, device, top, point, ... - kind, source, options.
    fn read(line: &'a str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let (mut left, mut right) = (left.split(' ').skip(3), right.split(' '));
        let kind = right.next().filter(|kind| kind.starts_with("cgroup"))?;
        Some(Self { top: left.next()?, point: left.next()?, kind, options: right.nth(1)? })
    }

    /// True if this hierarchy has one of `controllers`, and `wanted` is among them. Version 2 names
    /// no controllers.
    fn has(&self, controllers: &str, wanted: &str) -> bool {
        let is_named = |list: &str| list.split(',').any(|word| word == wanted);
        match self.kind {
            "cgroup2" => controllers.is_empty(),
            _ => is_named(controllers) && is_named(self.options),
        }
    }

    /// Returns the directories of the group at `path` and of those above it.
    fn groups(&self, path: &str) -> Vec<PathBuf> {
        let point = Path::new(self.point.trim_start_matches('/'));
        let Ok(below) = Path::new(path).strip_prefix(self.top) else { return vec![point.into()] };
        below.ancestors().map(|group| point.join(group)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const VERSION_1: &str = "\
        30 23 0:28 / /proc rw - proc proc rw\n\
        31 23 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        32 23 0:30 / /sys/fs/cgroup/hugetlb rw,relatime shared:9 - cgroup cgroup rw,hugetlb\n";

    /// Returns what is left of pages of 2 MB on a machine with these files.
    fn left(name: &str, mounts: &str, own: &str, files: &[(&str, u64)]) -> Option<u64> {
        read_with(name, mounts, own, files, |root| hugepage_bytes_left(root, 2048))
    }

    /// Returns the megabytes that `read` finds on a machine with these files.
    fn read_with(
        name: &str,
        mounts: &str,
        own: &str,
        files: &[(&str, u64)],
        read: impl Fn(Root) -> Option<u64>,
    ) -> Option<u64> {
        let root = std::env::temp_dir().join(format!("millrace-{name}-{}", std::process::id()));
        let write = |path: &str, text: String| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", mounts.to_owned());
        write("proc/self/cgroup", own.to_owned());
        for (path, megabytes) in files {
            let text = if *megabytes == NO_LIMIT {
                "max".to_owned()
            } else {
                (megabytes << 20).to_string()
            };
            write(&format!("sys/fs/cgroup/{path}"), text + "\n");
        }
        let left = read(Root(&root));
        fs::remove_dir_all(&root).unwrap();
        left.map(|bytes| bytes >> 20)
    }

    const NO_LIMIT: u64 = u64::MAX;

    #[test]
    fn the_narrowest_limit_of_version_2_counts() {
        let mounts = "31 23 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = "0::/pod/box\n";
        let files = [
            ("pod/hugetlb.2MB.max", 100),
            ("pod/hugetlb.2MB.current", 70),
            ("pod/box/hugetlb.2MB.max", 60),
            ("pod/box/hugetlb.2MB.current", 10),
            ("pod/box/hugetlb.1GB.max", 0),
            ("pod/box/hugetlb.1GB.current", 0),
            ("pod/other/hugetlb.2MB.max", 0),
            ("pod/other/hugetlb.2MB.current", 0),
        ];
        assert_eq!(left("v2", mounts, own, &files), Some(30));
        let files = [("pod/box/hugetlb.2MB.max", NO_LIMIT), ("pod/box/hugetlb.2MB.current", 10)];
        assert_eq!(left("v2-max", mounts, own, &files), None);
        let promised =
            [("pod/box/hugetlb.2MB.rsvd.max", 8), ("pod/box/hugetlb.2MB.rsvd.current", 12)];
        assert_eq!(left("v2-rsvd", mounts, own, &promised), Some(0));
    }

    #[test]
    fn limits_of_version_1_are_found_where_they_are_mounted() {
        let own = "11:hugetlb:/box\n10:cpu:/box\n0::/\n";
        let files = [
            ("hugetlb/box/hugetlb.2MB.limit_in_bytes", 64),
            ("hugetlb/box/hugetlb.2MB.usage_in_bytes", 24),
            ("cpu/box/hugetlb.2MB.limit_in_bytes", 0),
            ("cpu/box/hugetlb.2MB.usage_in_bytes", 0),
        ];
        assert_eq!(left("v1", VERSION_1, own, &files), Some(40));
        // A container that sees its own group as the top, under the name that it has outside.
        let mounts = VERSION_1.replace(" / /sys/fs/cgroup/hugetlb", " /box /sys/fs/cgroup/hugetlb");
        let files =
            [("hugetlb/hugetlb.2MB.limit_in_bytes", 64), ("hugetlb/hugetlb.2MB.usage_in_bytes", 4)];
        assert_eq!(left("v1-box", &mounts, own, &files), Some(60));
    }

    #[test]
    fn memory_limits_of_both_versions_count() {
        let mounts = "31 23 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let files = [
            ("pod/memory.max", 900),
            ("pod/memory.current", 100),
            ("pod/box/memory.max", 300),
            ("pod/box/memory.current", 50),
        ];
        let read = |name: &str, mounts: &str, own: &str, files: &[(&str, u64)]| {
            read_with(name, mounts, own, files, memory_bytes_left)
        };
        assert_eq!(read("memory-v2", mounts, "0::/pod/box\n", &files), Some(250));
        let mounts = VERSION_1.replace("hugetlb", "memory");
        let files = [
            ("memory/box/memory.limit_in_bytes", 64),
            ("memory/box/memory.usage_in_bytes", 24),
            ("memory/memory.limit_in_bytes", 90),
            ("memory/memory.usage_in_bytes", 80),
        ];
        let own = "11:memory:/box\n10:cpu:/box\n0::/\n";
        assert_eq!(read("memory-v1", &mounts, own, &files), Some(10));
        assert_eq!(read("memory-none", &mounts, "0::/\n", &files), None);
    }

    #[test]
    fn file_pages_of_a_group_can_be_freed() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", "31 23 0:29 / /sys/fs/cgroup rw - cgroup2 none rw\n");
        write("proc/self/cgroup", "0::/box\n");
        write("sys/fs/cgroup/box/memory.max", "1000\n");
        write("sys/fs/cgroup/box/memory.current", "900\n");
        write("sys/fs/cgroup/box/memory.stat", "anon 300\ninactive_file 400\nactive_file 200\n");
        assert_eq!(memory_bytes_left(Root(root.path())), Some(700));
    }

    #[test]
    fn without_groups_there_is_no_limit() {
        assert_eq!(left("no-groups", "", "", &[]), None);
        assert_eq!(left("not-mounted", "", "10:hugetlb:/\n0::/\n", &[]), None);
    }
}
