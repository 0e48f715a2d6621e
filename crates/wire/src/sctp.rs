// SPDX-License-Identifier: BSD-3-Clause
//! Owns the view of an SCTP common header, RFC 9260. Its payload are the chunks.

use crate::{be16, be32};

/// View of an SCTP common header.
#[derive(Clone, Copy, Debug)]
pub struct Sctp<'a> {
    header: &'a [u8; Sctp::LEN],
    payload: &'a [u8],
}

impl<'a> Sctp<'a> {
    /// Length of the header in bytes.
    pub const LEN: usize = 12;

    /// Creates a view of the header at the start of `packet`. `None` if `packet` ends inside it.
    pub fn new(packet: &'a [u8]) -> Option<Self> {
        let (header, payload) = packet.split_first_chunk()?;
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

    /// Returns the verification tag.
    pub fn verification_tag(&self) -> u32 {
        be32(self.header, 4)
    }

    /// Returns the checksum: CRC32c of the packet with this field zero, stored low byte first (RFC
    /// 9260 6.8).
    pub fn checksum(&self) -> u32 {
        be32(self.header, 8).swap_bytes()
    }

    /// Returns the chunks.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameBuilder, checksum};

    #[test]
    fn reads_its_fields() {
        let mut packet = FrameBuilder::ipv4([1; 4], [2; 4])
            .sctp(36412, 2905)
            .verification_tag(0xdead_beef)
            .payload([3, 0, 0, 4])
            .build_packet();
        let sctp = Sctp::new(&packet[20..]).unwrap();
        assert_eq!((sctp.sport(), sctp.dport()), (36412, 2905));
        assert_eq!(sctp.verification_tag(), 0xdead_beef);
        assert_eq!(sctp.payload(), [3, 0, 0, 4]);
        assert!(Sctp::new(&packet[20..31]).is_none());

        let two = FrameBuilder::ipv4([1; 4], [2; 4]).sctp(1, 2).chunk(11, 0, &[]);
        let packet_of_two = two.chunk(0, 3, &[9; 5]).build_packet();
        let chunks = Sctp::new(&packet_of_two[20..]).unwrap().payload();
        assert_eq!(chunks, [11, 0, 0, 4, 0, 3, 0, 9, 9, 9, 9, 9, 9, 0, 0, 0]);
        let init = FrameBuilder::ipv4([1; 4], [2; 4]).sctp(1, 2).init_chunk(1, 7).build_packet();
        assert_eq!(Sctp::new(&init[20..]).unwrap().payload()[..8], [1, 0, 0, 20, 0, 0, 0, 7]);

        let stored = sctp.checksum();
        packet[28..32].fill(0);
        assert_eq!(checksum::crc32c(&packet[20..]), stored);
    }
}
