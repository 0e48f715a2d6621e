// SPDX-License-Identifier: BSD-3-Clause
//! Lists every key of a profile, and whether it is read, ignored or refused.
//!
//! The keys are those of TRex's manual and of its parser (`CFlowsYamlInfo`, `CFlowYamlInfo` and
//! `CTupleGenYamlInfo` in `bp_sim.cpp` and `tuple_gen.cpp`), and `first_from`, which is ours.

/// Treatment of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The key is read and has an effect.
    Meant,
    /// The key is accepted and has no effect, for this reason.
    Ignored(&'static str),
    /// The key is refused, for this reason.
    Refused(&'static str),
}

/// A kind of map: its name in messages, and its keys.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) keys: &'static [(&'static str, Use)],
}

impl Section {
    pub(super) fn find(&self, key: &str) -> Option<Use> {
        self.keys.iter().find(|(known, _)| *known == key).map(|(_, it)| *it)
    }

    /// Returns the known key that is most similar to `key`.
    pub(super) fn nearest(&self, key: &str) -> &'static str {
        let short: String = key.chars().take(64).collect();
        let distance = |known: &str| strsim::osa_distance(&short, known);
        let names = self.keys.iter().map(|(name, _)| *name);
        names.min_by_key(|name| distance(name)).unwrap_or_default()
    }
}

use Use::{Ignored, Meant, Refused};

const OLD: Use = Ignored("TRex has not used it for years");
const LAYOUT: Use = Ignored("it tunes TRex's own memory or timers");

/// Keys of the outermost map.
pub(super) const PROFILE: Section = Section {
    name: "the profile",
    keys: &[
        ("duration", Meant),
        ("generator", Meant),
        ("cap_info", Meant),
        ("cap_ipg", Meant),
        ("cap_ipg_min", Meant),
        ("cap_override_ipg", Meant),
        ("vlan", Meant),
        ("mac_override_by_ip", Meant),
        ("src_ipv6", Meant),
        ("dst_ipv6", Meant),
        ("mac", OLD),
        ("wlength", OLD),
        ("one_app_server", Ignored("TRex reads it in a template only")),
        ("tw", LAYOUT),
        (
            "groups",
            Refused("it belongs to a file of --client_cfg, whose clusters are not imported"),
        ),
    ],
};

/// Keys of `generator`, the map of address pools.
pub(super) const GENERATOR: Section = Section {
    name: "generator",
    keys: &[
        ("distribution", Meant),
        ("clients_start", Meant),
        ("clients_end", Meant),
        ("servers_start", Meant),
        ("servers_end", Meant),
        ("dual_port_mask", Meant),
        ("tcp_aging", Meant),
        ("udp_aging", Meant),
        ("generator_clients", Meant),
        ("generator_servers", Meant),
        ("clients_per_gb", OLD),
        ("min_clients", OLD),
    ],
};

/// Keys of an additional pool of clients.
pub(super) const CLIENTS: Section = Section {
    name: "generator_clients",
    keys: &[
        ("name", Meant),
        ("distribution", Meant),
        ("ip_start", Meant),
        ("ip_end", Meant),
        ("clients_per_gb", OLD),
        ("min_clients", OLD),
    ],
};

/// Keys of an additional pool of servers.
pub(super) const SERVERS: Section = Section {
    name: "generator_servers",
    keys: &[
        ("name", Meant),
        ("distribution", Meant),
        ("ip_start", Meant),
        ("ip_end", Meant),
        ("track_ports", Ignored("server ports are those of the capture")),
    ],
};

/// Keys of `vlan`.
pub(super) const VLAN: Section =
    Section { name: "vlan", keys: &[("enable", Meant), ("vlan0", Meant), ("vlan1", Meant)] };

const PAYLOAD: Use = Refused("its plugin rewrites payloads");

/// Keys of a template, an entry of `cap_info`.
pub(super) const TEMPLATE: Section = Section {
    name: "cap_info",
    keys: &[
        ("name", Meant),
        ("cps", Meant),
        ("ipg", Meant),
        ("rtt", Meant),
        ("w", Meant),
        ("limit", Meant),
        ("cap_ipg", Meant),
        ("client_pool", Meant),
        ("server_pool", Meant),
        ("server_addr", Meant),
        ("one_app_server", Meant),
        ("keep_src_port", Meant),
        ("plugin_id", Meant),
        ("first_from", Meant),
        ("wlength", OLD),
        ("dyn_pyload", PAYLOAD),
        ("multi_flow_enabled", Refused("several flows of a capture need plugin_id 1 or 2")),
        ("flows_dirs", Refused("several flows of a capture need plugin_id 1 or 2")),
        ("ip_header_offset", Refused("headers inside of tunnels are not rewritten")),
        ("max_ip_tunnels", Refused("headers inside of tunnels are not rewritten")),
    ],
};
