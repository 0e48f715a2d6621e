// SPDX-License-Identifier: BSD-3-Clause
//! Rules of the NIC: who gets them, how many, and what that takes.

use super::{PairPlan, Settings};
use crate::{Bypass, Policy, RuleApi, sampled};
use engine::{MarkLayout, MarkVerification, Nanos, OffloadConfig};

/// Rules of one port, if nobody says otherwise: more than any NIC but a few takes.
const RULES_MAX: u32 = 1 << 17;
/// Until packets that a rule marked have come out of the NIC; from then on the worker looks itself
/// whether they have come out of its queue.
const QUARANTINE_MS: u32 = 20;
/// One of so many packets.
const CHECK: MarkVerification = sampled(1024);

/// What the thread of a port keeps for a rule, in hash tables: at most, just after they grew.
const RULE_BYTES: u64 = 500;

/// What the workers may wish of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffloadPlan {
    /// Who is worth a rule.
    pub policy: Policy,
    /// Somebody wrote it down: a port that takes no rules is worth a word.
    pub is_asked_for: bool,
    /// Rules of one port.
    pub rules_max: u32,
    /// The same of one zone and IP version, where no zone may have all of them.
    pub zone_rules_max: Option<u32>,
    /// Which marked packets have their key compared.
    pub check: MarkVerification,
    /// From a rule's end until its mark may be used again.
    pub quarantine: Nanos,
    /// How ports are asked.
    pub api: RuleApi,
    /// What they forward by themselves.
    pub bypass: Bypass,
}

impl OffloadPlan {
    pub(super) fn new(written: crate::Offload, settings: &mut Settings) -> Self {
        settings.open("offload");
        let is_asked_for = written.policy.is_some();
        let policy = settings.take("policy", written.policy, Policy::Measured);
        let rules_max = settings.take("rules_max", written.rules_max, RULES_MAX);
        let of_zone = settings.take_or_compute("zone_rules_max", written.zone_rules_max, rules_max);
        let zone_rules_max = (of_zone < rules_max).then_some(of_zone);
        let check = settings.take("check", written.check, CHECK);
        let quarantine_ms = settings.take("quarantine_ms", written.quarantine_ms, QUARANTINE_MS);
        let quarantine = u64::from(quarantine_ms) * 1_000_000;
        let api = settings.take("api", written.api, RuleApi::Auto);
        let bypass = settings.take("bypass", written.bypass, Bypass::Off);
        Self { policy, is_asked_for, rules_max, zone_rules_max, check, quarantine, api, bypass }
    }

    /// No rules.
    pub fn off() -> Self {
        let plan = Self::new(crate::Offload::default(), &mut Settings::default());
        Self { policy: Policy::Off, ..plan }
    }

    /// Rules of each port that each of `workers` may have at a time.
    pub fn rules_per_worker(&self, workers: usize) -> u32 {
        (self.rules_max / workers.max(1) as u32).max(1)
    }

    /// The same of each zone and IP version.
    pub fn zone_rules_per_worker(&self, workers: usize) -> Option<u32> {
        self.zone_rules_max.map(|rules| (rules / workers.max(1) as u32).max(1))
    }

    /// Connections of one IP version that may have rules, by what marks of `width` bits can tell
    /// apart: a quarter more than there may be rules, since a rule that went keeps its mark for a
    /// while.
    pub fn slots(&self, engine: &engine::Config, width: u32, workers: usize) -> u32 {
        let rules = self.rules_per_worker(workers);
        let wanted = rules.saturating_add(rules / 4).saturating_add(64);
        let connections = engine.capacity_ipv4.max(engine.capacity_ipv6);
        let marks = MarkLayout::most(width) / OffloadConfig::indices(workers.max(1) as u32);
        wanted.min(connections).min(marks).max(1)
    }

    /// Memory of workers and ports for rules: at most this.
    pub(super) fn bytes(&self, pairs: &[PairPlan], engine: &engine::Config) -> u64 {
        if self.policy == Policy::Off {
            return 0;
        }
        let connections = u64::from(engine.capacity_ipv4) + u64::from(engine.capacity_ipv6);
        let of_pair = |pair: &PairPlan| {
            let workers = pair.workers.len();
            let slots = u64::from(self.slots(engine, u32::BITS, workers));
            let of_worker = OffloadConfig::bytes(connections, slots, self.zone_rules_max.is_some());
            workers as u64 * of_worker + 2 * u64::from(self.rules_max) * RULE_BYTES
        };
        pairs.iter().map(of_pair).sum()
    }
}
