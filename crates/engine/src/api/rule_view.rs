// SPDX-License-Identifier: BSD-3-Clause
//! Owns the view of a direction's NIC rule: its state, or why there is none.

use super::offload::Side;
use crate::base::Nanos;

/// State of the NIC rule of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleState {
    /// There is no rule.
    #[default]
    None,
    /// The direction deserves a rule and waits for one.
    Candidate,
    /// The rule was requested from the port.
    Requested,
    /// The NIC has installed it, and no packet carried its mark yet.
    Installed,
    /// Packets carry its mark.
    Effective,
    /// The NIC forwards the packets by itself.
    Bypassed,
    /// Its removal was requested.
    Removing,
}

impl RuleState {
    /// Returns the name in `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            RuleState::None => "none",
            RuleState::Candidate => "candidate",
            RuleState::Requested => "asked",
            RuleState::Installed => "installed",
            RuleState::Effective => "effective",
            RuleState::Bypassed => "bypassed",
            RuleState::Removing => "leaving",
        }
    }
}

/// Why a direction has no rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoRuleReason {
    /// Rules are not enabled.
    Off,
    /// The protocol is neither TCP nor UDP.
    Protocol,
    /// A rule of an access list says so.
    NoOffload,
    /// Zone rules put packets into this zone, so no VLAN tag identifies its packets.
    ZoneByRule,
    /// The direction had too few packets to be evaluated.
    TooFewPackets {
        /// Number of packets before the first evaluation.
        least: u32,
    },
    /// The rate of the direction is below the threshold.
    BelowThreshold {
        /// Rate that is compared with the threshold, in packets per second. It is lower than the
        /// measured rate if the connection is young.
        score: f64,
        /// Current threshold, in packets per second.
        threshold: f64,
    },
    /// The side has as many rules as it has room for.
    NoCapacity,
    /// Its zone has reached its maximum number of rules.
    ZoneFull,
    /// The NIC does not support such a rule.
    Refused,
    /// The NIC installed the rule, but packets had no mark.
    Ineffective,
    /// Rules of this kind had no effect, so they are not requested for now.
    KindAside,
    /// The side recently had trouble.
    BackOff,
    /// There is no obstacle: the port is busy, or the direction awaits its next evaluation.
    Waiting,
}

impl NoRuleReason {
    /// Returns the name in `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            NoRuleReason::Off => "off",
            NoRuleReason::Protocol => "protocol",
            NoRuleReason::NoOffload => "no_offload",
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
    /// State of the rule.
    pub state: RuleState,
    /// Reason why there is no rule; `None` from [`RuleState::Requested`] on.
    pub reason: Option<NoRuleReason>,
    /// Time at which the rule entered its state, to 65 µs; without a rule, time of the last
    /// evaluation.
    pub since: Option<Nanos>,
    /// Side at which the packets arrive; `None` before the first evaluation.
    pub side: Option<Side>,
    /// Packets per second, by the last evaluations.
    pub rate: f64,
    /// Packets since the first one with the mark of the rule; for a bypass, packets that the NIC
    /// forwarded.
    pub hits: u64,
}

impl RuleView {
    /// View of both directions if rules are not enabled.
    pub const NONE: [RuleView; 2] = [RuleView {
        state: RuleState::None,
        reason: Some(NoRuleReason::Off),
        since: None,
        side: None,
        rate: 0.0,
        hits: 0,
    }; 2];
}
