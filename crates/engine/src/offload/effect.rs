// SPDX-License-Identifier: BSD-3-Clause
//! Tracks which kinds of rules have an effect: a NIC may accept rules that it does not carry out.
//! Kinds without effect are set aside, and tried again later.

use crate::api::{PROTO_TCP, Side};
use crate::base::Nanos;

/// Evaluations in a row at unmarked packets after which a rule counts as without effect.
pub(crate) const MISSES_MAX: u8 = 3;

/// Time from the installation of a rule until missing marks count, in nanoseconds.
pub(crate) const SETTLING: Nanos = 100_000_000;

/// Rules in a row without effect after which their kind is set aside. A kind that had an effect is
/// first in doubt, and set aside after as many again.
pub const INEFFECTIVE_MAX: u32 = 8;

/// How long a kind is set aside the first time, in nanoseconds. The time doubles with each
/// repetition.
const ASIDE: Nanos = 10_000_000_000;

const ASIDE_MAX: Nanos = 600_000_000_000;

/// Effect of the rules of one kind at one port.
#[derive(Clone, Copy, Debug)]
struct KindHealth {
    effective: u32,
    ineffective: u32,
    until: Nanos,
    next: Nanos,
}

/// Kind of a rule: rules of one kind have the same items.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RuleKind {
    /// Marks on UDP packets.
    Udp,
    /// Marks on TCP packets.
    Tcp,
    /// UDP packets that the NIC forwards.
    BypassUdp,
    /// TCP packets that the NIC forwards.
    BypassTcp,
}

impl RuleKind {
    /// Returns the kind of a mark rule for this IP protocol, TCP or UDP.
    pub(crate) fn marks_of(proto: u8) -> Self {
        if proto == PROTO_TCP { RuleKind::Tcp } else { RuleKind::Udp }
    }

    /// Returns the kind of a bypass rule for this IP protocol, TCP or UDP.
    pub(crate) fn bypass_of(proto: u8) -> Self {
        if proto == PROTO_TCP { RuleKind::BypassTcp } else { RuleKind::BypassUdp }
    }
}

/// Effect of all kinds of rules of one table, by side.
#[derive(Clone, Debug)]
pub(crate) struct RuleKinds([[KindHealth; 4]; 2]);

impl RuleKinds {
    pub(crate) fn new() -> Self {
        let class = KindHealth { effective: 0, ineffective: 0, until: 0, next: ASIDE };
        Self([[class; 4]; 2])
    }

    fn class(&mut self, side: Side, kind: RuleKind) -> &mut KindHealth {
        &mut self.0[side as usize][kind as usize]
    }

    /// True if rules of that kind are not requested now.
    pub(crate) fn is_suspended(&self, side: Side, kind: RuleKind, now: Nanos) -> bool {
        now < self.0[side as usize][kind as usize].until
    }

    /// Returns how many kinds of mark rules of a side are set aside.
    pub(crate) fn suspended(&self, side: Side, now: Nanos) -> u32 {
        let marks = &self.0[side as usize][..RuleKind::BypassUdp as usize];
        marks.iter().filter(|class| now < class.until).count() as u32
    }

    /// Notes that a rule has an effect.
    pub(crate) fn effect_seen(&mut self, side: Side, kind: RuleKind) {
        let class = self.class(side, kind);
        class.effective += 1;
        class.ineffective = 0;
        class.next = ASIDE;
    }

    /// Notes that a rule has no effect; sets its kind aside after too many.
    pub(crate) fn no_effect(&mut self, side: Side, kind: RuleKind, now: Nanos) {
        let class = self.class(side, kind);
        class.ineffective += 1;
        if class.effective == 0 && class.ineffective >= INEFFECTIVE_MAX {
            (class.ineffective, class.until) = (0, now.saturating_add(class.next));
            class.next = (2 * class.next).min(ASIDE_MAX);
        }
        // An effect seen once does not excuse the kind for ever.
        if class.ineffective >= INEFFECTIVE_MAX {
            (class.ineffective, class.effective) = (0, 0);
        }
    }
}
