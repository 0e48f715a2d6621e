// SPDX-License-Identifier: BSD-3-Clause
//! Parses `set` commands: data that actions of later rules refer to.

use super::{Command, not_here};
use crate::flow::fields::{Field, fields};
use crate::flow::reader::{Reader, SyntaxError};
use dpdk::flow::{Action, Item, ItemKind, Value};

/// Data that actions refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Headers that an action adds or removes.
    Headers {
        /// Name of the action.
        action: &'static str,
        /// Number of these headers among others for this action.
        index: u16,
        /// The headers, from the outermost inwards.
        headers: Vec<Item>,
    },
    /// Actions of a `sample`.
    Sample {
        /// Their number.
        index: u16,
        /// The actions.
        actions: Vec<Action>,
    },
    /// An extension header that `ipv6_ext_push` or `ipv6_ext_remove` is about.
    Ipv6Ext {
        /// Name of the action.
        action: &'static str,
        /// Number of this header among others.
        index: u16,
        /// Number of the header's protocol.
        protocol: u8,
        /// The header.
        headers: Vec<Item>,
    },
    /// Values of the `conntrack` action: first bit, number of bits, value.
    Conntrack(Vec<(usize, usize, u128)>),
}

/// A command that gives the headers of an action, one value after the other.
struct Tunnel {
    /// The word behind `set`.
    name: &'static str,
    action: &'static str,
    /// The headers; `ip` is IPv4 or IPv6.
    headers: &'static [&'static str],
    has_vlan: bool,
}

const fn tunnel(
    name: &'static str,
    action: &'static str,
    headers: &'static [&'static str],
) -> Tunnel {
    Tunnel { name, action, headers, has_vlan: false }
}

const fn tagged(
    name: &'static str,
    action: &'static str,
    headers: &'static [&'static str],
) -> Tunnel {
    Tunnel { has_vlan: true, ..tunnel(name, action, headers) }
}

const VXLAN: &[&str] = &["ip", "udp", "vxlan"];
const NVGRE: &[&str] = &["ip", "nvgre"];
const MPLS_GRE: &[&str] = &["ip", "gre", "mpls"];
const MPLS_UDP: &[&str] = &["ip", "udp", "mpls"];

const TUNNELS: [Tunnel; 17] = [
    tunnel("vxlan", "vxlan_encap", VXLAN),
    tunnel("vxlan-tos-ttl", "vxlan_encap", VXLAN),
    tagged("vxlan-with-vlan", "vxlan_encap", VXLAN),
    tunnel("nvgre", "nvgre_encap", NVGRE),
    tagged("nvgre-with-vlan", "nvgre_encap", NVGRE),
    tunnel("l2_encap", "l2_encap", &[]),
    tagged("l2_encap-with-vlan", "l2_encap", &[]),
    tunnel("l2_decap", "l2_decap", &[]),
    tagged("l2_decap-with-vlan", "l2_decap", &[]),
    tunnel("mplsogre_encap", "mplsogre_encap", MPLS_GRE),
    tagged("mplsogre_encap-with-vlan", "mplsogre_encap", MPLS_GRE),
    tunnel("mplsogre_decap", "mplsogre_decap", MPLS_GRE),
    tagged("mplsogre_decap-with-vlan", "mplsogre_decap", MPLS_GRE),
    tunnel("mplsoudp_encap", "mplsoudp_encap", MPLS_UDP),
    tagged("mplsoudp_encap-with-vlan", "mplsoudp_encap", MPLS_UDP),
    tunnel("mplsoudp_decap", "mplsoudp_decap", MPLS_UDP),
    tagged("mplsoudp_decap-with-vlan", "mplsoudp_decap", MPLS_UDP),
];

/// Values of these commands: name, header, and field of the header.
const KEYS: [(&str, &str, &str); 14] = [
    ("vni", "vxlan", "vni"),
    ("tni", "nvgre", "tni"),
    ("label", "mpls", "label"),
    ("udp-src", "udp", "src"),
    ("udp-dst", "udp", "dst"),
    ("ip-tos", "ipv4", "tos"),
    ("ip-tos", "ipv6", "tc"),
    ("ip-ttl", "ipv4", "ttl"),
    ("ip-ttl", "ipv6", "hop"),
    ("ip-src", "ip", "src"),
    ("ip-dst", "ip", "dst"),
    ("vlan-tci", "vlan", "tci"),
    ("eth-src", "eth", "src"),
    ("eth-dst", "eth", "dst"),
];

/// What holds until a command says otherwise, as in testpmd.
pub(in crate::flow) const DEFAULTS: [&str; 9] = [
    "set vxlan ip-version ipv4 vni 0 udp-src 0 udp-dst 4789 ip-src 127.0.0.1 \
     ip-dst 255.255.255.255 eth-src 00:00:00:00:00:00 eth-dst ff:ff:ff:ff:ff:ff",
    "set nvgre ip-version ipv4 tni 0 ip-src 127.0.0.1 ip-dst 255.255.255.255 \
     eth-src 00:00:00:00:00:00 eth-dst ff:ff:ff:ff:ff:ff",
    "set l2_encap",
    "set l2_decap",
    "set mplsogre_encap",
    "set mplsogre_decap",
    "set mplsoudp_encap",
    "set mplsoudp_decap",
    "set conntrack com peer 0",
];

/// Usages of `set`.
pub(in crate::flow) const SET_USAGES: [&str; 6] = [
    "set raw_encap|raw_decap [INDEX] ITEM / ... / end_set",
    "set vxlan|nvgre|l2_encap|l2_decap|mplsogre_encap|mplsogre_decap|mplsoudp_encap|\
     mplsoudp_decap[-with-vlan] [ip-version ipv4|ipv6] [vni|tni|label NUMBER] [udp-src PORT] \
     [udp-dst PORT] [ip-src IP] [ip-dst IP] [vlan-tci NUMBER] [eth-src MAC] [eth-dst MAC]",
    "set vxlan-tos-ttl ...",
    "set sample_actions INDEX ACTION / ... / end",
    "set ipv6_ext_push|ipv6_ext_remove INDEX ipv6_ext type is NUMBER [ITEM] / end_set",
    "set conntrack com|orig|rply KEY NUMBER...",
];

/// Reads what follows `set`.
pub(super) fn set(reader: &mut Reader<'_>, queues: u16) -> Result<Command, SyntaxError> {
    if let Some(tunnel) = reader.take_one(TUNNELS.iter().map(|tunnel| (tunnel.name, tunnel))) {
        return headers(reader, tunnel).map(Command::Set);
    }
    let names = ["raw_encap", "raw_decap", "sample_actions", "ipv6_ext_push", "ipv6_ext_remove"];
    let setting = match reader.take_one(names.map(|name| (name, name))) {
        Some("sample_actions") => {
            let index = reader.fitting("INDEX")?;
            let actions = super::actions::actions(reader, queues)?;
            // A sample within a sample may name itself.
            if actions.iter().any(|action| action.name() == "sample") {
                return Err(reader.unexpected());
            }
            Setting::Sample { index, actions }
        }
        Some(action) if action.starts_with("raw") => {
            let has_index = reader.is_number("INDEX");
            let index = if has_index { reader.fitting("INDEX")? } else { 0 };
            let headers = super::pattern::items(reader, "end_set")?;
            Setting::Headers { action, index, headers }
        }
        Some(action) => ipv6_ext(reader, action)?,
        None if reader.take("conntrack") => conntrack(reader)?,
        None => return not_here::set(reader).ok_or_else(|| reader.unexpected()),
    };
    Ok(Command::Set(setting))
}

fn kind_of(name: &str) -> ItemKind {
    let found = ItemKind::all().find(|kind| kind.name() == name);
    found.unwrap_or_else(|| unreachable!("{name} is an item"))
}

fn field_of(item: &Item, name: &str) -> &'static Field {
    let found = fields(item.kind).iter().find(|field| field.name == name);
    found.unwrap_or_else(|| unreachable!("{name} is a field"))
}

/// Reads the values of headers. Each header has a spec; its mask is of the values that are given.
fn headers(reader: &mut Reader<'_>, tunnel: &Tunnel) -> Result<Setting, SyntaxError> {
    let mut ip = "ipv4";
    if reader.take("ip-version") {
        let versions = [("ipv4", "ipv4"), ("ipv6", "ipv6")];
        ip = reader.take_one(versions).ok_or_else(|| reader.unexpected())?;
    }
    let tag = tunnel.has_vlan.then_some("vlan");
    let names = ["eth"].into_iter().chain(tag).chain(tunnel.headers.iter().copied());
    let mut headers: Vec<_> = names
        .map(|name| Item {
            spec: Some(Value::ZERO),
            mask: Some(Value::ZERO),
            ..Item::any(kind_of(if name == "ip" { ip } else { name }))
        })
        .collect();
    let has = |name: &str| headers.iter().any(|header| header.kind.name() == name);
    let header_of = |of: &'static str| if of == "ip" { ip } else { of };
    let keys: Vec<_> = KEYS.iter().filter(|(_, of, _)| has(header_of(of))).collect();
    while let Some((_, of, name)) = reader.take_one(keys.iter().map(|key| (key.0, key))) {
        let header = headers.iter_mut().find(|header| header.kind.name() == header_of(of));
        let Some(header) = header else { unreachable!("only keys of headers that are there") };
        let field = field_of(header, name);
        let bits = reader.formed(field.form, field.width)?;
        let (first, width) = (field.first, field.width);
        header.spec.get_or_insert(Value::ZERO).set_bits(first, width, bits);
        header.mask.get_or_insert(Value::ZERO).set_bits(first, width, u128::MAX);
    }
    Ok(Setting::Headers { action: tunnel.action, index: 0, headers })
}

fn ipv6_ext(reader: &mut Reader<'_>, action: &'static str) -> Result<Setting, SyntaxError> {
    let index = reader.fitting("INDEX")?;
    reader.need("ipv6_ext")?;
    reader.need("type")?;
    let params = ["is", "spec"].map(|word| (word, ()));
    reader.take_one(params).ok_or_else(|| reader.unexpected())?;
    let protocol = reader.fitting("NUMBER")?;
    reader.take("/");
    let headers = super::pattern::items(reader, "end_set")?;
    Ok(Setting::Ipv6Ext { action, index, protocol, headers })
}

/// Values of `set conntrack com`: name, first bit, number of bits.
const CONNTRACK: [(&str, usize, usize); 16] = [
    ("peer", 16, 16),
    ("is_orig", 15, 1),
    ("enable", 14, 1),
    ("live", 13, 1),
    ("sack", 12, 1),
    ("cack", 11, 1),
    ("last_dir", 10, 1),
    ("liberal", 9, 1),
    ("state", 32, 32),
    ("max_ack_win", 64, 8),
    ("r_lim", 72, 8),
    ("last_win", 416, 16),
    ("last_index", 448, 32),
    ("last_seq", 480, 32),
    ("last_ack", 512, 32),
    ("last_end", 544, 32),
];

/// Values of `set conntrack orig` and `rply`, from the start of the direction.
const DIRECTION: [(&str, usize, usize); 8] = [
    ("scale", 28, 4),
    ("fin", 27, 1),
    ("acked", 26, 1),
    ("unack_data", 25, 1),
    ("sent_end", 32, 32),
    ("reply_end", 64, 32),
    ("max_win", 96, 32),
    ("max_ack", 128, 32),
];

fn conntrack(reader: &mut Reader<'_>) -> Result<Setting, SyntaxError> {
    let parts = [("com", 0), ("orig", 12 * 8), ("rply", 32 * 8)];
    let start = reader.take_one(parts).ok_or_else(|| reader.unexpected())?;
    let keys = if start == 0 { &CONNTRACK[..] } else { &DIRECTION[..] };
    let mut values = Vec::new();
    while let Some((_, first, width)) = reader.take_one(keys.iter().map(|key| (key.0, key))) {
        let value = reader.number("NUMBER", u128::MAX >> (128 - width))?;
        values.push((start + first, *width, value));
    }
    Ok(Setting::Conntrack(values))
}
