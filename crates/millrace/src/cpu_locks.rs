// SPDX-License-Identifier: BSD-3-Clause
//! Locks the cpus of workers, so that instances on one host choose different cpus.
//!
//! A lock is an flock(2) on a file `cpu-N.lock` in the folder of control sockets. The kernel
//! releases it however the process ends; the file stays. It contains the ID of the process that
//! locked it last. Locks are advisory: they only change which cpus are chosen.

use doctor::host::Cpus;
use report::output::write_line;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// Attempts to get a lock: a process that checks for locks holds each for a moment.
const TRIES: u32 = 3;
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// A cpu that another instance has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InUse {
    pub(crate) cpu: u32,
    /// ID of the process; `None` if the file does not have it.
    pub(crate) pid: Option<u32>,
}

/// Locks of this process, by cpu.
static HELD: Mutex<BTreeMap<u32, File>> = Mutex::new(BTreeMap::new());

/// Returns the cpus that other instances have locked, in ascending order.
pub(crate) fn in_use() -> Vec<InUse> {
    let own = Some(std::process::id());
    let mut found: Vec<_> =
        control::folders().iter().flat_map(|folder| locked_in(folder)).collect();
    found.retain(|it| it.pid != own);
    found.sort();
    found.dedup_by_key(|it| it.cpu);
    found
}

/// Reads the cpus of this host, and which of them other instances have locked.
pub(crate) fn cpus_of_this_host() -> Cpus {
    Cpus::of_this_host(in_use().into_iter().map(|it| it.cpu).collect())
}

/// Locks cpus until the process ends. Warns of cpus that another instance uses too. Does nothing if
/// no folder for locks can be made.
pub(crate) fn lock_until_exit(cpus: &[u32]) {
    let others = in_use();
    let mut held = HELD.lock().expect("no thread panics while it holds the lock");
    for &cpu in cpus {
        let other = others.iter().find(|it| it.cpu == cpu);
        if let Some(InUse { pid, .. }) = other {
            let owner = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            let message = "is shared with a worker of another instance";
            write_line(io::stderr(), format_args!("millrace: cpu {cpu} {message}{owner}"));
        }
        let folder = control::make_folder().ok();
        if let Some(lock) = folder.and_then(|folder| lock(&folder, cpu)) {
            held.insert(cpu, lock);
        }
    }
}

fn path(folder: &Path, cpu: u32) -> PathBuf {
    folder.join(format!("cpu-{cpu}.lock"))
}

/// Locks a cpu. Returns `None` if another process has locked it.
fn lock(folder: &Path, cpu: u32) -> Option<File> {
    let path = path(folder, cpu);
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path).ok()?;
    if !locks(&file, FlockOperation::NonBlockingLockExclusive) {
        return None;
    }
    // The ID is informative only: the lock holds without it.
    let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    Some(file)
}

/// Returns the locked cpus of one folder; none if the folder cannot be read.
fn locked_in(folder: &Path) -> Vec<InUse> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("cpu-")?.strip_suffix(".lock")?.parse::<u32>().ok());
        let is_file = entry.file_type().is_ok_and(|it| it.is_file());
        let (Some(cpu), true) = (number, is_file) else { continue };
        let Ok(file) = File::open(entry.path()) else { continue };
        if !locks(&file, FlockOperation::NonBlockingLockShared) {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            found.push(InUse { cpu, pid: text.trim().parse().ok() });
        }
    }
    found
}

/// Locks a file. True if the lock was free; this process then has it until the file is closed.
fn locks(file: &File, operation: FlockOperation) -> bool {
    (0..TRIES).any(|tries| {
        if tries > 0 {
            std::thread::sleep(PAUSE);
        }
        // On a file system without locks, no process has one.
        flock(file, operation) != Err(rustix::io::Errno::WOULDBLOCK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_lasts_as_long_as_its_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(locked_in(folder), []);
        let own = InUse { cpu: 7, pid: Some(std::process::id()) };
        let held = lock(folder, 7).expect("nobody has it");
        assert_eq!(locked_in(folder), [own]);
        assert!(lock(folder, 7).is_none());
        drop(held);
        assert_eq!(locked_in(folder), []);
        assert!(path(folder, 7).exists());
        // A longer number that was there before is removed whole.
        fs::write(path(folder, 7), "4294967295").unwrap();
        let _held = lock(folder, 7).expect("nobody has it");
        assert_eq!(locked_in(folder), [own]);
        // Files that are no locks of Millrace.
        for name in ["cpu-.lock", "cpu-1", "1.lock", "cpu-x.lock"] {
            fs::write(folder.join(name), "1").unwrap();
        }
        fs::create_dir(folder.join("cpu-2.lock")).unwrap();
        assert_eq!(locked_in(folder), [own]);
        assert_eq!(locked_in(Path::new("/nowhere")), []);
    }
}
