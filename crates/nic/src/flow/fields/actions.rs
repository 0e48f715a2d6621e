// SPDX-License-Identifier: BSD-3-Clause
//! Fields of the actions that only the shell uses, in the order in which they are printed.

use super::items::COLORS;
use super::{Field, Form, bits, bytes, in_form, ipv4, ipv6, mac};

/// A value of an action.
pub(in crate::flow) type ActionField = Field;

/// How an action refers to data that the shell keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flow) enum Keeps {
    /// It has no data.
    Nothing,
    /// One `set` command gives the data of all such actions.
    One,
    /// `index N` names one of several, the first without it.
    Numbered,
    /// A number behind the name names it.
    Number,
}

/// Returns how an action refers to data that the shell keeps.
pub(in crate::flow) fn keeps(action: &str) -> Keeps {
    match action {
        "vxlan_encap" | "nvgre_encap" | "l2_encap" | "l2_decap" | "mplsogre_encap"
        | "mplsogre_decap" | "mplsoudp_encap" | "mplsoudp_decap" | "conntrack"
        | "conntrack_update" => Keeps::One,
        "raw_encap" | "raw_decap" | "sample" | "ipv6_ext_push" | "ipv6_ext_remove" => {
            Keeps::Numbered
        }
        "indirect" => Keeps::Number,
        _ => Keeps::Nothing,
    }
}

/// Names of the fields that `modify_field` changes, in the order of DPDK's numbers.
pub(in crate::flow) const FLOW_FIELDS: &[&str] = &[
    "start",
    "mac_dst",
    "mac_src",
    "vlan_type",
    "vlan_id",
    "mac_type",
    "ipv4_dscp",
    "ipv4_ttl",
    "ipv4_src",
    "ipv4_dst",
    "ipv6_dscp",
    "ipv6_hoplimit",
    "ipv6_src",
    "ipv6_dst",
    "tcp_port_src",
    "tcp_port_dst",
    "tcp_seq_num",
    "tcp_ack_num",
    "tcp_flags",
    "udp_port_src",
    "udp_port_dst",
    "vxlan_vni",
    "geneve_vni",
    "gtp_teid",
    "tag",
    "mark",
    "meta",
    "pointer",
    "value",
    "ipv4_ecn",
    "ipv6_ecn",
    "gtp_psc_qfi",
    "meter_color",
    "ipv6_proto",
    "flex_item",
    "hash_result",
    "geneve_opt_type",
    "geneve_opt_class",
    "geneve_opt_data",
    "mpls",
    "tcp_data_off",
    "ipv4_ihl",
    "ipv4_total_len",
    "ipv6_payload_len",
    "ipv4_proto",
    "ipv6_flow_label",
    "ipv6_traffic_class",
    "esp_spi",
    "esp_seq_num",
    "esp_proto",
    "random",
    "vxlan_last_rsvd",
];

const METER_MARK: &[Field] = &[
    bytes("mtr_profile", 0, 4),
    bytes("mtr_policy", 4, 4),
    bytes("mtr_color_mode", 8, 4),
    in_form(Form::Word(COLORS), bytes("mtr_init_color", 12, 4)),
    bytes("mtr_state", 16, 4),
];

/// The first number has no name.
const QUOTA_MODES: &[&str] = &["none", "packet", "l2", "l3"];
const QUOTA_CHANGES: &[&str] = &["set", "add"];

/// `operation`, then for destination and source the type, where it is, and the source's value.
const MODIFY_FIELD: &[Field] = &[
    in_form(Form::Word(&["set", "add", "sub"]), bytes("op", 0, 1)),
    in_form(Form::Word(FLOW_FIELDS), bytes("dst_type", 1, 1)),
    bytes("dst_level", 2, 1),
    bytes("dst_tag_index", 3, 1),
    bytes("dst_type_id", 4, 1),
    bytes("dst_class", 5, 2),
    bytes("dst_offset", 7, 4),
    in_form(Form::Word(FLOW_FIELDS), bytes("src_type", 11, 1)),
    bytes("src_level", 12, 1),
    bytes("src_tag_index", 13, 1),
    bytes("src_type_id", 14, 1),
    bytes("src_class", 15, 2),
    bytes("src_offset", 17, 4),
    in_form(Form::Hex, bytes("src_value", 21, 16)),
    in_form(Form::Hex, bytes("src_ptr", 0, 0)),
    bytes("width", 37, 4),
];

/// Returns the fields of an action.
pub(in crate::flow) fn action_fields(action: &str) -> &'static [ActionField] {
    match action {
        "vf" => const { &[in_form(Form::Truth, bits("original", 31, 1)), bytes("id", 4, 4)] },
        "meter" => const { &[bytes("mtr_id", 0, 4)] },
        "color" => const { &[in_form(Form::Word(COLORS), bytes("type", 0, 4))] },
        "meter_mark" => METER_MARK,
        "of_push_vlan" | "of_pop_mpls" | "of_push_mpls" => const { &[bytes("ethertype", 0, 2)] },
        "of_set_vlan_vid" => const { &[bytes("vlan_vid", 0, 2)] },
        "of_set_vlan_pcp" => const { &[bytes("vlan_pcp", 0, 1)] },
        "set_ipv4_src" | "set_ipv4_dst" => const { &[ipv4("ipv4_addr", 0)] },
        "set_ipv6_src" | "set_ipv6_dst" => const { &[ipv6("ipv6_addr", 0)] },
        "set_tp_src" | "set_tp_dst" => const { &[bytes("port", 0, 2)] },
        "set_ttl" => const { &[bytes("ttl_value", 0, 1)] },
        "set_mac_src" | "set_mac_dst" => const { &[mac("mac_addr", 0)] },
        "inc_tcp_seq" | "dec_tcp_seq" | "inc_tcp_ack" | "dec_tcp_ack" => {
            const { &[bytes("value", 0, 4)] }
        }
        "set_tag" => const { &[bytes("data", 0, 4), bytes("index", 8, 1), bytes("mask", 4, 4)] },
        "set_meta" => const { &[bytes("data", 0, 4), bytes("mask", 4, 4)] },
        "set_ipv4_dscp" | "set_ipv6_dscp" => const { &[bytes("dscp_value", 0, 1)] },
        "age_update" => {
            const { &[bits("timeout", 1, 24), in_form(Form::Truth, bits("touch", 0, 1))] }
        }
        "sample" => const { &[bytes("ratio", 0, 4)] },
        "modify_field" => MODIFY_FIELD,
        "quota_create" => {
            const { &[bytes("limit", 8, 8), in_form(Form::Word(QUOTA_MODES), bytes("mode", 0, 4))] }
        }
        "quota_update" => {
            const {
                &[
                    bytes("limit", 8, 8),
                    in_form(Form::Word(QUOTA_CHANGES), bytes("update_op", 0, 4)),
                ]
            }
        }
        "nat64" => const { &[bytes("type", 0, 4)] },
        "jump_to_table_index" => const { &[bytes("table", 0, 4), bytes("index", 4, 4)] },
        "indirect_list" => const { &[bytes("handle", 0, 4), bytes("conf", 4, 4)] },
        "shared_indirect" => const { &[bytes("port", 0, 2), bytes("action_id", 2, 4)] },
        "phy_port" => {
            const { &[in_form(Form::Truth, bits("original", 31, 1)), bytes("index", 4, 4)] }
        }
        "port" => const { &[bytes("index", 0, 2), bytes("id", 2, 4)] },
        "dup" => const { &[bytes("index", 0, 2)] },
        _ => &[],
    }
}
