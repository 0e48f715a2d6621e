// SPDX-License-Identifier: BSD-3-Clause
//! Owns the view of a UDP header, RFC 768.

use crate::be16;

/// View of a UDP header.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a> {
    header: &'a [u8; Udp::LEN],
    payload: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Length of the header in bytes.
    pub const LEN: usize = 8;

    /// Creates a view of the header at the start of `datagram`. `None` if `datagram` ends inside
    /// it.
    pub fn new(datagram: &'a [u8]) -> Option<Self> {
        let (header, payload) = datagram.split_first_chunk()?;
        Some(Self { header, payload })
    }

    /// Returns the source port.
    pub fn sport(&self) -> u16 {
        be16(self.header, 0)
    }

    /// Returns the destination port.
    pub fn dport(&self) -> u16 {
        be16(self.header, 2)
    }

    /// Returns the length field: header and payload in bytes; 0 in a jumbogram.
    pub fn len_field(&self) -> u16 {
        be16(self.header, 4)
    }

    /// Returns the checksum; 0 means none, which only IPv4 allows.
    pub fn checksum(&self) -> u16 {
        be16(self.header, 6)
    }

    /// Returns the bytes behind the header.
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
            FrameBuilder::ipv4([1; 4], [2; 4]).udp(53, 4000).payload(b"abc").build_packet();
        let udp = Udp::new(&packet[20..]).unwrap();
        assert_eq!((udp.sport(), udp.dport(), udp.len_field()), (53, 4000, 11));
        assert_eq!(udp.payload(), b"abc");
        assert!(Udp::new(&packet[20..27]).is_none());
    }
}
