// SPDX-License-Identifier: BSD-3-Clause
//! Lists every key of a `trex_cfg.yaml`, and whether it is read, ignored or refused.

use super::Section;
use crate::trex::keys::Use::{self, Ignored, Meant, Refused};

const REMOTE: Use = Ignored("there is no server for remote control");
const MEMORY: Use = Ignored("it sizes memory of TRex");
const LOW_END: Use = Ignored("every run takes as little memory as it needs");
const TUNNEL: Use = Refused("frames are sent without tunnels and labels");

/// Keys of the outermost map.
pub(super) const CONFIG: Section = Section {
    name: "trex_cfg.yaml",
    keys: &[
        ("interfaces", Meant),
        ("port_limit", Meant),
        ("port_info", Meant),
        ("prefix", Meant),
        ("rx_desc", Meant),
        ("tx_desc", Meant),
        ("port_mtu", Meant),
        ("c", Meant),
        ("platform", Meant),
        ("version", Ignored("it means nothing here")),
        ("limit_memory", MEMORY),
        ("memory", MEMORY),
        ("new_memory", MEMORY),
        ("tw", Ignored("it tunes timers of TRex")),
        ("low_end", LOW_END),
        ("low_end_core", LOW_END),
        ("stack", Ignored("ports have no network stack")),
        ("port_bandwidth_gb", Ignored("the driver reports the speed of the link")),
        ("port_speed", Ignored("the link has the speed that its ends agree on")),
        ("interface_mask", Ignored("TRex has not used it for years")),
        ("enable_zmq_pub", REMOTE),
        ("zmq_pub_port", REMOTE),
        ("zmq_rpc_port", REMOTE),
        ("telnet_port", REMOTE),
        ("ezqm_ch_port", REMOTE),
        ("dpdk_devargs", Refused("write the arguments behind the PCI address, after a comma")),
        ("interfaces_vdevs", Refused("write --vdev=NAME,ARGUMENTS into interfaces")),
        ("ext_dpdk_opt", Refused("Millrace chooses the options of EAL itself")),
    ],
};

/// Keys of a map beside the list.
pub(super) const BESIDE: Section = Section {
    name: "the map beside the list (indent its keys by two blanks)",
    keys: &[("platform", Meant)],
};

/// Keys of a port.
pub(super) const PORT_INFO: Section = Section {
    name: "port_info",
    keys: &[
        ("dest_mac", Meant),
        ("src_mac", Meant),
        ("ip", Meant),
        ("default_gw", Meant),
        ("mask", Ignored("ports have no network stack")),
        ("vlan", Ignored("TRex tags only its ARP with it; the vlan of a profile tags frames")),
        ("ipv6", Ignored("ports have no network stack")),
        ("default_gwv6", Ignored("ports have no network stack")),
        ("mpls", TUNNEL),
        ("eompls", TUNNEL),
        ("tunnels", TUNNEL),
    ],
};

/// Keys of `platform`.
pub(super) const PLATFORM: Section = Section {
    name: "platform",
    keys: &[
        ("master_thread_id", Meant),
        ("latency_thread_id", Meant),
        ("rx_thread_id", Meant),
        ("dual_if", Meant),
    ],
};

/// Keys of the cpus of a pair of ports.
pub(super) const DUAL_IF: Section =
    Section { name: "dual_if", keys: &[("socket", Meant), ("threads", Meant)] };
