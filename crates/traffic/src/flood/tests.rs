// SPDX-License-Identifier: BSD-3-Clause
//! Tests the floods with hashes implemented a second time, bit by bit.

use super::*;
use std::collections::HashSet;

const COUNT: u32 = 50_000;

fn crc32c_bit_by_bit(bytes: &[u8], seed: u32) -> u32 {
    let mut crc = seed;
    for byte in bytes {
        for bit in 0..8 {
            let feedback = crc & 1 ^ u32::from(byte >> bit & 1);
            crc >>= 1;
            if feedback == 1 {
                crc ^= 0x1edc_6f41_u32.reverse_bits();
            }
        }
    }
    crc
}

/// Returns the Toeplitz hash as the specification of RSS defines it: a window of 32 key bits slides
/// over the key.
fn toeplitz_bit_by_bit(key: &[u8; 40], input: &[u8]) -> u32 {
    let key_bit = |i: usize| u32::from(key[i / 8] >> (7 - i % 8) & 1);
    let mut hash = 0;
    for i in 0..input.len() * 8 {
        if input[i / 8] >> (7 - i % 8) & 1 == 1 {
            hash ^= (0..32).fold(0, |window, offset| window << 1 | key_bit(i + offset));
        }
    }
    hash
}

fn all_equal(values: impl Iterator<Item = u64>) -> bool {
    let values: HashSet<u64> = values.collect();
    values.len() == 1
}

#[test]
fn the_hashes_of_the_tests_are_right() {
    assert_eq!(!crc32c_bit_by_bit(b"123456789", !0), 0xe306_9283);
    // From the verification suite of RSS: 66.9.149.187:2794 to 161.142.100.80:1766.
    let key: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    let tuple = Tuple {
        src: Ipv4Addr::new(66, 9, 149, 187),
        dst: Ipv4Addr::new(161, 142, 100, 80),
        sport: 2794,
        dport: 1766,
    };
    assert_eq!(toeplitz_bit_by_bit(&key, &tuple.to_bytes()), 0x51cc_c178);
}

#[test]
fn every_tuple_is_another_flow() {
    for target in Target::ALL {
        let flows: HashSet<_> = tuples(1, target, COUNT)
            .map(|t| {
                let ends = [(t.src, t.sport), (t.dst, t.dport)];
                [ends[0].min(ends[1]), ends[0].max(ends[1])]
            })
            .collect();
        assert_eq!(flows.len(), COUNT as usize, "{}", target.name());
    }
}

#[test]
fn crc32c_collides_whatever_the_seed_and_what_is_around_the_tuple() {
    for (seed, before, after) in
        [(0, &[][..], &[17][..]), (!0, &[0, 17], &[0, 0, 5]), (7, &[], &[])]
    {
        assert!(all_equal(tuples(2, Target::Crc32c, COUNT).map(|tuple| {
            let bytes = [before, &tuple.to_bytes(), after].concat();
            crc32c_bit_by_bit(&bytes, seed).into()
        })));
    }
}

#[test]
fn exclusive_or_collides() {
    assert!(all_equal(tuples(3, Target::XorSymmetric, COUNT).map(|tuple| {
        let pairs = tuple.src.octets().into_iter().zip(tuple.dst.octets());
        let addresses = pairs.fold(0, |hash, (a, b)| hash << 8 | u64::from(a ^ b));
        addresses << 16 | u64::from(tuple.sport ^ tuple.dport)
    })));
}

#[test]
fn toeplitz_collides_in_both_directions() {
    let mut key = [0; 40];
    key.chunks_exact_mut(2).for_each(|pair| pair.copy_from_slice(&[0x6d, 0x5a]));
    let both = tuples(4, Target::Toeplitz6d5a, COUNT).flat_map(|tuple| {
        let Tuple { src, dst, sport, dport } = tuple;
        [tuple, Tuple { src: dst, dst: src, sport: dport, dport: sport }]
    });
    assert!(all_equal(both.map(|tuple| toeplitz_bit_by_bit(&key, &tuple.to_bytes()).into())));
}

#[test]
fn the_random_flood_does_not_collide() {
    let hashes: HashSet<u32> = tuples(5, Target::Random, COUNT)
        .map(|tuple| crc32c_bit_by_bit(&tuple.to_bytes(), 0))
        .collect();
    // 50,000 of 2^32 values: 0.3 collisions expected.
    assert!(hashes.len() > COUNT as usize - 10);
}

#[test]
fn the_toeplitz_flood_spreads_under_a_random_key() {
    // If a flood for one key collided under every key, it would prove nothing about that key.
    let mut rng = Rng::with_seed(6);
    let mut key = [0; 40];
    rng.fill(&mut key);
    let hashes: HashSet<u32> = tuples(4, Target::Toeplitz6d5a, COUNT)
        .map(|tuple| toeplitz_bit_by_bit(&key, &tuple.to_bytes()))
        .collect();
    assert!(hashes.len() > COUNT as usize - 10);
}
