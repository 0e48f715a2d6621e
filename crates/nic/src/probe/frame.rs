// SPDX-License-Identifier: BSD-3-Clause
//! Builds a frame for a list of headers, and adds the headers that a pattern leaves out.
//!
//! All frames have the same values, except in fields that name the next header.

use twin::Proto;
use wire::checksum;

/// A frame, and the offsets of a pattern's headers in it.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Offset of each header of the list.
    pub(super) offsets: Vec<usize>,
}

/// EtherType for experiments (IEEE 802) and IP protocol for experiments (RFC 3692). No parser reads
/// what follows them.
pub(super) const NO_ETHER_TYPE: u16 = 0x88b5;
const NO_PROTOCOL: u8 = 253;
const PAYLOAD: &[u8] = b"millrace nic probe";

impl Frame {
    /// Builds a frame; returns `None` if the headers cannot follow each other.
    pub(super) fn of(headers: &[Proto]) -> Option<Self> {
        let mut whole = Whole::default();
        for &proto in headers {
            whole.lead_to(proto)?;
            whole.push(proto, true);
        }
        match whole.last() {
            None => whole.push(Proto::Eth, false),
            Some(Proto::Vxlan) => whole.push(Proto::Eth, false),
            Some(_) => {}
        }
        Some(whole.build())
    }
}

/// Headers of a frame, and whether the pattern names them.
#[derive(Default)]
struct Whole(Vec<(Proto, bool)>);

impl Whole {
    fn last(&self) -> Option<Proto> {
        self.0.last().map(|&(proto, _)| proto)
    }

    fn push(&mut self, proto: Proto, is_named: bool) {
        self.0.push((proto, is_named));
    }

    /// Adds headers until `proto` can follow.
    fn lead_to(&mut self, proto: Proto) -> Option<()> {
        use Proto::{
            Eth, Gre, Gtpu, Icmp, Icmp6, Ipv4, Ipv6, Ipv6Frag, Sctp, Tcp, Udp, Vlan, Vxlan,
        };
        let is_inside = self.0.iter().any(|(proto, _)| matches!(proto, Vxlan | Gtpu | Gre));
        let missing = match (proto, self.last()) {
            (Eth, None | Some(Vxlan | Gre))
            | (Vlan, Some(Eth | Vlan))
            | (Ipv4 | Ipv6, Some(Eth | Vlan | Gre | Gtpu))
            | (Ipv6Frag, Some(Ipv6))
            | (Icmp, Some(Ipv4))
            | (Icmp6, Some(Ipv6 | Ipv6Frag))
            | (Tcp | Udp | Sctp, Some(Ipv4 | Ipv6 | Ipv6Frag)) => return Some(()),
            (Gre, Some(Ipv4 | Ipv6)) | (Vxlan | Gtpu, Some(Udp)) => {
                return (!is_inside).then_some(());
            }
            (Vlan | Ipv4 | Ipv6, None | Some(Vxlan)) | (Vlan, Some(Gre)) => Eth,
            (Vxlan | Gtpu, None | Some(Eth | Vlan | Ipv4 | Ipv6 | Ipv6Frag)) => Udp,
            (Icmp6 | Ipv6Frag, None | Some(Eth | Vlan | Vxlan | Gtpu | Gre)) => Ipv6,
            (Tcp | Udp | Sctp | Icmp, None | Some(Eth | Vlan | Vxlan | Gtpu | Gre))
            | (Gre, None | Some(Eth | Vlan)) => Ipv4,
            _ => return None,
        };
        self.lead_to(missing)?;
        self.push(missing, false);
        self.lead_to(proto)
    }

    fn build(&self) -> Frame {
        let starts: Vec<usize> = self
            .0
            .iter()
            .scan(0, |at, (proto, _)| {
                let start = *at;
                *at += proto.header_len();
                Some(start)
            })
            .collect();
        let len = starts.last().map_or(0, |last| last + self.0[starts.len() - 1].0.header_len());
        let mut bytes = vec![0; len];
        bytes.extend_from_slice(PAYLOAD);
        for (place, (&(proto, _), &start)) in self.0.iter().zip(&starts).enumerate() {
            let next = self.0.get(place + 1).map(|&(proto, _)| proto);
            let is_inside = self.0[..place].iter().any(|(proto, _)| is_tunnel(*proto));
            write(&mut bytes[start..], proto, next, is_inside);
        }
        let named = self.0.iter().zip(&starts).filter(|((_, is_named), _)| *is_named);
        let offsets = named.map(|(_, &start)| start).collect();
        bytes.resize(bytes.len().max(60), 0);
        Frame { bytes, offsets }
    }
}

fn is_tunnel(proto: Proto) -> bool {
    matches!(proto, Proto::Vxlan | Proto::Gtpu | Proto::Gre)
}

/// Writes one header at the start of `rest`, which ends with the frame.
fn write(rest: &mut [u8], proto: Proto, next: Option<Proto>, is_inside: bool) {
    let len = rest.len() as u16;
    let host = u8::from(is_inside);
    match proto {
        Proto::Eth => {
            rest[..12].copy_from_slice(&[2, 0, 0, 0, host, 2, 2, 0, 0, 0, host, 1]);
            put(rest, 12, ether_type(next));
        }
        Proto::Vlan => {
            put(rest, 0, 0x6123);
            put(rest, 2, ether_type(next));
        }
        Proto::Ipv4 => {
            rest[..2].copy_from_slice(&[0x45, 0x28]);
            put(rest, 2, len);
            put(rest, 4, 0x1234);
            rest[8..10].copy_from_slice(&[64, protocol(next)]);
            rest[12..20].copy_from_slice(&[10, host, 0, 1, 10, host, 0, 2]);
            put(rest, 10, checksum::internet(&rest[..20]));
        }
        Proto::Ipv6 => {
            rest[..4].copy_from_slice(&[0x62, 0x81, 0x23, 0x45]);
            put(rest, 4, len - 40);
            rest[6..8].copy_from_slice(&[protocol(next), 64]);
            for (at, last) in [(8, 1), (24, 2)] {
                rest[at..at + 4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
                rest[at + 14..at + 16].copy_from_slice(&[host, last]);
            }
        }
        // The first fragment of several.
        Proto::Ipv6Frag => rest[..8].copy_from_slice(&[protocol(next), 0, 0, 1, 0, 0, 1, 2]),
        Proto::Tcp => {
            rest[..20].copy_from_slice(&[
                0x40, 1, 0x40, 2, 1, 2, 3, 4, 5, 6, 7, 8, 0x50, 0x10, 1, 0, 0, 0, 0, 0,
            ]);
        }
        Proto::Udp => {
            put(rest, 0, 0x4001);
            put(rest, 2, udp_port(next));
            put(rest, 4, len);
        }
        Proto::Sctp => rest[..12].copy_from_slice(&[0x40, 1, 0x40, 2, 1, 2, 3, 4, 0, 0, 0, 0]),
        Proto::Icmp => rest[..8].copy_from_slice(&[8, 0, 0, 0, 1, 2, 3, 4]),
        Proto::Icmp6 => rest[..4].copy_from_slice(&[128, 0, 0, 0]),
        Proto::Vxlan => rest[..8].copy_from_slice(&[8, 0, 0, 0, 1, 2, 3, 0]),
        Proto::Gtpu => {
            rest[..8].copy_from_slice(&[0x30, 255, 0, 0, 1, 2, 3, 4]);
            put(rest, 2, len - 8);
        }
        Proto::Gre => {
            put(rest, 2, if next == Some(Proto::Eth) { 0x6558 } else { ether_type(next) })
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn ether_type(next: Option<Proto>) -> u16 {
    match next {
        Some(Proto::Vlan) => 0x8100,
        Some(Proto::Ipv4) => 0x0800,
        Some(Proto::Ipv6) => 0x86dd,
        _ => NO_ETHER_TYPE,
    }
}

fn protocol(next: Option<Proto>) -> u8 {
    match next {
        Some(Proto::Icmp) => 1,
        Some(Proto::Tcp) => 6,
        Some(Proto::Udp) => 17,
        Some(Proto::Ipv6Frag) => 44,
        Some(Proto::Gre) => 47,
        Some(Proto::Icmp6) => 58,
        Some(Proto::Sctp) => 132,
        _ => NO_PROTOCOL,
    }
}

fn udp_port(next: Option<Proto>) -> u16 {
    match next {
        Some(Proto::Vxlan) => 4789,
        Some(Proto::Gtpu) => 2152,
        _ => 0x4002,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_are_left_out_are_in_the_frame() {
        let frame = Frame::of(&[Proto::Tcp]).unwrap();
        assert_eq!((frame.offsets[0], &frame.bytes[12..14]), (34, &[8, 0][..]));
        assert_eq!((frame.bytes[23], checksum::internet(&frame.bytes[14..34])), (6, 0));
        let tunnel = [Proto::Vxlan, Proto::Ipv6, Proto::Icmp6];
        assert_eq!(Frame::of(&tunnel).unwrap().offsets, [42, 64, 104]);
        assert_eq!(Frame::of(&[]).unwrap().bytes.len(), 60);
        for bad in [&[Proto::Tcp, Proto::Eth][..], &[Proto::Ipv4, Proto::Icmp6], &[Proto::Tcp; 2]] {
            assert!(Frame::of(bad).is_none(), "{bad:?}");
        }
    }
}
