// SPDX-License-Identifier: BSD-3-Clause
//! Locks Linux interfaces, so that only one instance uses each. Two would forward every frame
//! twice.
//!
//! The lock is an abstract socket named after the interface's number. Both belong to a network
//! namespace, and the kernel frees the name however the process ends.

use rustix::net::sockopt::socket_peercred;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// A lock on an interface, held while this value lives.
#[derive(Debug)]
pub(super) struct InterfaceLock(#[expect(dead_code, reason = "only held")] UnixListener);

/// Why an interface could not be locked.
#[derive(Debug)]
pub(super) enum NotLocked {
    /// Another process has locked it; its number, if the kernel tells.
    InUse(Option<i32>),
    Failed(io::Error),
}

impl InterfaceLock {
    /// Locks the interface with this number.
    pub(super) fn take(index: u32) -> Result<Self, NotLocked> {
        let name = format!("millrace/interface/{index}");
        let name = SocketAddr::from_abstract_name(name).map_err(NotLocked::Failed)?;
        match UnixListener::bind_addr(&name) {
            Ok(listener) => Ok(Self(listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                let holder = UnixStream::connect_addr(&name).ok();
                let credentials = holder.and_then(|socket| socket_peercred(socket).ok());
                let process = credentials.map(|it| it.pid.as_raw_nonzero().get());
                Err(NotLocked::InUse(process))
            }
            Err(error) => Err(NotLocked::Failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_one_learns_who_is_first() {
        // No interface has this number.
        let index = u32::MAX - std::process::id();
        let first = InterfaceLock::take(index).unwrap();
        let second = InterfaceLock::take(index);
        let own = std::process::id() as i32;
        assert!(matches!(second, Err(NotLocked::InUse(Some(pid))) if pid == own), "{second:?}");
        drop(first);
        InterfaceLock::take(index).unwrap();
    }
}
