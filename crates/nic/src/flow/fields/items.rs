// SPDX-License-Identifier: BSD-3-Clause
//! Fields of the items that only the shell uses. The names are those of testpmd; bits without a
//! name there have none here.

use super::{Field, Form, bits, bytes, in_form, ipv4, ipv6, mac};

/// Colors of packets behind a meter, in the order of DPDK's numbers.
pub(super) const COLORS: &[&str] = &["green", "yellow", "red", "all"];
const QUOTA_STATES: &[&str] = &["pass", "block"];
const COMPARISONS: &[&str] = &["eq", "ne", "lt", "le", "gt", "ge"];

const TRUTH: Form = Form::Truth;

const RAW: &[Field] = &[
    in_form(TRUTH, bits("relative", 31, 1)),
    in_form(TRUTH, bits("search", 30, 1)),
    in_form(Form::Signed, bytes("offset", 4, 4)),
    bytes("limit", 8, 2),
    in_form(Form::Hex, bits("pattern_hex", 0, 0)),
    in_form(Form::Text, bits("pattern", 0, 0)),
];

const GTP: &[Field] = &[
    bytes("v_pt_rsv_flags", 0, 1),
    bytes("msg_type", 1, 1),
    bytes("msg_len", 2, 2),
    bytes("teid", 4, 4),
];

const VXLAN_GPE: &[Field] = &[
    bytes("vni", 4, 3),
    bytes("protocol", 3, 1),
    bytes("flags", 0, 1),
    bytes("rsvd0", 1, 2),
    bytes("rsvd1", 7, 1),
];

const GENEVE_OPT: &[Field] = &[
    bytes("class", 0, 2),
    bytes("type", 2, 1),
    bits("length", 27, 5),
    in_form(Form::Hex, bits("data", 0, 0)),
];

/// The values of this item are no structure: `OtherItem` says that it reaches no driver.
const COMPARE: &[Field] = &[
    in_form(Form::Word(COMPARISONS), bytes("op", 0, 1)),
    in_form(Form::Word(super::FLOW_FIELDS), bytes("a_type", 1, 1)),
    bytes("a_level", 2, 1),
    bytes("a_tag_index", 3, 1),
    bytes("a_type_id", 4, 1),
    bytes("a_class", 5, 2),
    bytes("a_offset", 7, 4),
    in_form(Form::Word(super::FLOW_FIELDS), bytes("b_type", 11, 1)),
    bytes("b_level", 12, 1),
    bytes("b_tag_index", 13, 1),
    bytes("b_type_id", 14, 1),
    bytes("b_class", 15, 2),
    bytes("b_offset", 17, 4),
    in_form(Form::Hex, bits("b_value", 0, 0)),
    in_form(Form::Hex, bits("b_ptr", 0, 0)),
    bytes("width", 37, 4),
];

const ECHO: &[Field] = &[bytes("ident", 4, 2), bytes("seq", 6, 2)];

/// Returns the fields of an item. A field without a name is the whole item: `conntrack is 1`.
pub(super) fn fields(item: &str) -> &'static [Field] {
    match item {
        "raw" => RAW,
        "e_tag" => const { &[bits("grp_ecid_b", 18, 14)] },
        "nvgre" => const { &[bytes("tni", 4, 3)] },
        "mpls" => MPLS,
        "fuzzy" => const { &[bytes("thresh", 0, 4)] },
        "gtp" | "gtpc" => GTP,
        "geneve" => GENEVE,
        "vxlan-gpe" => VXLAN_GPE,
        "arp_eth_ipv4" => ARP_ETH_IPV4,
        "ipv6_ext" => const { &[bytes("next_hdr", 0, 1)] },
        "ipv6_routing_ext" => IPV6_ROUTING_EXT,
        "icmp6_echo_request" | "icmp6_echo_reply" => ECHO,
        "icmp6_nd_ns" | "icmp6_nd_na" => const { &[ipv6("target_addr", 8)] },
        "icmp6_nd_opt" => const { &[bytes("type", 0, 1)] },
        "icmp6_nd_opt_sla_eth" => const { &[mac("sla", 2)] },
        "icmp6_nd_opt_tla_eth" => const { &[mac("tla", 2)] },
        "random" | "gre_key" => const { &[bytes("value", 0, 4)] },
        "gre_option" => GRE_OPTION,
        "gtp_psc" => const { &[bits("qfi", 18, 6), bits("pdu_t", 8, 4)] },
        "pppoes" | "pppoed" => const { &[bytes("seid", 2, 2)] },
        "pppoe_proto_id" => const { &[bytes("", 0, 2)] },
        "conntrack" => const { &[bytes("", 0, 4)] },
        "higig2" => const { &[bytes("classification", 8, 2), bytes("vid", 12, 2)] },
        "tag" => const { &[bytes("data", 0, 4), bytes("index", 4, 1)] },
        "l2tpv3oip" => const { &[bytes("session_id", 0, 4)] },
        "esp" => const { &[bytes("spi", 0, 4)] },
        "ah" => const { &[bytes("spi", 4, 4)] },
        "pfcp" => const { &[bytes("s_field", 0, 1), bytes("seid", 8, 8)] },
        "geneve-opt" => GENEVE_OPT,
        "integrity" => const { &[bytes("level", 0, 4), bytes("value", 8, 8)] },
        "flex" => const { &[bytes("item", 0, 2), bytes("pattern", 2, 2)] },
        "ppp" => const { &[bytes("addr", 0, 1), bytes("ctrl", 1, 1), bytes("proto_id", 2, 2)] },
        "meter" => const { &[in_form(Form::Word(COLORS), bytes("color", 0, 4))] },
        "quota" => const { &[in_form(Form::Word(QUOTA_STATES), bytes("quota_state", 0, 4))] },
        "aggr_affinity" => const { &[bytes("affinity", 0, 1)] },
        "tx_queue" => const { &[bytes("tx_queue", 0, 2)] },
        "ib_bth" => IB_BTH,
        "ptype" => const { &[bytes("packet_type", 0, 4)] },
        "compare" => COMPARE,
        "vf" => const { &[bytes("id", 0, 4)] },
        "phy_port" => const { &[bytes("index", 0, 4)] },
        _ => &[],
    }
}

const MPLS: &[Field] =
    &[bits("label", 0, 20), bits("tc", 20, 3), bits("s", 23, 1), bytes("ttl", 3, 1)];

const GENEVE: &[Field] = &[bytes("vni", 4, 3), bytes("protocol", 2, 2), bits("optlen", 2, 6)];

const ARP_ETH_IPV4: &[Field] = &[mac("sha", 8), ipv4("spa", 14), mac("tha", 18), ipv4("tpa", 24)];

const IPV6_ROUTING_EXT: &[Field] =
    &[bytes("ext_type", 2, 1), bytes("ext_next_hdr", 0, 1), bytes("ext_seg_left", 3, 1)];

const GRE_OPTION: &[Field] =
    &[bytes("checksum", 0, 2), bytes("key", 4, 4), bytes("sequence", 8, 4)];

const IB_BTH: &[Field] =
    &[bytes("opcode", 0, 1), bytes("pkey", 2, 2), bytes("dst_qp", 5, 3), bytes("psn", 9, 3)];

/// The types of an item whose other fields depend on the type.
#[derive(Debug)]
pub(in crate::flow) struct Variants {
    /// Words before the name of a type.
    pub(in crate::flow) words: &'static [&'static str],
    /// First bit of the type's number, and number of its bits.
    pub(in crate::flow) first: usize,
    pub(in crate::flow) width: usize,
    pub(in crate::flow) list: &'static [Variant],
}

/// One type of an item.
#[derive(Debug)]
pub(in crate::flow) struct Variant {
    pub(in crate::flow) word: &'static str,
    pub(in crate::flow) number: u128,
    pub(in crate::flow) fields: &'static [Field],
}

/// Returns the types of an item, if it has some.
pub(in crate::flow) fn variants(item: &str) -> Option<&'static Variants> {
    match item {
        "ecpri" => Some(const { &ECPRI }),
        "l2tpv2" => Some(const { &L2TPV2 }),
        _ => None,
    }
}

const fn variant(word: &'static str, number: u128, fields: &'static [Field]) -> Variant {
    Variant { word, number, fields }
}

const ECPRI: Variants = Variants {
    words: &["common", "type"],
    first: 8,
    width: 8,
    list: &[
        variant("iq_data", 0, &[bytes("pc_id", 4, 2)]),
        variant("rtc_ctrl", 2, &[bytes("rtc_id", 4, 2)]),
        variant("delay_measure", 5, &[bytes("msr_id", 4, 1)]),
    ],
};

/// Fields behind the flags, two bytes each.
const L2TPV2_CONTROL: &[Field] = &[
    bytes("length", 2, 2),
    bytes("tunnel_id", 4, 2),
    bytes("session_id", 6, 2),
    bytes("ns", 8, 2),
    bytes("nr", 10, 2),
];

const L2TPV2_S: &[Field] =
    &[bytes("tunnel_id", 2, 2), bytes("session_id", 4, 2), bytes("ns", 6, 2), bytes("nr", 8, 2)];

const L2TPV2: Variants = Variants {
    words: &["type"],
    first: 0,
    width: 16,
    list: &[
        variant("data", 0x0002, &[bytes("tunnel_id", 2, 2), bytes("session_id", 4, 2)]),
        variant("data_l", 0x4002, L2TPV2_CONTROL.split_at(3).0),
        variant("data_s", 0x0802, L2TPV2_S),
        variant(
            "data_o",
            0x0202,
            &[bytes("tunnel_id", 2, 2), bytes("session_id", 4, 2), bytes("offset_size", 6, 2)],
        ),
        variant("data_l_s", 0x4802, L2TPV2_CONTROL),
        variant("control", 0xc802, L2TPV2_CONTROL),
    ],
};
