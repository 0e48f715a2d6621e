// SPDX-License-Identifier: BSD-3-Clause
//! Faults of real NICs, on request.
//!
//! Every fault has a precedent in a driver or a report. Each has a probability of its own, and is
//! drawn anew for every rule or call that it concerns.

use crate::random::Random;

/// One way to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A rule takes effect, but for its mark.
    NoMark,
    /// A field of the pattern does not count.
    MaskIgnored,
    /// `create` succeeds, and there is no rule.
    PhantomSuccess,
    /// `destroy` succeeds, and the rule stays in effect.
    DestroyLeavesRule,
    /// A rule cannot be destroyed, nor flushed.
    Undeletable,
    /// `create` refuses what `validate` takes.
    CreateRefused,
    /// The table is full at a part of its capacity.
    FullEarly,
    /// `create` takes 10 ms.
    LatencyCliff,
    /// A rule comes into effect 1 to 100 ms after `create` returned.
    LateActivation,
    /// A rule stays in effect for 1 to 100 ms after `destroy` returned.
    LateDeactivation,
    /// Counters are up to a second old.
    StaleCounters,
    /// Marks arrive with their low 16 bits only.
    TruncatedMark,
    /// A refusal leaves `rte_flow_error` as it was.
    UntouchedError,
    /// Rules are out of effect once the port was stopped.
    LostOnReset,
    /// For 0.1 to 1 ms after a rule changed, what arrives is missed.
    ReceiveStall,
    /// A port that has reset itself does not come back when it is reset.
    ResetFails,
}

impl Fault {
    /// All, with their names in devargs.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::NoMark, "no-mark"),
        (Self::MaskIgnored, "mask-ignored"),
        (Self::PhantomSuccess, "phantom-success"),
        (Self::DestroyLeavesRule, "destroy-leaves-rule"),
        (Self::Undeletable, "undeletable"),
        (Self::CreateRefused, "create-refused"),
        (Self::FullEarly, "full-early"),
        (Self::LatencyCliff, "latency-cliff"),
        (Self::LateActivation, "late-activation"),
        (Self::LateDeactivation, "late-deactivation"),
        (Self::StaleCounters, "stale-counters"),
        (Self::TruncatedMark, "truncated-mark"),
        (Self::UntouchedError, "untouched-error"),
        (Self::LostOnReset, "lost-on-reset"),
        (Self::ReceiveStall, "receive-stall"),
        (Self::ResetFails, "reset-fails"),
    ];

    /// Where the devargs give none.
    fn usual_chance(self) -> f64 {
        match self {
            Self::FullEarly => 0.5,
            _ => 1.0,
        }
    }
}

/// Of each fault where all of them are left to chance.
const RANDOM: f64 = 0.01;

/// Which faults there are, and how often they strike.
pub struct Faults {
    chances: [f64; Fault::ALL.len()],
    random: Random,
}

/// What cannot be read of a list of faults.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FaultsError {
    /// No such fault.
    #[error(
        "faults={name}: there is no such fault; there are random and {}",
        Fault::ALL.map(|(_, name)| name).join(", ")
    )]
    Unknown {
        /// As it was given.
        name: String,
    },
    /// No chance.
    #[error("faults={name}:{chance}: a chance is a number from 0 to 1")]
    Chance {
        /// The fault.
        name: String,
        /// As it was given.
        chance: String,
    },
}

impl Faults {
    /// None.
    pub fn none() -> Self {
        Self { chances: [0.0; Fault::ALL.len()], random: Random::new(0) }
    }

    /// A list such as `no-mark:0.1+stale-counters`; `random` is all of them, but the one that makes
    /// the table smaller.
    ///
    /// # Errors
    ///
    /// A name or a chance that is none.
    pub fn parse(list: &str, seed: u64) -> Result<Self, FaultsError> {
        let mut faults = Self { random: Random::new(seed), ..Self::none() };
        for part in list.split('+').filter(|part| !part.is_empty()) {
            let (name, chance) = match part.split_once(':') {
                Some((name, chance)) => (name, Some(chance)),
                None => (part, None),
            };
            let chance = chance.map(|chance| chance_of(name, chance)).transpose()?;
            if name == "random" {
                faults.chances = [chance.unwrap_or(RANDOM); Fault::ALL.len()];
                faults.chances[Fault::FullEarly as usize] = 0.0;
                continue;
            }
            let known = Fault::ALL.into_iter().find(|(_, other)| *other == name);
            let (fault, _) = known.ok_or(FaultsError::Unknown { name: name.to_owned() })?;
            faults.chances[fault as usize] = chance.unwrap_or(fault.usual_chance());
        }
        Ok(faults)
    }

    /// Whether it strikes now.
    pub(crate) fn strikes(&mut self, fault: Fault) -> bool {
        let chance = self.chances[fault as usize];
        chance > 0.0 && self.random.even() < chance
    }

    /// Microseconds from `low` to `high` if it strikes now, else 0.
    pub(crate) fn delay_us(&mut self, fault: Fault, low: u64, high: u64) -> u64 {
        if self.strikes(fault) { self.random.between(low, high) } else { 0 }
    }

    /// What is left of a capacity.
    pub(crate) fn capacity(&self, whole: u64) -> u64 {
        match self.chances[Fault::FullEarly as usize] {
            0.0 => whole,
            // Where there is no limit, as if it were a million.
            part => (whole.min(1_000_000) as f64 * part) as u64,
        }
    }

    /// One of `count`.
    pub(crate) fn one_of(&mut self, count: usize) -> usize {
        self.random.between(0, count as u64 - 1) as usize
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.chances[fault as usize] > 0.0
    }
}

fn chance_of(name: &str, text: &str) -> Result<f64, FaultsError> {
    let chance = text.parse().ok().filter(|chance| (0.0..=1.0).contains(chance));
    chance.ok_or_else(|| FaultsError::Chance { name: name.to_owned(), chance: text.to_owned() })
}
