// SPDX-License-Identifier: BSD-3-Clause
//! Makes the lists of `new_from` in `[acl]`: connections begin with packets of one port only.

use acl::{AccessList, Action, parse_rule};
use engine::{ListBinding, ListDirection, Side};
use std::sync::Arc;

/// Neighbour discovery of IPv6 (RFC 4861) and group membership (RFC 3376, 2710, 3810), which are no
/// connections. Neighbours of IPv4 are found by ARP, which lists do not judge.
const NEIGHBOURS: [&str; 2] = ["permit proto 2", "permit proto icmpv6 icmp-type 130-137,143"];

/// The key that makes two lists.
pub(super) const NEW_FROM: &str = "acl.new_from";

/// Returns the lists of `new_from`: connections begin with packets that arrive at this side.
pub(super) fn new_from(from: Side) -> [ListBinding; 2] {
    let list = |name: &str, rule: &str| {
        let rules = NEIGHBOURS.into_iter().chain([rule]);
        let rules = rules.filter_map(|rule| parse_rule(rule, &|_| None).ok()).collect();
        Arc::new(AccessList { name: name.into(), rules, default: Action::Deny })
    };
    let to = if from == Side::A { Side::B } else { Side::A };
    let bound = |list, side| ListBinding { list, places: vec![(side, ListDirection::In)] };
    [
        bound(list("new_from", "permit+reflect ct new"), from),
        bound(list("new_from (answers)", "permit ct established,related,reply"), to),
    ]
}
