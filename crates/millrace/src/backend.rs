// SPDX-License-Identifier: BSD-3-Clause
//! Chooses what carries the packets of the generator and the reflector: DPDK or sockets.

use anyhow::bail;
use clap::ValueEnum;
use report::output::write_line;
use results::units;
use rustix::io::Errno;
use sockets::KernelCounts;
use std::io;

/// The way by which packets are sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Ports of DPDK
    Dpdk,
    /// UDP sockets of the Linux kernel
    Sockets,
    /// UDP sockets of the Linux kernel, by io_uring
    IoUring,
    /// Packet sockets (AF_PACKET) of Linux interfaces
    Packet,
}

impl Backend {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dpdk => "dpdk",
            Self::Sockets => "sockets",
            Self::IoUring => "io-uring",
            Self::Packet => "packet",
        }
    }
}

/// Error text if a run with io_uring cannot start.
pub(crate) const NO_IO_URING: &str = "the kernel refuses io_uring: it may be older than Linux 6.0, \
                                      or forbid it (sysctl kernel.io_uring_disabled); \
                                      take --backend sockets";

/// Options that choose the backend and its sockets.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct SocketArgs {
    /// What carries packets: DPDK, UDP sockets of Linux (also by io_uring), or packet sockets
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Backend::Dpdk)]
    pub(crate) backend: Backend,
    /// Number of UDP sockets, 1 to 128; of gen for each sender
    #[arg(long, value_name = "N", default_value_t = 1, requires = "backend",
          value_parser = clap::value_parser!(u16).range(1..=128))]
    pub(crate) sockets: u16,
    /// Most packets of a system call with sockets, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 32, requires = "backend",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) batch: u16,
    /// With UDP sockets: pass packets of equal size as one buffer, which the kernel segments
    #[arg(long, requires = "backend")]
    pub(crate) gso: bool,
    /// With --backend sockets: accept packets that the kernel has joined
    #[arg(long, requires = "backend")]
    pub(crate) gro: bool,
    /// With --backend io-uring: send without a copy of the payload; needs Linux 6.1
    #[arg(long, requires = "backend")]
    pub(crate) zero_copy: bool,
}

impl SocketArgs {
    /// Fails if options of io_uring are combined with another backend, or the reverse.
    pub(crate) fn refuse_contradictions(&self) -> anyhow::Result<()> {
        let is_io_uring = self.backend == Backend::IoUring;
        if is_io_uring && self.gro {
            bail!("--backend io-uring has no --gro: leave it out, or use --backend sockets");
        }
        if !is_io_uring && self.zero_copy {
            bail!("--zero-copy is for --backend io-uring");
        }
        Ok(())
    }
}

/// Prints how many packets the kernel refused, and how many ICMP errors came back.
pub(crate) fn print_refusals(counts: &KernelCounts) {
    let note = |text: String| write_line(io::stderr(), format_args!("millrace: {text}"));
    if counts.refused() > 0 {
        let refused = units::thousands(counts.refused());
        let why = match counts.last_error() {
            Some(error) if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) => {
                "longer than the MTU".to_owned()
            }
            Some(error) => error.to_string(),
            None => "no socket".to_owned(),
        };
        note(format!("the kernel refused {refused} packets, the last one with: {why}"));
    }
    if counts.unreachable() > 0 {
        let errors = units::thousands(counts.unreachable());
        note(format!("{errors} ICMP errors came back: is the other end there?"));
    }
}
