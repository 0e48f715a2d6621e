// SPDX-License-Identifier: BSD-3-Clause
//! Draws the faults of real NICs that the software NIC imitates on request.
//!
//! Every fault has a precedent in a driver or a report. Each has its own probability, and is drawn
//! for every rule or call that it concerns.

mod wedge;

use crate::random::Random;
use wedge::Wedge;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A rule takes effect, but sets no mark.
    NoMark,
    /// The NIC ignores a field of the pattern.
    MaskIgnored,
    /// `create` succeeds, and no rule exists.
    PhantomSuccess,
    /// `destroy` succeeds, and the rule stays in effect.
    DestroyLeavesRule,
    /// A rule cannot be destroyed, nor flushed.
    Undeletable,
    /// `create` refuses a rule that `validate` accepts.
    CreateRefused,
    /// The table is full before its capacity is reached.
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
    /// Rules lose their effect when the port stops.
    LostOnReset,
    /// For 0.1 to 1 ms after a change of rules, packets that arrive are missed.
    ReceiveStall,
    /// A port that has reset itself does not come back when it is reset.
    ResetFails,
    /// Packets that arrive later pass a packet. The driver does this.
    Reorder,
}

impl Fault {
    /// All, with their names in devargs.
    pub const ALL: [(Self, &'static str); 17] = [
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
        (Self::Reorder, "reorder"),
    ];

    /// Returns the probability of a fault for which the devargs give none.
    fn usual_chance(self) -> f64 {
        match self {
            Self::FullEarly => 0.5,
            _ => 1.0,
        }
    }
}

/// Name of the fault that makes a NIC get stuck, with the number of changes behind it.
const WEDGE: &str = "wedge";

/// What may follow it: a reset of the port ends it.
const ENDS_WITH_RESET: &str = "reset";

/// Probability of each fault if the devargs say `random`.
const RANDOM: f64 = 0.01;

/// Active faults and their probabilities.
pub struct Faults {
    chances: [f64; Fault::ALL.len()],
    wedge: Option<Wedge>,
    random: Random,
}

/// Errors in a list of faults.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FaultsError {
    /// No such fault.
    #[error(
        "faults={name}: there is no such fault; there are random, wedge and {}",
        Fault::ALL.map(|(_, name)| name).join(", ")
    )]
    Unknown {
        /// The text that was given.
        name: String,
    },
    /// The number of changes is not valid.
    #[error("faults=wedge:{text}: write after how many changes of rules, from 1 on: wedge:1000")]
    Changes {
        /// The text that was given.
        text: String,
    },
    /// The probability is not valid.
    #[error("faults={name}:{chance}: a chance is a number from 0 to 1")]
    Chance {
        /// The fault.
        name: String,
        /// The text that was given.
        chance: String,
    },
}

impl Faults {
    /// Returns an empty set of faults.
    pub fn none() -> Self {
        Self { chances: [0.0; Fault::ALL.len()], wedge: None, random: Random::new(0) }
    }

    /// Reads a list such as `no-mark:0.1+stale-counters`; `random` is all faults except the one
    /// that makes the table smaller.
    ///
    /// # Errors
    ///
    /// If a name or a probability is not valid.
    pub fn parse(list: &str, seed: u64) -> Result<Self, FaultsError> {
        let mut faults = Self { random: Random::new(seed), ..Self::none() };
        for part in list.split('+').filter(|part| !part.is_empty()) {
            let (name, chance) = match part.split_once(':') {
                Some((name, chance)) => (name, Some(chance)),
                None => (part, None),
            };
            if name == WEDGE {
                let ends_with_reset = list.split('+').any(|part| part == ENDS_WITH_RESET);
                faults.wedge = Some(Wedge::new(changes_of(chance)?, ends_with_reset));
                continue;
            }
            if name == ENDS_WITH_RESET && faults.wedge.is_some() {
                continue;
            }
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

    /// True if the NIC is stuck: no rule that is made now has an effect.
    pub(crate) fn is_stuck(&self) -> bool {
        self.wedge.is_some_and(|wedge| wedge.is_stuck())
    }

    /// Counts a change of a rule. True if the NIC gets stuck by it: no rule has an effect any more.
    pub(crate) fn count_change(&mut self) -> bool {
        self.wedge.as_mut().is_some_and(Wedge::count_change)
    }

    /// Notes that the port was reset, which may free a NIC that is stuck.
    pub(crate) fn port_was_reset(&mut self) {
        self.wedge.iter_mut().for_each(Wedge::reset);
    }

    /// True if the fault occurs now.
    pub(crate) fn strikes(&mut self, fault: Fault) -> bool {
        let chance = self.chances[fault as usize];
        chance > 0.0 && self.random.even() < chance
    }

    /// Returns a random delay from `low` to `high` microseconds if the fault occurs now, else 0.
    pub(crate) fn delay_us(&mut self, fault: Fault, low: u64, high: u64) -> u64 {
        if self.strikes(fault) { self.random.between(low, high) } else { 0 }
    }

    /// Returns the capacity that the fault leaves.
    pub(crate) fn capacity(&self, whole: u64) -> u64 {
        match self.chances[Fault::FullEarly as usize] {
            0.0 => whole,
            // Without a limit, a million counts as the limit.
            part => (whole.min(1_000_000) as f64 * part) as u64,
        }
    }

    /// Returns a random number below `count`.
    pub(crate) fn one_of(&mut self, count: usize) -> usize {
        self.random.between(0, count as u64 - 1) as usize
    }

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.chance(fault) > 0.0
    }

    /// Returns the probability of a fault.
    pub(crate) fn chance(&self, fault: Fault) -> f64 {
        self.chances[fault as usize]
    }
}

/// Returns the number of changes after which a NIC gets stuck.
fn changes_of(text: Option<&str>) -> Result<u64, FaultsError> {
    let changes = text.and_then(|text| text.parse().ok()).filter(|changes| *changes > 0);
    changes.ok_or_else(|| FaultsError::Changes { text: text.unwrap_or_default().to_owned() })
}

fn chance_of(name: &str, text: &str) -> Result<f64, FaultsError> {
    let chance = text.parse().ok().filter(|chance| (0.0..=1.0).contains(chance));
    chance.ok_or_else(|| FaultsError::Chance { name: name.to_owned(), chance: text.to_owned() })
}
