// SPDX-License-Identifier: BSD-3-Clause
//! Runs the keeper: a process that restores the interfaces of the host when a run ends, also after
//! SIGKILL.
//!
//! Before each change the run writes a line to a pipe that says how to undo it. Once the pipe is
//! closed, the keeper undoes the changes, the last one first. `null` takes the last line back.

use super::netlink::{Device, Netlink, is_no_device};
use super::redirect;
use crate::signals;
use netlink_packet_route::link::LinkFlags;
use report::output::write_line;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Name of the subcommand that runs the keeper.
pub(crate) const SUBCOMMAND: &str = "put-back-interfaces";

/// A change to undo, and its device by number, MAC address and name. A number alone may be reused.
/// MAC address or name may change during a run, but hardly both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Undo {
    pub(super) index: u32,
    pub(super) mac: Vec<u8>,
    pub(super) name: String,
    pub(super) step: Step,
}

/// The step that undoes a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    /// Switches an offload on or off.
    Offload { offload: Offload, is_on: bool },
    /// Writes to a file of the device below `/proc/sys/net/FAMILY/conf`.
    Sysctl { family: String, key: String, text: String },
    /// Sets the MTU.
    Mtu(u32),
    /// Sets the device down.
    Down,
    /// Ends promiscuous mode. `net_af_packet` switches it on, and off again only if it ends in
    /// order.
    NotPromiscuous,
    /// Removes the device, which was made for the run.
    Remove,
    /// Ends a redirect, and removes the queueing discipline if it was made for the redirect.
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

/// A running keeper, as the run sees it.
#[derive(Debug)]
pub(super) struct Keeper {
    process: Child,
    pipe: Option<ChildStdin>,
    /// The steps that the keeper is to take, for the case that it cannot.
    list: Vec<Undo>,
}

/// Longest wait for the keeper to exit. If it takes longer, it was stopped or hangs.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two checks whether the keeper has exited.
const NAP: Duration = Duration::from_millis(5);

impl Keeper {
    /// Starts a keeper, in its own process group, so that Ctrl-C does not end it.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        // Otherwise the file system of the current directory could not be unmounted.
        command.current_dir("/");
        let mut process = command.spawn()?;
        let pipe = process.stdin.take();
        Ok(Self { process, pipe, list: Vec::new() })
    }

    /// Sends the keeper the step that undoes a change, and then makes the change. If the keeper is
    /// gone, this process takes that step at the end. A change that is not allowed has changed
    /// nothing, and to undo it would not be allowed either: its step is taken back. But a redirect
    /// is several changes.
    pub(super) fn change(
        &mut self,
        undo: Undo,
        change: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let is_redirect = matches!(undo.step, Step::Redirect { .. });
        self.send(Some(&undo))?;
        self.list.push(undo);
        let done = change();
        let is_refused =
            done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        if is_refused && !is_redirect {
            self.list.pop();
            self.send(None)?;
        }
        done
    }

    /// Sends a step, or that the last one is not to be taken.
    fn send(&mut self, undo: Option<&Undo>) -> io::Result<()> {
        let mut line = serde_json::to_string(&undo)?;
        line.push('\n');
        let sent = self.pipe.as_mut().map_or(Ok(()), |pipe| pipe.write_all(line.as_bytes()));
        if sent.is_err() {
            self.pipe = None;
        }
        Ok(())
    }

    /// Waits for the keeper to exit. True if it ended by itself, false if it was killed or takes
    /// too long.
    fn is_done(&mut self) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.process.try_wait() {
                // It ended by itself, and has printed what it could not undo.
                Ok(Some(status)) => return status.code().is_some(),
                Ok(None) if Instant::now() < end => std::thread::sleep(NAP),
                _ => return false,
            }
        }
    }
}

impl Drop for Keeper {
    /// Has the keeper undo all changes, and waits for it. Undoes them here if the keeper was killed
    /// or takes too long.
    fn drop(&mut self) {
        drop(self.pipe.take());
        if !self.is_done() {
            let _ = self.process.kill();
            let _ = self.process.wait();
            put_back(&self.list);
        }
    }
}

/// Undoes changes, the last one first, and prints failures. True if there were none.
fn put_back(list: &[Undo]) -> bool {
    let mut is_all = true;
    for undo in list.iter().rev() {
        if let Err(error) = undo.carry_out() {
            write_line(
                io::stderr(),
                format_args!("millrace: {undo} could not be restored: {error}"),
            );
            is_all = false;
        }
    }
    is_all
}

/// Runs the keeper: reads steps until the pipe is closed, then undoes the changes.
pub(crate) fn keep() -> anyhow::Result<ExitCode> {
    let _caught = signals::interrupt_flag()?;
    let list = steps(io::stdin().lines().map_while(Result::ok));
    Ok(if put_back(&list) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the steps that these lines leave to be taken.
fn steps(lines: impl Iterator<Item = String>) -> Vec<Undo> {
    let mut list = Vec::new();
    for step in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
        match step {
            Some(undo) => list.push(undo),
            None => {
                list.pop();
            }
        }
    }
    list
}

impl fmt::Display for Undo {
    /// Names the setting and its interface.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            Step::Offload { offload: Offload::Gro, .. } => f.write_str("GRO")?,
            Step::Offload { offload: Offload::Lro, .. } => f.write_str("LRO")?,
            Step::Sysctl { family, key, .. } => write!(f, "{family} {key}")?,
            Step::Mtu(_) => f.write_str("the MTU")?,
            Step::Down => f.write_str("the state down")?,
            Step::NotPromiscuous => f.write_str("promiscuous mode")?,
            Step::Remove => f.write_str("the absence")?,
            Step::Redirect { .. } => f.write_str("the tc ingress")?,
        }
        let device = Netlink::open().and_then(|mut it| it.device_by_index(self.index));
        match device {
            Ok(Some(device)) => write!(f, " of interface {}", device.name),
            _ => write!(f, " of the interface with number {}", self.index),
        }
    }
}

impl Undo {
    /// Returns the step that undoes a change of this device.
    pub(super) fn new(device: &Device, step: Step) -> Self {
        let Device { index, mac, name, .. } = device.clone();
        Self { index, mac, name, step }
    }

    fn is_of(&self, device: &Device) -> bool {
        device.mac == self.mac || device.name == self.name
    }

    /// Undoes the change. Does nothing if the device is gone, or if the change was refused: without
    /// a privilege, both would be.
    fn carry_out(&self) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        let found = netlink.device_by_index(self.index)?;
        // The device is gone or has left this network namespace, and its changes with it.
        let Some(device) = found.filter(|device| self.is_of(device)) else { return Ok(()) };
        let index = self.index;
        let done = match &self.step {
            Step::Offload { offload, is_on }
                if dpdk::linux::offload(&device.name, (*offload).into()).ok() == Some(*is_on) =>
            {
                Ok(())
            }
            Step::Offload { offload, is_on } => {
                dpdk::linux::set_offload(&device.name, (*offload).into(), *is_on)
            }
            Step::Sysctl { family, key, text } => set_sysctl(&device.name, (family, key), text),
            Step::Mtu(mtu) => super::set_mtu(&mut netlink, index, *mtu),
            Step::Down => netlink.set_flag(index, LinkFlags::Up, false),
            Step::NotPromiscuous if !device.is_promiscuous => Ok(()),
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

/// Returns a key of a device below `/proc/sys/net/FAMILY/conf`; `None` if the kernel has no such
/// key.
pub(super) fn sysctl(device: &str, name: (&str, &str)) -> Option<String> {
    std::fs::read_to_string(sysctl_path(device, name)).ok()
}

/// Sets a key of a device below `/proc/sys/net/FAMILY/conf`, unless it has this value already.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_was_taken_back_is_not_taken() {
        let undo = |index| {
            let device = Device { index, mac: vec![2, 0, 0, 0, 0, 1], ..Device::default() };
            Undo::new(&device, Step::Down)
        };
        let line = |undo: Option<Undo>| serde_json::to_string(&undo).unwrap();
        let lines = [line(Some(undo(1))), line(Some(undo(2))), line(None), line(Some(undo(3)))];
        // A run that is killed may leave a cut line.
        let cut = line(Some(undo(4)))[..9].to_owned();
        assert_eq!(steps(lines.into_iter().chain([cut])), [undo(1), undo(3)]);
        assert_eq!(steps([line(None)].into_iter()), []);
    }
}
