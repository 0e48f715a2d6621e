// SPDX-License-Identifier: BSD-3-Clause
//! Tests `millrace run`, `demo`, `gen` and `reflect` as users run them: the real program on DPDK
//! ports, with real packets and signals. Outputs are compared with the packets sent and with the
//! kernel's counters.
//!
//! Tests take turns, because a worker uses a whole cpu. The processes and namespaces that a test
//! starts end with it, also if it fails. A test that lacks something (root, a tool, a second cpu)
//! prints what is missing on standard error, and does nothing.

mod af_xdp;
mod associations;
mod backends;
mod bump;
mod bypass;
mod captures;
mod compat;
mod conntrack;
mod control;
mod ct;
mod cycles;
mod datagrams;
mod demo;
mod endings;
mod equivalence;
mod fragments;
mod generator;
mod hostile;
mod hugepages;
mod interfaces;
mod kernel;
mod lan;
mod links;
mod memif;
mod memory;
mod metrics;
mod offload;
mod on_time;
mod outputs;
mod ovs;
mod pairs;
mod peer;
mod pressure;
mod privileges;
mod probe;
mod process;
mod records;
mod refusals;
mod reload;
mod resets;
mod secret;
mod sessions;
mod snapshot;
mod start_up;
mod summary;
mod twin;
mod twin_async;
mod twin_sources;
mod twin_switch;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest time to wait for anything, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds. Fails with the text `what` after [`PATIENCE`].
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns a size from the environment, or `usual`. `make prove-...` sets large ones.
fn scaled(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

/// Prints why a test does nothing. Writes past the test harness, which hides the output of tests
/// that succeed.
fn skip(reason: &str) {
    use std::io::Write;
    let test = std::thread::current();
    let test = test.name().unwrap_or_default();
    writeln!(std::io::stderr(), "skipped {test}: {reason}").expect("there is a standard error");
}

/// True if there is a cpu for each of `workers`; otherwise prints why the test is skipped.
fn has_cpus(workers: usize) -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < workers {
        skip(&format!("{workers} workers need as many cpus, and there are {cpus}"));
    }
    cpus >= workers
}

/// True for root with all of `tools` installed; otherwise prints what is missing.
fn has_root_and(tools: &[&str]) -> bool {
    if !is_root() {
        skip("needs root");
        return false;
    }
    has_tools(tools)
}

fn has_tools(tools: &[&str]) -> bool {
    let missing: Vec<_> = tools.iter().filter(|tool| !is_installed(tool)).copied().collect();
    if !missing.is_empty() {
        skip(&format!("not installed: {}", missing.join(", ")));
    }
    missing.is_empty()
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("every system has id");
    output.stdout == b"0\n"
}

fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// A directory that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        Self::in_folder(Path::new(env!("CARGO_TARGET_TMPDIR")), test)
    }

    fn in_folder(folder: &Path, test: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("live-{test}-{}-{number}", std::process::id()));
        // Only this user may write there, whatever the umask is: snapshots require that.
        DirBuilder::new().recursive(true).mode(0o755).create(&path).unwrap();
        Self(path)
    }

    /// Returns the path of a file in the directory.
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Returns the text of a file in the directory; empty if it cannot be read.
    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
