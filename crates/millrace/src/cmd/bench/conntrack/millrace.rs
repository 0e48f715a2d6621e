// SPDX-License-Identifier: BSD-3-Clause
//! Runs Millrace as a device, with the settings of the article's Open vSwitch.

use super::super::testbed::{Running, end_with_us, this_program};
use super::device::{self, CAPACITY, Configuration, Placement, TIMEOUTS};
use crate::cmd::bench::serving_generator::{READY, Wiring, abstract_socket, memif};
use anyhow::{Context, bail};
use control::{Line, Request, RequestKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time between two looks whether the device answers.
const TURN: Duration = Duration::from_millis(20);

/// A running instance of Millrace.
pub(super) struct Instance {
    process: Running,
    control: control::Instance,
    has_tracking: bool,
    settings: String,
    /// Its configuration file and its socket.
    _dir: TempDir,
}

/// Returns the sockets of the ports, as devargs.
fn sockets() -> [String; 2] {
    ["a", "b"].map(abstract_socket)
}

/// Returns the configuration file of the device, without its ports and its socket.
fn settings(has_tracking: bool) -> String {
    if !has_tracking {
        return "[policy]\ntracking = \"off\"\n".to_owned();
    }
    let timeouts: String =
        TIMEOUTS.iter().map(|(name, seconds)| format!("{name} = {seconds}\n")).collect();
    format!(
        "[table]\ncapacity = {CAPACITY}\ncapacity_ipv6 = 1\n\n[acl]\nnew_from = \"a\"\n\n\
         [timeouts]\n{timeouts}"
    )
}

impl Instance {
    pub(super) fn start(
        of: &Configuration,
        placement: &Placement,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("millrace-conntrack-").tempdir()?;
        let (file, socket) = (dir.path().join("device.toml"), dir.path().join("device.sock"));
        let [a, b] = sockets();
        let [a, b] = [memif(0, "server", &a), memif(1, "server", &b)];
        let settings = settings(of.has_tracking);
        let ports = format!("[[pair]]\na = {a:?}\nb = {b:?}\n");
        let text = format!("{ports}\n{settings}\n[control]\nsocket = {socket:?}\n");
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let cpus: Vec<String> = placement.device.iter().map(u32::to_string).collect();
        let mut command = end_with_us(this_program()?)?;
        command.arg("run").arg(&file).args(["--quiet", "--cpus", &cpus.join(",")]);
        let process = Running::start(&mut command)?;
        let control = control::Instance::at(socket);
        let has_tracking = of.has_tracking;
        let mut device = Self { process, control, has_tracking, settings, _dir: dir };
        device.wait_until_ready(interrupted)?;
        Ok(device)
    }

    /// Returns where the generator's ports are.
    pub(super) fn wiring(&self, of: &Configuration) -> Wiring {
        Wiring::memif(&sockets(), [of.queues; 2])
    }

    fn wait_until_ready(&mut self, interrupted: &AtomicBool) -> anyhow::Result<()> {
        let begun = Instant::now();
        while let Err(error) = self.active() {
            self.process.check()?;
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            if begun.elapsed() > READY {
                return Err(error);
            }
            std::thread::sleep(TURN);
        }
        Ok(())
    }

    /// Returns the connections in the table, by its counters. `ct count` visits each connection: a
    /// worker without idle time takes many seconds for that, while connections begin and end.
    fn active(&mut self) -> anyhow::Result<u64> {
        let answer = self.control.query(&Request::new(RequestKind::Stats))?;
        let stats = answer.lines.iter().find_map(|line| match line {
            Line::Stats { summary, .. } => summary["flows"]["active"].as_u64(),
            _ => None,
        });
        stats.context("the instance does not count its connections")
    }
}

impl device::Running for Instance {
    fn set_up(&self) -> Vec<String> {
        let command = "millrace run FILE; FILE has, besides the ports:";
        [command, ""].into_iter().chain(self.settings.lines()).map(str::to_owned).collect()
    }

    fn count(&mut self) -> anyhow::Result<Option<u64>> {
        self.process.check().context("the device failed")?;
        Ok(if self.has_tracking { Some(self.active()?) } else { None })
    }
}
