// SPDX-License-Identifier: BSD-3-Clause
//! Owns queries about connections, the cursor of a walk, and the views that queries return.

use super::filter::Filter;
use super::flow_record::FlowRecord;
use super::rule_view::RuleView;
use crate::base::Nanos;

/// Selects connections, and what is returned of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Select only connections that match this filter.
    pub filter: Filter,
    /// Select only connections with a NIC rule, or with one that was requested.
    ///
    /// Such a walk is short: it goes through the slots of marks instead of all records.
    pub has_rules: bool,
    /// Also return the view of NIC rules, which takes longer than all the rest.
    pub with_rules: bool,
}

/// Position of a walk through all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) is_v6: bool,
    pub(crate) next: u32,
    /// Start time of a walk that changes or ends connections.
    pub(crate) since: Option<Nanos>,
}

/// View of a connection that is alive.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnView {
    /// Flow record that the connection would have if the engine were flushed now.
    pub record: FlowRecord,
    /// Time at which the connection ends without another packet.
    pub expires: Nanos,
    /// Rules for the packets from `src` to `dst`, and for those from `dst` to `src`.
    pub rules: Option<[RuleView; 2]>,
}

/// Numbers of connections of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneStatus {
    /// Connections of the zone, of both IP versions.
    pub connections: u32,
    /// Embryonic connections among them.
    pub embryonic: u32,
    /// Connections that began in the last full second.
    pub begun: u32,
}

/// Progress of one part of a walk that ends connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepProgress {
    /// Connections that this part ended.
    pub ended: u32,
    /// Connections that this part did not end because the NIC forwards them. Their bypass was
    /// stopped, and its counters are on the way. Another walk from the beginning ends them.
    pub held: u32,
    /// True if the walk is not complete.
    pub more: bool,
}

impl Cursor {
    /// Returns the cursor of a new walk, which ends only connections that existed when this walk
    /// began.
    pub fn again(self) -> Self {
        Self { since: self.since, ..Self::default() }
    }

    /// Returns the start time of the walk, which is `now` if it has not begun.
    pub(crate) fn since(&mut self, now: Nanos) -> Nanos {
        *self.since.get_or_insert(now)
    }
}
