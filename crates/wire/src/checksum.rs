// SPDX-License-Identifier: BSD-3-Clause
//! Computes the internet checksum (RFC 1071) with its pseudo headers and incremental update (RFC
//! 1624), and the CRC32c of SCTP (RFC 9260, appendix A).

use std::net::{Ipv4Addr, Ipv6Addr};

/// A one's complement sum from which a checksum is computed.
///
/// It adds 64 bits at a time in the machine's byte order, which one's complement arithmetic allows
/// (RFC 1071 2B). It folds only once, at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes`. Their length must be even, unless they are the last ones added.
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        let (mut sum, mut rest) = (self, bytes);
        while let Some((word, behind)) = rest.split_first_chunk() {
            (sum, rest) = (sum.plus(u64::from_ne_bytes(*word)), behind);
        }
        if let Some((word, behind)) = rest.split_first_chunk() {
            (sum, rest) = (sum.plus(u32::from_ne_bytes(*word).into()), behind);
        }
        match *rest {
            [a, b, c] => sum.plus(u32::from_ne_bytes([a, b, c, 0]).into()),
            [a, b] => sum.plus(u16::from_ne_bytes([a, b]).into()),
            [a] => sum.plus(u16::from_ne_bytes([a, 0]).into()),
            _ => sum,
        }
    }

    /// Adds a header of 20 bytes, such as IPv4 or TCP without options.
    ///
    /// The result is that of [`add_bytes`](Self::add_bytes), in a tenth of the instructions.
    #[inline(always)]
    #[must_use]
    pub fn add_header(self, header: &[u8; 20]) -> Self {
        let word = |at: usize| {
            let word = [header[at], header[at + 1], header[at + 2], header[at + 3]];
            u64::from(u32::from_ne_bytes(word))
        };
        self.plus(word(0) + word(4) + word(8) + word(12) + word(16))
    }

    /// Adds a word, and the carry of the addition.
    #[inline(always)]
    fn plus(self, other: u64) -> Self {
        let (sum, is_carried) = self.0.overflowing_add(other);
        Sum(sum + u64::from(is_carried))
    }

    /// Adds one 16-bit number.
    #[must_use]
    pub fn add_u16(self, value: u16) -> Self {
        self.plus(value.to_be().into())
    }

    /// Adds one 32-bit number.
    #[must_use]
    pub fn add_u32(self, value: u32) -> Self {
        self.plus(value.to_be().into())
    }

    /// Adds one 64-bit number.
    #[inline(always)]
    #[must_use]
    pub fn add_u64(self, value: u64) -> Self {
        self.plus(value.to_be())
    }

    /// Returns the sum of the same bytes after an odd number of others (RFC 1071 section 2 (B)).
    #[must_use]
    pub fn swapped(self) -> Self {
        Sum::default().add_u16((!self.finish()).swap_bytes())
    }

    /// True if the checksum is 0. If the bytes include a checksum, it is then right.
    ///
    /// Folding a sum takes its remainder by 0xffff, except that only a sum of 0 folds to 0.
    #[inline(always)]
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 != 0 && self.0 % 0xffff == 0
    }

    /// Returns the checksum in host order: the complement of the folded sum.
    #[inline]
    #[must_use]
    pub fn finish(self) -> u16 {
        // The carry of the lower half goes to the upper half, which then holds the sum of both.
        let sum = (self.0.wrapping_add(self.0.rotate_right(32)) >> 32) as u32;
        let sum = (sum.wrapping_add(sum.rotate_right(16)) >> 16) as u16;
        !u16::from_be(sum)
    }
}

impl std::ops::Add for Sum {
    type Output = Self;

    /// Returns the sum of both inputs; the first must have an even length.
    fn add(self, other: Self) -> Self {
        self.plus(other.0)
    }
}

/// Returns the checksum of `bytes` alone: of an IPv4 header or an ICMP message.
///
/// It is 0 if they include a correct checksum.
pub fn internet(bytes: &[u8]) -> u16 {
    Sum::default().add_bytes(bytes).finish()
}

/// Returns the sum of the IPv4 pseudo header; `len` is the length of transport header and payload
/// in bytes.
pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> Sum {
    let sum = Sum::default().add_bytes(&src.octets()).add_bytes(&dst.octets());
    sum.add_u16(u16::from(protocol)).add_u16(len)
}

/// Returns the sum of the IPv6 pseudo header; `len` is the length of transport header and payload
/// in bytes.
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> Sum {
    let sum = Sum::default().add_bytes(&src.octets()).add_bytes(&dst.octets());
    sum.add_u16(u16::from(protocol)).add_u32(len)
}

/// Returns the checksum after a 16-bit field at an even offset changed from `old` to `new` (RFC
/// 1624, equation 3).
///
/// Do not use it for a UDP checksum of 0, which means that there is none.
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::default().add_u16(!checksum).add_u16(!old).add_u16(new).finish()
}

/// Returns the CRC32c (Castagnoli) of `bytes`, with initial and final value like SCTP and iSCSI.
pub fn crc32c<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u32 {
    let add = |crc: Crc32c, byte| crc.add_bytes(std::slice::from_ref(byte));
    bytes.into_iter().fold(Crc32c::default(), add).finish()
}

/// A CRC32c that is computed eight bytes at a time.
///
/// Each of the eight bytes has a table, which gives its effect after the bytes that follow it.
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(u32);

impl Default for Crc32c {
    fn default() -> Self {
        Crc32c(!0)
    }
}

impl Crc32c {
    /// Adds `bytes`.
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        let (mut crc, mut rest) = (self.0, bytes);
        while let Some((eight, behind)) = rest.split_first_chunk() {
            let eight = u64::from_le_bytes(*eight) ^ u64::from(crc);
            let tables = CRC32C_TABLES.iter().rev().zip(eight.to_le_bytes());
            crc = tables.fold(0, |crc, (table, byte)| crc ^ table[usize::from(byte)]);
            rest = behind;
        }
        let [table, ..] = &CRC32C_TABLES;
        let add = |crc: u32, byte: &u8| (crc >> 8) ^ table[usize::from((crc as u8) ^ byte)];
        Crc32c(rest.iter().fold(crc, add))
    }

    /// Returns the checksum.
    #[must_use]
    pub fn finish(self) -> u32 {
        !self.0
    }
}

/// Effect of a byte on the CRC: table `k` is for a byte that `k` others follow.
static CRC32C_TABLES: [[u32; 256]; 8] = crc32c_tables();

const fn crc32c_tables() -> [[u32; 256]; 8] {
    const POLYNOMIAL_REFLECTED: u32 = 0x82f6_3b78;
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 * tables.len() {
            crc = (crc >> 1) ^ (POLYNOMIAL_REFLECTED & (crc & 1).wrapping_neg());
            bit += 1;
            if bit % 8 == 0 {
                tables[bit / 8 - 1][index] = crc;
            }
        }
        index += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the checksum of RFC 1071, computed word by word in network order.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn crc32c_of_the_iscsi_test_vectors() {
        // RFC 3720, B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(Crc32c::default().add_bytes(b"123456789").finish(), 0xe306_9283);
    }

    #[test]
    fn sum_does_not_overflow_in_any_fold() {
        assert_eq!(internet(&vec![0xff; 1 << 20]), 0);
        assert_eq!(Sum(u64::MAX).finish(), 0);
    }

    proptest! {
        #[test]
        fn equals_the_plain_sum(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(internet(&bytes), plain(&bytes));
        }

        #[test]
        fn pieces_add_up(bytes in proptest::collection::vec(any::<u8>(), 0..200), at: u8) {
            let (a, b) = bytes.split_at((usize::from(at) * 2).min(bytes.len() & !1));
            let start = Sum::default().add_bytes(a);
            prop_assert_eq!(start.add_bytes(b).finish(), plain(&bytes));
            prop_assert_eq!((start + Sum::default().add_bytes(b)).finish(), plain(&bytes));
        }

        #[test]
        fn a_header_is_as_many_bytes(start: u64, header: [u8; 20]) {
            let sum = Sum(start).add_header(&header).finish();
            prop_assert_eq!(sum, Sum(start).add_bytes(&header).finish());
        }

        #[test]
        fn zero_is_found_without_folding(sum: u64, units: u64) {
            let multiple = units / 0xffff * 0xffff;
            for sum in [sum, multiple, 0, u64::MAX].map(Sum) {
                prop_assert_eq!(sum.is_zero(), sum.finish() == 0);
            }
            prop_assert!(multiple == 0 || Sum(multiple).is_zero());
        }

        #[test]
        fn a_crc_is_the_same_in_pieces(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at: u8,
        ) {
            let (a, b) = bytes.split_at(usize::from(at).min(bytes.len()));
            prop_assert_eq!(Crc32c::default().add_bytes(a).add_bytes(b).finish(), crc32c(&bytes));
        }

        #[test]
        fn update_equals_a_new_sum(mut bytes: [u8; 20], at in 0..10usize, new: u16) {
            // An IPv4 header is never all zero, so the sum is not the -0 of RFC 1624, section 3.
            bytes[0] |= 0x45;
            let field = at * 2;
            prop_assume!(field != 0);
            let old = u16::from_be_bytes([bytes[field], bytes[field + 1]]);
            let before = internet(&bytes);
            bytes[field..field + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), internet(&bytes));
        }
    }
}
