// SPDX-License-Identifier: BSD-3-Clause
//! The stamp of a verified packet: who sent it, as which packet, and when.
//!
//! It takes the first 18 bytes of the payload, all in network byte order: lane (2), check (2),
//! index (6), time in nanoseconds (8). That is the whole UDP payload of a frame of 64 bytes.

use wire::checksum::Sum;

/// Identifies a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The stream and the worker that sends it: indices count in a lane.
    pub lane: u16,
    /// Number of the packet in its lane, from 0, below 2^48: nine years at a million a second.
    pub index: u64,
    /// When it was sent, in nanoseconds of the sender's clock.
    pub sent_ns: u64,
}

/// Tells stamps of one run from other bytes: both ends have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampKey(u64);

impl StampKey {
    /// Returns the key of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0x6d69_6c6c_7261_6365)
    }
}

const INDEX_BITS: u32 = 48;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

impl Stamp {
    /// Bytes of a stamp.
    pub const LEN: usize = 18;

    /// Writes the stamp.
    #[inline(always)]
    pub fn write(self, to: &mut [u8; Self::LEN], key: StampKey) {
        let [first, second] = self.words(key);
        let (lane, rest) = to.split_at_mut(2);
        lane.copy_from_slice(&self.lane.to_be_bytes());
        rest[..8].copy_from_slice(&first.to_be_bytes());
        rest[8..].copy_from_slice(&second.to_be_bytes());
    }

    /// Reads a stamp; `None` if the bytes are not a stamp with this key: one in 65,536 is one by
    /// chance.
    #[inline(always)]
    pub fn read(from: &[u8; Self::LEN], key: StampKey) -> Option<Self> {
        let word = |at: usize| {
            let bytes = from[at..].first_chunk().expect("the stamp has 18 bytes");
            u64::from_be_bytes(*bytes)
        };
        let lane = u16::from_be_bytes([from[0], from[1]]);
        let stamp = Self { lane, index: word(2) & INDEX_MASK, sent_ns: word(10) };
        (stamp.check(key) == (word(2) >> INDEX_BITS) as u16).then_some(stamp)
    }

    /// Returns the sum of the stamp's bytes.
    #[inline(always)]
    pub fn sum(self, key: StampKey) -> Sum {
        let halves = |word: u64| [(word >> 32) as u32, word as u32];
        let words = self.words(key).map(halves);
        let sum = Sum::default().add_u16(self.lane);
        words.as_flattened().iter().fold(sum, |sum, half| sum.add_u32(*half))
    }

    #[inline(always)]
    fn words(self, key: StampKey) -> [u64; 2] {
        let check = u64::from(self.check(key)) << INDEX_BITS;
        [check | (self.index & INDEX_MASK), self.sent_ns]
    }

    #[inline(always)]
    fn check(self, key: StampKey) -> u16 {
        let place = u64::from(self.lane) << INDEX_BITS | (self.index & INDEX_MASK);
        let mixed = (place ^ key.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32 ^ self.sent_ns).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed >> INDEX_BITS) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::checksum::internet;

    const STAMP: Stamp = Stamp { lane: 513, index: 0x1234_5678_9abc, sent_ns: u64::MAX - 5 };

    #[test]
    fn what_is_written_is_read() {
        let key = StampKey::new(1);
        let mut bytes = [0; Stamp::LEN];
        for stamp in [STAMP, Stamp { lane: 0, index: 0, sent_ns: 0 }] {
            stamp.write(&mut bytes, key);
            assert_eq!(Stamp::read(&bytes, key), Some(stamp));
            assert_eq!(Stamp::read(&bytes, StampKey::new(2)), None);
            assert_eq!(stamp.sum(key).finish(), internet(&bytes));
        }
    }

    #[test]
    fn a_changed_bit_is_found() {
        let key = StampKey::new(1);
        let mut bytes = [0; Stamp::LEN];
        STAMP.write(&mut bytes, key);
        for bit in 0..8 * Stamp::LEN {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Stamp::read(&changed, key), None, "bit {bit}");
        }
    }
}
