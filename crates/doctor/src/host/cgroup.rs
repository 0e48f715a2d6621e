// SPDX-License-Identifier: BSD-3-Clause
//! Reads limits of hugepages in the control groups of this process. In a container they allow fewer
//! pages than the host has. Versions 1 and 2 may both be mounted.

use super::Root;
use std::path::{Path, PathBuf};

/// Files of a limit and of its usage, in version 2 and in version 1.
const LIMITS: [(&str, &str); 2] = [("max", "current"), ("limit_in_bytes", "usage_in_bytes")];
/// Prefixes of the accounts: pages in use, and reserved pages.
const ACCOUNTS: [&str; 2] = ["", "rsvd."];

/// Returns the bytes of pages of `page_kb` that may still be taken; `None` without a limit.
pub(super) fn hugepage_bytes_left(root: Root, page_kb: u64) -> Option<u64> {
    let size = match page_kb {
        0..1024 => format!("{page_kb}KB"),
        1024..1_048_576 => format!("{}MB", page_kb >> 10),
        _ => format!("{}GB", page_kb >> 20),
    };
    let left = |group: &PathBuf, account: &str, (limit, usage): (&str, &str)| {
        let number = |name: &str| {
            root.number(group.join(format!("hugetlb.{size}.{account}{name}")).to_str()?)
        };
        Some(number(limit)?.saturating_sub(number(usage)?))
    };
    let groups = groups(root);
    let accounts = groups.iter().flat_map(|group| ACCOUNTS.map(|account| (group, account)));
    let limits =
        accounts.flat_map(|(group, account)| LIMITS.map(|limit| left(group, account, limit)));
    limits.flatten().min()
}

/// Returns the directories of the process's groups and of all groups above, relative to the root.
fn groups(root: Root) -> Vec<PathBuf> {
    let own = root.text("proc/self/cgroup").unwrap_or_default();
    let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
    let mounts: Vec<_> = mounts.lines().filter_map(Mount::read).collect();
    // Number, controllers (none in version 2), path.
    let own = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    own.flat_map(|(controllers, path)| {
        let mount = mounts.iter().find(|mount| mount.has(controllers));
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

    /// True if this hierarchy has one of `controllers` and may limit hugepages.
    fn has(&self, controllers: &str) -> bool {
        let is_named = |list: &str| list.split(',').any(|word| word == "hugetlb");
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
        let left = hugepage_bytes_left(Root(&root), 2048);
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
    fn without_groups_there_is_no_limit() {
        assert_eq!(left("no-groups", "", "", &[]), None);
        assert_eq!(left("not-mounted", "", "10:hugetlb:/\n0::/\n", &[]), None);
    }
}
