// SPDX-License-Identifier: BSD-3-Clause
//! Detects whether packets hit a rule: by mark, flag, queue or loss.

use super::actions::{MARK, action};
use super::bench::{Bench, Stopped};
use super::chains::AcceptedChain;
use super::pattern::Pattern;
use super::subject::{Delivery, RuleProbe};
use twin::{Action, Proto};

/// A list of actions, and the effect on packets by which a hit is detected.
#[derive(Clone, Debug)]
pub(super) struct EffectObserver {
    pub(super) actions: Vec<Action>,
    sign: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Mark,
    Flag,
    /// This queue, to which packets without a rule do not go.
    Queue(u16),
    Drop,
}

/// Maximum number of chains to try.
const CHAINS_MAX: usize = 16;
/// Longest wait for the effect of a rule, in microseconds. Later effects are of no use.
const LATE_US: u64 = 100_000;

impl EffectObserver {
    /// Returns the first list of actions whose effect packets of one of the chains show.
    pub(super) fn find(
        bench: &mut Bench<'_>,
        taken: &[AcceptedChain],
        lists: &[Vec<&'static str>],
    ) -> Result<Option<Self>, Stopped> {
        if !bench.subject.has_wire() {
            return Ok(None);
        }
        let chains = usual_chains(taken);
        let signs = [
            ("mark", Effect::Mark),
            ("flag", Effect::Flag),
            ("queue", Effect::Queue(0)),
            ("drop", Effect::Drop),
        ];
        // Rules may come into effect late, so a second round waits.
        for late_us in [0, LATE_US] {
            for (name, sign) in signs {
                let Some(list) = lists.iter().find(|list| list.contains(&name)) else { continue };
                let actions: Vec<_> = list.iter().map(|name| action(name)).collect();
                for chain in &chains {
                    let witness = Self { actions: actions.clone(), sign };
                    let pattern = chain.pattern();
                    let Some(frame) = pattern.frame.clone() else { continue };
                    // A rule that was just destroyed may still be in effect.
                    bench.wait(late_us);
                    let Some(witness) = witness.of(bench, &frame) else { continue };
                    let question = witness.question(bench, &pattern);
                    let hit = bench.with(&question, |bench, _| {
                        bench.wait(late_us);
                        let delivery = bench.deliver(&frame);
                        Ok(witness.is_hit(delivery))
                    })?;
                    bench.wait(late_us);
                    if hit == Ok(true) {
                        return Ok(Some(witness));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns an observer for packets like this frame, with another queue than their usual one.
    /// `None` if they do not arrive, or there is no other queue.
    pub(super) fn of(&self, bench: &mut Bench<'_>, frame: &[u8]) -> Option<Self> {
        let mut witness = self.clone();
        let usual = bench.deliver(frame)?.queue;
        if let Effect::Queue(_) = self.sign {
            let queue = (0..bench.subject.queues()).find(|&queue| queue != usual)?;
            witness.sign = Effect::Queue(queue);
            for action in &mut witness.actions {
                if matches!(action, Action::Queue(_)) {
                    *action = Action::Queue(queue);
                }
            }
        }
        Some(witness)
    }

    pub(super) fn is_drop(&self) -> bool {
        self.sign == Effect::Drop
    }

    pub(super) fn is_mark(&self) -> bool {
        self.sign == Effect::Mark
    }

    pub(super) fn question(&self, bench: &Bench<'_>, pattern: &Pattern) -> RuleProbe {
        RuleProbe { actions: self.actions.clone(), ..bench.about(pattern) }
    }

    /// True if the delivery shows that the packet hit the rule. `None` stands for a lost packet.
    pub(super) fn is_hit(&self, delivery: Option<Delivery>) -> bool {
        match (self.sign, delivery) {
            (Effect::Mark, Some(delivery)) => delivery.mark == Some(MARK),
            (Effect::Flag, Some(delivery)) => delivery.flag,
            (Effect::Queue(queue), Some(delivery)) => delivery.queue == queue,
            (Effect::Drop, delivery) => delivery.is_none(),
            (_, None) => false,
        }
    }

    /// True if the frame of `pattern` hits a rule with that pattern. `None` if the NIC refuses the
    /// rule, or the pattern has no frame.
    pub(super) fn hits(
        &self,
        bench: &mut Bench<'_>,
        pattern: &Pattern,
    ) -> Result<Option<bool>, Stopped> {
        let Some(frame) = pattern.frame.clone() else { return Ok(None) };
        self.hits_with(bench, pattern, &frame)
    }

    /// True if `frame` hits a rule with `pattern`; `None` if the NIC refuses the rule.
    pub(super) fn hits_with(
        &self,
        bench: &mut Bench<'_>,
        pattern: &Pattern,
        frame: &[u8],
    ) -> Result<Option<bool>, Stopped> {
        let witness = match self.sign {
            Effect::Queue(_) => self.of(bench, frame),
            _ => Some(self.clone()),
        };
        let Some(witness) = witness else { return Ok(None) };
        let question = witness.question(bench, pattern);
        let hit = bench.with(&question, |bench, _| {
            let delivery = bench.deliver(frame);
            Ok(witness.is_hit(delivery))
        })?;
        Ok(hit.ok())
    }
}

/// Returns short chains, those with IP first, because packets without IP may bypass the rules.
fn usual_chains(taken: &[AcceptedChain]) -> Vec<&AcceptedChain> {
    let mut chains: Vec<_> = taken.iter().filter(|chain| chain.headers.len() <= 3).collect();
    let has_ip = |chain: &AcceptedChain| {
        let is_ip = |proto: &Proto| matches!(proto, Proto::Ipv4 | Proto::Ipv6);
        chain.headers.iter().any(is_ip)
    };
    chains.sort_by_key(|chain| !has_ip(chain));
    chains.truncate(CHAINS_MAX);
    chains
}
