// SPDX-License-Identifier: BSD-3-Clause
//! Defines the events of ports that the control thread prints.

use dpdk::PortError;
use engine::INEFFECTIVE_MAX;
use results::units;
use std::fmt;
use std::time::Duration;

/// An event of a port, which the control thread prints when it notices it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortEvent {
    /// The link of the port came up.
    Up(String),
    /// The link of the port went down: packets sent there are dropped.
    Down(String),
    /// The port's device is gone; the other ports go on.
    Removed(String),
    /// The kernel asked for the port's device, and has it back; the other ports go on.
    GivenBack(String),
    /// The interface of a tap was deleted, or moved to another network namespace, where it goes on
    /// working. Both look alike from here.
    LeftNamespace(String),
    /// The port takes rules, but packets arrive without their marks.
    Unmarked {
        port: String,
        /// True if packets had marks before: the NIC is stuck.
        had_marks: bool,
    },
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
            PortEvent::GivenBack(port) => write!(
                f,
                "port {port}: the device is gone: the kernel asked for it, and Millrace has \
                 returned it; the other ports continue"
            ),
            PortEvent::LeftNamespace(port) => write!(
                f,
                "port {port}: its interface has left this network namespace: moved to another, or \
                 deleted"
            ),
            PortEvent::Unmarked { port, had_marks: false } => write!(
                f,
                "port {port}: rules have no effect: {INEFFECTIVE_MAX} in a row (of UDP, or of \
                 TCP) marked none of their packets; Millrace installs no more such rules for a \
                 while, and these connections stay in software"
            ),
            PortEvent::Unmarked { port, had_marks: true } => write!(
                f,
                "port {port}: rules have no effect any more: {INEFFECTIVE_MAX} in a row (of UDP, \
                 or of TCP) marked none of their packets. Packets of this pair had marks before, \
                 and the driver reports no error. Millrace installs no more such rules for a \
                 while, and these connections stay in software. If it stays so, restart Millrace, \
                 or the host: some NICs get stuck until they are reset"
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
