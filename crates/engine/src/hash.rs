// SPDX-License-Identifier: BSD-3-Clause
//! SipHash-1-3 of a burst of keys at once.
//!
//! Keyed with 128 secret bits per table, so that nobody outside can prepare keys that share a
//! bucket; linear hashes (CRC32c, XOR folds, Toeplitz) cannot be keyed to that end. One key alone
//! costs about 45 cycles, all of them latency; eight side by side fill the vector units. The loops
//! below are plain Rust over eight lanes, compiled once for the baseline and once for AVX2, which
//! is chosen at run time.
#![allow(unsafe_code)]

use crate::key::Key;

/// Keys hashed side by side.
const LANES: usize = 8;

/// A keyed hash function.
#[derive(Clone)]
pub(crate) struct Hasher {
    secret: [u64; 2],
    wide: bool,
}

impl Hasher {
    pub(crate) fn new(secret: [u64; 2]) -> Self {
        Self { secret, wide: has_avx2() }
    }

    /// `hashes[i]` = hash of `keys[i]`.
    #[inline]
    pub(crate) fn hash_burst<const W: usize>(&self, keys: &[Key<W>], hashes: &mut [u64]) {
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            // SAFETY: `wide` is true only where the processor has AVX2.
            return unsafe { hash_burst_avx2(self.secret, keys, hashes) };
        }
        hash_burst_lanes(self.secret, keys, hashes);
    }

    /// Hash of one key, where there is no burst.
    pub(crate) fn hash_one<const W: usize>(&self, key: &Key<W>) -> u64 {
        sip13(self.secret, &[*key])[0]
    }
}

fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// # Safety
/// The processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn hash_burst_avx2<const W: usize>(secret: [u64; 2], keys: &[Key<W>], hashes: &mut [u64]) {
    hash_burst_lanes(secret, keys, hashes);
}

#[inline(always)]
fn hash_burst_lanes<const W: usize>(secret: [u64; 2], keys: &[Key<W>], hashes: &mut [u64]) {
    let whole = keys.len() / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        let lanes: &[Key<W>; LANES] = keys[start..start + LANES].try_into().expect("LANES keys");
        hashes[start..start + LANES].copy_from_slice(&sip13(secret, lanes));
    }
    let rest = keys.len() - whole;
    if rest > 0 {
        let mut lanes = [Key([0; W]); LANES];
        lanes[..rest].copy_from_slice(&keys[whole..]);
        hashes[whole..whole + rest].copy_from_slice(&sip13(secret, &lanes)[..rest]);
    }
}

/// SipHash-1-3 (Aumasson and Bernstein, 2012) of `L` keys of `W` words each.
#[inline(always)]
fn sip13<const W: usize, const L: usize>(secret: [u64; 2], keys: &[Key<W>; L]) -> [u64; L] {
    let mut v = [
        [secret[0] ^ 0x736f_6d65_7073_6575; L],
        [secret[1] ^ 0x646f_7261_6e64_6f6d; L],
        [secret[0] ^ 0x6c79_6765_6e65_7261; L],
        [secret[1] ^ 0x7465_6462_7974_6573; L],
    ];
    for word in 0..W {
        compress(&mut v, std::array::from_fn(|lane| keys[lane].0[word]));
    }
    // The last block of a message of whole words holds its length in bytes and nothing else.
    compress(&mut v, [(8 * W as u64) << 56; L]);
    v[2].iter_mut().for_each(|x| *x ^= 0xff);
    for _ in 0..3 {
        round(&mut v);
    }
    std::array::from_fn(|lane| v[0][lane] ^ v[1][lane] ^ v[2][lane] ^ v[3][lane])
}

#[inline(always)]
fn compress<const L: usize>(v: &mut [[u64; L]; 4], message: [u64; L]) {
    v[3].iter_mut().zip(message).for_each(|(v3, word)| *v3 ^= word);
    round(v);
    v[0].iter_mut().zip(message).for_each(|(v0, word)| *v0 ^= word);
}

#[inline(always)]
fn round<const L: usize>(v: &mut [[u64; L]; 4]) {
    for lane in 0..L {
        let [mut v0, mut v1, mut v2, mut v3] = [v[0][lane], v[1][lane], v[2][lane], v[3][lane]];
        v0 = v0.wrapping_add(v1);
        v2 = v2.wrapping_add(v3);
        v1 = v1.rotate_left(13) ^ v0;
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.rotate_left(32).wrapping_add(v3);
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(17) ^ v2;
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.rotate_left(32);
        [v[0][lane], v[1][lane], v[2][lane], v[3][lane]] = [v0, v1, v2, v3];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip::SipHasher13;
    use std::hash::Hasher as _;

    fn reference<const W: usize>(secret: [u64; 2], key: &Key<W>) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(secret[0], secret[1]);
        key.0.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
        hasher.finish()
    }

    fn agrees<const W: usize>() {
        let secret = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let keys: Vec<Key<W>> = (0..67_u64)
            .map(|i| Key(std::array::from_fn(|w| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ w as u64)))
            .collect();
        for wide in [false, has_avx2()] {
            let hasher = Hasher { secret, wide };
            for len in 0..keys.len() {
                let mut hashes = vec![0; len];
                hasher.hash_burst(&keys[..len], &mut hashes);
                for (key, hash) in keys.iter().zip(hashes) {
                    assert_eq!(hash, reference(secret, key));
                    assert_eq!(hash, hasher.hash_one(key));
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
