// SPDX-License-Identifier: BSD-3-Clause
//! Linux system calls around a start: descriptors across `exec`, offloads of interfaces,
//! privileges. Nothing here depends on DPDK.

use crate::sys;
use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// An offload of a Linux interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Generic receive offload: the kernel joins TCP segments.
    Gro,
    /// Large receive offload: the NIC joins TCP segments.
    Lro,
    /// Checksums of sent frames are left to hardware. If this is off, the kernel also does the
    /// segmentation itself, because each segment needs a checksum of its own.
    TxChecksums,
}

/// Marks every descriptor above 2 as close-on-exec. If EAL fails, it leaves the directory of
/// hugepages open and locked; a program that this process executes would keep the lock.
pub fn close_on_exec() -> io::Result<()> {
    // SAFETY: changes a flag of descriptors, which only `exec` looks at.
    check(unsafe { sys::shim_close_on_exec() }).map(drop)
}

/// Blocks the signals of drivers in this thread, and in threads that it starts afterwards.
///
/// `net_tap` has the kernel send the process a signal for every received frame: the first real-time
/// signal that is free (`rte_eth_tap.c`). A thread that takes them at a high rate never ends a
/// sleep, because every signal adds the timer's slack to the rest of the sleep.
pub fn block_driver_signals() -> io::Result<()> {
    // SAFETY: changes the signal mask of this thread only.
    check(unsafe { sys::shim_block_driver_signals() }).map(drop)
}

/// True if `offload` of `interface` is on.
pub fn offload(interface: &str, offload: Offload) -> io::Result<bool> {
    query(interface, offload, -1)
}

/// Switches `offload` of `interface`. A NIC that cannot refuses with `EOPNOTSUPP`.
pub fn set_offload(interface: &str, offload: Offload, is_on: bool) -> io::Result<()> {
    query(interface, offload, is_on.into()).map(drop)
}

/// Has the interface receive frames of any destination as long as the descriptor is open.
pub fn hold_promiscuous(if_index: u32) -> io::Result<OwnedFd> {
    // SAFETY: makes a socket; the interface is named by number.
    let fd = check(unsafe { sys::shim_hold_promiscuous(if_index) })?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Limits the capabilities of every thread of the process to those whose bits are set in `kept`
/// (bit n is capability n of linux/capability.h), also after `exec`. Returns false if a thread did
/// not respond, or the kernel refused.
pub fn limit_privileges(kept: u64) -> bool {
    // SAFETY: the handler of the signal that each thread gets makes system calls only.
    unsafe { sys::shim_limit_privileges(kept) == 0 }
}

fn query(interface: &str, offload: Offload, wanted: i32) -> io::Result<bool> {
    let interface = CString::new(interface)?;
    let offload = match offload {
        Offload::Gro => sys::shim_offload_SHIM_GRO,
        Offload::Lro => sys::shim_offload_SHIM_LRO,
        Offload::TxChecksums => sys::shim_offload_SHIM_TX_CHECKSUMS,
    };
    // SAFETY: the name is a C string, which is read only.
    check(unsafe { sys::shim_offload(interface.as_ptr(), offload, wanted) }).map(|state| state == 1)
}

fn check(ret: i32) -> io::Result<i32> {
    if ret < 0 { Err(io::Error::from_raw_os_error(-ret)) } else { Ok(ret) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn descriptors_that_exec_would_inherit_are_closed_by_it() {
        // SAFETY: duplicates a descriptor without the flag, as C libraries do.
        let fd = unsafe { OwnedFd::from_raw_fd(libc_dup(0)) };
        let flags = || {
            let info = format!("/proc/self/fdinfo/{}", fd.as_raw_fd());
            let text = std::fs::read_to_string(info).unwrap();
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            u32::from_str_radix(flags.trim(), 8).unwrap()
        };
        const CLOSE_ON_EXEC: u32 = 0o2_000_000;
        assert_eq!(flags() & CLOSE_ON_EXEC, 0);
        close_on_exec().unwrap();
        assert_eq!(flags() & CLOSE_ON_EXEC, CLOSE_ON_EXEC);
    }

    unsafe extern "C" {
        #[link_name = "dup"]
        fn libc_dup(fd: i32) -> i32;
    }

    #[test]
    fn an_interface_that_is_not_there_has_no_offloads() {
        assert!(offload("no-such-one", Offload::Gro).is_err());
        assert!(set_offload("no-such-one", Offload::Lro, false).is_err());
        assert!(hold_promiscuous(u32::MAX).is_err());
    }
}
