// SPDX-License-Identifier: BSD-3-Clause
//! SipHash-1-3 of a burst of keys at once.
//!
//! Keyed with 128 secret bits per table, so that nobody outside can prepare keys that share a
//! bucket; linear hashes (CRC32c, XOR folds, Toeplitz) cannot be keyed to that end. One key alone
//! costs about 45 cycles, nearly all of them latency; many side by side fill the execution units.
//! The vector version is chosen at run time.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::key::Key;

/// A keyed hash function.
#[derive(Clone)]
pub(crate) struct Hasher {
    /// The state before the first word: the secret, mixed with the constants.
    init: [u64; 4],
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "no vectors here yet"))]
    has_avx2: bool,
}

impl Hasher {
    pub(crate) fn new(secret: [u64; 2]) -> Self {
        let [a, b] = secret;
        let init = [
            a ^ 0x736f_6d65_7073_6575,
            b ^ 0x646f_7261_6e64_6f6d,
            a ^ 0x6c79_6765_6e65_7261,
            b ^ 0x7465_6462_7974_6573,
        ];
        Self { init, has_avx2: has_avx2() }
    }

    /// `hashes[i]` = hash of `keys[i]`.
    #[inline(always)]
    pub(crate) fn hash_burst<const W: usize>(&self, keys: &[Key<W>], hashes: &mut [u64]) {
        #[cfg(target_arch = "x86_64")]
        if self.has_avx2 {
            return self.hash_burst_avx2(keys, hashes);
        }
        self.hash_burst_scalar(keys, hashes);
    }

    fn hash_burst_scalar<const W: usize>(&self, keys: &[Key<W>], hashes: &mut [u64]) {
        for (key, hash) in keys.iter().zip(hashes) {
            *hash = self.hash_one(key);
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn hash_burst_avx2<const W: usize>(&self, keys: &[Key<W>], hashes: &mut [u64]) {
        use avx2::{LANES, sip13};
        let mut whole_keys = keys.chunks_exact(LANES);
        let mut whole_hashes = hashes.chunks_exact_mut(LANES);
        for (keys, hashes) in whole_keys.by_ref().zip(whole_hashes.by_ref()) {
            let keys = keys.try_into().expect("LANES keys");
            let hashes = hashes.try_into().expect("LANES hashes");
            // SAFETY: called only where the processor has AVX2.
            unsafe { sip13(self.init, keys, hashes) };
        }
        let (keys, hashes) = (whole_keys.remainder(), whole_hashes.into_remainder());
        // The vectors cost the same for one key as for sixteen; a scalar key costs a quarter of it.
        if keys.len() <= 4 {
            return self.hash_burst_scalar(keys, hashes);
        }
        let mut lanes = [Key([0; W]); LANES];
        let mut out = [0; LANES];
        lanes[..keys.len()].copy_from_slice(keys);
        // SAFETY: as above.
        unsafe { sip13(self.init, &lanes, &mut out) };
        hashes.copy_from_slice(&out[..keys.len()]);
    }

    /// Hash of one key (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
    pub(crate) fn hash_one<const W: usize>(&self, key: &Key<W>) -> u64 {
        let mut v = self.init;
        for word in key.0.into_iter().chain([length_block::<W>()]) {
            v[3] ^= word;
            round(&mut v);
            v[0] ^= word;
        }
        v[2] ^= 0xff;
        for _ in 0..3 {
            round(&mut v);
        }
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

/// The last block of a message of whole words holds its length in bytes and nothing else.
const fn length_block<const W: usize>() -> u64 {
    (8 * W as u64) << 56
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    let [mut v0, mut v1, mut v2, mut v3] = *v;
    v0 = v0.wrapping_add(v1);
    v2 = v2.wrapping_add(v3);
    v1 = v1.rotate_left(13) ^ v0;
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.rotate_left(32).wrapping_add(v3);
    v2 = v2.wrapping_add(v1);
    v1 = v1.rotate_left(17) ^ v2;
    v3 = v3.rotate_left(21) ^ v0;
    *v = [v0, v1, v2.rotate_left(32), v3];
}

fn has_avx2() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return std::is_x86_feature_detected!("avx2");
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return false;
}

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip::SipHasher13;
    use std::hash::Hasher as _;

    const SECRET: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    fn reference<const W: usize>(key: &Key<W>) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(SECRET[0], SECRET[1]);
        key.0.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
        hasher.finish()
    }

    fn agrees<const W: usize>() {
        let keys: Vec<Key<W>> = (0..67_u64)
            .map(|i| Key(std::array::from_fn(|w| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ w as u64)))
            .collect();
        for has_avx2 in [false, has_avx2()] {
            let hasher = Hasher { has_avx2, ..Hasher::new(SECRET) };
            for len in 0..keys.len() {
                let mut hashes = vec![0; len];
                hasher.hash_burst(&keys[..len], &mut hashes);
                for (key, hash) in keys.iter().zip(hashes) {
                    assert_eq!(hash, reference(key));
                }
            }
        }
    }

    #[test]
    fn every_path_is_siphash_1_3() {
        agrees::<2>();
        agrees::<5>();
    }
}
