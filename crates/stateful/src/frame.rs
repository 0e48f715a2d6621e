// SPDX-License-Identifier: BSD-3-Clause
//! Writes the frames that ends send.

use crate::profile::is_ipv4;
use wire::checksum::{Sum, pseudo_v6};
use wire::ethernet::{Ethernet, MIN_FRAME, ether_type};
use wire::ipv4::Ipv4;
use wire::ipv6::Ipv6;
use wire::proto;
use wire::tcp::Tcp;
use wire::udp::Udp;

/// Takes the frames that ends send.
pub trait Output {
    /// Returns how many frames may be pushed now.
    fn room(&mut self) -> usize;

    /// Passes `write` a buffer for a frame of up to 9234 bytes; it returns the length.
    ///
    /// # Panics
    /// May panic if [`room`](Self::room) has not promised room for the frame.
    fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize);
}

/// Addresses of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) dst_mac: [u8; 6],
    pub(crate) src_mac: [u8; 6],
    pub(crate) src: u128,
    pub(crate) dst: u128,
    pub(crate) sport: u16,
    pub(crate) dport: u16,
}

/// Fields of a TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    /// Value of the MSS option; 0 for a segment without options.
    pub(crate) mss: u16,
}

/// Time to live of packets.
const TTL: u8 = 64;
/// Length of the MSS option.
const MSS_OPTION: usize = 4;

/// Writes a TCP segment whose payload of `len` bytes `fill` writes; returns the length of the
/// frame.
#[inline(always)]
pub(crate) fn write_tcp(
    room: &mut [u8],
    path: &Path,
    segment: &Segment,
    (len, fill): (usize, impl FnOnce(&mut [u8])),
) -> usize {
    let options = if segment.mss > 0 { MSS_OPTION } else { 0 };
    let header = Tcp::LEN + options;
    let at = write_ip(room, path, proto::TCP, header + len);
    let tcp = &mut room[at..at + header + len];
    let ports = u32::from(path.sport) << 16 | u32::from(path.dport);
    let control =
        (header as u32 / 4) << 28 | u32::from(segment.flags) << 16 | u32::from(segment.window);
    // The sum is that of the values: reading what was written just now would wait for it.
    let mut sum = pseudo(path.src, path.dst, proto::TCP, header + len)
        .add_u64(u64::from(ports) << 32 | u64::from(segment.seq))
        .add_u64(u64::from(segment.ack) << 32 | u64::from(control));
    tcp[0..4].copy_from_slice(&ports.to_be_bytes());
    tcp[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    tcp[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    tcp[12..16].copy_from_slice(&control.to_be_bytes());
    if options > 0 {
        let option = 0x0204 << 16 | u32::from(segment.mss);
        tcp[20..24].copy_from_slice(&option.to_be_bytes());
        sum = sum.add_u32(option);
    }
    if len > 0 {
        fill(&mut tcp[header..]);
        sum = sum.add_bytes(&tcp[header..]);
    }
    let checksum_and_urgent = u32::from(sum.finish()) << 16;
    tcp[16..20].copy_from_slice(&checksum_and_urgent.to_be_bytes());
    pad(room, at + header + len)
}

/// Writes a UDP datagram whose payload of `len` bytes `fill` writes; returns the length of the
/// frame.
#[inline(always)]
pub(crate) fn write_udp(
    room: &mut [u8],
    path: &Path,
    (len, fill): (usize, impl FnOnce(&mut [u8])),
) -> usize {
    let whole = Udp::LEN + len;
    let at = write_ip(room, path, proto::UDP, whole);
    let udp = &mut room[at..at + whole];
    udp[0..2].copy_from_slice(&path.sport.to_be_bytes());
    udp[2..4].copy_from_slice(&path.dport.to_be_bytes());
    udp[4..6].copy_from_slice(&(whole as u16).to_be_bytes());
    udp[6..8].fill(0);
    fill(&mut udp[Udp::LEN..]);
    let sum = pseudo(path.src, path.dst, proto::UDP, whole).add_bytes(udp).finish();
    // A checksum of 0 would say that there is none (RFC 768).
    let sum = if sum == 0 { 0xffff } else { sum };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    pad(room, at + whole)
}

/// Writes Ethernet and IP headers for `len` bytes; returns where these begin.
#[inline(always)]
fn write_ip(room: &mut [u8], path: &Path, protocol: u8, len: usize) -> usize {
    room[0..6].copy_from_slice(&path.dst_mac);
    room[6..12].copy_from_slice(&path.src_mac);
    let packet = &mut room[12..];
    if !is_ipv4(path.src) {
        packet[0..2].copy_from_slice(&ether_type::IPV6.to_be_bytes());
        let header = &mut packet[2..2 + Ipv6::LEN];
        header[0..4].copy_from_slice(&0x6000_0000_u32.to_be_bytes());
        header[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        header[6..8].copy_from_slice(&[protocol, TTL]);
        header[8..24].copy_from_slice(&path.src.to_be_bytes());
        header[24..40].copy_from_slice(&path.dst.to_be_bytes());
        return Ethernet::LEN + Ipv6::LEN;
    }
    packet[0..2].copy_from_slice(&ether_type::IPV4.to_be_bytes());
    let header = &mut packet[2..2 + Ipv4::LEN];
    // Don't fragment: no identification is needed (RFC 6864).
    let first = 0x4500_u64 << 48 | (Ipv4::LEN + len) as u64 * (1 << 32) | 0x4000;
    let protocol = u32::from(TTL) << 24 | u32::from(protocol) << 16;
    let addresses = u64::from(path.src as u32) << 32 | u64::from(path.dst as u32);
    let sum = Sum::default().add_u64(first).add_u32(protocol).add_u64(addresses).finish();
    header[0..8].copy_from_slice(&first.to_be_bytes());
    header[8..12].copy_from_slice(&(protocol | u32::from(sum)).to_be_bytes());
    header[12..20].copy_from_slice(&addresses.to_be_bytes());
    Ethernet::LEN + Ipv4::LEN
}

/// Returns the sum of the pseudo header of two addresses of one family.
#[inline(always)]
pub(crate) fn pseudo(src: u128, dst: u128, protocol: u8, len: usize) -> Sum {
    match is_ipv4(src) {
        true => Sum::default()
            .add_u64(u64::from(src as u32) << 32 | u64::from(dst as u32))
            .add_u32(u32::from(protocol) << 16 | len as u32),
        false => pseudo_v6(src.into(), dst.into(), protocol, len as u32),
    }
}

/// Adds a TCP segment to a sum.
#[inline(always)]
pub(crate) fn add_segment(sum: Sum, segment: &[u8]) -> Sum {
    match segment.split_first_chunk() {
        Some((header, [])) => sum.add_header(header),
        Some((header, rest)) => sum.add_header(header).add_bytes(rest),
        None => sum.add_bytes(segment),
    }
}

/// Pads a frame to the shortest that Ethernet has; returns its length.
#[inline(always)]
fn pad(room: &mut [u8], len: usize) -> usize {
    if len < MIN_FRAME {
        room[len..MIN_FRAME].fill(0);
    }
    len.max(MIN_FRAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::number_of;
    use proptest::prelude::*;
    use std::net::IpAddr;
    use wire::FrameBuilder;

    proptest! {
        /// Frames are those of the builder, whose frames are compared with other programs'.
        #[test]
        fn frames_are_those_of_the_builder(
            is_ipv6: bool,
            ends in any::<[u32; 2]>(),
            ports in any::<[u16; 2]>(),
            numbers in any::<[u32; 2]>(),
            (flags, window, mss) in any::<(u8, u16, u16)>(),
            payload in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let address = |end: u32| match is_ipv6 {
                true => IpAddr::from((0x2001_0002_u128 << 96 | u128::from(end)).to_be_bytes()),
                false => IpAddr::from(end.to_be_bytes()),
            };
            let ([src, dst], [sport, dport]) = (ends.map(address), ports);
            let (src_mac, dst_mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
            let path = Path {
                dst_mac,
                src_mac,
                src: number_of(src),
                dst: number_of(dst),
                sport,
                dport,
            };
            let [seq, ack] = numbers;
            let segment = Segment { seq, ack, flags, window, mss };
            let write = |to: &mut [u8]| to.copy_from_slice(&payload);
            let mut room = [0xa5; 200];
            let len = write_tcp(&mut room, &path, &segment, (payload.len(), write));
            let builder = || match is_ipv6 {
                true => FrameBuilder::ip(src, dst).macs(src_mac, dst_mac),
                false => FrameBuilder::ip(src, dst).macs(src_mac, dst_mac).dont_fragment(),
            };
            let tcp = builder().tcp(sport, dport).flags(flags).seq(seq).ack(ack).window(window);
            let [high, low] = mss.to_be_bytes();
            let tcp = if mss > 0 { tcp.tcp_options(&[2, 4, high, low]) } else { tcp };
            let expected = tcp.payload(&payload).pad().build();
            prop_assert_eq!(&room[..len], &expected[..]);
            let len = write_udp(&mut room, &path, (payload.len(), write));
            let udp = builder().udp(sport, dport);
            let expected = udp.payload(&payload).pad().build();
            prop_assert_eq!(&room[..len], &expected[..]);
        }
    }
}
