// SPDX-License-Identifier: BSD-3-Clause
//! Watches the ports of a running bump for the control thread, and reports what changes.

use crate::live::ports::reset::PortReset;
use crate::live::ports::shared::SharedPort;
use crate::units;
use dpdk::PortError;
use std::fmt;
use std::time::Duration;

/// A port of a running bump, as the control thread watches it.
pub(crate) struct PortWatch {
    pub(crate) port: SharedPort,
    pub(crate) reset: PortReset,
    pub(crate) has_several_queues: bool,
    /// True once a warning about rules without effect was given.
    is_unmarked: bool,
    /// Linux interface that the port reads beside the host's stack; `None` once the user was
    /// warned.
    read_beside: Option<String>,
    /// Link state that was last reported. A link that is up from the start is not reported.
    up: bool,
    pub(crate) removed: bool,
    has_left_namespace: bool,
}

/// An event at a port that is printed at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortEvent {
    /// The link of the port came up.
    Up(String),
    /// The link of the port went down: packets sent there are dropped.
    Down(String),
    /// The port's device is gone; the other ports go on.
    Removed(String),
    /// The interface of a tap was deleted, or moved to another network namespace, where it goes on
    /// working. Both look alike from here.
    LeftNamespace(String),
    /// The port takes rules, but packets arrive without their marks.
    Unmarked(String),
    /// Packets of the port have wrong checksums, and it reads a Linux interface beside the host's
    /// stack.
    UnfinishedChecksums { port: String, interface: String },
    /// The port was reset, as its driver requested.
    Reset {
        port: String,
        took: Duration,
        /// Rules that the port had before the reset; `None` if it takes none.
        rules: Option<u64>,
    },
    /// The first reset of the port failed; more tries follow. The error names the port.
    ResetFailed { error: PortError },
    /// The port is given up after this many failed resets.
    GivenUp { tries: u32, error: PortError },
}

impl fmt::Display for PortEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortEvent::Up(port) => write!(f, "port {port}: the link is up"),
            PortEvent::Down(port) => {
                write!(f, "port {port}: the link is down; packets to it are dropped")
            }
            PortEvent::Removed(port) => {
                write!(f, "port {port}: the device is gone; the other ports continue")
            }
            PortEvent::LeftNamespace(port) => write!(
                f,
                "port {port}: its interface has left this network namespace: moved to another, or \
                 deleted"
            ),
            PortEvent::Unmarked(port) => write!(
                f,
                "port {port}: rules have no effect: packets arrive without the marks of their \
                 rules; Millrace installs no more such rules for a while, and these connections \
                 stay in software"
            ),
            PortEvent::UnfinishedChecksums { port, interface } => write!(
                f,
                "port {port}: checksums are wrong: a sender leaves them to hardware that is not \
                 there; run ethtool -K INTERFACE tx off on the sending host, or use the interface \
                 {interface} itself as the port, so that the kernel fills them in"
            ),
            PortEvent::Reset { port, took, rules } => {
                write!(f, "port {port}: was reset; back after {} ms", took.as_millis())?;
                match rules {
                    Some(rules) => {
                        write!(f, ", {} rules to install again", units::thousands(*rules))
                    }
                    None => Ok(()),
                }
            }
            PortEvent::ResetFailed { error } => {
                write!(f, "a reset of a port failed, and will be tried again: {error}")
            }
            PortEvent::GivenUp { tries, error } => {
                write!(f, "a port did not come back: {tries} resets failed: {error}")
            }
        }
    }
}

impl PortWatch {
    pub(crate) fn new(
        port: SharedPort,
        reset: PortReset,
        (has_several_queues, read_beside): (bool, Option<String>),
    ) -> Self {
        Self {
            port,
            reset,
            has_several_queues,
            is_unmarked: false,
            read_beside,
            up: true,
            removed: false,
            has_left_namespace: false,
        }
    }

    /// Returns the warning about rules without effect, once.
    pub(crate) fn unmarked(&mut self, is_unmarked: bool) -> Option<PortEvent> {
        if !is_unmarked || std::mem::replace(&mut self.is_unmarked, true) {
            return None;
        }
        Some(PortEvent::Unmarked(self.port.lock().info().devargs.clone()))
    }

    /// Returns the warning about checksums left to hardware, once.
    pub(crate) fn unfinished(&mut self, has_wrong_checksums: bool) -> Option<PortEvent> {
        let interface = if has_wrong_checksums { self.read_beside.take() } else { None }?;
        let port = self.port.lock().info().devargs.clone();
        Some(PortEvent::UnfinishedChecksums { port, interface })
    }

    /// Returns a change of link or device since the last call.
    pub(crate) fn event(&mut self) -> Option<PortEvent> {
        if self.removed || self.has_left_namespace || self.reset.is_out() {
            return None;
        }
        let port = self.port.lock();
        let name = || port.info().devargs.clone();
        if port.removed() {
            // A tap that was moved into another network namespace goes on working.
            self.has_left_namespace =
                port.info().driver == "net_tap" && !port.stands_for_interface();
            self.removed = !self.has_left_namespace;
            let event = if self.removed { PortEvent::Removed } else { PortEvent::LeftNamespace };
            return Some(event(name()));
        }
        let up = port.link().up;
        if up == self.up {
            return None;
        }
        self.up = up;
        Some(if up { PortEvent::Up(name()) } else { PortEvent::Down(name()) })
    }
}
