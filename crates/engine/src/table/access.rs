// SPDX-License-Identifier: BSD-3-Clause
//! Stores what access lists have decided about each connection, and the counters of their rules.

use crate::api::{Config, DirectionAccess, RuleHits, Side};
use crate::base::{HugeRegion, MemoryUse, Nanos};
use acl::CtStates;
use std::sync::Arc;

/// What the lists have decided about a connection: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct ConnAccess {
    /// By direction, the originator's first: the counters of the rules that decided.
    pub(crate) rules: [[u32; 2]; 2],
    /// Packets and bytes of each direction that these counters have already.
    pub(crate) settled: [[u64; 2]; 2],
    pub(crate) decisions: [DirectionAccess; 2],
    /// True if a rule permits both directions, and related ICMP errors.
    pub(crate) reflects: bool,
    /// True if the connection gets no NIC rule.
    pub(crate) no_offload: bool,
    /// True if the next packet of either direction decides anew about both.
    pub(crate) is_open: bool,
    /// Side at which the originator's first packet arrived; `None` for a restored connection.
    pub(crate) side: Option<Side>,
    /// Number of the change of lists since which `rules` are right.
    pub(crate) epoch: u16,
}

const _: () = assert!(size_of::<ConnAccess>() == 64);

impl ConnAccess {
    /// No list was asked.
    pub(crate) const NONE: ConnAccess = ConnAccess {
        rules: [[u32::MAX; 2]; 2],
        settled: [[0; 2]; 2],
        decisions: [DirectionAccess::Undecided; 2],
        reflects: false,
        no_offload: false,
        is_open: false,
        side: None,
        epoch: 0,
    };

    /// These rules have decided about packets of the originator.
    pub(crate) fn begun(rules: [u32; 2], decision: DirectionAccess) -> Self {
        let mut access = Self::NONE;
        (access.rules[0], access.decisions[0]) = (rules, decision);
        access
    }

    /// These rules permit both directions. `settled` are the packets and bytes so far.
    pub(crate) fn reflected(rules: [u32; 2], settled: [[u64; 2]; 2]) -> Self {
        let decisions = [DirectionAccess::Permitted; 2];
        ConnAccess { rules: [rules; 2], settled, decisions, reflects: true, ..Self::NONE }
    }

    /// True if the lists have decided about packets of the originator only.
    pub(crate) fn is_half_decided(&self) -> bool {
        self.decisions[1] == DirectionAccess::Undecided
            && self.decisions[0] != DirectionAccess::Undecided
    }

    /// True if packets of a direction have to be compared with the lists, or dropped.
    pub(crate) fn is_checked(&self) -> bool {
        let needs_check = |decision: &DirectionAccess| {
            !matches!(decision, DirectionAccess::Undecided | DirectionAccess::Permitted)
        };
        self.is_open || self.decisions.iter().any(needs_check)
    }
}

/// The decisions about all connections of a table, and the counters of all rules.
pub(crate) struct AccessColumn {
    pub(crate) conns: HugeRegion<ConnAccess>,
    pub(crate) hits: Vec<RuleHits>,
    /// Number of changes of the lists so far.
    pub(crate) epoch: u16,
    /// New counters of the rules before the last change.
    from_old: Arc<[u32]>,
    pub(crate) searched: Searched,
}

/// The last packet that was compared with the lists, for whoever explains decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Searched {
    /// Packets compared so far.
    pub(crate) packets: u64,
    pub(crate) ct: CtStates,
    /// Counters of the rules that decided.
    pub(crate) rules: [u32; 2],
}

impl AccessColumn {
    /// Allocates the column of a table with `len` records; `None` if there are no lists.
    pub(super) fn new(len: usize, config: &Config) -> Option<Self> {
        let lists = config.access.as_ref()?;
        Some(Self {
            conns: HugeRegion::new(len, ConnAccess::NONE, config.huge_pages),
            hits: vec![RuleHits::default(); lists.counters()],
            epoch: 0,
            from_old: Arc::new([]),
            searched: Searched { packets: 0, ct: CtStates::NEW, rules: [u32::MAX; 2] },
        })
    }

    /// Replaces the counters, and adds the old ones to those of the same rules. Returns the old
    /// counters and the old map.
    pub(crate) fn replace(
        &mut self,
        mut hits: Vec<RuleHits>,
        from_old: Arc<[u32]>,
    ) -> (Vec<RuleHits>, Arc<[u32]>) {
        for (old, rule) in self.hits.iter().zip(from_old.iter()) {
            if let Some(new) = hits.get_mut(*rule as usize) {
                new.merge(*old);
            }
        }
        self.epoch = self.epoch.wrapping_add(1);
        (std::mem::replace(&mut self.hits, hits), std::mem::replace(&mut self.from_old, from_old))
    }

    /// Returns the counters of the rules that decided about a direction of a connection, in the
    /// numbers of today.
    pub(crate) fn rules_of(&self, access: &ConnAccess, direction: usize) -> [u32; 2] {
        let today = |rule: u32| self.from_old.get(rule as usize).copied().unwrap_or(u32::MAX);
        match access.epoch == self.epoch {
            true => access.rules[direction],
            false => access.rules[direction].map(today),
        }
    }

    /// Adds packets to the counters of these rules.
    pub(crate) fn add(&mut self, rules: [u32; 2], [packets, bytes]: [u64; 2], now: Nanos) {
        for rule in rules {
            if let Some(hits) = self.hits.get_mut(rule as usize) {
                hits.merge(RuleHits { packets, bytes, last: now });
            }
        }
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        self.conns.memory()
    }
}
