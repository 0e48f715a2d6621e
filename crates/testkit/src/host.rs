// SPDX-License-Identifier: BSD-3-Clause
//! What the host has that a test needs, and a reason on standard error where it lacks something.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// Prints why the calling test does nothing. It goes past the test harness, which hides what a
/// test prints that passes.
pub fn skip(reason: &str) {
    let test = std::thread::current();
    let test = test.name().unwrap_or_default();
    writeln!(std::io::stderr(), "skipped {test}: {reason}").expect("there is a standard error");
}

/// Returns true on a host with `count` cpus, and skips otherwise: each worker needs one.
pub fn has_cpus(count: usize) -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < count {
        skip(&format!("{count} workers need as many cpus, and there are {cpus}"));
    }
    cpus >= count
}

/// Returns true as root with all of `tools`, and skips otherwise.
pub fn has_root_and(tools: &[&str]) -> bool {
    if !is_root() {
        skip("needs root");
        return false;
    }
    has_tools(tools)
}

/// Returns true if all of `tools` are installed, and skips otherwise.
pub fn has_tools(tools: &[&str]) -> bool {
    let missing: Vec<_> = tools.iter().filter(|tool| !is_installed(tool)).copied().collect();
    if !missing.is_empty() {
        skip(&format!("not installed: {}", missing.join(", ")));
    }
    missing.is_empty()
}

/// Returns true for root.
pub fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("every system has id");
    output.stdout == b"0\n"
}

/// Returns true if a folder of `PATH` has this program.
pub fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// Returns the driver of the software NIC, which `MILLRACE_TWIN` names; `None` if it was not built.
pub fn twin_driver() -> Option<PathBuf> {
    std::env::var_os("MILLRACE_TWIN").map(PathBuf::from).filter(|path| path.exists())
}

/// Returns the driver of the software NIC, and skips if it was not built.
pub fn twin_driver_or_skip() -> Option<PathBuf> {
    let driver = twin_driver();
    if driver.is_none() {
        skip("there is no software NIC at MILLRACE_TWIN; make twin builds it");
    }
    driver
}
