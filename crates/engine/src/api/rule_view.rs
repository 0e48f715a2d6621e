// SPDX-License-Identifier: BSD-3-Clause
//! What can be told about the NIC rule of one direction of a connection, or why it has none.

use super::offload::Side;
use crate::base::Nanos;

/// What there is of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleState {
    /// Nothing.
    #[default]
    None,
    /// It is worth one and waits.
    Candidate,
    /// The port was asked for it.
    Asked,
    /// The NIC has it, and no packet had its mark yet.
    Installed,
    /// Packets have its mark.
    Effective,
    /// The NIC forwards its packets by itself.
    Bypassed,
    /// It is to go.
    Leaving,
}

impl RuleState {
    /// The name in `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            RuleState::None => "none",
            RuleState::Candidate => "candidate",
            RuleState::Asked => "asked",
            RuleState::Installed => "installed",
            RuleState::Effective => "effective",
            RuleState::Bypassed => "bypassed",
            RuleState::Leaving => "leaving",
        }
    }
}

/// Why a direction has no rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoRuleReason {
    /// There are none.
    Off,
    /// Only TCP and UDP have some.
    Protocol,
    /// Rules put packets into its zone, so that no tag says which are in it.
    ZoneByRule,
    /// It has had fewer packets than the first look at it needs.
    TooFewPackets {
        /// As many as that.
        least: u32,
    },
    /// It is not busy enough.
    BelowThreshold {
        /// Packets per second that it counts for: its rate, or less if it is not known for long.
        worth: f64,
        /// Packets per second that are enough.
        threshold: f64,
    },
    /// The side has as many as it has room for.
    NoCapacity,
    /// Its zone has as many as it may have.
    ZoneFull,
    /// The NIC does not take such a rule.
    Refused,
    /// The NIC took it, and no packet was marked.
    Ineffective,
    /// Rules of its kind had no effect, so they are not asked for.
    KindAside,
    /// The side had trouble just now.
    BackOff,
    /// Nothing speaks against it: the port is busy, or it will be looked at again.
    Waiting,
}

impl NoRuleReason {
    /// The name in `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            NoRuleReason::Off => "off",
            NoRuleReason::Protocol => "protocol",
            NoRuleReason::ZoneByRule => "zone_by_rule",
            NoRuleReason::TooFewPackets { .. } => "too_few_packets",
            NoRuleReason::BelowThreshold { .. } => "below_threshold",
            NoRuleReason::NoCapacity => "no_capacity",
            NoRuleReason::ZoneFull => "zone_full",
            NoRuleReason::Refused => "refused",
            NoRuleReason::Ineffective => "ineffective",
            NoRuleReason::KindAside => "kind_aside",
            NoRuleReason::BackOff => "back_off",
            NoRuleReason::Waiting => "waiting",
        }
    }
}

/// The rule of one direction, or why there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RuleView {
    /// What there is.
    pub state: RuleState,
    /// Why not more; `None` from [`RuleState::Asked`] on.
    pub reason: Option<NoRuleReason>,
    /// When a rule came to its state, to 65 µs; without one, when the direction was looked at last.
    pub since: Option<Nanos>,
    /// Where its packets arrive, as far as somebody has looked.
    pub side: Option<Side>,
    /// Packets per second, by the last looks.
    pub rate: f64,
    /// Packets since the first with the mark of the rule, or those that the NIC forwarded itself.
    pub hits: u64,
}

impl RuleView {
    /// Both directions of a connection where there are no rules.
    pub const NONE: [RuleView; 2] = [RuleView {
        state: RuleState::None,
        reason: Some(NoRuleReason::Off),
        since: None,
        side: None,
        rate: 0.0,
        hits: 0,
    }; 2];
}
