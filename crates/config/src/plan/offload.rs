// SPDX-License-Identifier: BSD-3-Clause
//! Plans NIC rules: which connections get them, how many, and their memory.

use super::{PairPlan, Settings};
use crate::{Bypass, MarkPolicy, Policy, RuleApi, sampled};
use engine::{MarkLayout, MarkVerification, Nanos, OffloadConfig};

/// Default number of rules of one port: more than all but a few NICs take.
const RULES_MAX: u32 = 1 << 17;
/// Time until packets that a rule marked have left the NIC, in milliseconds. From then on the
/// worker itself checks that they have left its queue.
const QUARANTINE_MS: u32 = 20;
/// Keys are compared in one of this many packets.
const CHECK: MarkVerification = sampled(1024);

/// Most bytes per rule in the hash tables of a programming thread, right after they grew.
const RULE_BYTES: u64 = 500;

/// The rules that workers may request from the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffloadPlan {
    /// Which directions get rules.
    pub policy: Policy,
    /// True if the configuration sets the policy: then a port that takes no rules is reported.
    pub is_asked_for: bool,
    /// Most rules of one port.
    pub rules_max: u32,
    /// Most rules of one zone and IP version; `None` if a zone may have all of them.
    pub zone_rules_max: Option<u32>,
    /// Which marked packets have their key compared.
    pub check: MarkVerification,
    /// Time from the removal of a rule until its mark may be used again.
    pub quarantine: Nanos,
    /// How rules are created.
    pub api: RuleApi,
    /// When workers use marks.
    pub marks: MarkPolicy,
    /// Which directions of UDP connections the NIC forwards itself.
    pub bypass: Bypass,
    /// Which directions of TCP connections the NIC forwards itself.
    pub bypass_tcp: Bypass,
    /// Most rules of access lists in one port; 0 without lists.
    pub list_rules_max: u32,
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
        let marks = settings.take("marks", written.marks, MarkPolicy::Auto);
        let bypass = settings.take("bypass", written.bypass, Bypass::Off);
        let bypass_tcp = settings.take("bypass_tcp", written.bypass_tcp, Bypass::Off);
        Self {
            policy,
            is_asked_for,
            rules_max,
            zone_rules_max,
            check,
            quarantine,
            api,
            marks,
            bypass,
            bypass_tcp,
            list_rules_max: 0,
        }
    }

    /// Returns a plan without rules.
    pub fn off() -> Self {
        let plan = Self::new(crate::Offload::default(), &mut Settings::default());
        Self { policy: Policy::Off, ..plan }
    }

    /// Returns the most rules that each of `workers` may have at each port.
    pub fn rules_per_worker(&self, workers: usize) -> u32 {
        (self.rules_max / workers.max(1) as u32).max(1)
    }

    /// Returns the most rules of one zone and IP version for each worker; `None` without such a
    /// limit.
    pub fn zone_rules_per_worker(&self, workers: usize) -> Option<u32> {
        self.zone_rules_max.map(|rules| (rules / workers.max(1) as u32).max(1))
    }

    /// Returns the slots of one worker and IP version: connections that may have rules at a time.
    /// That is a quarter more than rules, since a removed rule keeps its mark for a while. Marks of
    /// `width` bits also limit the number.
    pub fn slots(&self, engine: &engine::Config, width: u32, workers: usize) -> u32 {
        let rules = self.rules_per_worker(workers);
        let wanted = rules.saturating_add(rules / 4).saturating_add(64);
        let connections = engine.capacity_ipv4.max(engine.capacity_ipv6);
        let marks = (MarkLayout::most(width) - self.list_rules(width))
            / OffloadConfig::indices(workers.max(1) as u32);
        wanted.min(connections).min(marks).max(1)
    }

    /// Returns the number of rules of access lists that marks of `width` bits are to name.
    pub fn list_rules(&self, width: u32) -> u32 {
        if self.list_rules_max == 0 { 0 } else { MarkLayout::list_rules_for(width) }
    }

    /// True if ports are to have rules, of connections or of access lists.
    pub fn has_rules(&self) -> bool {
        self.policy != Policy::Off || self.list_rules_max > 0
    }

    /// Returns an upper bound of the memory of workers and ports for rules.
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
