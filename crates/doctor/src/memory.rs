// SPDX-License-Identifier: BSD-3-Clause
//! Judges memory and hugepages.

use super::{Finding, Status};
use crate::host::{Host, HugepagePool, Memory, NO_LIMIT};

/// Least free memory in MB: with less, EAL's minimum does not fit.
const LEAST_MB: u64 = 192;
/// Memory in MB of default tables, packet buffers and the rest together.
const COMFORTABLE_MB: u64 = 512;
/// Least limit of locked memory in MB. Without hugepages, DPDK's memory counts as locked only for
/// devices that reach it by DMA.
const LOCK_MB: u64 = 64;

pub(super) fn diagnose(host: &Host) -> Vec<Finding> {
    let memory = &host.memory;
    let mut findings = vec![available(memory)];
    findings.push(hugepages(memory));
    findings.extend(at_boot(host));
    findings.extend(memory.hugepages.iter().filter_map(uneven));
    findings.push(mount(memory));
    findings.push(transparent(memory));
    findings.push(lock_limit(memory));
    findings
}

fn available(memory: &Memory) -> Finding {
    const TOPIC: &str = "memory";
    let Some(available_mb) = memory.usable_bytes().map(|bytes| bytes >> 20) else {
        return Finding::unknown(TOPIC, "proc/meminfo");
    };
    let found = match memory.is_limited_by_group() {
        true => format!("{available_mb} MB left within the limit of this control group"),
        false => format!("{available_mb} MB available"),
    };
    match available_mb {
        0..LEAST_MB => {
            Finding::new(TOPIC, Status::Fail, found).advise(match memory.is_limited_by_group() {
                true => format!("raise the limit (memory.max): a run needs at least {LEAST_MB} MB"),
                false => format!("free memory: a run needs at least {LEAST_MB} MB"),
            })
        }
        LEAST_MB..COMFORTABLE_MB => Finding::new(TOPIC, Status::Warn, found)
            .advise("the default tables do not fit: lower [table] capacity"),
        _ => Finding::new(TOPIC, Status::Ok, found),
    }
}

fn hugepages(memory: &Memory) -> Finding {
    const TOPIC: &str = "hugepages";
    const ADVICE: &str = "for speed: echo 512 > \
        /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages (1 GB); 1G pages at boot: \
        default_hugepagesz=1G hugepagesz=1G hugepages=N";
    if memory.hugepages.is_empty() {
        return Finding::unknown(TOPIC, "sys/kernel/mm/hugepages");
    }
    let pools: Vec<_> = memory.hugepages.iter().filter(|pool| pool.total > 0).collect();
    if pools.is_empty() {
        let found = "none; runs use ordinary memory (--no-huge), and PCI devices may not work";
        return Finding::new(TOPIC, Status::Note, found).advise(ADVICE);
    }
    let shown: Vec<_> = pools.iter().map(|pool| show(pool)).collect();
    let found = shown.join(", ");
    let finding = |status| Finding::new(TOPIC, status, found);
    if memory.free_hugepages_mb() > 0 {
        finding(Status::Ok)
    } else if pools.iter().all(|pool| pool.free == 0) {
        finding(Status::Warn).advise("all are in use: end the program that uses them, or add more")
    } else {
        finding(Status::Warn).advise("raise the hugetlb limits of this process's control groups")
    }
}

/// Says that hugepages were reserved by hand, so that the next boot has none. Nothing where no boot
/// loader and no systemd is seen, as in containers: there the host reserves them.
fn at_boot(host: &Host) -> Option<Finding> {
    let has_pages = host.memory.hugepages.iter().any(|pool| pool.total > 0);
    let is_seen = host.boot.systemd || host.boot.loader.is_some();
    let finding =
        Finding::new("hugepages at boot", Status::Note, "none: reserved by hand until then");
    (has_pages && is_seen && !host.boot.keeps_hugepages).then(|| {
        finding.advise("vm.nr_hugepages=N in a file of /etc/sysctl.d (doctor --fix-script)")
    })
}

fn show(pool: &HugepagePool) -> String {
    let size = match pool.page_kb {
        kilobytes if kilobytes >= 1 << 20 => format!("{}G", kilobytes >> 20),
        kilobytes => format!("{}M", kilobytes >> 10),
    };
    let found = format!("{size}: {} of {} free", pool.free, pool.total);
    match pool.allowed {
        Some(allowed) if allowed < pool.free => {
            format!("{found}, {allowed} of them for this control group")
        }
        _ => found,
    }
}

/// Checks that all NUMA nodes have hugepages, since a worker's memory should be on its own node.
fn uneven(pool: &HugepagePool) -> Option<Finding> {
    let without = pool.per_node.iter().filter(|total| **total == 0).count();
    (pool.total > 0 && without > 0).then(|| {
        let found = format!("{without} NUMA nodes have no pages of {} kB", pool.page_kb);
        Finding::new("hugepages per node", Status::Warn, found)
            .advise("give each node its share (/sys/devices/system/node/node*/hugepages)")
    })
}

fn mount(memory: &Memory) -> Finding {
    const TOPIC: &str = "hugetlbfs";
    match memory.hugepage_mounts.as_deref() {
        None => Finding::unknown(TOPIC, "proc/mounts"),
        Some([]) => Finding::new(TOPIC, Status::Note, "not mounted; Millrace does not need it")
            .advise("other DPDK programs may: mount -t hugetlbfs none /dev/hugepages"),
        Some(mounts) => {
            Finding::new(TOPIC, Status::Ok, format!("mounted at {}", mounts.join(", ")))
        }
    }
}

fn transparent(memory: &Memory) -> Finding {
    const TOPIC: &str = "transparent hugepages";
    match memory.transparent.as_deref() {
        None => Finding::unknown(TOPIC, "sys/kernel/mm/transparent_hugepage/enabled"),
        Some(mode @ ("always" | "madvise")) => Finding::new(TOPIC, Status::Ok, mode),
        Some(mode) => Finding::new(TOPIC, Status::Note, mode).advise(
            "large flow tables are faster with them: echo madvise > \
             /sys/kernel/mm/transparent_hugepage/enabled",
        ),
    }
}

fn lock_limit(memory: &Memory) -> Finding {
    const TOPIC: &str = "memlock";
    match memory.lock_limit_bytes.map(|bytes| bytes >> 20) {
        None => Finding::unknown(TOPIC, "proc/self/limits"),
        Some(limit_mb) if limit_mb == NO_LIMIT >> 20 => Finding::new(TOPIC, Status::Ok, "no limit"),
        Some(limit_mb) if limit_mb >= LOCK_MB => {
            Finding::new(TOPIC, Status::Ok, format!("{limit_mb} MB"))
        }
        Some(limit_mb) => Finding::new(TOPIC, Status::Note, format!("{limit_mb} MB"))
            .advise("vfio devices and AF_XDP need more unless root runs them: ulimit -l unlimited"),
    }
}
