// SPDX-License-Identifier: BSD-3-Clause
//! Finds the ethdev of a device, and makes DPDK take the device if it has not.

use crate::eal::is_pci;
use crate::error::Errno;
use crate::sys;
use crate::vmbus::{self, is_vmbus};
use std::ffi::{CStr, CString};

/// Returns the number of the ethdev that `devargs` names; probes the device unless EAL did so at
/// start.
pub(crate) fn find_or_probe(devargs: &str) -> Result<u16, Errno> {
    if is_vmbus(devargs) {
        return vmbus::find(devargs);
    }
    let devargs = CString::new(devargs).map_err(|_| Errno::Invalid)?;
    if let Some(id) = find(&devargs) {
        return Ok(id);
    }
    make(&devargs)?;
    find(&devargs).ok_or(Errno::NoDevice)
}

/// Length of the longest devargs that `rte_dev_probe` accepts in 24.11: they must fit into a
/// message to another process (`EAL_DEV_MP_DEV_ARGS_MAX_LEN`).
const PROBED_MAX: usize = 127;

/// True for devargs of a virtual device that are too long to be probed, such as long paths of
/// captures. Such a device is created by its name.
pub(crate) fn is_too_long_to_probe(devargs: &str) -> bool {
    devargs.len() > PROBED_MAX && !is_pci(devargs)
}

fn make(devargs: &CStr) -> Result<(), Errno> {
    let text = devargs.to_str().map_err(|_| Errno::Invalid)?;
    if !is_too_long_to_probe(text) {
        // SAFETY: EAL is up; the C string is copied.
        return Errno::check(unsafe { sys::rte_dev_probe(devargs.as_ptr()) });
    }
    let (name, args) = text.split_once(',').unwrap_or((text, ""));
    let name = name.strip_prefix("vdev:").unwrap_or(name);
    let [name, args] = [name, args].map(|part| CString::new(part).expect("a part of a C string"));
    // SAFETY: EAL is up; both C strings are copied.
    Errno::check(unsafe { sys::rte_vdev_init(name.as_ptr(), args.as_ptr()) })
}

/// Returns the first ethdev of the device that `devargs` names.
fn find(devargs: &CStr) -> Option<u16> {
    // SAFETY: a plain C struct that `init` overwrites.
    let mut iterator: sys::rte_dev_iterator = unsafe { std::mem::zeroed() };
    // SAFETY: EAL is up; `devargs` and `iterator` outlive the iteration, which `cleanup` ends.
    unsafe {
        if sys::rte_eth_iterator_init(&mut iterator, devargs.as_ptr()) != 0 {
            return None;
        }
        let id = sys::rte_eth_iterator_next(&mut iterator);
        if u32::from(id) == sys::RTE_MAX_ETHPORTS {
            return None;
        }
        sys::rte_eth_iterator_cleanup(&mut iterator);
        Some(id)
    }
}
