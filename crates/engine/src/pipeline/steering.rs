// SPDX-License-Identifier: BSD-3-Clause
//! Computes which worker receives the packets of a connection, if several share the queues of a
//! port.
//!
//! The port distributes packets by a hash of addresses and ports. Of an ICMP error, it hashes the
//! address of the host that reports the error; of a fragment, only the addresses. So both may
//! arrive at a worker that does not have their connection. The same hash, computed here over the
//! key of that connection, tells which worker has it.

use crate::api::{Config, PROTO_SCTP, PROTO_TCP, PROTO_UDP, RssSpread, SteeringConfig};
use crate::base::BURST_MAX;
use crate::packet::{
    HandedOff, Handoff, HeaderInfo, Key, KeyParts, LaterFragment, PacketMeta, TcpReach,
};
use std::net::IpAddr;

/// Bytes of two IPv6 addresses and two ports.
const INPUT_MAX: usize = 36;

impl RssSpread {
    /// Returns the worker that receives the packets of this connection, except fragments.
    pub(crate) fn worker<const W: usize>(&self, key: &Key<W>) -> u16 {
        let KeyParts { low, high, low_port, high_port, proto, .. } = key.parts();
        let hashed = self.hashed[usize::from(W > 2)];
        let has_ports = match proto {
            PROTO_TCP => hashed.tcp,
            PROTO_UDP => hashed.udp,
            PROTO_SCTP => hashed.sctp,
            _ => false,
        };
        if !has_ports && !hashed.addresses {
            return self.workers.first().copied().unwrap_or(0);
        }
        let (mut input, mut len) = ([0; INPUT_MAX], 0);
        let mut put = |bytes: &[u8]| {
            input[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        for address in [low.min(high), low.max(high)] {
            match address {
                IpAddr::V4(address) => put(&address.octets()),
                IpAddr::V6(address) => put(&address.octets()),
            }
        }
        if has_ports {
            put(&low_port.min(high_port).to_be_bytes());
            put(&low_port.max(high_port).to_be_bytes());
        }
        let hash = toeplitz(&self.key, &input[..len]);
        let entry = hash as usize % self.workers.len().max(1);
        self.workers.get(entry).copied().unwrap_or(0)
    }
}

/// Returns the Toeplitz hash of Microsoft's "RSS hashing functions". For each input bit that is
/// set, it XORs the 32 bits of the key from that place on.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let byte = |at: usize| u32::from(key.get(at).copied().unwrap_or(0));
    let mut window = (0..4).fold(0, |window, at| window << 8 | byte(at));
    let mut hash = 0;
    for (at, value) in input.iter().enumerate() {
        let next = byte(at + 4);
        for bit in (0..8).rev() {
            hash ^= window & u32::from(value >> bit & 1).wrapping_neg();
            window = window << 1 | next >> bit & 1;
        }
    }
    hash
}

/// Checks whether a port distributes packets as configured, by a sample of packets that arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SteeringCheck {
    right: u64,
    wrong: u64,
}

/// Mismatches up to this number are always tolerated.
const MISMATCHES_MAX: u64 = 16;

impl SteeringCheck {
    /// Counts a packet that arrived at the expected worker, or did not. False if there are more
    /// than [`MISMATCHES_MAX`] mismatches and they outnumber the matches.
    pub(crate) fn count_arrival(&mut self, is_right: bool) -> bool {
        self.right += u64::from(is_right);
        self.wrong += u64::from(!is_right);
        self.wrong <= MISMATCHES_MAX || self.wrong <= self.right
    }
}

/// What an engine knows of other workers, and the packets that it hands to them.
pub(crate) struct Steering {
    has_all_packets: bool,
    steering: Option<SteeringConfig>,
    check: SteeringCheck,
    /// Packets of this burst that go to other workers.
    pub(crate) handed: Vec<HandedOff>,
}

impl Steering {
    pub(crate) fn new(config: &Config) -> Self {
        let (has_all_packets, steering) = (config.has_all_packets, config.steering.clone());
        let room = if steering.is_some() { BURST_MAX } else { 0 };
        Self {
            has_all_packets,
            steering,
            check: SteeringCheck::default(),
            handed: Vec::with_capacity(room),
        }
    }

    /// True if it is known which worker has which connection.
    pub(crate) fn is_known(&self) -> bool {
        self.steering.is_some()
    }

    /// True if a connection missing from this table cannot be on another worker. A port that mostly
    /// distributes as configured may not do so with two tags, extension headers or tunnels.
    pub(crate) fn has_all_connections(&self) -> bool {
        let is_trusted = |steering: &SteeringConfig| !steering.mismatch.is_set();
        self.has_all_packets || self.steering.as_ref().is_some_and(is_trusted)
    }

    /// Forgets the hand-offs of the last burst.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.handed.clear();
    }

    /// Returns the hand-offs of this burst, so that the caller can change their positions: the
    /// burst may be a part of another one.
    pub(crate) fn handed_mut(&mut self) -> &mut [HandedOff] {
        &mut self.handed
    }

    /// Returns the hand-off for a packet whose connection belongs to another worker; `None` if it
    /// is ours.
    pub(crate) fn handoff<const W: usize>(
        &self,
        key: &Key<W>,
        meta: PacketMeta,
        info: HeaderInfo,
    ) -> Option<Handoff> {
        let SteeringConfig { spread, worker_index, .. } = self.steering.as_ref()?;
        let worker = Some(spread.worker(key)).filter(|worker| worker != worker_index)?;
        let words = std::array::from_fn(|word| key.0.get(word).copied().unwrap_or(0));
        Some(Handoff { words, meta, info, reach: TcpReach::NONE, worker, is_v6: W > 2 })
    }

    /// Returns the hand-off for a later fragment whose connection belongs to another worker; `None`
    /// if it is ours.
    pub(crate) fn handoff_of_fragment<const W: usize>(
        &self,
        key: &Key<W>,
        LaterFragment { meta, position, reach }: LaterFragment,
    ) -> Option<Handoff> {
        Some(Handoff { reach, ..self.handoff(key, meta, HeaderInfo::later_fragment(position))? })
    }

    /// Notes whether this worker is the one at which a packet with this key should arrive. Ends
    /// hand-offs if [`SteeringCheck::count_arrival`] returns false.
    pub(crate) fn check<const W: usize>(&mut self, key: &Key<W>) {
        let Some(SteeringConfig { spread, worker_index, mismatch }) = &self.steering else {
            return;
        };
        let is_right = spread.worker(key) == *worker_index;
        if !is_right {
            mismatch.set();
        }
        if !self.check.count_arrival(is_right) {
            self.steering = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::RssFields;
    use crate::packet::{L4Id, key4, key6, zone_proto};

    /// Of Microsoft's "Verifying the RSS Hash Calculation".
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];
    const V4: [u8; 8] = [66, 9, 149, 187, 161, 142, 100, 80];
    const PORTS: [u8; 4] = [10, 234, 6, 230];

    #[test]
    fn hashes_are_those_of_the_verification_suite() {
        assert_eq!(toeplitz(&KEY, &V4), 0x323e_8fc2);
        assert_eq!(toeplitz(&KEY, &[&V4[..], &PORTS].concat()), 0x51cc_c178);
    }

    #[test]
    fn what_is_not_hashed_is_of_the_first_worker() {
        let none = RssFields::default();
        let mut spread =
            RssSpread { key: KEY.into(), workers: (7..18).collect(), hashed: [none; 2] };
        let of = |spread: &RssSpread, proto| {
            let (key, _) = key4(V4, L4Id::Pair(PORTS), zone_proto(0, proto));
            spread.worker(&key)
        };
        assert_eq!([6, 17, 132, 47].map(|proto| of(&spread, proto)), [7; 4]);
        spread.hashed[0].addresses = true;
        let by_address = 7 + (0x323e_8fc2_u32 % 11) as u16;
        assert_eq!([6, 17, 132, 47].map(|proto| of(&spread, proto)), [by_address; 4]);
        spread.hashed[0] = RssFields { tcp: true, ..none };
        // The smaller port first.
        let sorted = toeplitz(&KEY, &[&V4[..], &[6, 230, 10, 234]].concat());
        assert_eq!(of(&spread, 6), 7 + (sorted % 11) as u16);
        assert_eq!([17, 132, 47].map(|proto| of(&spread, proto)), [7; 3]);
        spread.hashed[0] = RssFields { udp: true, sctp: true, ..none };
        assert_eq!([6, 47].map(|proto| of(&spread, proto)), [7; 2]);
        assert_ne!([17, 132].map(|proto| of(&spread, proto)), [7; 2]);
    }

    #[test]
    fn both_directions_of_ipv6_are_of_one_worker() {
        let hashed = RssFields { tcp: true, udp: true, sctp: true, addresses: true };
        let spread = RssSpread {
            key: KEY.into(),
            workers: (0..128).collect(),
            hashed: [RssFields::default(), hashed],
        };
        let addresses: [u8; 32] = std::array::from_fn(|i| i as u8 * 7);
        let (src, dst) = addresses.split_at(16);
        let back: Vec<u8> = [dst, src].concat();
        let [a, b, c, d] = PORTS;
        let forth = key6(&addresses, L4Id::Pair([a, b, c, d]), zone_proto(0, PROTO_UDP)).0;
        let back = key6(
            back.first_chunk().expect("32 bytes"),
            L4Id::Pair([c, d, a, b]),
            zone_proto(0, PROTO_UDP),
        );
        assert_eq!(spread.worker(&forth), spread.worker(&back.0));
        assert_ne!(spread.worker(&forth), 0);
    }

    #[test]
    fn a_port_that_is_mostly_wrong_is_not_trusted() {
        let mut check = SteeringCheck::default();
        assert!((0..MISMATCHES_MAX).all(|_| check.count_arrival(false)));
        assert!(!check.count_arrival(false));
        let mut check = SteeringCheck::default();
        assert!((0..100).all(|_| check.count_arrival(true) && check.count_arrival(false)));
        assert!(!check.count_arrival(false));
    }
}
