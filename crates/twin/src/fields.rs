// SPDX-License-Identifier: BSD-3-Clause
//! Lists the fields of headers. Their names are those of testpmd's flow syntax, or of DPDK's
//! headers where that syntax has none.

use crate::pattern::{HEADER_MAX, Item, Proto};

/// Some bits of a header, in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// First bit, from the start of the header, the highest of a byte first.
    pub bit: usize,
    /// Number of bits.
    pub len: usize,
}

/// The part of a field that a mask covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// No bit.
    None,
    /// Some bits.
    Part,
    /// All bits.
    Full,
}

const fn field(name: &'static str, bit: usize, len: usize) -> Field {
    Field { name, bit, len }
}

const ETH: &[Field] = &[field("dst", 0, 48), field("src", 48, 48), field("type", 96, 16)];
const VLAN: &[Field] = &[field("tci", 0, 16), field("inner_type", 16, 16)];
const IPV4: &[Field] = &[
    field("version_ihl", 0, 8),
    field("tos", 8, 8),
    field("total_length", 16, 16),
    field("packet_id", 32, 16),
    field("fragment_offset", 48, 16),
    field("ttl", 64, 8),
    field("proto", 72, 8),
    field("hdr_checksum", 80, 16),
    field("src", 96, 32),
    field("dst", 128, 32),
];
const IPV6: &[Field] = &[
    field("version", 0, 4),
    field("tc", 4, 8),
    field("flow", 12, 20),
    field("payload_len", 32, 16),
    field("proto", 48, 8),
    field("hop", 56, 8),
    field("src", 64, 128),
    field("dst", 192, 128),
];
const IPV6FRAG: &[Field] = &[
    field("next_hdr", 0, 8),
    field("reserved", 8, 8),
    field("frag_data", 16, 16),
    field("packet_id", 32, 32),
];
const TCP: &[Field] = &[
    field("src", 0, 16),
    field("dst", 16, 16),
    field("sent_seq", 32, 32),
    field("recv_ack", 64, 32),
    field("data_off", 96, 8),
    field("flags", 104, 8),
    field("rx_win", 112, 16),
    field("cksum", 128, 16),
    field("tcp_urp", 144, 16),
];
const UDP: &[Field] = &[
    field("src", 0, 16),
    field("dst", 16, 16),
    field("dgram_len", 32, 16),
    field("dgram_cksum", 48, 16),
];
const SCTP: &[Field] =
    &[field("src", 0, 16), field("dst", 16, 16), field("tag", 32, 32), field("cksum", 64, 32)];
const ICMP: &[Field] = &[
    field("type", 0, 8),
    field("code", 8, 8),
    field("cksum", 16, 16),
    field("ident", 32, 16),
    field("seq", 48, 16),
];
const ICMP6: &[Field] = &[field("type", 0, 8), field("code", 8, 8), field("checksum", 16, 16)];
const VXLAN: &[Field] =
    &[field("flags", 0, 8), field("rsvd0", 8, 24), field("vni", 32, 24), field("last_rsvd", 56, 8)];
const GTPU: &[Field] = &[
    field("v_pt_rsv_flags", 0, 8),
    field("msg_type", 8, 8),
    field("msg_len", 16, 16),
    field("teid", 32, 32),
];
const GRE: &[Field] = &[field("c_rsvd0_ver", 0, 16), field("protocol", 16, 16)];

impl Proto {
    /// Returns its name in testpmd's flow syntax and in personalities.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eth => "eth",
            Self::Vlan => "vlan",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Ipv6Frag => "ipv6_frag_ext",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Icmp => "icmp",
            Self::Icmp6 => "icmp6",
            Self::Vxlan => "vxlan",
            Self::Gtpu => "gtpu",
            Self::Gre => "gre",
        }
    }

    /// Returns the protocol with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proto| proto.name() == name)
    }

    /// Returns the fields of the header, which cover all of its bits.
    pub fn fields(self) -> &'static [Field] {
        match self {
            Self::Eth => ETH,
            Self::Vlan => VLAN,
            Self::Ipv4 => IPV4,
            Self::Ipv6 => IPV6,
            Self::Ipv6Frag => IPV6FRAG,
            Self::Tcp => TCP,
            Self::Udp => UDP,
            Self::Sctp => SCTP,
            Self::Icmp => ICMP,
            Self::Icmp6 => ICMP6,
            Self::Vxlan => VXLAN,
            Self::Gtpu => GTPU,
            Self::Gre => GRE,
        }
    }

    /// Returns the field with this name.
    pub fn field(self, name: &str) -> Option<Field> {
        self.fields().iter().copied().find(|field| field.name == name)
    }
}

impl Field {
    fn bits(self) -> impl Iterator<Item = (usize, u8)> {
        (self.bit..self.bit + self.len).map(|bit| (bit / 8, 0x80 >> (bit % 8)))
    }

    /// Returns the part of the field that a mask covers.
    pub fn cover(self, mask: &[u8; HEADER_MAX]) -> Cover {
        if (self.bit | self.len) % 8 == 0 {
            let bytes = &mask[self.bit / 8..][..self.len / 8];
            return match bytes[0] {
                0 if bytes.iter().all(|&byte| byte == 0) => Cover::None,
                0xff if bytes.iter().all(|&byte| byte == 0xff) => Cover::Full,
                _ => Cover::Part,
            };
        }
        match self.bits().filter(|&(byte, bit)| mask[byte] & bit != 0).count() {
            0 => Cover::None,
            count if count == self.len => Cover::Full,
            _ => Cover::Part,
        }
    }

    /// Returns the field's value in a header; the low 64 bits of longer ones.
    pub fn value(self, header: &[u8; HEADER_MAX]) -> u64 {
        let bit_of =
            |value: u64, (byte, bit): (usize, u8)| value << 1 | u64::from(header[byte] & bit != 0);
        self.bits().fold(0, bit_of)
    }

    /// Removes the field from the item's mask.
    pub(crate) fn clear(self, item: &mut Item) {
        self.bits().for_each(|(byte, bit)| item.mask[byte] &= !bit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_cover_every_bit_once() {
        for proto in Proto::ALL {
            let mut next = 0;
            for field in proto.fields() {
                assert_eq!(field.bit, next, "{} {}", proto.name(), field.name);
                next += field.len;
            }
            assert_eq!(next, 8 * proto.header_len(), "{}", proto.name());
        }
    }

    #[test]
    fn masks_cover_a_field_in_part_or_whole() {
        let tc = Proto::Ipv6.field("tc").unwrap();
        let mut mask = [0; HEADER_MAX];
        assert_eq!(tc.cover(&mask), Cover::None);
        mask[0] = 0x0f;
        assert_eq!((tc.cover(&mask), tc.value(&mask)), (Cover::Part, 0xf0));
        mask[1] = 0xf0;
        assert_eq!(tc.cover(&mask), Cover::Full);
        assert_eq!(Proto::Ipv6.field("flow").unwrap().cover(&mask), Cover::None);
    }
}
