// SPDX-License-Identifier: BSD-3-Clause
//! Makes the bytes of headers from items, for actions that put them before packets.

use dpdk::flow::{Item, ItemKind};

/// Headers that can stand before packets: name, length, and the number by which the header before
/// it names it (EtherType or IP protocol; 0 if by none).
const HEADERS: [(&str, usize, u16); 20] = [
    ("eth", 14, 0x6558),
    ("vlan", 4, 0x8100),
    ("ipv4", 20, 0x0800),
    ("ipv6", 40, 0x86dd),
    ("tcp", 20, 6),
    ("udp", 8, 17),
    ("sctp", 12, 132),
    ("icmp", 8, 1),
    ("icmp6", 4, 58),
    ("vxlan", 8, 0),
    ("vxlan-gpe", 8, 0),
    ("nvgre", 8, 47),
    ("gre", 4, 47),
    ("gre_key", 4, 0),
    ("mpls", 4, 0x8847),
    ("geneve", 8, 0),
    ("gtp", 8, 0),
    ("l2tpv3oip", 4, 115),
    ("esp", 8, 50),
    ("ah", 12, 51),
];

/// As [`HEADERS`], of headers that are rarer.
const MORE: [(&str, usize, u16); 3] =
    [("pfcp", 16, 0), ("ipv6_routing_ext", 8, 43), ("geneve-opt", 4, 0)];

/// Returns the headers' bytes. Types that were not given are those of the next header; the reason
/// if an item is no header.
pub(super) fn bytes_of(headers: &[Item]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for (place, item) in headers.iter().enumerate() {
        if item.kind == ItemKind::Void {
            continue;
        }
        let name = item.kind.name();
        let (len, _) = facts(name).ok_or_else(|| {
            format!("`{name}` is no header that can be put before packets or taken away")
        })?;
        let mut header = vec![0; len];
        if let Some(spec) = &item.spec {
            header.copy_from_slice(&spec.bytes()[..len]);
        }
        let next = headers[place + 1..].iter().find(|next| next.kind != ItemKind::Void);
        complete(name, &mut header, next.map(|next| next.kind.name()));
        bytes.extend(header);
        if let Some(long) = &item.long {
            bytes.extend(&long.spec);
        }
    }
    Ok(bytes)
}

/// Returns length and number of a header.
fn facts(name: &str) -> Option<(usize, u16)> {
    let found = HEADERS.iter().chain(&MORE).find(|(of, ..)| *of == name);
    found.map(|(_, len, number)| (*len, *number))
}

/// Sets what a header needs and what was not given.
fn complete(name: &str, header: &mut [u8], next: Option<&str>) {
    let number = next.and_then(facts).map_or(0, |(_, number)| number);
    let is_protocol = number <= u16::from(u8::MAX);
    match name {
        "eth" => set_type(&mut header[12..14], number, is_protocol),
        "vlan" => set_type(&mut header[2..4], number, is_protocol),
        "gre" => set_type(&mut header[2..4], number, is_protocol),
        "ipv4" => {
            if header[0] == 0 {
                header[0] = 0x45;
            }
            if header[9] == 0 && is_protocol {
                header[9] = number as u8;
            }
        }
        "ipv6" => {
            header[0] = 0x60 | header[0] & 0x0f;
            if header[6] == 0 && is_protocol {
                header[6] = number as u8;
            }
        }
        "vxlan" if header[0] == 0 => header[0] = 0x08,
        "vxlan-gpe" if header[0] == 0 => header[0] = 0x0c,
        // A key, and Ethernet behind it.
        "nvgre" => header[..4].copy_from_slice(&[0x20, 0, 0x65, 0x58]),
        // The last label of a stack, unless another follows.
        "mpls" if next != Some("mpls") => header[2] |= 1,
        _ => (),
    }
}

/// Sets an EtherType that was not given.
fn set_type(bytes: &mut [u8], number: u16, is_protocol: bool) {
    if bytes == [0, 0] && !is_protocol {
        bytes.copy_from_slice(&number.to_be_bytes());
    }
}
