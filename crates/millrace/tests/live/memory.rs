// SPDX-License-Identifier: BSD-3-Clause
//! Tests that a run refuses to start if it needs more memory than is available. Files that are
//! mounted over the kernel's own fake the available memory for one process.

use crate::bump::Setup;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use testkit::host::{has_tools, is_root, skip};

const REFUSED: &str = "flow tables and packet buffers need up to ";

/// Script that mounts the files in directory `$0` over those of the kernel, then executes its
/// arguments.
const PRETEND: &str = "mount --bind \"$0/meminfo\" /proc/meminfo && \
     mount --bind \"$0/hugepages\" /sys/kernel/mm/hugepages && exec \"$@\"";

/// Returns a command prefix that shows the program this much available memory. `None` after a
/// message with the reason, if the system does not allow it.
fn host_with(setup: &Setup, available_kb: u64, free_hugepages: u64) -> Option<Command> {
    if !has_tools(&["unshare", "mount"]) {
        return None;
    }
    let pool = setup.path("hugepages/hugepages-2048kB");
    std::fs::create_dir_all(&pool).unwrap();
    for file in ["nr_hugepages", "free_hugepages"] {
        std::fs::write(format!("{pool}/{file}"), format!("{free_hugepages}\n")).unwrap();
    }
    let meminfo = format!("MemTotal: 99999999 kB\nMemAvailable: {available_kb} kB\n");
    std::fs::write(setup.path("meminfo"), meminfo).unwrap();

    let launcher = || {
        let mut command = Command::new("unshare");
        let user: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
        command.args(user).args(["--mount", "sh", "-c", PRETEND, &setup.path("")]);
        command
    };
    if !launcher().arg("true").output().is_ok_and(|output| output.status.success()) {
        skip("what the kernel says about memory cannot be overlaid here");
        return None;
    }
    Some(launcher())
}

fn setup() -> Setup {
    Setup::new("memory").duration("0.1").pair("net_null0,no-rx=1", "net_null1,no-rx=1")
}

fn needed_kb(plan: &Value) -> u64 {
    let memory = &plan["memory"];
    let [total, engine] = ["total_bytes", "engine_bytes_per_worker"]
        .map(|member| memory[member].as_u64().unwrap_or_else(|| panic!("no {member} in {memory}")));
    assert!(0 < engine && engine < total, "{memory}");
    assert_eq!(total % 1024, 0, "or the figures below are not next to each other");
    total / 1024
}

#[test]
fn a_run_may_take_all_there_is_and_no_more() {
    let hugepage_kb = 2048;
    for (missing_kb, free_hugepages) in
        [(0, 0), (1, 0), (hugepage_kb, 1), (hugepage_kb + 1, 1), (hugepage_kb + 1, 2)]
    {
        let setup = setup();
        let available_kb = needed_kb(&setup.check()) - missing_kb;
        let Some(host) = host_with(&setup, available_kb, free_hugepages) else { return };
        let ended = setup.launcher(host).run();
        if missing_kb <= free_hugepages * hugepage_kb {
            ended.assert_good();
            continue;
        }
        assert_eq!((ended.status, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        let told = format!("millrace: {REFUSED}");
        assert!(ended.stderr.starts_with(&told), "{}", ended.stderr);
        assert!(ended.stderr.contains("lower `mbufs`, `capacity` or"), "{}", ended.stderr);
        // Outputs are opened before ports and memory are taken. So missing files show that the
        // check came first.
        for file in ["run.json", "flows.jsonl"] {
            assert!(!Path::new(&ended.path(file)).exists(), "{file}");
        }
    }
}

#[test]
fn a_replay_may_not_take_more_than_there_is_either() {
    let setup = setup();
    // By the calculation of `check`, 40 MB are enough for 100 000 connections of each IP version.
    for (capacity, is_refused) in [("100000", false), ("200000", true)] {
        let Some(mut host) = host_with(&setup, 40 << 10, 0) else { return };
        host.args([env!("CARGO_BIN_EXE_millrace"), "replay", "--capacity", capacity]);
        let output = host.arg(setup.path("no.pcap")).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr.contains(REFUSED), is_refused, "{stderr}");
        assert_eq!(stderr.contains("No such file"), !is_refused, "{stderr}");
    }
}

/// `check` does not refuse such a plan, because it may be for another host.
#[test]
fn a_check_says_that_there_is_too_little() {
    let setup = setup();
    let needed_kb = needed_kb(&setup.check());
    for (available_kb, told) in [(needed_kb, 0), (needed_kb - 1, 1)] {
        let Some(mut host) = host_with(&setup, available_kb, 0) else { return };
        let output = host
            .args([env!("CARGO_BIN_EXE_millrace"), "check", &setup.path("bump.toml")])
            .args(["--pair", "net_null0,no-rx=1,net_null1,no-rx=1"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        let plan = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            plan.matches(&format!("# Too much for this host: {REFUSED}")).count(),
            told,
            "{plan}"
        );
    }
}
