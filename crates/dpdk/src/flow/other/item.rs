// SPDX-License-Identifier: BSD-3-Clause
//! Lists items. The value of an item is its C structure, with one difference: numbers that are in
//! the machine's byte order there are big-endian here, as all others. So every field is a range of
//! bits. `native` says where these numbers are.

use super::{Reach, numbers};

/// An item of the list, by its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OtherItem(u8);

struct Facts {
    /// The name that testpmd uses for it.
    name: &'static str,
    /// The name behind `RTE_FLOW_ITEM_TYPE_`.
    rte: &'static str,
    /// Bytes of the structure, without the padding before the pointer.
    len: usize,
    /// Offset of a pointer to bytes of any length.
    pointer: Option<usize>,
    /// Offset and length of numbers in the machine's byte order.
    native: &'static [(usize, usize)],
    reach: Reach,
}

/// Returns an item whose structure is the header as it is in a packet.
const fn header(name: &'static str, rte: &'static str, len: usize) -> Facts {
    Facts { name, rte, len, pointer: None, native: &[], reach: Reach::Always }
}

/// Returns an item with one number in the machine's byte order.
const fn number(name: &'static str, rte: &'static str, len: usize) -> Facts {
    let native: &[(usize, usize)] = if len == 2 { &[(0, 2)] } else { &[(0, 4)] };
    Facts { native, ..header(name, rte, len) }
}

const fn since(release: &'static str, facts: Facts) -> Facts {
    Facts { reach: Reach::Since(release), ..facts }
}

const fn until(release: &'static str, facts: Facts) -> Facts {
    Facts { reach: Reach::Until(release), ..facts }
}

const fn never(reason: &'static str, facts: Facts) -> Facts {
    Facts { reach: Reach::Never(reason), ..facts }
}

const NO_FLEX: &str = "the item names a flex item, and this program creates none";
const NO_COMPARE: &str = "this program does not pass comparisons on to the driver";

const LIST: [Facts; 51] = [
    header("invert", "INVERT", 0),
    Facts {
        pointer: Some(16),
        native: &[(0, 4), (4, 4), (8, 2), (10, 2)],
        ..header("raw", "RAW", 12)
    },
    header("e_tag", "E_TAG", 8),
    header("nvgre", "NVGRE", 8),
    header("mpls", "MPLS", 4),
    number("fuzzy", "FUZZY", 4),
    header("gtp", "GTP", 8),
    header("gtpc", "GTPC", 8),
    header("geneve", "GENEVE", 8),
    header("vxlan-gpe", "VXLAN_GPE", 8),
    header("arp_eth_ipv4", "ARP_ETH_IPV4", 28),
    header("ipv6_ext", "IPV6_EXT", 1),
    since("23.03", header("ipv6_routing_ext", "IPV6_ROUTING_EXT", 8)),
    since("23.03", header("icmp6_echo_request", "ICMP6_ECHO_REQUEST", 8)),
    since("23.03", header("icmp6_echo_reply", "ICMP6_ECHO_REPLY", 8)),
    header("icmp6_nd_ns", "ICMP6_ND_NS", 24),
    header("icmp6_nd_na", "ICMP6_ND_NA", 24),
    header("icmp6_nd_opt", "ICMP6_ND_OPT", 2),
    header("icmp6_nd_opt_sla_eth", "ICMP6_ND_OPT_SLA_ETH", 8),
    header("icmp6_nd_opt_tla_eth", "ICMP6_ND_OPT_TLA_ETH", 8),
    since("24.03", number("random", "RANDOM", 4)),
    header("gre_key", "GRE_KEY", 4),
    header("gre_option", "GRE_OPTION", 12),
    header("gtp_psc", "GTP_PSC", 3),
    header("pppoes", "PPPOES", 6),
    header("pppoed", "PPPOED", 6),
    header("pppoe_proto_id", "PPPOE_PROTO_ID", 2),
    header("higig2", "HIGIG2", 16),
    number("tag", "TAG", 8),
    header("l2tpv3oip", "L2TPV3OIP", 4),
    header("esp", "ESP", 8),
    header("ah", "AH", 12),
    header("pfcp", "PFCP", 16),
    header("ecpri", "ECPRI", 16),
    Facts { pointer: Some(8), ..header("geneve-opt", "GENEVE_OPT", 4) },
    Facts { native: &[(0, 4), (8, 8)], ..header("integrity", "INTEGRITY", 16) },
    number("conntrack", "CONNTRACK", 4),
    never(NO_FLEX, header("flex", "FLEX", 4)),
    header("l2tpv2", "L2TPV2", 26),
    header("ppp", "PPP", 4),
    number("meter", "METER_COLOR", 4),
    since("23.03", number("quota", "QUOTA", 4)),
    since("23.03", header("aggr_affinity", "AGGR_AFFINITY", 1)),
    since("23.07", number("tx_queue", "TX_QUEUE", 2)),
    since("23.07", header("ib_bth", "IB_BTH", 12)),
    since("23.11", number("ptype", "PTYPE", 4)),
    header("nsh", "NSH", 8),
    never(NO_COMPARE, header("compare", "COMPARE", 41)),
    until("22.07", header("pf", "PF", 0)),
    until("22.07", number("vf", "VF", 4)),
    until("22.07", number("phy_port", "PHY_PORT", 4)),
];

impl OtherItem {
    /// Returns every item of the list.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..LIST.len() as u8).map(Self)
    }

    const fn facts(self) -> &'static Facts {
        const ITEMS: &[Facts] = &LIST;
        &ITEMS[self.0 as usize]
    }

    /// Returns the name that DPDK's programs use for it.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the length of the item's value in bytes.
    pub const fn value_len(self) -> usize {
        self.facts().len
    }

    /// Returns the offset of the pointer to bytes of any length; `None` if the item has no pointer.
    pub const fn pointer(self) -> Option<usize> {
        self.facts().pointer
    }

    /// Offset and length of numbers that a structure has in the machine's byte order.
    pub(in crate::flow) const fn native(self) -> &'static [(usize, usize)] {
        self.facts().native
    }

    /// Returns the item's number, or the reason why no rule with it can reach a driver.
    pub(in crate::flow) fn number(self) -> Result<u32, String> {
        self.facts().reach.number("item", numbers::ITEMS, self.facts().rte)
    }
}
