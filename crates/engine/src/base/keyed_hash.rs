// SPDX-License-Identifier: BSD-3-Clause
//! Hashes a burst of keys with a secret: AES-128 for IPv4 keys where the processor has it in
//! vectors, else SipHash-1-3.
//!
//! Each table has its own secret of 128 bits, so an attacker cannot prepare keys that share a
//! bucket. Linear hashes (CRC32c, XOR folds, Toeplitz) cannot be keyed for that purpose. Hashing
//! one key is mostly latency, because each step waits for the one before. Many keys side by side
//! fill the execution units. The vector version is chosen at run time.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", avx512))]
mod aes;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(all(target_arch = "x86_64", avx512))]
mod avx512;
mod block;

use super::columns::{BURST_MAX, Columns};
use super::simd::SimdLevel;
use block::{LANES, length_block};
use std::ops::Range;

/// Up to this number of keys, hashing one key after the other is as fast as vectors.
const SCALAR_MAX: usize = 4;

/// A keyed hash function, which is a pseudorandom function for keys of one length.
#[derive(Clone)]
pub(crate) struct KeyedHasher {
    /// SipHash's state before the first word: the secret, mixed with constants.
    init: [u64; 4],
    vectors: SimdLevel,
    /// Hashes keys of two words.
    #[cfg(all(target_arch = "x86_64", avx512))]
    aes: Option<aes::AesKey>,
}

impl KeyedHasher {
    pub(crate) fn new(secret: [u64; 2]) -> Self {
        let [a, b] = secret;
        let init = [
            a ^ 0x736f_6d65_7073_6575,
            b ^ 0x646f_7261_6e64_6f6d,
            a ^ 0x6c79_6765_6e65_7261,
            b ^ 0x7465_6462_7974_6573,
        ];
        Self {
            init,
            vectors: SimdLevel::detect(),
            #[cfg(all(target_arch = "x86_64", avx512))]
            aes: aes::AesKey::new(secret),
        }
    }

    /// Writes the hashes of the keys in `range`.
    ///
    /// It may also overwrite hashes outside `range`, up to [`LANES`] of them. These are meaningless
    /// if there is no key in their place.
    #[inline(always)]
    pub(crate) fn hash_burst<const W: usize>(
        &self,
        words: &Columns<W>,
        range: Range<usize>,
        hashes: &mut [u64; BURST_MAX],
    ) {
        if range.len() <= SCALAR_MAX || self.vectors == SimdLevel::None {
            for i in range {
                hashes[i] = self.hash_one(&words.each_ref().map(|column| column[i]));
            }
            return;
        }
        for start in range.step_by(LANES) {
            // The last group may overlap the one before, so some keys are hashed twice.
            let start = start.min(BURST_MAX - LANES);
            #[cfg(all(target_arch = "x86_64", avx512))]
            if let (true, Some(aes)) = (W == 2, &self.aes) {
                aes.hash_many([&words[0], &words[W - 1]], start, hashes);
                continue;
            }
            match self.vectors {
                SimdLevel::None => unreachable!("{start} is done above"),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `detect` has found AVX2.
                SimdLevel::Avx2 => unsafe { avx2::sip13(self.init, words, start, hashes) },
                #[cfg(all(target_arch = "x86_64", avx512))]
                // SAFETY: `detect` has found AVX-512F.
                SimdLevel::Avx512 => unsafe { avx512::sip13(self.init, words, start, hashes) },
            }
        }
    }

    /// Returns the hash of one key: AES, or SipHash (Aumasson and Bernstein, "SipHash: a fast
    /// short-input PRF", 2012).
    pub(crate) fn hash_one<const W: usize>(&self, words: &[u64; W]) -> u64 {
        #[cfg(all(target_arch = "x86_64", avx512))]
        if let (true, Some(aes)) = (W == 2, &self.aes) {
            return aes.hash_one([words[0], words[W - 1]]);
        }
        let mut v = self.init;
        for word in words.iter().copied().chain([length_block::<W>()]) {
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

/// The purpose for which a secret is derived.
#[derive(Clone, Copy)]
pub(crate) enum KeyDomain {
    /// The table of keys with this number of words.
    Table(u64),
    /// The engine of the worker with this number.
    Worker(u64),
    /// The connection counts of sources.
    Sources,
    /// Keys of fragmented datagrams with this number of words. [`Senders`](Self::Senders) is for
    /// their senders.
    Datagrams(u64),
    Senders(u64),
}

/// Derives the secret for a purpose from another secret.
///
/// SipHash is a pseudorandom function, so neither secret reveals anything about the other.
pub(crate) fn derive(secret: [u64; 2], purpose: KeyDomain) -> [u64; 2] {
    let [kind, number] = match purpose {
        KeyDomain::Table(words) => [0, words],
        KeyDomain::Worker(worker) => [1, worker],
        KeyDomain::Sources => [2, 0],
        KeyDomain::Datagrams(words) => [3, words],
        KeyDomain::Senders(words) => [4, words],
    };
    let hasher = KeyedHasher::new(secret);
    [0, 1].map(|half| hasher.hash_one(&[kind, number, half]))
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

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip::SipHasher13;
    use std::collections::BTreeSet;
    use std::hash::Hasher as _;

    const SECRET: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    fn siphash<const W: usize>(words: [u64; W]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(SECRET[0], SECRET[1]);
        words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
        hasher.finish()
    }

    /// Asserts that every range of a burst of keys has the hashes of the reference.
    fn agrees<const W: usize>(hasher: &KeyedHasher, reference: impl Fn([u64; W]) -> u64) {
        let mut words = [[0; BURST_MAX]; W];
        for i in 0..BURST_MAX {
            for (w, word) in words.iter_mut().enumerate() {
                word[i] = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ w as u64;
            }
        }
        let expected: [u64; BURST_MAX] =
            std::array::from_fn(|i| reference(words.each_ref().map(|column| column[i])));
        for range in (0..=BURST_MAX).flat_map(|end| (0..=end).map(move |start| start..end)) {
            let mut hashes = [0; BURST_MAX];
            hasher.hash_burst(&words, range.clone(), &mut hashes);
            for i in range {
                assert_eq!(hashes[i], expected[i], "{:?}", hasher.vectors);
            }
        }
    }

    #[test]
    fn every_path_is_siphash_1_3() {
        let found = SimdLevel::detect();
        let all = [
            SimdLevel::None,
            #[cfg(target_arch = "x86_64")]
            found.min(SimdLevel::Avx2),
            found,
        ];
        for vectors in all {
            let hasher = KeyedHasher {
                vectors,
                #[cfg(all(target_arch = "x86_64", avx512))]
                aes: None,
                ..KeyedHasher::new(SECRET)
            };
            agrees::<2>(&hasher, siphash);
            agrees::<5>(&hasher, siphash);
        }
    }

    #[test]
    fn derived_secrets_differ() {
        let purposes = (0..8).flat_map(|n| {
            [
                KeyDomain::Table(n),
                KeyDomain::Worker(n),
                KeyDomain::Datagrams(n),
                KeyDomain::Senders(n),
            ]
        });
        let secrets = purposes.flat_map(|purpose| derive(SECRET, purpose));
        let all: BTreeSet<u64> =
            secrets.chain(SECRET).chain(derive([0, 0], KeyDomain::Table(0))).collect();
        assert_eq!(all.len(), 2 * 32 + 2 + 2);
    }

    #[cfg(all(target_arch = "x86_64", avx512))]
    #[test]
    fn keys_of_two_words_are_hashed_with_aes_128() {
        use ::aes::Aes128;
        use ::aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};

        let bytes =
            |[low, high]: [u64; 2]| (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
        let hasher = KeyedHasher::new(SECRET);
        if hasher.aes.is_none() {
            return eprintln!("skipped: the processor has no AES in vectors");
        }
        let cipher = Aes128::new(&bytes(SECRET).into());
        agrees::<2>(&hasher, |key| {
            let mut block = bytes(key).into();
            cipher.encrypt_block(&mut block);
            u64::from_le_bytes(*block.first_chunk().unwrap())
        });
        agrees::<5>(&hasher, siphash);
    }
}
