// SPDX-License-Identifier: BSD-3-Clause
//! Lists actions. As for items, numbers of the structures that are in the machine's byte order are
//! big-endian in [`OtherAction::conf`].

use super::super::{Action, IndirectAction, Item};
use super::{Reach, numbers};

/// An action of the list, with its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OtherAction {
    /// Which action it is.
    pub kind: OtherActionKind,
    /// The structure up to its pointers: [`OtherActionKind::conf_len`] bytes.
    pub conf: Vec<u8>,
    /// What the pointers of the structure point to.
    pub data: ActionData,
}

/// What an action points to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ActionData {
    /// Nothing.
    #[default]
    None,
    /// Bytes, such as the headers of `raw_encap`.
    Bytes(Vec<u8>),
    /// The headers of a tunnel.
    Items(Vec<Item>),
    /// Actions on copies of packets.
    Actions(Vec<Action>),
    /// An action that rules share.
    Indirect(IndirectAction),
    /// Data that the caller keeps under this number. No rule with it reaches a driver.
    Kept(u32),
}

/// Kinds of actions, by their places in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OtherActionKind(u8);

/// How the configuration of an action is laid out for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flow) enum Layout {
    /// [`OtherAction::conf`] as it is; a null pointer if it is empty.
    Plain,
    /// A pointer to items.
    Items,
    /// `rte_flow_action_raw_encap`.
    RawEncap,
    /// `rte_flow_action_raw_decap`.
    RawDecap,
    /// `rte_flow_action_ipv6_ext_push`.
    Ipv6ExtPush,
    /// `rte_flow_action_sample`.
    Sample,
    /// The handle of an action that rules share.
    Indirect,
    /// `rte_flow_action_modify_field`.
    Modify,
}

struct Facts {
    /// The name that testpmd uses for it.
    name: &'static str,
    /// The name behind `RTE_FLOW_ACTION_TYPE_`.
    rte: &'static str,
    len: usize,
    /// Offset and length of numbers in the machine's byte order.
    native: &'static [(usize, usize)],
    layout: Layout,
    reach: Reach,
}

/// Returns an action whose structure has no number in the machine's byte order.
const fn plain(name: &'static str, rte: &'static str, len: usize) -> Facts {
    Facts { name, rte, len, native: &[], layout: Layout::Plain, reach: Reach::Always }
}

/// Returns an action whose structure begins with `count` numbers in the machine's byte order.
const fn native(name: &'static str, rte: &'static str, len: usize, count: usize) -> Facts {
    const ALL: &[(usize, usize)] = &[(0, 4), (4, 4)];
    Facts { native: ALL.split_at(count).0, ..plain(name, rte, len) }
}

const fn laid_out(layout: Layout, name: &'static str, rte: &'static str, len: usize) -> Facts {
    Facts { layout, ..plain(name, rte, len) }
}

const fn since(release: &'static str, facts: Facts) -> Facts {
    Facts { reach: Reach::Since(release), ..facts }
}

const fn until(release: &'static str, facts: Facts) -> Facts {
    Facts { reach: Reach::Until(release), ..facts }
}

const fn never(reason: &'static str, name: &'static str, len: usize) -> Facts {
    Facts { reach: Reach::Never(reason), ..plain(name, "", len) }
}

const NO_METERS: &str = "the action names meter objects, and this program creates none";
const NO_LISTS: &str = "this program creates no lists of indirect actions";
const NO_SHARING: &str = "this program shares indirect actions only between rules of one port";
const NO_PORT: &str = "no release of DPDK has this action: `represented_port` sends to a port";
const NO_TABLES: &str = "the action names a template table, and rules here are in none";

/// Bytes of [`OtherAction::conf`] of `modify_field`: operation, target, source, source's value and
/// width. `shim_modify_field` turns them into the structure, which differs between releases.
pub(in crate::flow) const MODIFY_LEN: usize = 1 + 2 * (1 + 1 + 1 + 1 + 2 + 4) + 16 + 4;

/// Numbers of the structure of `conntrack`, and those of `conntrack_update`, which has one more.
const CONNTRACK: &[(usize, usize)] = &[
    (0, 4),
    (4, 4),
    (12, 4),
    (16, 4),
    (20, 4),
    (24, 4),
    (28, 4),
    (32, 4),
    (36, 4),
    (40, 4),
    (44, 4),
    (48, 4),
    (52, 2),
    (56, 4),
    (60, 4),
    (64, 4),
    (68, 4),
    (72, 4),
];

const LIST: [Facts; 62] = [
    since("23.03", plain("skip_cman", "SKIP_CMAN", 0)),
    plain("pf", "PF", 0),
    native("vf", "VF", 8, 2),
    native("meter", "METER", 4, 1),
    native("color", "METER_COLOR", 4, 1),
    never(NO_METERS, "meter_mark", 20),
    plain("of_dec_nw_ttl", "OF_DEC_NW_TTL", 0),
    plain("of_pop_vlan", "OF_POP_VLAN", 0),
    plain("of_push_vlan", "OF_PUSH_VLAN", 2),
    plain("of_set_vlan_vid", "OF_SET_VLAN_VID", 2),
    plain("of_set_vlan_pcp", "OF_SET_VLAN_PCP", 1),
    plain("of_pop_mpls", "OF_POP_MPLS", 2),
    plain("of_push_mpls", "OF_PUSH_MPLS", 2),
    laid_out(Layout::Items, "vxlan_encap", "VXLAN_ENCAP", 0),
    plain("vxlan_decap", "VXLAN_DECAP", 0),
    laid_out(Layout::Items, "nvgre_encap", "NVGRE_ENCAP", 0),
    plain("nvgre_decap", "NVGRE_DECAP", 0),
    laid_out(Layout::RawEncap, "l2_encap", "RAW_ENCAP", 0),
    laid_out(Layout::RawDecap, "l2_decap", "RAW_DECAP", 0),
    laid_out(Layout::RawEncap, "mplsogre_encap", "RAW_ENCAP", 0),
    laid_out(Layout::RawDecap, "mplsogre_decap", "RAW_DECAP", 0),
    laid_out(Layout::RawEncap, "mplsoudp_encap", "RAW_ENCAP", 0),
    laid_out(Layout::RawDecap, "mplsoudp_decap", "RAW_DECAP", 0),
    plain("set_ipv4_src", "SET_IPV4_SRC", 4),
    plain("set_ipv4_dst", "SET_IPV4_DST", 4),
    plain("set_ipv6_src", "SET_IPV6_SRC", 16),
    plain("set_ipv6_dst", "SET_IPV6_DST", 16),
    plain("set_tp_src", "SET_TP_SRC", 2),
    plain("set_tp_dst", "SET_TP_DST", 2),
    plain("mac_swap", "MAC_SWAP", 0),
    plain("dec_ttl", "DEC_TTL", 0),
    plain("set_ttl", "SET_TTL", 1),
    plain("set_mac_src", "SET_MAC_SRC", 6),
    plain("set_mac_dst", "SET_MAC_DST", 6),
    plain("inc_tcp_seq", "INC_TCP_SEQ", 4),
    plain("dec_tcp_seq", "DEC_TCP_SEQ", 4),
    plain("inc_tcp_ack", "INC_TCP_ACK", 4),
    plain("dec_tcp_ack", "DEC_TCP_ACK", 4),
    laid_out(Layout::RawEncap, "raw_encap", "RAW_ENCAP", 0),
    laid_out(Layout::RawDecap, "raw_decap", "RAW_DECAP", 0),
    native("set_tag", "SET_TAG", 12, 2),
    native("set_meta", "SET_META", 8, 2),
    plain("set_ipv4_dscp", "SET_IPV4_DSCP", 1),
    plain("set_ipv6_dscp", "SET_IPV6_DSCP", 1),
    native("age_update", "AGE", 4, 1),
    Facts { native: &[(0, 4)], ..laid_out(Layout::Sample, "sample", "SAMPLE", 4) },
    laid_out(Layout::Indirect, "indirect", "INDIRECT", 0),
    never(NO_LISTS, "indirect_list", 8),
    never(NO_SHARING, "shared_indirect", 6),
    laid_out(Layout::Modify, "modify_field", "MODIFY_FIELD", MODIFY_LEN),
    Facts { native: CONNTRACK.split_at(17).0, ..plain("conntrack", "CONNTRACK", 72) },
    Facts { native: CONNTRACK, ..plain("conntrack_update", "CONNTRACK", 76) },
    plain("send_to_kernel", "SEND_TO_KERNEL", 0),
    since("23.03", Facts { native: &[(0, 4), (8, 8)], ..plain("quota_create", "QUOTA", 16) }),
    since("23.03", Facts { native: &[(0, 4), (8, 8)], ..plain("quota_update", "QUOTA", 16) }),
    since("23.11", plain("ipv6_ext_remove", "IPV6_EXT_REMOVE", 1)),
    since("23.11", laid_out(Layout::Ipv6ExtPush, "ipv6_ext_push", "IPV6_EXT_PUSH", 1)),
    since("24.03", native("nat64", "NAT64", 4, 1)),
    never(NO_TABLES, "jump_to_table_index", 8),
    until("22.07", native("phy_port", "PHY_PORT", 8, 2)),
    until("18.02", plain("dup", "DUP", 2)),
    never(NO_PORT, "port", 6),
];

impl OtherActionKind {
    /// Returns every kind of the list.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..LIST.len() as u8).map(Self)
    }

    const fn facts(self) -> &'static Facts {
        const ACTIONS: &[Facts] = &LIST;
        &ACTIONS[self.0 as usize]
    }

    /// Returns the name that DPDK's programs use for it.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the length of [`OtherAction::conf`] in bytes.
    pub const fn conf_len(self) -> usize {
        self.facts().len
    }

    /// Returns the action with a configuration of zeros.
    pub fn zeroed(self) -> OtherAction {
        OtherAction { kind: self, conf: vec![0; self.conf_len()], data: ActionData::None }
    }

    pub(in crate::flow) const fn native(self) -> &'static [(usize, usize)] {
        self.facts().native
    }

    pub(in crate::flow) const fn layout(self) -> Layout {
        self.facts().layout
    }

    /// Returns the action's number, or the reason why no rule with it can reach a driver.
    pub(in crate::flow) fn number(self) -> Result<u32, String> {
        self.facts().reach.number("action", numbers::ACTIONS, self.facts().rte)
    }
}

impl OtherAction {
    /// Returns the reason why no rule with this action can reach a driver, or the action's number.
    pub(in crate::flow) fn number(&self) -> Result<u32, String> {
        let number = self.kind.number()?;
        let has_data = match self.kind.layout() {
            Layout::Plain => matches!(self.data, ActionData::None),
            Layout::Modify => matches!(self.data, ActionData::None | ActionData::Bytes(_)),
            Layout::Items => matches!(self.data, ActionData::Items(_)),
            Layout::RawEncap | Layout::RawDecap | Layout::Ipv6ExtPush => {
                matches!(self.data, ActionData::Bytes(_))
            }
            Layout::Sample => matches!(self.data, ActionData::Actions(_)),
            Layout::Indirect => matches!(self.data, ActionData::Indirect(_)),
        };
        match has_data && self.conf.len() == self.kind.conf_len() {
            true => Ok(number),
            false => Err("the data of the action was not given".to_owned()),
        }
    }
}
