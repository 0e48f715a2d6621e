// SPDX-License-Identifier: BSD-3-Clause
//! Rules of the NIC: who gets them, how many, and what that takes.

use super::{PairPlan, Settings};
use crate::config::{self, Policy, sampled};
use engine::{KeyCheck, Nanos, Wish};

/// Rules of one port, if nobody says otherwise: more than any NIC but a few takes.
const RULES_MAX: u32 = 1 << 18;
/// Until packets that a rule marked have left the queues of any worker that is not stuck.
const QUARANTINE_MS: u32 = 100;
/// One of so many packets.
const CHECK: KeyCheck = sampled(64);

/// What a worker keeps for each connection.
const CONNECTION_BYTES: u64 = 8;
/// What the thread of a port keeps for a rule, in two hash tables.
const RULE_BYTES: u64 = 400;

/// What the workers may wish of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OffloadPlan {
    /// Who is worth a rule.
    pub(crate) policy: Policy,
    /// Somebody wrote it down: a port that takes no rules is worth a word.
    pub(crate) is_asked_for: bool,
    /// Rules of one port.
    pub(crate) rules_max: u32,
    /// Which marked packets have their key compared.
    pub(crate) check: KeyCheck,
    /// From a rule's end until its mark may be used again.
    pub(crate) quarantine: Nanos,
}

impl OffloadPlan {
    pub(super) fn new(written: config::Offload, settings: &mut Settings) -> Self {
        settings.open("offload");
        let is_asked_for = written.policy.is_some();
        let policy = settings.take("policy", written.policy, Policy::Off);
        let rules_max = settings.take("rules_max", written.rules_max, RULES_MAX);
        let check = settings.take("check", written.check, CHECK);
        let quarantine_ms = settings.take("quarantine_ms", written.quarantine_ms, QUARANTINE_MS);
        let quarantine = u64::from(quarantine_ms) * 1_000_000;
        Self { policy, is_asked_for, rules_max, check, quarantine }
    }

    /// No rules.
    pub(crate) fn off() -> Self {
        Self::new(config::Offload::default(), &mut Settings::default())
    }

    /// Rules of both ports that each of `workers` may have at a time.
    pub(crate) fn rules_per_worker(&self, workers: usize) -> u32 {
        let share = 2 * u64::from(self.rules_max) / workers.max(1) as u64;
        share.clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Memory of workers and ports for rules: at most this.
    pub(super) fn bytes(&self, pairs: &[PairPlan], engine: &engine::Config) -> u64 {
        if self.policy == Policy::Off {
            return 0;
        }
        let connections = u64::from(engine.capacity_ipv4) + u64::from(engine.capacity_ipv6);
        let of_pair = |pair: &PairPlan| {
            let workers = pair.workers.len();
            // One for each IP version.
            let wishes = 2 * u64::from(self.rules_per_worker(workers)) * size_of::<Wish>() as u64;
            let of_worker = connections * CONNECTION_BYTES + wishes;
            workers as u64 * of_worker + 2 * u64::from(self.rules_max) * RULE_BYTES
        };
        pairs.iter().map(of_pair).sum()
    }
}
