// SPDX-License-Identifier: BSD-3-Clause
//! Defines captures: frames that the caller has read, or that a formula makes.

use std::net::Ipv4Addr;
use wire::ethernet::{Ethernet, MIN_FRAME};
use wire::tcp::{ACK, SYN, Tcp};
use wire::{FrameBuilder, ipv4::Ipv4, udp::Udp};

/// The frames of a capture file, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The frames.
    pub frames: Vec<CapturedFrame>,
}

/// A captured Ethernet frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Time of the frame in nanoseconds, from any origin.
    pub at_ns: u64,
    /// The bytes from the destination address on.
    pub bytes: Vec<u8>,
}

/// Bytes of the FCS behind each packet in the captures of TRex's IMIX.
const CAPTURED_FCS: usize = 4;

/// Addresses and ports of captures by formula. A replay replaces all but the server port.
const CLIENT: Ipv4Addr = Ipv4Addr::new(101, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(102, 0, 0, 1);
const UDP_PORT: u16 = 2001;
const UDP_PORT_OF_594: u16 = 2002;
const TCP_PORTS: [u16; 2] = [32768, 80];

impl Capture {
    /// Makes a capture of one frame.
    fn one(bytes: Vec<u8>) -> Self {
        Self { frames: vec![CapturedFrame { at_ns: 0, bytes }] }
    }

    /// Makes the capture of the file name `name` by a formula; `None` if there is no such formula.
    ///
    /// `udp_64B.pcap`, `udp_594B.pcap` and `udp_1518B.pcap` are those of TRex's IMIX. Their last
    /// four bytes lie beyond the IP length, as a captured FCS does. TRex sends them too, so the
    /// frames on the wire have 68, 598 and 1522 bytes with FCS. With `_no_crc` in their names,
    /// frames end with the packet and have 64, 594 and 1518 bytes on the wire. `tcp_syn_64B.pcap`
    /// and `tcp_syn_ack_64B.pcap` are one segment each.
    #[must_use]
    pub fn by_formula(name: &str) -> Option<Self> {
        let name = name.rsplit('/').next()?.strip_suffix(".pcap")?;
        let (name, has_fcs) = match name.strip_suffix("_no_crc") {
            Some(name) => (name, false),
            None => (name, true),
        };
        let bytes = match (name, has_fcs) {
            ("udp_64B", _) => udp(64, UDP_PORT, has_fcs),
            ("udp_594B", _) => udp(594, UDP_PORT_OF_594, has_fcs),
            ("udp_1518B", _) => udp(1518, UDP_PORT, has_fcs),
            ("tcp_syn_64B", true) => tcp(SYN),
            ("tcp_syn_ack_64B", true) => tcp(SYN | ACK),
            _ => return None,
        };
        Some(Self::one(bytes))
    }

    /// Makes a capture of one small UDP frame, to be sent instead of a missing capture.
    pub(super) fn stand_in() -> Self {
        Self::one(udp(64, UDP_PORT, false))
    }
}

/// Returns a UDP frame of `len` bytes with FCS. Without `has_fcs`, the last four bytes are left
/// out.
fn udp(len: usize, port: u16, has_fcs: bool) -> Vec<u8> {
    const MAGIC: [u8; 6] = [0xde, 0xad, 0xbe, 0xef, 0x00, 0x01];
    let packet_end = len - CAPTURED_FCS;
    let payload_len = packet_end - Ethernet::LEN - Ipv4::LEN - Udp::LEN;
    // Behind the magic bytes, each byte is its own index.
    let payload = (0..payload_len).map(|i| MAGIC.get(i).copied().unwrap_or(i as u8));
    let frame = FrameBuilder::ipv4(CLIENT, SERVER).udp(port, port);
    let mut bytes = frame.payload(payload.collect::<Vec<_>>()).build();
    if has_fcs {
        bytes.resize(len, 0);
    }
    bytes
}

/// Returns a TCP segment without payload. SYN and SYN+ACK belong to one connection.
fn tcp(flags: u8) -> Vec<u8> {
    const SEQ: u32 = 1000;
    let [sport, dport] = TCP_PORTS;
    let frame = FrameBuilder::ipv4(CLIENT, SERVER).tcp(sport, dport);
    let frame =
        if flags & ACK == 0 { frame.seq(SEQ) } else { frame.reversed().seq(2 * SEQ).ack(SEQ + 1) };
    frame.flags(flags).pad_to(MIN_FRAME).build()
}

const _: () = assert!(Ethernet::LEN + Ipv4::LEN + Tcp::LEN < MIN_FRAME);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_have_the_lengths_of_the_captures() {
        for (name, len, ip_len) in [
            ("cap2/udp_64B.pcap", 64, 46),
            ("udp_594B.pcap", 594, 576),
            ("a/b/udp_1518B.pcap", 1518, 1500),
            ("stl/udp_64B_no_crc.pcap", 60, 46),
            ("stl/udp_594B_no_crc.pcap", 590, 576),
            ("stl/udp_1518B_no_crc.pcap", 1514, 1500),
            ("tcp_syn_64B.pcap", 60, 40),
            ("tcp_syn_ack_64B.pcap", 60, 40),
        ] {
            let capture = Capture::by_formula(name).unwrap();
            let [frame] = &capture.frames[..] else { panic!("{name}: one frame") };
            assert_eq!(frame.bytes.len(), len, "{name}");
            let packet = Ipv4::new(&frame.bytes[Ethernet::LEN..]).unwrap();
            assert_eq!(packet.total_len(), ip_len, "{name}");
        }
        let payload = &Capture::by_formula("udp_64B.pcap").unwrap().frames[0].bytes[42..50];
        assert_eq!(payload, [0xde, 0xad, 0xbe, 0xef, 0, 1, 6, 7]);
    }

    #[test]
    fn no_formula_makes_other_captures() {
        for name in ["", "udp_64B", "dns.pcap", "tcp_syn_64B_no_crc.pcap", "udp_65B.pcap"] {
            assert_eq!(Capture::by_formula(name), None, "{name}");
        }
    }
}
