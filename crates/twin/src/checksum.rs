// SPDX-License-Identifier: BSD-3-Clause
//! Verifies the checksums of a frame, as a NIC does on request.
//!
//! Only the outermost headers are verified. Fragments and truncated packets cannot be verified. A
//! UDP checksum of zero means that there is none.

use crate::headers::{Headers, Slot};
use crate::pattern::Proto;
use std::ops::Range;
use wire::checksum::{Sum, crc32c, internet, pseudo_v4, pseudo_v6};
use wire::{ipv4::Ipv4, ipv6::Ipv6, proto, sctp::Sctp, udp::Udp};

/// Set of checksums that are verified, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks(pub u8);

/// Bit for the checksum of the IPv4 header.
pub const IPV4: u8 = 1;
/// Bit for the checksum of TCP, over IPv4 and IPv6.
pub const TCP: u8 = 1 << 1;
/// Bit for the checksum of UDP, over IPv4 and IPv6.
pub const UDP: u8 = 1 << 2;
/// Bit for the checksum of SCTP, a CRC, over IPv4 and IPv6.
pub const SCTP: u8 = 1 << 3;

impl Checks {
    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Returns whether the checksum of the IPv4 header is good; `None` if it is not verified.
    pub(crate) fn network(self, frame: &[u8], headers: &Headers) -> Option<bool> {
        if !self.has(IPV4) || headers.proto(Slot::Network) != Some(Proto::Ipv4) {
            return None;
        }
        let offset = headers.offset(Slot::Network);
        let len = Ipv4::new(&frame[offset..])?.header_len();
        Some(internet(&frame[offset..offset + len]) == 0)
    }

    /// Returns whether the transport's checksum is good; `None` if it is not verified or cannot be.
    pub(crate) fn transport(self, frame: &[u8], headers: &Headers) -> Option<bool> {
        let proto = headers.proto(Slot::Transport).filter(|_| !headers.is_fragment())?;
        let (bit, number) = match proto {
            Proto::Tcp => (TCP, proto::TCP),
            Proto::Udp => (UDP, proto::UDP),
            Proto::Sctp => (SCTP, proto::SCTP),
            _ => return None,
        };
        if !self.has(bit) {
            return None;
        }
        let segment = frame.get(segment(frame, headers)?)?;
        let segment = match proto {
            Proto::Sctp => return Some(crc_is_good(segment)),
            Proto::Udp => of_datagram(segment)?,
            _ => segment,
        };
        Some(pseudo(frame, headers, number, segment.len())?.add_bytes(segment).finish() == 0)
    }
}

/// Returns the place of transport header and payload by the length in the IP header. It may end
/// behind the frame.
fn segment(frame: &[u8], headers: &Headers) -> Option<Range<usize>> {
    let begin = headers.offset(Slot::Network);
    let len = match headers.proto(Slot::Network)? {
        Proto::Ipv4 => usize::from(Ipv4::new(&frame[begin..])?.total_len()),
        _ => Ipv6::LEN + usize::from(Ipv6::new(&frame[begin..])?.payload_len()),
    };
    Some(headers.offset(Slot::Transport)..begin + len)
}

/// Returns the bytes of a UDP datagram, by the length in its header; `None` if it has no checksum.
fn of_datagram(segment: &[u8]) -> Option<&[u8]> {
    let udp = Udp::new(segment).filter(|udp| udp.checksum() != 0)?;
    segment.get(..usize::from(udp.len_field()))
}

fn pseudo(frame: &[u8], headers: &Headers, number: u8, len: usize) -> Option<Sum> {
    let packet = &frame[headers.offset(Slot::Network)..];
    let len = u16::try_from(len).ok()?;
    Some(match headers.proto(Slot::Network)? {
        Proto::Ipv4 => Ipv4::new(packet).map(|ip| pseudo_v4(ip.src(), ip.dst(), number, len))?,
        _ => Ipv6::new(packet).map(|ip| pseudo_v6(ip.src(), ip.dst(), number, len.into()))?,
    })
}

/// True if the CRC is good; it is computed with zero in place of the checksum.
fn crc_is_good(segment: &[u8]) -> bool {
    Sctp::new(segment).is_some_and(|sctp| {
        let (ports, rest) = (&segment[..Sctp::LEN - 4], &segment[Sctp::LEN..]);
        sctp.checksum() == crc32c(ports.iter().chain(&[0; 4]).chain(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::FrameBuilder;

    const ALL: Checks = Checks(IPV4 | TCP | UDP | SCTP);

    fn check(checks: Checks, frame: &[u8]) -> (Option<bool>, Option<bool>) {
        let headers = Headers::of(frame);
        (checks.network(frame, &headers), checks.transport(frame, &headers))
    }

    fn builder(is_v6: bool, transport: u8) -> FrameBuilder {
        let builder = match is_v6 {
            true => FrameBuilder::ipv6([0x20; 16], [0x21; 16]),
            false => FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2]),
        };
        match transport {
            0 => builder.tcp(1000, 80),
            1 => builder.udp(1000, 53),
            _ => builder.sctp(1000, 2905),
        }
    }

    proptest! {
        /// Each frame is good as built, and bad with any bit of payload, ports or addresses
        /// inverted.
        #[test]
        fn one_bit_makes_a_good_checksum_bad(
            is_v6: bool,
            transport in 0_u8..3,
            is_tagged: bool,
            payload in prop::collection::vec(any::<u8>(), 1..200),
            at: prop::sample::Index,
            bit in 0_u8..8,
            is_padded: bool,
        ) {
            let builder = builder(is_v6, transport).payload(&payload);
            let builder = if is_tagged { builder.vlan(7) } else { builder };
            let builder = if is_padded { builder.pad_to(400) } else { builder };
            let mut frame = builder.build();
            let network = (!is_v6).then_some(true);
            prop_assert_eq!(check(ALL, &frame), (network, Some(true)));
            let headers = Headers::of(&frame);
            let payload_at = segment(&frame, &headers).unwrap().end - payload.len();
            frame[payload_at + at.index(payload.len())] ^= 1 << bit;
            prop_assert_eq!(check(ALL, &frame), (network, Some(false)));
            // The last byte of the source address, which is in the pseudo header and in IPv4's own.
            let mut frame = builder.build();
            frame[headers.offset(Slot::Network) + if is_v6 { 23 } else { 15 }] ^= 1 << bit;
            let transport = Some(transport == 2);
            prop_assert_eq!(check(ALL, &frame), (network.map(|_| false), transport));
        }
    }

    #[test]
    fn what_cannot_be_known_is_not_said() {
        let tcp = builder(false, 0).payload([7; 64]);
        assert_eq!(check(Checks::default(), &tcp.build()), (None, None));
        assert_eq!(check(Checks(IPV4 | UDP), &tcp.build()), (Some(true), None));
        let first = tcp.clone().fragment(0, true).build();
        let later = tcp.clone().fragment(1480, false).build();
        for frame in [first, later, builder(false, 1).checksum(0).build()] {
            assert_eq!(check(ALL, &frame), (Some(true), None));
        }
        let frame = tcp.build();
        assert_eq!(check(ALL, &frame[..frame.len() - 1]), (Some(true), None));
        assert_eq!(check(ALL, &tcp.clone().ip_len(10).build()).1, None);
        assert_eq!(check(ALL, &builder(false, 1).udp_len(9).build()), (Some(true), None));
        let bad = tcp.clone().ip_checksum(1).build();
        assert_eq!(check(ALL, &bad), (Some(false), Some(true)));
    }
}
