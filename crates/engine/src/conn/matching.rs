// SPDX-License-Identifier: BSD-3-Clause
//! Matches a filter with the record of a connection.

use super::record::ConnHot;
use crate::api::{Filter, has_ports};

impl Filter {
    /// True if the filter matches this live connection. Mark and label are not checked.
    pub(crate) fn matches<const W: usize>(&self, hot: &ConnHot<W>) -> bool {
        let (zone, proto) = (hot.key.zone(), hot.key.proto());
        if !self.matches_kind(zone, proto, hot.state().proto_state()) {
            return false;
        }
        if self.src.is_any() && self.dst.is_any() && self.either.is_any() {
            return true;
        }
        let parts = hot.key.parts();
        let port = |port| has_ports(proto).then_some(port);
        let ends = [(parts.low, port(parts.low_port)), (parts.high, port(parts.high_port))];
        let orig = usize::from(hot.originator() & 1);
        self.matches_ends(ends[orig], ends[1 - orig])
    }
}
