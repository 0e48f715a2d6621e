// SPDX-License-Identifier: BSD-3-Clause
//! Owns the view of a TCP header, RFC 9293.

use crate::{be16, be32};

/// The sender has finished.
pub const FIN: u8 = 0x01;
/// Opens a connection.
pub const SYN: u8 = 0x02;
/// Aborts a connection.
pub const RST: u8 = 0x04;
/// Push to the application.
pub const PSH: u8 = 0x08;
/// The acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// The urgent pointer counts.
pub const URG: u8 = 0x20;
/// ECN echo, RFC 3168.
pub const ECE: u8 = 0x40;
/// Congestion window reduced, RFC 3168.
pub const CWR: u8 = 0x80;

/// View of a TCP header with its options.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    header: &'a [u8; Tcp::LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// Length of the header without options, in bytes.
    pub const LEN: usize = 20;

    /// Creates a view of the header at the start of `segment`.
    ///
    /// `None` if `segment` ends inside the header, or if the data offset is below 20 bytes.
    pub fn new(segment: &'a [u8]) -> Option<Self> {
        let (header, rest): (&[u8; Tcp::LEN], _) = segment.split_first_chunk()?;
        let options_len = (usize::from(header[12] >> 4) * 4).checked_sub(Self::LEN)?;
        let (options, payload) = rest.split_at_checked(options_len)?;
        Some(Self { header, options, payload })
    }

    /// Returns the source port.
    pub fn sport(&self) -> u16 {
        be16(self.header, 0)
    }

    /// Returns the destination port.
    pub fn dport(&self) -> u16 {
        be16(self.header, 2)
    }

    /// Returns the sequence number of the first payload byte, or of the SYN if there is one.
    pub fn seq(&self) -> u32 {
        be32(self.header, 4)
    }

    /// Returns the acknowledgement number.
    pub fn ack(&self) -> u32 {
        be32(self.header, 8)
    }

    /// Returns the length of the header with its options, in bytes.
    pub fn header_len(&self) -> usize {
        Self::LEN + self.options.len()
    }

    /// Returns the flags: [`FIN`], [`SYN`] and so on.
    pub fn flags(&self) -> u8 {
        self.header[13]
    }

    /// Returns the window, not scaled.
    pub fn window(&self) -> u16 {
        be16(self.header, 14)
    }

    /// Returns the checksum.
    pub fn checksum(&self) -> u16 {
        be16(self.header, 16)
    }

    /// Returns the options with their padding.
    pub fn options(&self) -> &'a [u8] {
        self.options
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
        let packet = FrameBuilder::ipv4([1; 4], [2; 4])
            .tcp(1000, 80)
            .flags(SYN | ECE)
            .seq(0x0102_0304)
            .ack(0x0506_0708)
            .window(512)
            .tcp_options(&[2, 4, 5, 0xb4, 1])
            .payload(b"xy")
            .build_packet();
        let tcp = Tcp::new(&packet[20..]).unwrap();
        assert_eq!((tcp.sport(), tcp.dport()), (1000, 80));
        assert_eq!((tcp.seq(), tcp.ack()), (0x0102_0304, 0x0506_0708));
        assert_eq!((tcp.flags(), tcp.window(), tcp.header_len()), (SYN | ECE, 512, 28));
        assert_eq!(tcp.options(), [2, 4, 5, 0xb4, 1, 0, 0, 0]);
        assert_eq!(tcp.payload(), b"xy");
        for cut in 0..28 {
            assert!(Tcp::new(&packet[20..20 + cut]).is_none());
        }
    }

    #[test]
    fn a_data_offset_below_twenty_is_no_header() {
        let packet = FrameBuilder::ipv4([1; 4], [2; 4]).tcp(1, 2).data_offset(4).build_packet();
        assert!(Tcp::new(&packet[20..]).is_none());
    }
}
