// SPDX-License-Identifier: BSD-3-Clause
//! Counts the frames that the kernel refused. The control thread reads the counts while workers
//! run.

use crate::sys::{Socket, SocketError};
use std::sync::atomic::{AtomicU64, Ordering};

/// Errors of sockets by kind, since they were opened.
#[derive(Debug, Default)]
pub struct KernelCounts {
    no_buffers: AtomicU64,
    unreachable: AtomicU64,
    refused: AtomicU64,
    last_error: AtomicU64,
}

/// Treatment of the packet that caused an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Offer it again.
    Again,
    /// Drop it: the kernel will never take it.
    Drop,
}

impl KernelCounts {
    /// Returns the number of calls that failed because the kernel had no buffer, or a queue of the
    /// interface was full.
    pub fn no_buffers(&self) -> u64 {
        self.no_buffers.load(Ordering::Relaxed)
    }

    /// Returns the number of ICMP errors that came back, such as "port unreachable".
    pub fn unreachable(&self) -> u64 {
        self.unreachable.load(Ordering::Relaxed)
    }

    /// Returns the number of packets that the kernel will never take, such as one that is longer
    /// than the MTU.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the error of the latest packet that the kernel will never take.
    pub fn last_error(&self) -> Option<std::io::Error> {
        let code = self.last_error.load(Ordering::Relaxed) as i32;
        (code != 0).then(|| std::io::Error::from_raw_os_error(code))
    }

    /// Counts the error of a call that sent nothing; returns what to do with its first packet.
    #[cold]
    pub(crate) fn classify(&self, error: SocketError, socket: &Socket) -> Remedy {
        match error {
            SocketError::Full => return Remedy::Again,
            SocketError::NoBuffers => {
                self.no_buffers.fetch_add(1, Ordering::Relaxed);
                return Remedy::Again;
            }
            SocketError::Other(_) => {}
        }
        // The next system call reports a received ICMP error once, whatever that call sends.
        if self.drain(socket) > 0 {
            return Remedy::Again;
        }
        if let SocketError::Other(code) = error {
            self.refuse(code);
        }
        Remedy::Drop
    }

    /// Counts a packet that the kernel will never take, with its error.
    #[cold]
    pub(crate) fn refuse(&self, code: i32) {
        self.last_error.store(code as u64, Ordering::Relaxed);
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes ICMP errors from the socket, because they use up the room for packets; returns their
    /// number.
    #[cold]
    pub(crate) fn drain(&self, socket: &Socket) -> u64 {
        let errors = socket.drain_icmp_errors();
        self.unreachable.fetch_add(errors, Ordering::Relaxed);
        errors
    }
}
