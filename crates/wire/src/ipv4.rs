// SPDX-License-Identifier: BSD-3-Clause
//! Owns the view of an IPv4 header, RFC 791.

use crate::be16;
use std::net::Ipv4Addr;

/// View of an IPv4 header with its options.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    header: &'a [u8; Ipv4::LEN],
    options: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Length of the header without options, in bytes.
    pub const LEN: usize = 20;

    /// Creates a view of the header at the start of `packet`.
    ///
    /// `None` if `packet` ends inside the header, or if the header length is below 20 bytes.
    pub fn new(packet: &'a [u8]) -> Option<Self> {
        let (header, rest): (&[u8; Ipv4::LEN], _) = packet.split_first_chunk()?;
        let options_len = (usize::from(header[0] & 15) * 4).checked_sub(Self::LEN)?;
        let (options, rest) = rest.split_at_checked(options_len)?;
        Some(Self { header, options, rest })
    }

    /// Returns the version field, 4 in a correct header.
    pub fn version(&self) -> u8 {
        self.header[0] >> 4
    }

    /// Returns the length of the header with its options, in bytes.
    pub fn header_len(&self) -> usize {
        Self::LEN + self.options.len()
    }

    /// Returns the total length field: header and payload in bytes.
    pub fn total_len(&self) -> u16 {
        be16(self.header, 2)
    }

    /// Returns the identification of the datagram, which all its fragments share.
    pub fn id(&self) -> u16 {
        be16(self.header, 4)
    }

    /// Returns the "don't fragment" flag.
    pub fn dont_fragment(&self) -> bool {
        self.header[6] & 0x40 != 0
    }

    /// Returns the "more fragments" flag.
    pub fn more_fragments(&self) -> bool {
        self.header[6] & 0x20 != 0
    }

    /// Returns the offset of this fragment in its datagram, in bytes.
    pub fn fragment_offset(&self) -> usize {
        usize::from(be16(self.header, 6) & 0x1fff) * 8
    }

    /// Returns the time to live.
    pub fn ttl(&self) -> u8 {
        self.header[8]
    }

    /// Returns the protocol of the payload, see [`proto`](crate::proto).
    pub fn protocol(&self) -> u8 {
        self.header[9]
    }

    /// Returns the header checksum.
    pub fn checksum(&self) -> u16 {
        be16(self.header, 10)
    }

    /// Returns the source address.
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from([12, 13, 14, 15].map(|i| self.header[i]))
    }

    /// Returns the destination address.
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from([16, 17, 18, 19].map(|i| self.header[i]))
    }

    /// Returns the options with their padding.
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// Returns the payload according to the total length, as far as its bytes are present. Ethernet
    /// padding is excluded.
    pub fn payload(&self) -> &'a [u8] {
        let len = usize::from(self.total_len()).saturating_sub(self.header_len());
        &self.rest[..len.min(self.rest.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameBuilder, proto};

    #[test]
    fn reads_its_fields() {
        let packet = FrameBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2])
            .ip_options(&[7, 3, 4])
            .ip_id(77)
            .ttl(9)
            .fragment(16, true)
            .protocol(proto::UDP)
            .payload(b"12345678")
            .build_packet();
        let padded = [&packet[..], &[0; 6]].concat();
        let ip = Ipv4::new(&padded).unwrap();
        assert_eq!((ip.version(), ip.header_len(), ip.total_len()), (4, 24, 32));
        assert_eq!((ip.id(), ip.ttl(), ip.protocol()), (77, 9, proto::UDP));
        assert_eq!((ip.dont_fragment(), ip.more_fragments()), (false, true));
        assert_eq!(ip.fragment_offset(), 16);
        assert_eq!(ip.src(), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(ip.dst(), Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(ip.options(), [7, 3, 4, 0]);
        assert_eq!(ip.payload(), b"12345678", "without the padding");
        assert_eq!(Ipv4::new(&packet[..26]).unwrap().payload(), b"12");
        for cut in 0..24 {
            assert!(Ipv4::new(&packet[..cut]).is_none());
        }
    }

    #[test]
    fn a_header_length_below_twenty_is_no_header() {
        let short = FrameBuilder::ipv4([1; 4], [2; 4]).header_words(4).build_packet();
        assert!(Ipv4::new(&short).is_none());
    }
}
