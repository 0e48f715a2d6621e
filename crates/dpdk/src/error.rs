// SPDX-License-Identifier: BSD-3-Clause
//! Errors at start. Each names the device and keeps DPDK's own words.

use crate::{Log, sys};
use std::fmt;

/// The meaning of an error number of DPDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// ENODEV, ENXIO: no such device or driver.
    NoDevice,
    /// ENOENT: something named does not exist.
    NotFound,
    /// EACCES: not permitted to this user.
    NotPermitted,
    /// -1, which drivers return if they have no better number.
    Unspecified,
    /// EBUSY: in use.
    Busy,
    /// EEXIST: the name is taken.
    Exists,
    /// ENOMEM, ENOSPC: not enough memory.
    NoMemory,
    /// EINVAL: a parameter is wrong.
    Invalid,
    /// ENOTSUP, ENOSYS: the driver does not support it.
    NotSupported,
    /// Any other number.
    Other(i32),
}

impl Errno {
    /// Returns the error of DPDK's return value, a negative errno.
    pub(crate) fn from_return(ret: i32) -> Self {
        match ret.wrapping_neg() {
            1 => Errno::Unspecified,
            13 => Errno::NotPermitted,
            2 => Errno::NotFound,
            6 | 19 => Errno::NoDevice,
            12 | 28 => Errno::NoMemory,
            16 => Errno::Busy,
            17 => Errno::Exists,
            22 => Errno::Invalid,
            38 | 95 => Errno::NotSupported,
            other => Errno::Other(other),
        }
    }

    /// Returns the error in this thread's `rte_errno`.
    pub(crate) fn last() -> Self {
        // SAFETY: reads and clears a number of the calling thread.
        Self::from_return(-unsafe { sys::shim_take_errno() })
    }

    /// Returns `Ok` for 0 or more, else the error.
    pub(crate) fn check(ret: i32) -> Result<(), Self> {
        if ret < 0 { Err(Self::from_return(ret)) } else { Ok(()) }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Errno::NoDevice => "no such device or driver",
            Errno::NotFound => "not found",
            Errno::NotPermitted => "not permitted",
            Errno::Unspecified => "refused",
            Errno::Busy => "in use",
            Errno::Exists => "the name is taken",
            Errno::NoMemory => "not enough memory",
            Errno::Invalid => "a parameter is wrong",
            Errno::NotSupported => "not supported by the driver",
            Errno::Other(number) => {
                return fmt::Display::fmt(&std::io::Error::from_raw_os_error(*number), f);
            }
        };
        f.write_str(text)
    }
}

/// EAL did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EalError {
    /// EAL can be started only once in a process, even if that failed.
    #[error("EAL was started before in this process")]
    StartedBefore,
    /// An lcore is requested on a processor that this process may not use.
    #[error("processor {cpu} is not among those this process may use ({allowed})")]
    CpuNotAllowed {
        /// The requested processor.
        cpu: usize,
        /// The allowed processors, as the kernel writes the list.
        allowed: String,
    },
    /// Two lcores are requested on one processor.
    #[error("processor {0} is named for two lcores")]
    CpuTwice(usize),
    /// An argument contains a zero byte.
    #[error("EAL argument {0:?} contains a zero byte")]
    ZeroByte(String),
    /// An extra argument is unknown to EAL, missing, or of no use.
    #[error("EAL does not take these arguments: {arguments}{log}")]
    Arguments {
        /// The arguments among which the wrong ones are.
        arguments: String,
        /// EAL's messages about them.
        log: Log,
    },
    /// Hugepages are requested, and there are too few.
    #[error(
        "EAL did not start: too few hugepages for this process; reserve some with \
         `sysctl vm.nr_hugepages=512`, raise the hugetlb limit of its control group, or do \
         without{log}"
    )]
    NoHugepages {
        /// Lines that EAL logged.
        log: Log,
    },
    /// EAL refused.
    #[error("EAL did not start: {errno}{log}")]
    Init {
        /// Its error number.
        errno: Errno,
        /// Lines that EAL logged.
        log: Log,
    },
}

/// A mempool could not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mempool `{name}` of {count} mbufs: {errno}{log}")]
pub struct MempoolError {
    /// Its name.
    pub name: String,
    /// Requested number of mbufs.
    pub count: u32,
    /// The error number.
    pub errno: Errno,
    /// Lines that DPDK logged.
    pub log: Log,
}

/// A port could not be opened or configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// There is no such driver, or no such PCI device among those that EAL was given.
    #[error("port `{port}`: no driver takes it; {}{log}", cause.as_deref().unwrap_or(PORTS))]
    NoDriver {
        /// Devargs of the port.
        port: String,
        /// Lines that DPDK logged.
        log: Log,
        /// The cause, and what to do about it, if they are known.
        cause: Option<String>,
    },
    /// The driver refused the device or its parameters.
    #[error("port `{port}`: could not be opened: {errno}{log}{}", advice(log, cause, parameters))]
    Probe {
        /// Devargs of the port.
        port: String,
        /// The error number.
        errno: Errno,
        /// Lines that the driver logged.
        log: Log,
        /// The cause, and what to do about it, if they are known.
        cause: Option<String>,
        /// The parameters that the driver accepts, if they are known.
        parameters: Option<String>,
    },
    /// The port is open already.
    #[error("port `{port}` is in use already; name each port once")]
    InUse {
        /// Devargs of the port.
        port: String,
    },
    /// The port has fewer queues than requested.
    #[error(
        "port `{port}` ({driver}) has {has} {direction} {}, {wanted} are needed{}",
        if *has == 1 { "queue" } else { "queues" },
        more_queues(driver, *wanted)
    )]
    TooFewQueues {
        /// Devargs of the port.
        port: String,
        /// Its driver.
        driver: String,
        /// `receive` or `transmit`.
        direction: &'static str,
        /// Queues of the port.
        has: u16,
        /// Requested queues.
        wanted: u16,
    },
    /// The device string has arguments, and the driver does not read any.
    #[error(
        "port `{port}`: its driver {driver} reads no arguments, so `{arguments}` would have no \
         effect; leave it out"
    )]
    UnreadArguments {
        /// Devargs of the port.
        port: String,
        /// Its driver.
        driver: String,
        /// The arguments.
        arguments: String,
    },
    /// A step of its configuration failed.
    #[error("port `{port}`: could not {step}: {errno}{log}")]
    Configure {
        /// Devargs of the port.
        port: String,
        /// The failed step.
        step: Step,
        /// The error number.
        errno: Errno,
        /// Lines that DPDK logged.
        log: Log,
    },
}

/// What a port can be.
const PORTS: &str = "write the PCI address of a device that is bound to vfio-pci, such as \
                     0000:18:00.2, or a virtual device such as net_af_packet0,iface=eth1";

/// Returns additional lines, so that every refusal has a reason and advice.
fn advice(log: &Log, cause: &Option<String>, parameters: &Option<String>) -> String {
    let reason = match (cause, log.is_empty()) {
        (Some(cause), _) => format!("\n  {cause}"),
        (None, true) => {
            "\n  its driver does not say why: a parameter may be wrong, unknown to it or missing"
                .to_owned()
        }
        (None, false) => String::new(),
    };
    match parameters {
        Some(parameters) => format!("{reason}\n  its driver takes {parameters}"),
        None => reason,
    }
}

/// Returns what gives a port of the driver more queues.
fn more_queues(driver: &str, wanted: u16) -> String {
    match driver {
        "net_af_packet" => format!(": add qpairs={wanted} to its arguments"),
        "net_virtio" => format!(
            ": use fewer workers, or give the virtual machine more (queues={wanted} and mq=on in \
             QEMU)"
        ),
        _ => ": each worker takes one, so use fewer workers".to_owned(),
    }
}

/// Steps of a port's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read its capabilities.
    Info,
    /// Set queues and offloads.
    Configure,
    /// Adjust the number of descriptors.
    Descriptors,
    /// Set up a receive queue.
    RxQueue(u16),
    /// Set up a transmit queue.
    TxQueue(u16),
    /// Start it.
    Start,
    /// Receive frames of any destination address.
    Promiscuous,
    /// Have the driver reset the device.
    Reset,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Info => f.write_str("read its capabilities"),
            Step::Configure => f.write_str("set its queues and offloads"),
            Step::Descriptors => f.write_str("settle its number of descriptors"),
            Step::RxQueue(queue) => write!(f, "set up receive queue {queue}"),
            Step::TxQueue(queue) => write!(f, "set up transmit queue {queue}"),
            Step::Start => f.write_str("start it"),
            Step::Reset => f.write_str("reset it"),
            Step::Promiscuous => f.write_str("make it receive frames of any destination address"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_queues_have_a_way_out() {
        let text = |driver: &str, has| {
            let (port, driver) = ("p".to_owned(), driver.to_owned());
            let error =
                PortError::TooFewQueues { port, driver, direction: "receive", has, wanted: 4 };
            error.to_string()
        };
        assert!(
            text("net_af_packet", 1)
                .ends_with("1 receive queue, 4 are needed: add qpairs=4 to its arguments")
        );
        assert!(text("net_virtio", 1).contains("queues=4"));
        assert!(
            text("net_e1000_em", 2)
                .contains("2 receive queues, 4 are needed: each worker takes one")
        );
    }
}
