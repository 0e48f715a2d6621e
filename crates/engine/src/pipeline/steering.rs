// SPDX-License-Identifier: BSD-3-Clause
//! Computes which worker receives the packets of a connection, if several share the queues of a
//! port.
//!
//! The port distributes packets by a hash of addresses and ports. Of an ICMP error, it hashes the
//! address of the host that reports the error; of a fragment, only the addresses. So both may
//! arrive at a worker that does not have their connection. The same hash, computed here over the
//! key of that connection, tells which worker has it.

use crate::api::{Config, SteeringConfig};
use crate::base::BURST_MAX;
use crate::packet::{
    HandedOff, Handoff, HeaderInfo, Key, KeyParts, LaterFragment, PacketMeta, TcpReach,
};
use wire::rss::RssSpread;

/// Returns the worker that receives the packets of this connection, except fragments.
fn worker<const W: usize>(spread: &RssSpread, key: &Key<W>) -> u16 {
    let KeyParts { low, high, low_port, high_port, proto, .. } = key.parts();
    spread.queue(proto, [low, high], [low_port, high_port])
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
        let worker = Some(worker(spread, key)).filter(|it| it != worker_index)?;
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
        let is_right = worker(spread, key) == *worker_index;
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
