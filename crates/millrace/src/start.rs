// SPDX-License-Identifier: BSD-3-Clause
//! Starts DPDK, for all commands. A signal during the start ends it at once. If another program
//! delays the start, a message on standard error names that program.

use crate::signals;
use doctor::host::locks;
use dpdk::{Eal, EalConfig};
use report::output::write_line;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Open files that DPDK needs; with fewer it aborts with a stack dump.
const FILES_MIN: u64 = 64;

/// Starts DPDK with or without hugepages, as `config` says.
///
/// # Errors
///
/// [`EalError`](dpdk::EalError), or that this process may open too few files.
pub(crate) fn start_eal(config: &EalConfig) -> anyhow::Result<Eal> {
    refuse_too_few_files(getrlimit(Resource::Nofile).current)?;
    signals::start_driver_signal_thread();
    let _start_up = signals::start_up();
    let _watch = LockWatch::begin();
    Ok(Eal::init(config)?)
}

/// Fails if `limit` files are too few for DPDK; `None` means no limit.
fn refuse_too_few_files(limit: Option<u64>) -> anyhow::Result<()> {
    match limit {
        Some(limit) if limit < FILES_MIN => anyhow::bail!(
            "this process may open {limit} files, and DPDK needs {FILES_MIN}: type ulimit -n 1024 \
             before"
        ),
        _ => Ok(()),
    }
}

/// A thread that prints which program holds a lock that this process waits for. EAL locks the
/// directory of hugepages while it starts. It silently waits while another program has that lock.
struct LockWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LockWatch {
    /// Shorter waits are not reported.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn begin() -> Self {
        let (stop, stopped) = channel::<()>();
        let watch = move || {
            while stopped.recv_timeout(Self::PATIENCE) == Err(RecvTimeoutError::Timeout) {
                if let Some(holder) = locks::holder_waited_for(std::process::id()) {
                    let message = "waiting for the directory of hugepages, locked by";
                    write_line(io::stderr(), format_args!("millrace: {message} {holder}"));
                    return;
                }
            }
        };
        // The start works without this thread too, only without the message.
        let thread = std::thread::Builder::new().name("lock-watch".to_owned()).spawn(watch).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for LockWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a panic ends the process");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_files_are_refused_with_what_to_type() {
        let refused = refuse_too_few_files(Some(12)).unwrap_err().to_string();
        assert!(refused.contains("may open 12 files") && refused.contains("ulimit -n 1024"));
        assert!(refuse_too_few_files(Some(64)).is_ok());
        assert!(refuse_too_few_files(None).is_ok());
    }
}
