// SPDX-License-Identifier: BSD-3-Clause
//! Chooses the five-tuple of each flow, with addresses from pools.
//!
//! A tuple is a function of the flow's number, not of the flows before it. So any thread can send
//! any flow, and no table of used tuples is needed.

use std::net::Ipv4Addr;

/// Order in which addresses are taken from a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distribution {
    /// In turn, from the first to the last, repeatedly.
    Sequential,
    /// At random, each with the same probability.
    Random,
    /// At random, normally distributed: the range is six standard deviations wide.
    Normal,
}

/// A range of addresses. That of an additional port pair may wrap from 255.255.255.255 to 0.0.0.0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) distribution: Distribution,
    pub(super) first: Ipv4Addr,
    pub(super) last: Ipv4Addr,
}

impl Pool {
    /// Returns the number of addresses, at least 1.
    pub(super) fn len(&self) -> u64 {
        u64::from(self.last.to_bits().wrapping_sub(self.first.to_bits())) + 1
    }

    /// True if the address is in the pool.
    pub(super) fn contains(&self, address: Ipv4Addr) -> bool {
        u64::from(address.to_bits().wrapping_sub(self.first.to_bits())) < self.len()
    }

    /// Returns address number `number`. `salt` makes the random addresses of templates differ.
    pub(super) fn address(&self, number: u64, salt: u64) -> u32 {
        let len = self.len();
        let index = match self.distribution {
            Distribution::Sequential => number % len,
            Distribution::Random => scale(mix(number ^ salt), len),
            Distribution::Normal => scale(normal(number ^ salt), len),
        };
        self.first.to_bits().wrapping_add(index as u32)
    }

    /// Returns the count of odd addresses among the numbers `from..to`. For a random distribution
    /// it is the expected count.
    pub(super) fn count_odd(&self, from: u64, to: u64) -> f64 {
        let len = self.len();
        let odd_before = |index: u64| (index + u64::from(self.first.to_bits() & 1)) / 2;
        let all = odd_before(len);
        if self.distribution != Distribution::Sequential {
            return (to - from) as f64 * all as f64 / len as f64;
        }
        let before = |number: u64| number / len * all + odd_before(number % len);
        (before(to) - before(from)) as f64
    }

    /// Returns the fraction of the addresses that are odd, from 0 to 1.
    pub(super) fn odd_part(&self) -> f64 {
        let all = (self.len() + u64::from(self.first.to_bits() & 1)) / 2;
        all as f64 / self.len() as f64
    }
}

/// Maps 64 random bits to a number in `0..len`.
fn scale(bits: u64, len: u64) -> u64 {
    (u128::from(bits) * u128::from(len) >> 64) as u64
}

/// Spreads each bit of a number over all bits (the finaliser of SplitMix64, Steele et al. 2014).
fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns a normally distributed number of 64 bits.
///
/// The mean is in the middle, and the range is six standard deviations wide. Values outside become
/// the ends of the range. The number is a sum of 12 uniform ones, which has the variance 1 (Irwin
/// and Hall). Floating-point functions are avoided: their last bit differs between machines.
fn normal(number: u64) -> u64 {
    let words = (0..3).map(|part| mix(mix(number) ^ part));
    let quarters = words.flat_map(|word| (0..4).map(move |i| (word >> (16 * i)) as u16));
    let sum: i128 = quarters.map(|it| i128::from(it) - (1 << 15)).sum();
    // One deviation is 2^16 here and a sixth of 2^64 in the result.
    let centred = (sum << 48) / 6;
    (centred + (1 << 63)).clamp(0, u64::MAX.into()) as u64
}

/// Lowest client port, as in TRex. The highest is 65535.
pub(super) const FIRST_PORT: u64 = 1024;
/// Number of client ports.
pub(super) const PORTS: u64 = 65536 - FIRST_PORT;

/// Addresses and client port of a flow. The server port is that of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tuple {
    pub(super) client: u32,
    pub(super) server: u32,
    pub(super) client_port: u16,
}

/// Makes the tuples of one template's flows.
#[derive(Clone, Debug)]
pub(super) struct TupleMaker {
    pub(super) clients: Pool,
    pub(super) servers: Pool,
    /// Number of consecutive flows between the same two addresses: `w`.
    pub(super) burst: u64,
    /// Number of the template's first address pair.
    pub(super) first_pair: u64,
    /// First client port of this template. No other template of the pool has these ports.
    pub(super) first_port: u16,
    /// Number of client ports of this template: a multiple of `burst`.
    pub(super) ports: u64,
    pub(super) salt: u64,
}

impl TupleMaker {
    /// Returns the tuple of flow number `flow`.
    pub(super) fn tuple(&self, flow: u64) -> Tuple {
        let (pair, in_burst) =
            if self.burst == 1 { (flow, 0) } else { (flow / self.burst, flow % self.burst) };
        let number = self.first_pair + pair;
        // The port changes after each round over the pool: all clients use one port before the
        // next.
        let port = match self.clients.distribution {
            Distribution::Sequential => {
                let round = number / self.clients.len() - self.first_pair / self.clients.len();
                round * self.burst + in_burst
            }
            _ => flow,
        };
        Tuple {
            client: self.clients.address(number, self.salt),
            server: self.servers.address(number, !self.salt),
            client_port: self.first_port + (port % self.ports) as u16,
        }
    }

    /// Returns the client address of flow number `flow`.
    #[inline]
    pub(super) fn client(&self, flow: u64) -> u32 {
        let pair = if self.burst == 1 { flow } else { flow / self.burst };
        self.clients.address(self.first_pair + pair, self.salt)
    }

    /// True if there are even and odd client addresses among every `step`-th address pair.
    pub(super) fn has_both_parities(&self, step: u64) -> bool {
        let len = self.clients.len();
        if self.clients.distribution != Distribution::Sequential {
            return len > 1;
        }
        // These pairs have the addresses at all multiples of this distance.
        let distance = gcd(len.into(), step.into());
        distance < len.into() && distance % 2 == 1
    }

    /// Returns the first address of both pools.
    pub(super) fn first_addresses(&self) -> [Ipv4Addr; 2] {
        [self.clients.first, self.servers.first]
    }

    /// Returns how many of the flows `first..first + count` have an odd client address.
    pub(super) fn odd_clients(&self, first: u64, count: u64) -> f64 {
        let at = |flow: u64| (self.first_pair + flow / self.burst, flow % self.burst);
        let (from, to) = (at(first), at(first + count));
        let is_odd = |pair: u64| self.clients.count_odd(pair, pair + 1);
        // Whole bursts, minus the flows of the first before `first`, plus the begun ones of the
        // last.
        self.clients.count_odd(from.0, to.0) * self.burst as f64
            - if from.1 == 0 { 0.0 } else { is_odd(from.0) * from.1 as f64 }
            + if to.1 == 0 { 0.0 } else { is_odd(to.0) * to.1 as f64 }
    }

    /// Returns the number of ports with which `flows` flows have different tuples.
    pub(super) fn ports_for(clients: &Pool, first_pair: u64, flows: u64, burst: u64) -> u64 {
        let pairs = flows.div_ceil(burst);
        match clients.distribution {
            Distribution::Sequential => {
                (first_pair % clients.len() + pairs).div_ceil(clients.len()).saturating_mul(burst)
            }
            _ => pairs.saturating_mul(burst),
        }
    }

    /// Returns the number of flows after which tuples repeat. `varies_port` says whether flows have
    /// client ports of their own.
    ///
    /// Tuples from random pools repeat by chance, so the result is `u128::MAX` for them.
    pub(super) fn distinct(&self, varies_port: bool) -> u128 {
        let is_sequential = |pool: &Pool| pool.distribution == Distribution::Sequential;
        if !is_sequential(&self.clients) || !is_sequential(&self.servers) {
            return u128::MAX;
        }
        let rounds = if varies_port { self.ports / self.burst } else { 1 };
        let pairs = u128::from(self.clients.len()) * u128::from(rounds);
        let servers = u128::from(self.servers.len());
        let different = pairs / gcd(pairs, servers) * servers;
        if varies_port { different * u128::from(self.burst) } else { different }
    }
}

/// Returns the greatest common divisor of two numbers that are not 0.
pub(super) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
