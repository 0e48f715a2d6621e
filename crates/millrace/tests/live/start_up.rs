// SPDX-License-Identifier: BSD-3-Clause
//! Tests starts with too few hugepages, or while another program holds the lock. None of them hangs
//! or changes the host.

use crate::bump::Setup;
use crate::hugepages::Reserved;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use testkit::host::{has_root_and, skip};
use testkit::process::{Process, mortal, wait_until};

const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// A mount namespace with its own hugetlbfs. DPDK programs in it lock the hugetlbfs while they
/// start.
struct Mounts {
    holder: Process,
    folder: String,
}

impl Mounts {
    /// Mounts the hugetlbfs. With `free`, programs in the namespace read it as the number of free
    /// pages. `None` after a message with the reason, if the system does not allow it.
    fn new(folder: String, free: Option<&str>) -> Option<Self> {
        fs::create_dir(&folder).unwrap();
        let lie = free.map_or("true".to_owned(), |text| {
            format!("echo {text} >{folder}.free && mount --bind {folder}.free {FREE}")
        });
        let script = format!(
            "umount -q -l -a -t hugetlbfs; mount -t hugetlbfs none {folder} && {lie} && \
             echo ready && exec sleep infinity"
        );
        let mut command = mortal("unshare");
        command.args(["--mount", "sh", "-c", &script]).stdout(Stdio::piped());
        let mut holder = Process::spawn(&mut command);
        if holder.first_line() != "ready\n" {
            skip("no hugetlbfs can be mounted here");
            return None;
        }
        Some(Self { holder, folder })
    }

    /// Returns a command that runs in the namespace and ends with the test.
    fn command(&self, program: &str) -> Command {
        let mut command = mortal("nsenter");
        command.args([&format!("--mount=/proc/{}/ns/mnt", self.holder.id()), "--", program]);
        command
    }

    /// True if no process holds the lock.
    fn is_lock_free(&self) -> bool {
        let mut command = self.command("flock");
        command.args(["--nonblock", &self.folder, "true"]).status().unwrap().success()
    }
}

/// Starts testpmd with hugepages, and waits until it ends.
fn start_testpmd(mounts: &Mounts) {
    let mut testpmd = mounts.command("timeout");
    testpmd.args(["20", "dpdk-testpmd", "--in-memory", "--no-pci", "--no-telemetry", "-m", "64"]);
    testpmd.args(["--file-prefix=start-up", "--vdev=net_null0", "--", "--total-num-mbufs=2048"]);
    testpmd.args(["--interactive"]).stdin(Stdio::null());
    let output = testpmd.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("testpmd>"), "{output:?}");
}

#[test]
fn a_run_that_insists_on_hugepages_is_refused_with_what_to_type() {
    if !has_root_and(&[]) {
        return;
    }
    let setup = Setup::new("insist");
    let Some(reserved) = Reserved::new() else { return };
    let megabytes = reserved.too_many_megabytes();
    let setup = setup.config(&format!("[eal]\nhuge = true\nmemory_mb = {megabytes}\n"));
    let needed = format!("{megabytes} MB of hugepages are needed (`eal.memory_mb`)");
    let texts = [needed.as_str(), "sysctl -w vm.nr_hugepages="];
    setup.pair("net_null0", "net_null1").assert_refused(1, &texts);
}

/// Simulates a lost race for hugepages: Millrace and EAL read a number of free pages that is too
/// high. Millrace continues without hugepages, and holds no lock that other programs wait for.
#[test]
fn a_run_that_loses_its_hugepages_holds_no_lock() {
    if !has_root_and(&["flock", "dpdk-testpmd"]) {
        return;
    }
    let setup = Setup::new("race");
    let Some(reserved) = Reserved::new() else { return };
    let megabytes = reserved.too_many_megabytes();
    let Some(mounts) = Mounts::new(setup.path("huge"), Some(&megabytes.to_string())) else {
        return;
    };
    let setup = setup.config(&format!("[eal]\nmemory_mb = {megabytes}\n"));
    let setup = setup.launcher_of(|program| mounts.command(program));
    let bump = setup.pair("net_null0", "net_null1,no-rx=1").start();
    let environment = fs::read_to_string(format!("/proc/{}/environ", bump.id())).unwrap();
    assert!(environment.contains("MILLRACE_NO_HUGEPAGES=1"), "it had its hugepages");
    let fds = fs::read_dir(format!("/proc/{}/fd", bump.id())).unwrap();
    let links = fds.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let kept: Vec<_> = links.filter(|link| link.starts_with(&mounts.folder)).collect();
    assert!(kept.is_empty() && mounts.is_lock_free(), "{kept:?}");
    start_testpmd(&mounts);
    bump.finish().assert_good();
}

#[test]
fn a_start_says_whose_lock_it_waits_for_and_ends_with_the_first_signal() {
    if !has_root_and(&["flock"]) {
        return;
    }
    let setup = Setup::new("lock").config("[eal]\nhuge = true\n");
    let Some(_reserved) = Reserved::new() else { return };
    let Some(mounts) = Mounts::new(setup.path("huge"), None) else { return };
    let mut holder = mounts.command("flock");
    let holder = Process::spawn(holder.args([&mounts.folder, "cat"]).stdin(Stdio::piped()));
    wait_until("the lock is held", || !mounts.is_lock_free());
    let setup = setup.launcher_of(|program| mounts.command(program));
    let mut bump = setup.pair("net_null0", "net_null1,no-rx=1").spawn();
    let told = format!("the directory of hugepages, locked by flock (pid {})", holder.id());
    bump.wait_for_message(&told);
    bump.signal("TERM");
    const SIGTERM: i32 = 15;
    assert_eq!(bump.wait_for_status().signal(), Some(SIGTERM));
}
