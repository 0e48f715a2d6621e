// SPDX-License-Identifier: BSD-3-Clause
//! Tests a run with hugepages. The test reserves them and restores their number.

use crate::bump::{Setup, count};
use crate::captures::Talk;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use testkit::capture::write_pcap;
use testkit::host::{has_root_and, skip};

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
/// Number of pages to reserve: more than packet buffers and tables of [`CAPACITY`] need.
const PAGES: u64 = 300;
/// Capacity of tables that are larger than the rest of the program's memory.
const CAPACITY: u32 = 1_000_000;

fn pages(file: &str) -> Option<u64> {
    fs::read_to_string(format!("{POOL}/{file}")).ok()?.trim().parse().ok()
}

fn set_pages(pages: u64) -> std::io::Result<()> {
    fs::write(format!("{POOL}/nr_hugepages"), pages.to_string())
}

/// A reservation of [`PAGES`] more hugepages than before.
pub(crate) struct Reserved {
    before: u64,
    _alone: MutexGuard<'static, ()>,
}

/// Held while a test uses the pool: two tests at a time would take each other's pages.
static POOL_IN_USE: Mutex<()> = Mutex::new(());

impl Reserved {
    /// Reserves the pages. `None` after a message with the reason, if the system does not allow it.
    pub(crate) fn new() -> Option<Self> {
        let alone = POOL_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((before, free)) = pages("nr_hugepages").zip(pages("free_hugepages")) else {
            skip("there are no huge pages of 2 MB here");
            return None;
        };
        let reserved = Self { before, _alone: alone };
        if let Err(error) = set_pages(before + PAGES) {
            skip(&format!("huge pages cannot be set apart here: {error}"));
        } else if pages("free_hugepages") < Some(free + PAGES) {
            skip(&format!("memory is too full, or in pieces, for {PAGES} huge pages"));
        } else {
            return Some(reserved);
        }
        None
    }

    /// Returns more megabytes than the free hugepages have, also if the host had some before.
    pub(crate) fn too_many_megabytes(&self) -> u64 {
        const PAGE_MEGABYTES: u64 = 2;
        (pages("free_hugepages").unwrap() + 2 * PAGES) * PAGE_MEGABYTES
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let _ = set_pages(self.before);
    }
}

/// Returns the bytes of hugepages of process `id`, as the kernel counts them.
fn huge_page_bytes(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("HugetlbPages:"));
    let kilobytes = line.expect("the kernel counts them").trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() << 10
}

#[test]
fn a_run_in_huge_pages_has_its_tables_there() {
    if !has_root_and(&[]) {
        return;
    }
    // Created first: it waits for the turn of this test, so no other test takes these pages.
    let setup = Setup::new("huge").capacity(CAPACITY).config("[eal]\nhuge = true\n");
    let Some(_reserved) = Reserved::new() else { return };
    let capture = setup.path("a");
    let frames = &Talk::new(1, 100).frames[0];
    write_pcap(&capture, frames);
    let port = format!("net_pcap0,rx_pcap={capture}");
    let mut bump = setup.pair(&port, "net_null0,no-rx=1").start();
    bump.wait_for_line("all flows", |line| line.flows == 100.0);
    let taken = huge_page_bytes(bump.id());
    let ended = bump.finish();
    ended.assert_good();
    let summary = ended.summary();
    assert_eq!(summary["ledger"]["tx"], frames.len());
    let worker = &summary["workers"][0];
    let [bytes, huge] = ["table_bytes", "table_huge_page_bytes"].map(|it| count(&worker[it]));
    // All of the tables except the timers.
    assert!(huge > bytes / 10 * 9, "{worker}");
    assert!(huge < taken && taken < 2 * huge, "of {taken}: {worker}");
}
