// SPDX-License-Identifier: BSD-3-Clause
//! Rules that do nothing: a NIC may take what it does not do. Whole classes of rules are set aside
//! then, and tried again later.

use crate::api::{PROTO_TCP, Side};
use crate::base::Nanos;

/// Looks in a row at packets without a mark that make a rule one without effect.
pub(crate) const MISSES_MAX: u8 = 3;

/// From when a rule is there until its marks are missed.
pub(crate) const SETTLING: Nanos = 100_000_000;

/// Rules without effect, where none has any, that are enough for all of their class.
const INEFFECTIVE_MAX: u32 = 8;

/// How long a class is set aside, the first time; twice as long each time.
const ASIDE: Nanos = 10_000_000_000;

const ASIDE_MAX: Nanos = 600_000_000_000;

/// Rules with the same items at the same port.
#[derive(Clone, Copy, Debug)]
struct KindHealth {
    effective: u32,
    ineffective: u32,
    until: Nanos,
    next: Nanos,
}

/// Which class of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RuleKind {
    /// Marks of UDP.
    Udp,
    /// Marks of TCP.
    Tcp,
    /// What the NIC forwards by itself.
    Bypass,
}

impl RuleKind {
    /// Of marks.
    pub(crate) fn marks_of(proto: u8) -> Self {
        if proto == PROTO_TCP { RuleKind::Tcp } else { RuleKind::Udp }
    }
}

/// The classes of one table.
#[derive(Clone, Debug)]
pub(crate) struct RuleKinds([[KindHealth; 3]; 2]);

impl RuleKinds {
    pub(crate) fn new() -> Self {
        let class = KindHealth { effective: 0, ineffective: 0, until: 0, next: ASIDE };
        Self([[class; 3]; 2])
    }

    fn class(&mut self, side: Side, kind: RuleKind) -> &mut KindHealth {
        &mut self.0[side as usize][kind as usize]
    }

    /// Whether rules of that kind are not asked for.
    pub(crate) fn is_aside(&self, side: Side, kind: RuleKind, now: Nanos) -> bool {
        now < self.0[side as usize][kind as usize].until
    }

    /// How many kinds of marks of a side are set aside.
    pub(crate) fn suspended(&self, side: Side, now: Nanos) -> u32 {
        let marks = &self.0[side as usize][..RuleKind::Bypass as usize];
        marks.iter().filter(|class| now < class.until).count() as u32
    }

    /// A rule has an effect.
    pub(crate) fn effect_seen(&mut self, side: Side, kind: RuleKind) {
        let class = self.class(side, kind);
        class.effective += 1;
        class.ineffective = 0;
        class.next = ASIDE;
    }

    /// A rule has none.
    pub(crate) fn no_effect(&mut self, side: Side, kind: RuleKind, now: Nanos) {
        let class = self.class(side, kind);
        class.ineffective += 1;
        if class.effective == 0 && class.ineffective >= INEFFECTIVE_MAX {
            (class.ineffective, class.until) = (0, now.saturating_add(class.next));
            class.next = (2 * class.next).min(ASIDE_MAX);
        }
        // What had an effect once is no excuse for ever.
        if class.ineffective >= INEFFECTIVE_MAX {
            (class.ineffective, class.effective) = (0, 0);
        }
    }
}
