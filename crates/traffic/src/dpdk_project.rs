// SPDX-License-Identifier: BSD-3-Clause
//! Writes and reads the payload format of dpdk-project, so that its receiver and ours verify the
//! same packets.
//!
//! A payload begins with index (8 bytes) and send time (8 bytes), both little-endian. The rest are
//! bytes of PCG64-MCG. The generator's state is the seed in the upper 64 bits and the index in the
//! lower ones (`rust/src/pkt.rs` of dpdk-project).

use crate::stamp::Stamp;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::RngCore;

/// Bytes of index and time.
const HEADER: usize = 16;
/// Indices from here up are refused. At 148.8 million packets per second a sender needs 21 days to
/// reach this one.
const INDEX_MAX: u64 = 1 << 48;

fn generator(seed: u64, index: u64) -> Pcg64Mcg {
    Pcg64Mcg::new(u128::from(seed) << 64 | u128::from(index))
}

/// Fills `to` with the payload of packet `index` of the run.
///
/// # Panics
/// If `to` has fewer than 16 bytes.
#[inline]
pub(crate) fn write(to: &mut [u8], seed: u64, index: u64, sent_ns: u64) {
    to[..8].copy_from_slice(&index.to_le_bytes());
    to[8..HEADER].copy_from_slice(&sent_ns.to_le_bytes());
    generator(seed, index).fill_bytes(&mut to[HEADER..]);
}

/// Returns the stamp of a payload, and true if every byte is as it was sent.
///
/// The lane of the stamp is the number of the sender, below `senders`. Returns `None` if this is no
/// packet of dpdk-project with this seed:
///
/// - it is shorter than 16 bytes,
/// - its index is 2^48 or above, or
/// - more than half of the bytes behind the time are wrong.
#[inline]
pub(crate) fn read(payload: &[u8], seed: u64, senders: u16) -> Option<(Stamp, bool)> {
    let (header, filler) = payload.split_first_chunk::<HEADER>()?;
    let word = |at: usize| {
        let bytes = header[at..].first_chunk().expect("the header has 16 bytes");
        u64::from_le_bytes(*bytes)
    };
    let (index, sent_ns) = (word(0), word(8));
    if index >= INDEX_MAX {
        return None;
    }
    let mut generator = generator(seed, index);
    let mut wrong = 0;
    for found in filler.chunks(64) {
        let mut expected = [0; 64];
        generator.fill_bytes(&mut expected);
        if *found != expected[..found.len()] {
            wrong += found.iter().zip(&expected).filter(|(it, other)| it != other).count();
        }
    }
    // In a foreign payload, one byte in 256 is right by chance.
    let senders = u64::from(senders);
    let stamp = Stamp { lane: (index % senders) as u16, index: (index / senders) as u32, sent_ns };
    (2 * wrong <= filler.len()).then_some((stamp, wrong == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 4_107_683_144_946_382_073;

    /// The expected numbers are the first ones of state 42 in the test suite of PCG's C library.
    #[test]
    fn the_bytes_are_those_of_pcg() {
        let mut bytes = [0; 16 + 24];
        write(&mut bytes, 0, 42, 7);
        let words = bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap()));
        let of_pcg = [0x63b4_a3a8_13ce_700a, 0x3829_5420_0617_ab24, 0xa7fd_85ae_3fe9_50ce];
        assert_eq!(words.collect::<Vec<u64>>(), [&[42, 7][..], &of_pcg].concat());
    }

    #[test]
    fn what_is_written_is_read() {
        for len in [16, 17, 20, 21, 24, 79, 80, 81, 1000] {
            let mut bytes = vec![0; len];
            write(&mut bytes, SEED, (5 << 32) + 9, 123);
            let stamp = Stamp { lane: 0, index: 9, sent_ns: 123 };
            assert_eq!(read(&bytes, SEED, 1), Some((stamp, true)), "{len} bytes");
            assert_eq!(read(&bytes[..15], SEED, 1), None);
            let of_four = Stamp { lane: 1, index: (1 << 30) + 2, sent_ns: 123 };
            assert_eq!(read(&bytes, SEED, 4), Some((of_four, true)), "{len} bytes");
            assert_eq!(read(&bytes, SEED + 1, 1).is_some(), len == 16, "{len} bytes");
            if len > 40 {
                bytes[len - 1] ^= 1;
                assert_eq!(read(&bytes, SEED, 1), Some((stamp, false)), "{len} bytes");
                // Another index has other bytes.
                bytes[2] ^= 1;
                assert_eq!(read(&bytes, SEED, 1), None, "{len} bytes");
            }
        }
        let mut bytes = [0; 16];
        write(&mut bytes, SEED, INDEX_MAX, 0);
        assert_eq!(read(&bytes, SEED, 1), None);
    }
}
