// SPDX-License-Identifier: BSD-3-Clause
//! The keeper: a process that restores the interfaces of the host when a run ends, also after
//! SIGKILL.
//!
//! Before each change the run writes a line to a pipe that says how to undo it. Once the pipe is
//! closed, the keeper undoes the changes, the last one first.

use super::netlink::{Netlink, is_no_device};
use super::redirect;
use crate::signals;
use netlink_packet_route::link::LinkFlags;
use report::output::tell;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Name of the subcommand that is the keeper.
pub(crate) const SUBCOMMAND: &str = "put-back-interfaces";

/// A change to undo, of the device with this number and MAC address: numbers are used again, names
/// change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Undo {
    pub(super) index: u32,
    pub(super) mac: Vec<u8>,
    pub(super) step: Step,
}

/// What undoes a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    /// Switch an offload.
    Offload { offload: Offload, is_on: bool },
    /// Write to a file of the device below `/proc/sys/net/FAMILY/conf`.
    Sysctl { family: String, key: String, text: String },
    /// Set the MTU.
    Mtu(u32),
    /// Set the device down.
    Down,
    /// Have the device receive its own frames only. `net_af_packet` changes that, and back if it
    /// ends in order.
    NotPromiscuous,
    /// Remove the device, which was made for the run.
    Remove,
    /// End a redirect, and take away the queueing discipline that was made for it.
    Redirect { made_clsact: bool },
}

/// Offloads that change received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Offload {
    Gro,
    Lro,
}

impl From<Offload> for dpdk::linux::Offload {
    fn from(offload: Offload) -> Self {
        match offload {
            Offload::Gro => Self::Gro,
            Offload::Lro => Self::Lro,
        }
    }
}

/// A keeper that waits for the end of this process.
#[derive(Debug)]
pub(super) struct Keeper {
    process: Child,
    pipe: Option<ChildStdin>,
    /// What it was told, in case that it does not do it.
    list: Vec<Undo>,
}

/// A keeper that takes longer was stopped or hangs.
const PATIENCE: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_millis(5);

impl Keeper {
    /// Starts it. It is in a process group of its own: a Ctrl-C is not for it.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        // It holds up nobody who wants to unmount where the run was started.
        command.current_dir("/");
        let mut process = command.spawn()?;
        let pipe = process.stdin.take();
        Ok(Self { process, pipe, list: Vec::new() })
    }

    /// Tells the keeper how to undo the next change. If it has gone, this process does that.
    pub(super) fn note(&mut self, undo: Undo) -> io::Result<()> {
        let mut line = serde_json::to_string(&undo)?;
        line.push('\n');
        self.list.push(undo);
        let told = self.pipe.as_mut().map_or(Ok(()), |pipe| pipe.write_all(line.as_bytes()));
        if told.is_err() {
            self.pipe = None;
        }
        Ok(())
    }

    /// Returns true once the keeper has put everything back.
    fn is_done(&mut self) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.process.try_wait() {
                // Of its own accord; what it could not do, it has said.
                Ok(Some(status)) => return status.code().is_some(),
                Ok(None) if Instant::now() < end => std::thread::sleep(NAP),
                _ => return false,
            }
        }
    }
}

impl Drop for Keeper {
    /// Has it put everything back, and waits until that is done. Does it itself if the keeper was
    /// killed, or does not come to an end.
    fn drop(&mut self) {
        drop(self.pipe.take());
        if !self.is_done() {
            let _ = self.process.kill();
            let _ = self.process.wait();
            put_back(&self.list);
        }
    }
}

/// Undoes changes, the last one first, and says what could not be undone. True if all of it was.
fn put_back(list: &[Undo]) -> bool {
    let mut is_all = true;
    for undo in list.iter().rev() {
        if let Err(error) = undo.carry_out() {
            tell(io::stderr(), format_args!("millrace: cannot put back {undo:?}: {error}"));
            is_all = false;
        }
    }
    is_all
}

/// The keeper's work, from the first line to the last undoing.
pub(crate) fn keep() -> anyhow::Result<ExitCode> {
    let _caught = signals::interrupt_flag()?;
    let lines = io::stdin().lines().map_while(Result::ok);
    let list: Vec<Undo> = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    Ok(if put_back(&list) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Undo {
    fn carry_out(&self) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        let found = netlink.device_by_index(self.index)?;
        // It is gone, or has left this namespace, and all that was changed with it.
        let Some(device) = found.filter(|device| device.mac == self.mac) else { return Ok(()) };
        let index = self.index;
        let done = match &self.step {
            Step::Offload { offload, is_on } => {
                dpdk::linux::set_offload(&device.name, (*offload).into(), *is_on)
            }
            Step::Sysctl { family, key, text } => set_sysctl(&device.name, (family, key), text),
            Step::Mtu(mtu) => super::set_mtu(&mut netlink, index, *mtu),
            Step::Down => netlink.set_flag(index, LinkFlags::Up, false),
            Step::NotPromiscuous => netlink.set_flag(index, LinkFlags::Promisc, false),
            Step::Remove => netlink.remove(index),
            Step::Redirect { made_clsact } => {
                redirect::remove_filter(&mut netlink, index)?;
                if *made_clsact { redirect::remove_clsact(&mut netlink, index) } else { Ok(()) }
            }
        };
        match done {
            Err(error) if is_no_device(&error) || error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

/// Returns the value of a key of a device below `/proc/sys/net/FAMILY/conf`; `None` where the
/// kernel has no such key.
pub(super) fn sysctl(device: &str, name: (&str, &str)) -> Option<String> {
    std::fs::read_to_string(sysctl_path(device, name)).ok()
}

/// Sets it. What has the value already is not written to.
pub(super) fn set_sysctl(device: &str, name: (&str, &str), text: &str) -> io::Result<()> {
    match sysctl(device, name) {
        Some(value) if value.trim_end() != text.trim_end() => {
            std::fs::write(sysctl_path(device, name), text)
        }
        _ => Ok(()),
    }
}

fn sysctl_path(device: &str, (family, key): (&str, &str)) -> String {
    format!("/proc/sys/net/{family}/conf/{device}/{key}")
}
