// SPDX-License-Identifier: BSD-3-Clause
//! NICs of Hyper-V and Azure. Such a NIC is a device on VMBus (netvsc), which is there always, and
//! mostly a second device on the PCI bus (its VF), which carries the packets.

/// The line of DPDK's netvsc driver about a VF that no driver has opened (`hn_vf.c`).
const NO_VF: &str = "Couldn't find port for VF";

/// What that line means.
const NO_VF_MEANS: &str = "  this NIC is two devices: no driver of DPDK has opened the second one, its \
    VF on the PCI bus, so packets do not pass or pass slowly; millrace doctor says which library \
    is missing";

/// True for the UUID of a device on VMBus, with or without arguments.
pub fn is_vmbus(devargs: &str) -> bool {
    let name = devargs.split(',').next().unwrap_or_default();
    let parts: Vec<_> = name.split('-').collect();
    let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(is_hex)
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
