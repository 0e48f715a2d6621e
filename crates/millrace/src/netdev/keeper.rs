// SPDX-License-Identifier: BSD-3-Clause
//! The keeper: a process that restores the interfaces of the host when a run ends, also after
//! SIGKILL.
//!
//! Before each change the run writes a line to a pipe that says how to undo it. Once the pipe is
//! closed, the keeper undoes the changes, the last one first.

use super::netlink::{Netlink, is_no_device};
use super::redirect;
use crate::output::tell;
use crate::signals;
use netlink_packet_route::link::LinkFlags;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

/// Name of the subcommand that is the keeper.
pub(crate) const SUBCOMMAND: &str = "put-back-interfaces";

/// How to undo one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Undo {
    /// Switch an offload of the interface.
    Offload { interface: String, offload: Offload, is_on: bool },
    /// Write to a file below `/proc/sys`.
    Sysctl { path: String, text: String },
    /// Set the MTU of a device.
    Mtu { index: u32, mtu: u32 },
    /// Set a device down.
    Down { index: u32 },
    /// Have a device receive its own frames only. `net_af_packet` changes that, and back if it ends
    /// in order.
    NotPromiscuous { index: u32 },
    /// Remove a device that was made.
    Remove { index: u32 },
    /// End a redirect, and take away the queueing discipline that was made for it.
    Redirect { index: u32, made_clsact: bool },
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
    list: Option<ChildStdin>,
}

impl Keeper {
    /// Starts it. It is in a process group of its own: a Ctrl-C is not for it.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        // It holds up nobody who wants to unmount where the run was started.
        command.current_dir("/");
        let mut process = command.spawn()?;
        let list = process.stdin.take();
        Ok(Self { process, list })
    }

    /// Tells the keeper how to undo the next change.
    pub(super) fn note(&mut self, undo: &Undo) -> io::Result<()> {
        let mut line = serde_json::to_string(undo)?;
        line.push('\n');
        self.list.as_mut().map_or(Ok(()), |list| list.write_all(line.as_bytes()))
    }
}

impl Drop for Keeper {
    /// Has it put everything back, and waits until that is done.
    fn drop(&mut self) {
        drop(self.list.take());
        let _ = self.process.wait();
    }
}

/// The keeper's work, from the first line to the last undoing.
pub(crate) fn keep() -> anyhow::Result<ExitCode> {
    let _caught = signals::interrupt_flag()?;
    let lines = io::stdin().lines().map_while(Result::ok);
    let list: Vec<Undo> = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    let mut status = ExitCode::SUCCESS;
    for undo in list.iter().rev() {
        if let Err(error) = undo.carry_out() {
            tell(io::stderr(), format_args!("millrace: cannot put back {undo:?}: {error}"));
            status = ExitCode::FAILURE;
        }
    }
    Ok(status)
}

impl Undo {
    fn carry_out(&self) -> io::Result<()> {
        let done = match self {
            Self::Offload { interface, offload, is_on } => {
                dpdk::linux::set_offload(interface, (*offload).into(), *is_on)
            }
            Self::Sysctl { path, text } => std::fs::write(path, text),
            Self::Mtu { index, mtu } => super::set_mtu(&mut Netlink::open()?, *index, *mtu),
            Self::Down { index } => Netlink::open()?.set_flag(*index, LinkFlags::Up, false),
            Self::NotPromiscuous { index } => {
                Netlink::open()?.set_flag(*index, LinkFlags::Promisc, false)
            }
            Self::Remove { index } => Netlink::open()?.remove(*index),
            Self::Redirect { index, made_clsact } => {
                let mut netlink = Netlink::open()?;
                redirect::remove_filter(&mut netlink, *index)?;
                if *made_clsact { redirect::remove_clsact(&mut netlink, *index) } else { Ok(()) }
            }
        };
        match done {
            // The interface is gone, and all that was changed with it.
            Err(error) if is_no_device(&error) || error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}
