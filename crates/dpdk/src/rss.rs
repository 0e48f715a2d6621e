// SPDX-License-Identifier: BSD-3-Clause
//! Configures receive-side scaling so that both directions of a connection get the same queue.
//!
//! There are two ways. With `Sort`, the port puts the smaller address and port first; then any key
//! works, so it is random. `RepeatedKey` is a Toeplitz key that repeats every 16 bits: it gives the
//! same hash when addresses and ports change places. Whatever the pattern, that hash is a function
//! of the XOR of the header's 16-bit words. So a host that chooses addresses can choose a queue;
//! only `Sort` prevents it.
//!
//! The two directions of a connection arrive at the two ports of a pair. So the keys of all ports
//! have the same bytes, up to the length of each key.

use crate::sys;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

/// The kind of symmetric RSS of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymmetricRss {
    /// None: the port has one queue, its own kind of spreading, or no RSS.
    None,
    /// Symmetric Toeplitz that sorts, with a random key.
    Sort,
    /// Toeplitz with a random key that repeats every 16 bits.
    RepeatedKey,
}

/// Bytes of a key if the port does not report the length.
const KEY_LEN: usize = 40;

/// Bytes of the secret: a pattern, and a key as long as the longest one.
pub const RSS_SECRET_LEN: usize = 2 + u8::MAX as usize;

static SECRET: OnceLock<[u8; RSS_SECRET_LEN]> = OnceLock::new();

/// Returns the secret from which all keys of this process are made. It is random, unless
/// [`use_rss_secret`] has set another before.
pub fn rss_secret() -> &'static [u8; RSS_SECRET_LEN] {
    SECRET.get_or_init(|| {
        let mut secret = [0; RSS_SECRET_LEN];
        secret[..2].copy_from_slice(&random_pattern().to_be_bytes());
        secret[2..].copy_from_slice(&random_bytes(RSS_SECRET_LEN - 2));
        secret
    })
}

/// Sets the secret to that of another process, so that connections arrive at the same workers as
/// there. Returns false if a secret is in use already, or this one is not usable.
pub fn use_rss_secret(secret: &[u8; RSS_SECRET_LEN]) -> bool {
    is_good_pattern(u16::from_be_bytes([secret[0], secret[1]])) && SECRET.set(*secret).is_ok()
}

/// Returns the configuration of the best symmetric spread that the port supports. Its key is never
/// freed, because drivers read it again whenever the port starts.
pub(crate) fn best(info: &sys::rte_eth_dev_info) -> (sys::rte_eth_rss_conf, SymmetricRss) {
    // SAFETY: a plain C struct for which zero is "not set".
    let mut conf: sys::rte_eth_rss_conf = unsafe { std::mem::zeroed() };
    conf.rss_hf = info.flow_type_rss_offloads & sys::BIND_RSS_FIELDS;
    if conf.rss_hf == 0 {
        return (conf, SymmetricRss::None);
    }
    let len = if info.hash_key_size == 0 { KEY_LEN } else { usize::from(info.hash_key_size) };
    let [p, q, random @ ..] = rss_secret();
    // SAFETY: both are initialised; the shim only reads `info` and sets one member of `conf`.
    let (key, kind) = if unsafe { sys::shim_rss_sort(info, &mut conf) } {
        (random[..len].to_vec(), SymmetricRss::Sort)
    } else {
        (repeated_key(len, u16::from_be_bytes([*p, *q])), SymmetricRss::RepeatedKey)
    };
    let key = key.leak();
    conf.rss_key = key.as_mut_ptr();
    conf.rss_key_len = key.len() as u8;
    (conf, kind)
}

fn repeated_key(len: usize, pattern: u16) -> Vec<u8> {
    pattern.to_be_bytes().into_iter().cycle().take(len).collect()
}

fn random_pattern() -> u16 {
    loop {
        let pattern = u16::from_ne_bytes([random_bytes(1)[0], random_bytes(1)[0]]);
        if is_good_pattern(pattern) {
            return pattern;
        }
    }
}

/// True if a key that repeats this pattern spreads well. With an odd number of ones, the hash is a
/// one-to-one map of the 16 bits on which it depends. With an even number, half of the hashes or
/// more never occur. With few ones or few zeros, each bit of the hash, and so the queue, would
/// depend on few bits of the header.
fn is_good_pattern(pattern: u16) -> bool {
    matches!(pattern.count_ones(), 5 | 7 | 9 | 11)
}

fn random_bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .expect("Linux has /dev/urandom");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the Toeplitz hash, computed as in the RSS specification.
    fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
        let bit = |bytes: &[u8], i: usize| u32::from(bytes[i / 8] >> (7 - i % 8) & 1);
        let window = |i: usize| (i..i + 32).fold(0, |window, j| window << 1 | bit(key, j));
        (0..input.len() * 8).filter(|&i| bit(input, i) == 1).fold(0, |hash, i| hash ^ window(i))
    }

    /// The model against the verification suite that NIC vendors publish for RSS.
    #[test]
    fn the_model_is_toeplitz() {
        let key = [
            0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
            0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
            0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
        ];
        let input = [66, 9, 149, 187, 161, 142, 100, 80, 2794u16.to_be_bytes()[0], 234, 6, 230];
        assert_eq!(toeplitz(&key, &input), 0x51cc_c178);
    }

    #[test]
    fn a_repeated_key_hashes_both_directions_alike() {
        for _ in 0..200 {
            let key = repeated_key(40, random_pattern());
            for address_len in [4, 16] {
                let (a, b) = (random_bytes(address_len), random_bytes(address_len));
                let (p, q) = (random_bytes(2), random_bytes(2));
                let there = [a.clone(), b.clone(), p.clone(), q.clone()].concat();
                let back = [b.clone(), a.clone(), q, p].concat();
                assert_eq!(toeplitz(&key, &there), toeplitz(&key, &back));
                let (there, back) = ([a.clone(), b.clone()].concat(), [b, a].concat());
                assert_eq!(toeplitz(&key, &there), toeplitz(&key, &back));
            }
        }
    }

    #[test]
    fn all_ports_have_one_key() {
        // SAFETY: a plain C struct for which zero is "not set".
        let mut info: sys::rte_eth_dev_info = unsafe { std::mem::zeroed() };
        info.flow_type_rss_offloads = sys::BIND_RSS_FIELDS;
        let [short, long] = [40, 52].map(|len| {
            info.hash_key_size = len;
            let (conf, _) = best(&info);
            assert_eq!(conf.rss_key_len, len);
            // SAFETY: the key is of this length, and never freed.
            unsafe { std::slice::from_raw_parts(conf.rss_key, usize::from(len)) }
        });
        assert_eq!(*short, long[..40]);
    }

    #[test]
    fn a_secret_comes_first_or_not_at_all() {
        let mut other = *rss_secret();
        assert!(is_good_pattern(u16::from_be_bytes([other[0], other[1]])));
        other[9] ^= 1;
        assert!(!use_rss_secret(&other) && rss_secret()[9] != other[9]);
        assert!(!use_rss_secret(&[0; RSS_SECRET_LEN]));
    }

    #[test]
    fn every_good_pattern_keeps_all_16_bits() {
        let patterns: Vec<u16> = (0..=u16::MAX).filter(|&p| is_good_pattern(p)).collect();
        assert_eq!(patterns.len(), 31_616);
        for pattern in patterns {
            assert_eq!(rank((0..16).map(|i| pattern.rotate_left(i)).collect()), 16);
        }
        // The hash with 0x5555 would have two values only.
        assert_eq!(rank((0..16).map(|i| 0x5555u16.rotate_left(i)).collect()), 2);
    }

    /// Returns the rank over GF(2).
    fn rank(mut rows: Vec<u16>) -> usize {
        let mut rank = 0;
        while let Some(pivot) = rows.pop() {
            if pivot != 0 {
                rank += 1;
                let lowest = pivot & pivot.wrapping_neg();
                rows.iter_mut().filter(|row| **row & lowest != 0).for_each(|row| *row ^= pivot);
            }
        }
        rank
    }
}
