// SPDX-License-Identifier: BSD-3-Clause
//! Lists the fields of each item: name, place and form. The names are those of testpmd, or of
//! DPDK's header files where testpmd has none, so that every bit of an item has a name.

mod actions;
mod items;

pub(super) use actions::{ActionField, FLOW_FIELDS, Keeps, action_fields, keeps};
use dpdk::flow::ItemKind;
pub(super) use items::{Variants, variants};

/// How the value of a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A number, decimal or hexadecimal.
    Number,
    /// A MAC address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A number that may be negative.
    Signed,
    /// 0 or 1, or a word for it.
    Truth,
    /// One of these words: the value is its place.
    Word(&'static [&'static str]),
    /// Any bytes, written as a word of text.
    Text,
    /// Any bytes, in hexadecimal.
    Hex,
}

impl Form {
    /// Returns the noun for a value of this form.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Form::Number => "NUMBER",
            Form::Mac => "MAC",
            Form::Ipv4 => "IPV4",
            Form::Ipv6 => "IPV6",
            Form::Signed => "INTEGER",
            Form::Truth => "0|1",
            Form::Word(_) => "WORD",
            Form::Text => "TEXT",
            Form::Hex => "HEX",
        }
    }
}

/// A field of an item.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// First bit of the field in the item's value.
    pub(super) first: usize,
    /// Number of bits; 0 for bytes of any length.
    pub(super) width: usize,
    pub(super) form: Form,
}

impl Field {
    /// True if the value is bytes of any length, beside the others.
    pub(super) fn is_long(&self) -> bool {
        matches!(self.form, Form::Text | Form::Hex)
    }
}

/// Returns a number field of whole bytes.
const fn bytes(name: &'static str, first: usize, len: usize) -> Field {
    bits(name, first * 8, len * 8)
}

const fn bits(name: &'static str, first: usize, width: usize) -> Field {
    Field { name, first, width, form: Form::Number }
}

/// Returns a field in this form instead of a number.
const fn in_form(form: Form, field: Field) -> Field {
    Field { form, ..field }
}

const fn mac(name: &'static str, first: usize) -> Field {
    Field { name, first: first * 8, width: 48, form: Form::Mac }
}

const fn ipv4(name: &'static str, first: usize) -> Field {
    Field { name, first: first * 8, width: 32, form: Form::Ipv4 }
}

const fn ipv6(name: &'static str, first: usize) -> Field {
    Field { name, first: first * 8, width: 128, form: Form::Ipv6 }
}

/// Returns a field of one bit: the lowest of the byte behind a header of `len` bytes.
const fn beside(name: &'static str, len: usize) -> Field {
    bits(name, len * 8 + 7, 1)
}

const ETH: &[Field] = &[mac("dst", 0), mac("src", 6), bytes("type", 12, 2), beside("has_vlan", 14)];

const VLAN: &[Field] = &[
    bits("pcp", 0, 3),
    bits("dei", 3, 1),
    bits("vid", 4, 12),
    bytes("inner_type", 2, 2),
    beside("has_more_vlan", 4),
    bytes("tci", 0, 2),
];

const IPV4: &[Field] = &[
    bytes("version_ihl", 0, 1),
    bytes("tos", 1, 1),
    bytes("total_length", 2, 2),
    bytes("packet_id", 4, 2),
    bytes("fragment_offset", 6, 2),
    bytes("ttl", 8, 1),
    bytes("proto", 9, 1),
    bytes("hdr_checksum", 10, 2),
    ipv4("src", 12),
    ipv4("dst", 16),
];

const IPV6: &[Field] = &[
    bits("version", 0, 4),
    bits("tc", 4, 8),
    bits("flow", 12, 20),
    bytes("payload_len", 4, 2),
    bytes("proto", 6, 1),
    bytes("hop", 7, 1),
    ipv6("src", 8),
    ipv6("dst", 24),
    beside("has_frag_ext", 40),
];

const IPV6_FRAG_EXT: &[Field] = &[
    bytes("next_hdr", 0, 1),
    bytes("reserved", 1, 1),
    bytes("frag_data", 2, 2),
    bytes("packet_id", 4, 4),
];

const TCP: &[Field] = &[
    bytes("src", 0, 2),
    bytes("dst", 2, 2),
    bytes("sent_seq", 4, 4),
    bytes("recv_ack", 8, 4),
    bytes("data_off", 12, 1),
    bytes("flags", 13, 1),
    bytes("rx_win", 14, 2),
    bytes("cksum", 16, 2),
    bytes("tcp_urp", 18, 2),
];

const UDP: &[Field] =
    &[bytes("src", 0, 2), bytes("dst", 2, 2), bytes("dgram_len", 4, 2), bytes("dgram_cksum", 6, 2)];

const SCTP: &[Field] =
    &[bytes("src", 0, 2), bytes("dst", 2, 2), bytes("tag", 4, 4), bytes("cksum", 8, 4)];

const ICMP: &[Field] = &[
    bytes("type", 0, 1),
    bytes("code", 1, 1),
    bytes("cksum", 2, 2),
    bytes("ident", 4, 2),
    bytes("seq", 6, 2),
];

const ICMP6: &[Field] = &[bytes("type", 0, 1), bytes("code", 1, 1), bytes("checksum", 2, 2)];

const VXLAN: &[Field] = &[
    bytes("flags", 0, 1),
    bytes("rsvd0", 1, 3),
    bytes("vni", 4, 3),
    bytes("last_rsvd", 7, 1),
    bits("flag_g", 0, 1),
    bits("flag_ver", 2, 2),
    bits("flag_i", 4, 1),
    bits("flag_p", 5, 1),
    bits("flag_b", 6, 1),
    bits("flag_o", 7, 1),
    bits("flag_d", 9, 1),
    bits("flag_a", 12, 1),
    bytes("group_policy_id", 2, 2),
    bytes("protocol", 3, 1),
    bytes("first_rsvd", 1, 1),
    bytes("second_rsvd", 2, 1),
    bytes("third_rsvd", 3, 1),
];

const GTPU: &[Field] = &[
    bytes("v_pt_rsv_flags", 0, 1),
    bytes("msg_type", 1, 1),
    bytes("msg_len", 2, 2),
    bytes("teid", 4, 4),
];

const GRE: &[Field] = &[
    bytes("c_rsvd0_ver", 0, 2),
    bytes("protocol", 2, 2),
    in_form(Form::Truth, bits("c_bit", 0, 1)),
    in_form(Form::Truth, bits("k_bit", 2, 1)),
    in_form(Form::Truth, bits("s_bit", 3, 1)),
];

/// Returns the fields of an item. The first fields cover the whole item, each bit once; fields that
/// overlap with them come last.
pub(super) fn fields(kind: ItemKind) -> &'static [Field] {
    match kind {
        ItemKind::Void => &[],
        ItemKind::Any => const { &[bytes("num", 0, 4)] },
        ItemKind::Eth => ETH,
        ItemKind::Vlan => VLAN,
        ItemKind::Ipv4 => IPV4,
        ItemKind::Ipv6 => IPV6,
        ItemKind::Ipv6FragExt => IPV6_FRAG_EXT,
        ItemKind::Tcp => TCP,
        ItemKind::Udp => UDP,
        ItemKind::Sctp => SCTP,
        ItemKind::Icmp => ICMP,
        ItemKind::Icmp6 => ICMP6,
        ItemKind::Vxlan => VXLAN,
        ItemKind::Gtpu => GTPU,
        ItemKind::Gre => GRE,
        ItemKind::Meta => const { &[bytes("data", 0, 4)] },
        ItemKind::Mark | ItemKind::PortId => const { &[bytes("id", 0, 4)] },
        ItemKind::RepresentedPort => const { &[bytes("ethdev_port_id", 0, 2)] },
        ItemKind::PortRepresentor => const { &[bytes("port_id", 0, 2)] },
        ItemKind::Other(other) => items::fields(other.name()),
    }
}

/// Returns the fields of [`fields`] that do not overlap.
pub(super) fn whole(kind: ItemKind) -> &'static [Field] {
    let fields = fields(kind);
    let overlap = fields.iter().position(|field| ["tci", "c_bit", "flag_g"].contains(&field.name));
    &fields[..overlap.unwrap_or(fields.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Advice and personalities name fields as the shell does.
    #[test]
    fn the_model_has_the_same_names() {
        for kind in ItemKind::ALL {
            let Some(proto) = twin::Proto::of_name(kind.name()) else { continue };
            for field in proto.fields() {
                let here = fields(kind).iter().find(|here| here.name == field.name);
                let here = here.map(|here| (here.first, here.width));
                assert_eq!(here, Some((field.bit, field.len)), "{kind:?} {}", field.name);
            }
        }
    }

    #[test]
    fn every_bit_has_one_name() {
        for kind in ItemKind::ALL {
            let mut bits: Vec<_> =
                whole(kind).iter().flat_map(|f| f.first..f.first + f.width).collect();
            bits.sort_unstable();
            // Of the byte behind a header only the lowest bit is used.
            let len = kind.value_len() * 8;
            let beside = [ItemKind::Eth, ItemKind::Vlan, ItemKind::Ipv6].contains(&kind);
            let expected: Vec<_> =
                (0..len).filter(|bit| !beside || *bit < len - 8 || *bit == len - 1).collect();
            assert_eq!(bits, expected, "{kind:?}");
        }
    }
}
