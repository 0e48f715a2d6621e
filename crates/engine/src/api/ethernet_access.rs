// SPDX-License-Identifier: BSD-3-Clause
//! Owns the lists of a pair for frames that are not IP, ready to be searched.

use super::list_places::{Chains, ListDirection};
use super::offload::Side;
use acl::{Action, EthernetList, EthernetSearch};
use std::sync::Arc;

/// A list for frames that are not IP, and the ports that it is bound to.
#[derive(Clone, Debug)]
pub struct EthernetBinding {
    /// The list.
    pub list: Arc<EthernetList>,
    /// Ports and directions. At most one list of this kind is bound to each.
    pub places: Vec<(Side, ListDirection)>,
}

/// A list with its search.
#[derive(Debug)]
pub(crate) struct SearchedFrames {
    pub(crate) list: Arc<EthernetList>,
    pub(crate) search: EthernetSearch,
    /// Number of its first rule among the rules of all lists. Its default follows the last rule.
    pub(crate) first_rule: u32,
    /// True if a rule or the default denies.
    pub(crate) denies: bool,
}

/// The lists of a pair for frames that are not IP.
#[derive(Debug, Default)]
pub(crate) struct EthernetLists {
    pub(crate) lists: Vec<SearchedFrames>,
    /// Indices of the lists that judge frames which arrive at port A, and at port B.
    pub(crate) chains: Chains,
}

impl SearchedFrames {
    pub(super) fn new(list: &Arc<EthernetList>, first_rule: u32) -> Self {
        let actions = list.rules.iter().map(|rule| rule.action).chain([list.default]);
        let denies = { actions }.any(|action| action == Action::Deny);
        Self { list: list.clone(), search: EthernetSearch::new(list), first_rule, denies }
    }
}

impl EthernetLists {
    /// Returns the counter in `new` of each rule here; `u32::MAX` for rules that are gone.
    pub(super) fn same_rules(&self, new: &EthernetLists) -> Vec<u32> {
        let mut counters = Vec::new();
        for SearchedFrames { list, .. } in &self.lists {
            let Some(same) = new.lists.iter().find(|other| other.list.name == list.name) else {
                counters.extend(std::iter::repeat_n(u32::MAX, list.rules.len() + 1));
                continue;
            };
            let (rules, first) = (&same.list.rules, same.first_rule);
            let mut is_taken = vec![false; rules.len()];
            for rule in &list.rules {
                let found = (0..rules.len()).find(|at| !is_taken[*at] && rules[*at] == *rule);
                found.into_iter().for_each(|at| is_taken[at] = true);
                counters.push(found.map_or(u32::MAX, |at| first + at as u32));
            }
            let is_same_default = list.default == same.list.default;
            counters.push(if is_same_default { first + rules.len() as u32 } else { u32::MAX });
        }
        counters
    }
}

/// What the lists for frames that are not IP have said about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTrace {
    /// The fields that rules are compared with.
    pub frame: acl::Frame,
    /// Counters of the rules that decided: of the list for frames that arrive, and of the list for
    /// frames that are to leave. `None` if there is no such list, or the first denied the frame.
    pub rules: [Option<u32>; 2],
}
