// SPDX-License-Identifier: BSD-3-Clause
//! Owns the views of the IPv6 header and its extension headers (RFC 8200), including the
//! authentication header (RFC 4302).

use crate::{be16, be32, proto};
use std::net::Ipv6Addr;

/// View of an IPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    header: &'a [u8; Ipv6::LEN],
    rest: &'a [u8],
}

impl<'a> Ipv6<'a> {
    /// Length of the header in bytes.
    pub const LEN: usize = 40;

    /// Creates a view of the header at the start of `packet`. `None` if `packet` ends inside it.
    pub fn new(packet: &'a [u8]) -> Option<Self> {
        let (header, rest) = packet.split_first_chunk()?;
        Some(Self { header, rest })
    }

    /// Returns the version field, 6 in a correct header.
    pub fn version(&self) -> u8 {
        self.header[0] >> 4
    }

    /// Returns the traffic class.
    pub fn traffic_class(&self) -> u8 {
        (be16(self.header, 0) >> 4) as u8
    }

    /// Returns the flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        be32(self.header, 0) & 0x000f_ffff
    }

    /// Returns the payload length field: bytes behind this header.
    pub fn payload_len(&self) -> u16 {
        be16(self.header, 4)
    }

    /// Returns the protocol of the payload or of the first extension header, see [`proto`].
    pub fn next_header(&self) -> u8 {
        self.header[6]
    }

    /// Returns the hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    /// Returns the source address.
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| self.header[8 + i]))
    }

    /// Returns the destination address.
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| self.header[24 + i]))
    }

    /// Returns the payload according to the payload length, as far as its bytes are present.
    pub fn payload(&self) -> &'a [u8] {
        &self.rest[..usize::from(self.payload_len()).min(self.rest.len())]
    }

    /// Returns an iterator over the extension headers.
    pub fn extensions(&self) -> Extensions<'a> {
        Extensions { next: self.next_header(), rest: self.payload() }
    }
}

/// True for the extension headers that [`Extensions`] can step over.
///
/// ESP is not one of them: the bytes behind it are encrypted.
pub const fn is_extension(number: u8) -> bool {
    matches!(
        number,
        proto::HOP_BY_HOP | proto::ROUTING | proto::FRAGMENT | proto::DEST_OPTIONS | proto::AUTH
    )
}

/// View of one extension header.
#[derive(Clone, Copy, Debug)]
pub struct Extension<'a> {
    number: u8,
    bytes: &'a [u8],
}

impl<'a> Extension<'a> {
    /// Creates a view of the header at the start of `bytes`. `None` if `bytes` end inside it.
    pub fn new(number: u8, bytes: &'a [u8]) -> Option<Self> {
        let len = match (number, usize::from(*bytes.get(1)?)) {
            (proto::FRAGMENT, _) => 8,
            (proto::AUTH, words) => (words + 2) * 4,
            (_, units) => (units + 1) * 8,
        };
        Some(Self { number, bytes: bytes.get(..len)? })
    }

    /// Returns the number of this extension header, see [`proto`].
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Returns the number of the next header.
    pub fn next_header(&self) -> u8 {
        self.bytes[0]
    }

    /// Returns the whole header, at least 8 bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns, for a fragment header, its offset in the datagram in bytes, and whether more
    /// fragments follow.
    pub fn fragment(&self) -> Option<(usize, bool)> {
        let field = be16(self.bytes, 2);
        (self.number == proto::FRAGMENT).then_some((usize::from(field & !7), field & 1 != 0))
    }
}

/// Iterator over extension headers; see [`Ipv6::extensions`].
///
/// It ends before the upper-layer header, or at an extension header that is cut off.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    next: u8,
    rest: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// Returns the number of the next header that was not visited.
    ///
    /// At the end of the iteration, it is the upper-layer protocol, or an extension header that is
    /// cut off.
    pub fn next_header(&self) -> u8 {
        self.next
    }

    /// Returns the bytes that were not visited.
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Extension<'a>;

    fn next(&mut self) -> Option<Extension<'a>> {
        if !is_extension(self.next) {
            return None;
        }
        let extension = Extension::new(self.next, self.rest)?;
        self.next = extension.next_header();
        self.rest = &self.rest[extension.bytes.len()..];
        Some(extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrameBuilder;

    const A: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1];
    const B: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2];

    #[test]
    fn reads_its_fields() {
        let packet = FrameBuilder::ipv6(A, B)
            .tos(0xb8)
            .flow_label(0xabcde)
            .ttl(3)
            .udp(1, 2)
            .payload(b"abc")
            .build_packet();
        let padded = [&packet[..], &[0; 4]].concat();
        let ip = Ipv6::new(&padded).unwrap();
        assert_eq!((ip.version(), ip.traffic_class(), ip.flow_label()), (6, 0xb8, 0xabcde));
        assert_eq!((ip.payload_len(), ip.next_header(), ip.hop_limit()), (11, proto::UDP, 3));
        assert_eq!((ip.src(), ip.dst()), (A.into(), B.into()));
        assert_eq!(&ip.payload()[8..], b"abc", "without the padding");
        assert!(Ipv6::new(&packet[..39]).is_none());
    }

    #[test]
    fn walks_the_extension_headers_to_the_upper_layer() {
        let packet = FrameBuilder::ipv6(A, B)
            .hop_by_hop(&[5, 2, 0, 0])
            .routing(&[0; 10])
            .fragment(0, true)
            .auth(1, 2, &[3; 12])
            .dest_options(&[])
            .tcp(1, 2)
            .build_packet();
        let mut walk = Ipv6::new(&packet).unwrap().extensions();
        let seen: Vec<_> = walk.by_ref().map(|e| (e.number(), e.bytes().len())).collect();
        assert_eq!(seen, [(0, 8), (43, 16), (44, 8), (51, 24), (60, 8)]);
        assert_eq!((walk.next_header(), walk.payload().len()), (proto::TCP, 20));

        let cut = packet[..40 + 8 + 8].to_vec();
        let mut walk = Ipv6::new(&cut).unwrap().extensions();
        assert_eq!(walk.by_ref().count(), 1);
        assert_eq!(walk.next_header(), proto::ROUTING);
    }

    #[test]
    fn only_a_fragment_header_is_a_fragment() {
        let bytes = [17, 0, 0x05, 0xc9, 0, 0, 0, 9];
        let fragment = Extension::new(proto::FRAGMENT, &bytes).unwrap();
        assert_eq!(fragment.fragment(), Some((1480, true)));
        assert_eq!(Extension::new(proto::DEST_OPTIONS, &bytes).unwrap().fragment(), None);
    }
}
