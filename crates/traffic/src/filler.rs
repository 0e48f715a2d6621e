// SPDX-License-Identifier: BSD-3-Clause
//! Makes pseudo-random payloads with known checksums: every packet carries a window of one pool.

use fastrand::Rng;
use wire::checksum::Sum;

/// Number of windows of a pool. Each begins two bytes behind the one before.
const WINDOWS: usize = 4096;
/// Bytes of the longest window: more than the payload of a frame of 9216 bytes.
const MAX_LEN: usize = 9216;

/// A pool of pseudo-random bytes. With the same seed, sender and receiver make the same pool.
#[derive(Debug)]
pub struct Filler {
    bytes: Box<[u8]>,
    /// Internet checksums of the first 0, 2, 4, ... bytes.
    checksums: Box<[u16]>,
}

/// A part of the pool, by the number of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(u16);

impl Window {
    /// Returns the window of packet `index` of a lane. Consecutive packets get distant windows.
    #[inline(always)]
    pub fn of(lane: u16, index: u32) -> Self {
        let mixed = (u64::from(index) ^ u64::from(lane) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed >> 52) as u16)
    }

    /// The window of packets that are not verified.
    pub const FIRST: Self = Self(0);
}

impl Filler {
    /// Makes the pool of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut bytes = vec![0; 2 * WINDOWS + MAX_LEN].into_boxed_slice();
        rng.fill(&mut bytes);
        let mut sum = Sum::default();
        let mut checksums = vec![sum.finish()];
        for word in bytes.chunks_exact(2) {
            sum = sum.add_bytes(word);
            checksums.push(sum.finish());
        }
        Self { bytes, checksums: checksums.into() }
    }

    /// Returns the first `len` bytes of a window.
    ///
    /// # Panics
    /// If `len` is above 9216.
    #[inline(always)]
    pub fn bytes(&self, window: Window, len: usize) -> &[u8] {
        let start = 2 * usize::from(window.0);
        &self.bytes[start..start + len]
    }

    /// Writes the first bytes of a window to all of `to`.
    ///
    /// # Panics
    /// If `to` has more than 9216 bytes.
    #[inline(always)]
    pub(crate) fn write(&self, window: Window, to: &mut [u8]) {
        let from = self.bytes(window, to.len());
        match to.len() {
            // The shortest stamped IPv4 frame: a call of memcpy costs more than two bytes.
            2 => to.copy_from_slice(&from[..2]),
            _ => to.copy_from_slice(from),
        }
    }

    /// True if `bytes` are the first bytes of this window.
    #[inline(always)]
    pub(crate) fn has(&self, window: Window, bytes: &[u8]) -> bool {
        if bytes.len() > MAX_LEN {
            return false;
        }
        let own = self.bytes(window, bytes.len());
        match bytes.len() {
            // As in `write`.
            2 => bytes[..2] == own[..2],
            _ => bytes == own,
        }
    }

    /// Returns the one's-complement sum of the first `len` bytes of a window. If `len` is odd, the
    /// sum ends with a zero byte: no bytes that follow may be added to it.
    #[inline(always)]
    pub fn sum(&self, window: Window, len: usize) -> Sum {
        let start = usize::from(window.0);
        let end = start + len / 2;
        // The difference of two prefixes: a checksum is the complement of a sum.
        let sum = Sum::default().add_u16(!self.checksums[end]).add_u16(self.checksums[start]);
        match len % 2 {
            0 => sum,
            _ => sum.add_u16(u16::from(self.bytes[2 * end]) << 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::checksum::internet;

    #[test]
    fn the_sum_of_a_window_is_that_of_its_bytes() {
        let filler = Filler::new(7);
        for (window, len) in [(0, 0), (0, 1), (5, 2), (4095, 9216), (4095, 9215), (100, 1446)] {
            let window = Window(window);
            let sum = filler.sum(window, len).finish();
            let expected = internet(filler.bytes(window, len));
            // One's complement has two zeros; either is right.
            let is_zero = |checksum: u16| checksum == 0 || checksum == 0xffff;
            assert!(sum == expected || (is_zero(sum) && is_zero(expected)), "{window:?}, {len}");
        }
    }

    #[test]
    fn another_seed_and_another_packet_have_other_bytes() {
        let filler = Filler::new(7);
        assert_ne!(filler.bytes(Window(0), 64), Filler::new(8).bytes(Window(0), 64));
        let windows: std::collections::HashSet<u16> =
            (0..1000).map(|index| Window::of(3, index).0).collect();
        assert!(windows.len() > 800, "{}", windows.len());
    }
}
