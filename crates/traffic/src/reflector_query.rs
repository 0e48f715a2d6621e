// SPDX-License-Identifier: BSD-3-Clause
//! Writes and reads queries for the counters of a reflector, and their answers. With the counters a
//! sender can say where its packets were lost.
//!
//! A query is a UDP packet of fixed length. The reflector reflects it like any other packet and
//! writes its counters into it; so the query becomes an answer. Other devices send it back
//! unchanged, or not at all. The payload, in network byte order: magic (16), 1 in an answer (8),
//! number (8), counters (4 x 8), zeros up to 96 bytes.

use crate::link::{be16, find_packet};
use crate::neighbour::{Neighbour, ShortFrame};
use wire::checksum::Sum;
use wire::ethernet::ether_type;
use wire::udp::Udp;
use wire::{FrameBuilder, ipv4::Ipv4, ipv6::Ipv6, proto};

const MAGIC: &[u8; 16] = b"millrace query 1";
/// Bytes of the payload.
const LEN: usize = 96;
const KIND: usize = 16;
const NUMBER: usize = 24;
const COUNTERS: usize = 32;
/// First byte of an IPv4 header without options.
const IPV4_HEAD: u8 = 0x45;

/// Counters of a reflector at one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReflectorCounters {
    /// Packets that the reflector has received from the port.
    pub received: u64,
    /// Packets that the reflector has sent back through the port.
    pub reflected: u64,
    /// Packets that the reflector has not sent back.
    pub dropped: u64,
    /// Packets that the port lost before the reflector received them.
    pub missed: u64,
}

impl ReflectorCounters {
    fn to_array(self) -> [u64; 4] {
        [self.received, self.reflected, self.dropped, self.missed]
    }

    /// Returns the difference to earlier counters.
    pub fn since(&self, before: &Self) -> Self {
        let (now, before) = (self.to_array(), before.to_array());
        let [received, reflected, dropped, missed] =
            std::array::from_fn(|at| now[at].saturating_sub(before[at]));
        Self { received, reflected, dropped, missed }
    }
}

/// Returns the frame of query number `number`, from an address and UDP port to another.
///
/// `tags` are the bytes of its VLAN tags, from the first TPID on.
pub fn query(from: (Neighbour, u16), to: (Neighbour, u16), tags: &[u8], number: u64) -> ShortFrame {
    let mut payload = [0; LEN];
    payload[..KIND].copy_from_slice(MAGIC);
    payload[NUMBER..COUNTERS].copy_from_slice(&number.to_be_bytes());
    let frame = FrameBuilder::ip(from.0.address, to.0.address).macs(from.0.mac, to.0.mac);
    let frame = tags.chunks_exact(4).fold(frame, |frame, tag| {
        frame.tag(u16::from_be_bytes([tag[0], tag[1]]), u16::from_be_bytes([tag[2], tag[3]]))
    });
    ShortFrame::from_bytes(&frame.udp(from.1, to.1).payload(payload).build())
}

/// Turns a query into an answer, in place. Returns false if the frame is no query.
#[inline(always)]
pub fn answer(frame: &mut [u8], counters: impl FnOnce() -> ReflectorCounters) -> bool {
    // The length is cheap to test, and few other packets have such a length.
    frame.len() % 4 == 2 && (138..=174).contains(&frame.len()) && answer_slowly(frame, counters)
}

/// Turns the UDP payload of a query into that of an answer. Returns false if it is no query.
#[inline(always)]
pub fn answer_payload(payload: &mut [u8], counters: impl FnOnce() -> ReflectorCounters) -> bool {
    if payload.len() != LEN || &payload[..KIND] != MAGIC || payload[KIND..NUMBER] != [0; 8] {
        return false;
    }
    payload[NUMBER - 1] = 1;
    for (field, counter) in payload[COUNTERS..].chunks_exact_mut(8).zip(counters().to_array()) {
        field.copy_from_slice(&counter.to_be_bytes());
    }
    true
}

#[inline(never)]
fn answer_slowly(frame: &mut [u8], counters: impl FnOnce() -> ReflectorCounters) -> bool {
    let Some((udp, addresses)) = find_udp(frame) else { return false };
    if !answer_payload(&mut frame[udp + Udp::LEN..], counters) {
        return false;
    }
    frame[udp + 6..udp + 8].fill(0);
    let len = (Udp::LEN + LEN) as u16;
    let pseudo = addresses.add_u16(proto::UDP.into()).add_u16(len);
    let checksum = pseudo.add_bytes(&frame[udp..]).finish();
    // A checksum of 0 means that there is none (RFC 768).
    let checksum = if checksum == 0 { u16::MAX } else { checksum };
    frame[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Reads an answer: the number of the query, and the counters. Returns `None` for other frames.
pub fn read_answer(frame: &[u8]) -> Option<(u64, ReflectorCounters)> {
    let (udp, addresses) = find_udp(frame)?;
    let segment = &frame[udp..];
    let len = (Udp::LEN + LEN) as u16;
    let sum = addresses.add_u16(proto::UDP.into()).add_u16(len).add_bytes(segment);
    read_answer_payload(segment.get(Udp::LEN..)?).filter(|_| sum.is_zero())
}

/// Reads the UDP payload of an answer: the number of the query, and the counters. Returns `None`
/// for other payloads.
pub fn read_answer_payload(payload: &[u8]) -> Option<(u64, ReflectorCounters)> {
    let is_answer = payload.len() == LEN && &payload[..KIND] == MAGIC && payload[NUMBER - 1] == 1;
    if !is_answer {
        return None;
    }
    let word = |at: usize| {
        let bytes = payload[at..].first_chunk().expect("the payload is longer");
        u64::from_be_bytes(*bytes)
    };
    let [received, reflected, dropped, missed] = [0, 8, 16, 24].map(|at| word(COUNTERS + at));
    Some((word(NUMBER), ReflectorCounters { received, reflected, dropped, missed }))
}

/// Returns the offset of the UDP header, and the sum of the packet's addresses.
///
/// Returns `None` unless the packet is UDP, has no IP options, and ends with the frame.
fn find_udp(frame: &[u8]) -> Option<(usize, Sum)> {
    let (kind, at) = find_packet(frame)?;
    let packet = frame.get(at..)?;
    let (head, protocol, addresses, end) = match kind {
        ether_type::IPV4 if *packet.first()? == IPV4_HEAD => {
            (Ipv4::LEN, *packet.get(9)?, 12..20, usize::from(be16(packet, 2)?))
        }
        ether_type::IPV6 => {
            (Ipv6::LEN, *packet.get(6)?, 8..40, Ipv6::LEN + usize::from(be16(packet, 4)?))
        }
        _ => return None,
    };
    let is_udp = protocol == proto::UDP && end == packet.len() && end >= head + Udp::LEN;
    is_udp.then(|| (at + head, Sum::default().add_bytes(&packet[addresses])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Swap;

    const COUNTED: ReflectorCounters =
        ReflectorCounters { received: 1 << 40, reflected: 5, dropped: 7, missed: u64::MAX };

    fn neighbour(address: &str, mac: u8) -> Neighbour {
        Neighbour { address: address.parse().unwrap(), mac: [2, 0, 0, 0, 0, mac] }
    }

    #[test]
    fn a_reflector_makes_an_answer_of_a_query() {
        let ends = [("198.18.0.1", "198.19.0.1"), ("2001:2::1", "2001:2::2")];
        let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0, 5], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5]];
        for ((from, to), tags) in ends.into_iter().flat_map(|ends| tags.map(|tags| (ends, tags))) {
            let query = query((neighbour(from, 1), 49152), (neighbour(to, 2), 7), tags, 9);
            let mut frame = query.bytes().to_vec();
            assert_eq!(read_answer(&frame), None);
            Swap::Ports.apply(&mut frame).unwrap();
            assert!(answer(&mut frame, || COUNTED), "{} bytes", frame.len());
            assert_eq!(read_answer(&frame), Some((9, COUNTED)));
            let payload = &mut frame.clone()[query.bytes().len() - LEN..];
            assert_eq!(read_answer_payload(payload), Some((9, COUNTED)));
            assert!(!answer_payload(payload, || COUNTED), "an answer is no query");
            assert!(!answer(&mut frame, || COUNTED), "an answer is no query");
            for byte in 14 + tags.len()..frame.len() {
                let mut changed = frame.clone();
                changed[byte] ^= 0x40;
                let found = read_answer(&changed);
                assert!(found.is_none() || byte < 14 + tags.len() + 12, "byte {byte}");
            }
        }
    }

    #[test]
    fn other_packets_are_left_alone() {
        let other = FrameBuilder::ip("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let frame = other.udp(1, 2).payload([0; LEN]).build();
        let mut turned = frame.clone();
        assert!(!answer(&mut turned, || COUNTED));
        assert_eq!(turned, frame);
    }

    #[test]
    fn counters_are_those_since_an_earlier_answer() {
        let before = ReflectorCounters { received: 10, reflected: 3, ..COUNTED };
        let since = ReflectorCounters { reflected: 8, ..COUNTED }.since(&before);
        assert_eq!((since.received, since.reflected, since.missed), ((1 << 40) - 10, 5, 0));
    }
}
