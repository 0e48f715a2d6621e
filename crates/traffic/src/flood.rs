// SPDX-License-Identifier: BSD-3-Clause
//! Makes floods: distinct IPv4 UDP connections that all have one hash value under a weak hash.
//!
//! These hashes are linear over bits: h(x ^ y) = h(x) ^ h(y), for CRC up to a constant. So the
//! differences that do not change the hash are a vector space, the kernel. A tuple and its sum with
//! any element of the kernel collide. Gaussian elimination finds the kernel. A seed or an initial
//! value of the hash does not change it. Nor do constant bytes before or behind the tuple
//! (protocol, zone, padding).
//!
//! Clients are in 10.0.0.0/8 and servers in 192.0.0.0/8, and the client port is the higher one. So
//! the tuples also stay distinct and collide in a table that sorts the ends by address or port.

use crate::Side;
use crate::endpoints::Endpoints;
use crate::scenario::FrameWriter;
use crate::template::{Packet, Transport};
use fastrand::Rng;
use std::net::Ipv4Addr;
use wire::{checksum, ethernet, ipv4::Ipv4, udp::Udp};

/// The hash that a flood is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// CRC32c of source address, destination address, source port and destination port, in network
    /// byte order.
    Crc32c,
    /// Any function of (source ^ destination address, source ^ destination port).
    XorSymmetric,
    /// Toeplitz hash with the public symmetric key, 0x6d5a repeated.
    Toeplitz6d5a,
    /// No weak hash. The tuples are random, for comparison.
    Random,
}

impl Target {
    /// Every target.
    pub const ALL: [Target; 4] =
        [Target::Crc32c, Target::XorSymmetric, Target::Toeplitz6d5a, Target::Random];

    /// Returns the name, as in tables and file names.
    pub const fn name(self) -> &'static str {
        match self {
            Target::Crc32c => "crc32c",
            Target::XorSymmetric => "xor-symmetric",
            Target::Toeplitz6d5a => "toeplitz-6d5a",
            Target::Random => "random",
        }
    }

    fn hash(self, tuple: Tuple) -> u64 {
        match self {
            Target::Crc32c => checksum::crc32c(&tuple.to_bytes()).into(),
            Target::XorSymmetric => {
                let addresses = tuple.src.to_bits() ^ tuple.dst.to_bits();
                u64::from(addresses) << 16 | u64::from(tuple.sport ^ tuple.dport)
            }
            Target::Toeplitz6d5a => toeplitz_6d5a(&tuple.to_bytes()),
            Target::Random => 0,
        }
    }
}

/// Addresses and ports of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
}

impl Tuple {
    /// Returns source, destination, source port and destination port in network byte order, as RSS
    /// hashes them.
    pub fn to_bytes(self) -> [u8; 12] {
        let bytes = self.to_bits().to_be_bytes();
        std::array::from_fn(|i| bytes[4 + i])
    }

    /// Returns the bytes as a number of 96 bits.
    const fn to_bits(self) -> u128 {
        (self.src.to_bits() as u128) << 64
            | (self.dst.to_bits() as u128) << 32
            | (self.sport as u128) << 16
            | self.dport as u128
    }

    fn from_bits(bits: u128) -> Self {
        Self {
            src: Ipv4Addr::from_bits((bits >> 64) as u32),
            dst: Ipv4Addr::from_bits((bits >> 32) as u32),
            sport: (bits >> 16) as u16,
            dport: bits as u16,
        }
    }
}

/// Bits of a tuple that a flood may change, as a mask.
const FREE: Tuple = Tuple {
    src: Ipv4Addr::new(0, 255, 255, 255),
    dst: Ipv4Addr::new(0, 255, 255, 255),
    sport: 0x7fff,
    dport: 0x7fff,
};

/// Values of the bits outside of the mask, which a flood does not change.
const FIXED: Tuple = Tuple {
    src: Ipv4Addr::new(10, 0, 0, 0),
    dst: Ipv4Addr::new(192, 0, 0, 0),
    sport: 0x8000,
    dport: 0,
};

/// Returns `count` distinct tuples with one hash value under `target`. Every target has at least
/// 2^32 of them.
pub fn tuples(seed: u64, target: Target, count: u32) -> impl Iterator<Item = Tuple> {
    let mut rng = Rng::with_seed(seed);
    let mut basis = kernel(|bits| target.hash(Tuple::from_bits(bits)));
    rng.shuffle(&mut basis);
    assert!(basis.len() >= 32, "32 bits of `count` need 32 dimensions");
    // Any 32 dimensions would do; mixing the others in makes the tuples look random.
    let (some, others) = basis.split_at(32);
    let mixed: Vec<u128> = some.iter().map(|v| v ^ combine(others, rng.u64(..))).collect();
    let base = FIXED.to_bits() ^ combine(others, rng.u64(..));
    (0..count).map(move |number| {
        let scattered = number.wrapping_mul(0x9e37_79b1);
        Tuple::from_bits(base ^ combine(&mixed, scattered.into()))
    })
}

/// Passes one UDP packet for each of [`tuples`] to `sink`: 60 bytes without FCS, client to server.
pub fn packets(seed: u64, target: Target, count: u32, mut sink: impl FnMut(Side, &[u8])) {
    let mut frames = FrameWriter::new();
    let payload_len = ethernet::MIN_FRAME - ethernet::Ethernet::LEN - Ipv4::LEN - Udp::LEN;
    for tuple in tuples(seed, target, count) {
        let ends = Endpoints::exactly([tuple.src, tuple.dst], [tuple.sport, tuple.dport]);
        let packet = Packet { side: Side::A, transport: Transport::Udp, payload_len, id: 0 };
        sink(Side::A, frames.write(&ends, &packet));
    }
}

/// Returns the sum of the vectors whose bits are set in `choice`.
fn combine(vectors: &[u128], choice: u64) -> u128 {
    let chosen = vectors.iter().enumerate().filter(|(i, _)| choice >> i & 1 != 0);
    chosen.fold(0, |sum, (_, vector)| sum ^ vector)
}

/// Returns a basis of the changes to the free bits that do not change `hash`.
fn kernel(hash: impl Fn(u128) -> u64) -> Vec<u128> {
    let constant = hash(0);
    let free = (0..128).map(|bit| 1u128 << bit).filter(|bit| bit & FREE.to_bits() != 0);
    // Changes and their effects on the hash. No effect has the lowest bit of an earlier one set.
    let mut pivots: Vec<(u128, u64)> = Vec::new();
    let mut kernel = Vec::new();
    for mut change in free {
        let mut effect = hash(change) ^ constant;
        for (pivot, pivot_effect) in &pivots {
            let lowest = pivot_effect & pivot_effect.wrapping_neg();
            if effect & lowest != 0 {
                change ^= pivot;
                effect ^= pivot_effect;
            }
        }
        match effect {
            0 => kernel.push(change),
            _ => pivots.push((change, effect)),
        }
    }
    kernel
}

/// Returns the Toeplitz hash with the key 0x6d5a repeated.
///
/// The key repeats every 16 bits, so bits i and i + 16 of the input meet the same 32 key bits. The
/// hash is that of the exclusive or of the input's 16-bit words.
fn toeplitz_6d5a(input: &[u8; 12]) -> u64 {
    const KEY: u32 = 0x6d5a_6d5a;
    let words = input.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let folded = words.fold(0, |folded, word| folded ^ word);
    let set = (0..16).filter(|bit| folded & (0x8000 >> bit) != 0);
    set.fold(0, |hash, bit| hash ^ u64::from(KEY.rotate_left(bit)))
}

#[cfg(test)]
mod tests;
