// SPDX-License-Identifier: BSD-3-Clause
//! Reloads the access lists of a running Millrace again and again while it is measured.

use anyhow::{anyhow, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Reloads that go on until [`finish`](Self::finish), one after the other.
pub(crate) struct Reloads {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<u32>>,
}

impl Reloads {
    /// Lets the instance with this process id read these configurations in turns. They must have
    /// different lists, or a reload would change nothing.
    pub(crate) fn start(program: &Path, instance: u32, configs: [PathBuf; 2]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (program, over) = (program.to_owned(), is_over.clone());
        let reload_all = move || {
            let mut reloads = 0;
            for config in configs.iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                reload(&program, instance, config)?;
                reloads += 1;
            }
            Ok(reloads)
        };
        Self { is_over, thread: thread::spawn(reload_all) }
    }

    /// Waits for the last reload, for which the instance must run. Returns how many there were.
    ///
    /// # Errors
    /// If one of them failed.
    pub(crate) fn finish(self) -> anyhow::Result<u32> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the thread of the reloads panicked"))?
    }
}

fn reload(program: &Path, instance: u32, config: &Path) -> anyhow::Result<()> {
    let instance = instance.to_string();
    let mut command = Command::new(program);
    let command = command.args(["ct", "reload", "--json", "--instance", &instance]).arg(config);
    let output = command.output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a reload failed: {error}");
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(answer["list_change"].is_object(), "a reload changed no list: {answer}");
    Ok(())
}
