// SPDX-License-Identifier: BSD-3-Clause
//! Owns the view of an ICMP (RFC 792) or ICMPv6 (RFC 4443) header.
//!
//! Both have the same eight bytes, with different type numbers.

use crate::be16;

/// ICMP types.
pub mod v4 {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable; quotes the packet.
    pub const UNREACHABLE: u8 = 3;
    /// Redirect; quotes the packet.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded; quotes the packet.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem; quotes the packet.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Timestamp request.
    pub const TIMESTAMP_REQUEST: u8 = 13;
    /// Timestamp reply.
    pub const TIMESTAMP_REPLY: u8 = 14;
}

/// ICMPv6 types. Types below 128 are errors and quote the packet.
pub mod v6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Neighbour solicitation, RFC 4861.
    pub const NEIGHBOUR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement, RFC 4861.
    pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
}

/// View of an ICMP or ICMPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<'a> {
    header: &'a [u8; Icmp::LEN],
    payload: &'a [u8],
}

impl<'a> Icmp<'a> {
    /// Length of the header in bytes.
    pub const LEN: usize = 8;

    /// Creates a view of the header at the start of `message`. `None` if `message` ends inside it.
    pub fn new(message: &'a [u8]) -> Option<Self> {
        let (header, payload) = message.split_first_chunk()?;
        Some(Self { header, payload })
    }

    /// Returns the type, see [`v4`] and [`v6`].
    pub fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Returns the code.
    pub fn code(&self) -> u8 {
        self.header[1]
    }

    /// Returns the checksum.
    pub fn checksum(&self) -> u16 {
        be16(self.header, 2)
    }

    /// Returns the identifier, for types that have one (echo, timestamp).
    pub fn id(&self) -> u16 {
        be16(self.header, 4)
    }

    /// Returns the sequence number, for types that have one.
    pub fn seq(&self) -> u16 {
        be16(self.header, 6)
    }

    /// Returns the bytes behind the header: echo data, or the quoted packet of an error.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrameBuilder;

    #[test]
    fn reads_its_fields() {
        let packet =
            FrameBuilder::ipv4([1; 4], [2; 4]).icmp_echo(7, 9).payload(b"ping").build_packet();
        let icmp = Icmp::new(&packet[20..]).unwrap();
        assert_eq!((icmp.kind(), icmp.code()), (v4::ECHO_REQUEST, 0));
        assert_eq!((icmp.id(), icmp.seq()), (7, 9));
        assert_eq!(icmp.payload(), b"ping");
        assert!(Icmp::new(&packet[20..27]).is_none());
    }
}
