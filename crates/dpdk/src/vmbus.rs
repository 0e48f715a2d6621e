// SPDX-License-Identifier: BSD-3-Clause
//! NICs of Hyper-V and Azure. Such a NIC is a device on VMBus (netvsc), which is there always, and
//! mostly a second device on the PCI bus (its VF), which carries the packets.

use crate::error::Errno;
use crate::{log, sys};
use std::ffi::CString;

/// The line of DPDK's netvsc driver about a VF that no driver has opened (`hn_vf.c`).
const NO_VF: &str = "Couldn't find port for VF";

/// What that line means.
const NO_VF_MEANS: &str = "  this NIC is two devices: no driver of DPDK has opened the second one, \
    its VF on the PCI bus, so packets do not pass or pass slowly; millrace doctor says which \
    library is missing";

/// True for the UUID of a device on VMBus, with or without arguments.
pub fn is_vmbus(devargs: &str) -> bool {
    let name = devargs.split(',').next().unwrap_or_default();
    let parts: Vec<_> = name.split('-').collect();
    let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(is_hex)
}

/// Reason for which a device of VMBus is no port.
const NOT_BOUND: &str = "EAL found no netvsc device with this UUID on uio_hv_generic: driverctl -b \
    vmbus set-override UUID uio_hv_generic; millrace doctor lists the devices";

/// Returns the number of the ethdev of a device on VMBus, which EAL has probed at its start. This
/// bus can neither probe later nor find a device by its devargs, but the ethdev has the name of the
/// device.
pub(crate) fn find(devargs: &str) -> Result<u16, Errno> {
    let name = devargs.split(',').next().unwrap_or_default();
    let name = CString::new(name).map_err(|_| Errno::Invalid)?;
    let mut id = 0;
    // SAFETY: EAL is up; the name is a C string, and `id` outlives the call, which writes to it.
    if unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &mut id) } != 0 {
        log::add(NOT_BOUND);
        return Err(Errno::NoDevice);
    }
    Ok(id)
}

/// Returns what a line of DPDK's log means to the user, if it does not say so itself.
pub(crate) fn explain(line: &str) -> Option<&'static str> {
    line.contains(NO_VF).then_some(NO_VF_MEANS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_a_device_on_vmbus() {
        let uuid = "000d3a7c-dfac-000d-3a7c-dfac000d3a7c";
        for devargs in [uuid, &format!("{uuid},latency=50")] {
            assert!(is_vmbus(devargs), "{devargs}");
        }
        for devargs in ["", "net_null0", "0000:18:00.2", &uuid[1..], &uuid.replace('f', "g")] {
            assert!(!is_vmbus(devargs), "{devargs}");
        }
    }
}
