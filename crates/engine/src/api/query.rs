// SPDX-License-Identifier: BSD-3-Clause
//! Questions about connections, the place where a walk stands, and the answers.

use super::filter::Filter;
use super::flow_record::FlowRecord;
use super::proto_state::ProtoState;
use super::rule_view::RuleView;
use crate::base::Nanos;

/// Which flows somebody asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only those that it means.
    pub filter: Filter,
    /// Only those that have a rule, or are to have one. That is a short walk: it goes through what
    /// marks can name.
    pub has_rules: bool,
    /// Whether to tell what is known of NIC rules: that takes longer than all the rest.
    pub with_rules: bool,
}

/// How far a walk has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) is_v6: bool,
    pub(crate) next: u32,
    /// When a walk that changes flows, or ends them, began.
    pub(crate) since: Option<Nanos>,
}

/// A connection that is alive.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnView {
    /// The record that it would leave if the engine were flushed now.
    pub record: FlowRecord,
    /// How far it has come.
    pub progress: ProtoState,
    /// Both ends have shown that they want it.
    pub is_assured: bool,
    /// When it ends if no packet comes before.
    pub expires: Nanos,
    /// Rules of the packets from `src` to `dst`, and of those that come back.
    pub rules: Option<[RuleView; 2]>,
}

/// How a zone stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneStatus {
    /// Connections that it has, of both IP versions.
    pub connections: u32,
    /// Those of them that are embryonic.
    pub embryonic: u32,
    /// Connections that began in the last full second.
    pub begun: u32,
}

/// What a part of a walk that ends flows has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepProgress {
    /// Flows that it has ended.
    pub ended: u32,
    /// Flows that it would have ended, but the NIC forwards them by itself: it was told to stop,
    /// and what it has counted is on its way. They are for another walk from the beginning.
    pub held: u32,
    /// There is more to walk.
    pub more: bool,
}

impl Cursor {
    /// The beginning of another walk that ends flows, and those only that were there when this one
    /// began.
    pub fn again(self) -> Self {
        Self { since: self.since, ..Self::default() }
    }

    /// When the walk began, if not `now`.
    pub(crate) fn since(&mut self, now: Nanos) -> Nanos {
        *self.since.get_or_insert(now)
    }
}
