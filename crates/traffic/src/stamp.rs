// SPDX-License-Identifier: BSD-3-Clause
//! Writes and reads the stamp of a verified packet: lane, number, and time of sending.
//!
//! A stamp takes the first 16 bytes of the payload, in network byte order: lane (2), check (2),
//! index (4), time in nanoseconds (8). So it fits into a frame of 64 bytes, and into the probes of
//! 62 bytes by which TRex measures latency.

use wire::checksum::Sum;
use wire::proto;

/// Identity of a packet, and its time of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the lane: a stream, and the worker that sends it. Each lane counts its packets.
    pub lane: u16,
    /// The lowest 32 bits of the packet's number in its lane, which counts from 0.
    pub index: u32,
    /// Time of sending, in nanoseconds of the sender's clock.
    pub sent_ns: u64,
}

/// Key of the stamps of one run, which distinguishes them from stamps of other runs and from other
/// bytes. Sender and receiver have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampKey(u64);

impl StampKey {
    /// Returns the key of `run`, a number that no other run has.
    pub fn new(run: u64) -> Self {
        Self(run.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0x6d69_6c6c_7261_6365)
    }
}

/// Format of a verified packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadFormat {
    /// A [`Stamp`] with this key, followed by pseudo-random bytes.
    Stamped(StampKey),
    /// The format of dpdk-project: index, time, pseudo-random bytes. It does not name its stream,
    /// so a run may have only one.
    DpdkProject {
        /// Seed of the pseudo-random bytes; dpdk-project has [`DPDK_PROJECT_SEED`] by default.
        seed: u64,
        /// Number of senders of the stream, at least 1. They take turns in the index.
        senders: u16,
    },
}

/// Default value of `--seed` in dpdk-project.
pub const DPDK_PROJECT_SEED: u64 = 4_107_683_144_946_382_073;

impl From<StampKey> for PayloadFormat {
    fn from(key: StampKey) -> Self {
        Self::Stamped(key)
    }
}

impl PayloadFormat {
    /// True if packets of this protocol may have such a payload.
    #[inline(always)]
    pub(crate) fn has_protocol(self, protocol: u8) -> bool {
        matches!(self, Self::Stamped(_)) || protocol == proto::UDP
    }
}

impl Stamp {
    /// Bytes of a stamp.
    pub const LEN: usize = 16;

    /// Writes the stamp.
    #[inline(always)]
    pub fn write(self, to: &mut [u8; Self::LEN], key: StampKey) {
        let (first, second) = to.split_at_mut(8);
        first.copy_from_slice(&self.first_word(key).to_be_bytes());
        second.copy_from_slice(&self.sent_ns.to_be_bytes());
    }

    /// Reads a stamp. Returns `None` if the bytes are not a stamp with this key. Of other bytes,
    /// one in 65,536 passes by chance.
    #[inline(always)]
    pub fn read(from: &[u8; Self::LEN], key: StampKey) -> Option<Self> {
        let word = |at: usize| {
            let bytes = from[at..].first_chunk().expect("the stamp has 16 bytes");
            u64::from_be_bytes(*bytes)
        };
        let first = word(0);
        let stamp = Self { lane: (first >> 48) as u16, index: first as u32, sent_ns: word(8) };
        (stamp.check(key) == (first >> 32) as u16).then_some(stamp)
    }

    /// Returns the one's-complement sum of the stamp's bytes.
    #[inline(always)]
    pub fn sum(self, key: StampKey) -> Sum {
        Sum::default().add_u64(self.first_word(key)).add_u64(self.sent_ns)
    }

    /// Returns all 64 bits of the packet's number. `next` is the number of a packet less than 2^31
    /// packets away.
    #[inline(always)]
    pub fn full_index(self, next: u64) -> u64 {
        let distance = self.index.wrapping_sub(next as u32) as i32;
        next.saturating_add_signed(i64::from(distance))
    }

    #[inline(always)]
    fn first_word(self, key: StampKey) -> u64 {
        u64::from(self.lane) << 48 | u64::from(self.check(key)) << 32 | u64::from(self.index)
    }

    #[inline(always)]
    fn check(self, key: StampKey) -> u16 {
        let place = u64::from(self.lane) << 32 | u64::from(self.index);
        let mixed = (place ^ key.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32 ^ self.sent_ns).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed >> 48) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::checksum::internet;

    const STAMP: Stamp = Stamp { lane: 513, index: 0x5678_9abc, sent_ns: u64::MAX - 5 };

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
    fn the_whole_number_is_the_one_close_by() {
        let full = |index, next| Stamp { index, ..STAMP }.full_index(next);
        assert_eq!([full(0, 0), full(7, 5), full(5, 7)], [0, 7, 5]);
        let wrap = 1_u64 << 32;
        assert_eq!([full(2, wrap - 3), full(u32::MAX, wrap + 3)], [wrap + 2, wrap - 1]);
        assert_eq!(full(9, 5 * wrap + 1), 5 * wrap + 9);
        // No number is below that of the first packet.
        assert_eq!(full(u32::MAX, 0), 0);
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
