// SPDX-License-Identifier: BSD-3-Clause
//! Keeps the rules of access lists in one port: those of the list that is the first to judge
//! packets which arrive there.

use crate::live::offload::port_rules::PortRules;
use acl::{AccessList, stateless_rules};
use engine::{AccessLists, MarkLayout, Nanos, Side};
use offload::{ListCounts, ListProgrammer, ListRule, ListRuleState};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender};

/// What the thread of a port is asked to do about lists.
pub(crate) enum ListRequest {
    /// Program these lists in place of those before.
    Replace(Arc<AccessLists>),
    /// Choose anew by the packets of each rule so far, by counter.
    Hits(Vec<u64>),
    /// Send a report.
    Report(SyncSender<ListReport>),
}

/// The end of the channel that other threads have.
pub(crate) type ListClient = Sender<ListRequest>;

/// The rules of access lists in a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListReport {
    /// Name of the list; `None` if no list judges packets that arrive here.
    pub(crate) list: Option<String>,
    /// Why no rule of the list can be in the port; `None` if some can.
    pub(crate) reason: Option<String>,
    pub(crate) epoch: u32,
    /// Most port rules, and levels of priority.
    pub(crate) room: usize,
    pub(crate) levels: u32,
    pub(crate) counts: ListCounts,
    /// Each rule of the list, by counter, and its state in the port. The last is the default.
    pub(crate) rules: Vec<(u32, ListRuleState)>,
    /// True if a rule has no room that others with fewer packets may have.
    pub(crate) is_short_of_room: bool,
}

/// The list of a port, and its rules there.
pub(crate) struct PortLists {
    programmer: ListProgrammer,
    side: Side,
    room: usize,
    levels: u32,
    /// Why the port takes no rules of lists.
    unable: Option<String>,
    lists: Arc<AccessLists>,
    /// Why rules stay in software, by counter.
    reasons: HashMap<u32, String>,
    requests: Receiver<ListRequest>,
}

impl PortLists {
    /// Makes the lists of the port at this side of a pair.
    pub(crate) fn new(
        (side, lists): (Side, Arc<AccessLists>),
        (layout, room, call_share): (MarkLayout, usize, u32),
        support: Result<u32, String>,
        requests: Receiver<ListRequest>,
    ) -> Self {
        let (levels, unable) = match support {
            Ok(levels) => (levels, None),
            Err(words) => (0, Some(words)),
        };
        let programmer = ListProgrammer::new(layout, (room, levels), call_share);
        let reasons = HashMap::new();
        let mut own = Self { programmer, side, room, levels, unable, lists, reasons, requests };
        own.program();
        own
    }

    /// Does what other threads have asked for, and makes at most one call of the driver. Returns
    /// when the next one may be made; `None` if there is nothing to do.
    pub(crate) fn step(
        &mut self,
        port: &mut PortRules,
        now: &mut impl FnMut() -> Nanos,
    ) -> Option<Nanos> {
        while let Ok(request) = self.requests.try_recv() {
            match request {
                ListRequest::Replace(lists) if lists.epoch() != self.lists.epoch() => {
                    self.lists = lists;
                    self.program();
                }
                // The lists of another pair have changed.
                ListRequest::Replace(_) => {}
                ListRequest::Hits(hits) => {
                    let hits = |rule: u32| hits.get(rule as usize).copied().unwrap_or(0);
                    self.programmer.set_hits(hits);
                }
                // Fails only if the client has given up waiting.
                ListRequest::Report(client) => _ = client.try_send(self.report()),
            }
        }
        self.programmer.step(port, now)
    }

    /// Notes that the port has lost all rules.
    pub(crate) fn forget_all(&mut self) {
        self.programmer.forget_all();
    }

    /// Destroys all rules, as long as `goes_on` returns true. False if some were left.
    pub(crate) fn clear(&mut self, port: &mut PortRules, goes_on: impl FnMut() -> bool) -> bool {
        self.programmer.clear(port, goes_on)
    }

    /// Finds the rules of the lists in force that may be in the port.
    fn program(&mut self) {
        self.reasons.clear();
        let mut rules = Vec::new();
        if let (None, Ok((list, first))) = (&self.unable, first_list(&self.lists, self.side)) {
            for (number, rule) in (first..).zip(stateless_rules(list)) {
                match rule {
                    Ok(rule) => rules.push(ListRule {
                        number,
                        headers: rule.headers,
                        after: rule.after.iter().map(|earlier| first + earlier).collect(),
                        hits: 0,
                    }),
                    Err(reason) => _ = self.reasons.insert(number, reason.to_string()),
                }
            }
        }
        self.programmer.replace(self.lists.epoch(), rules);
    }

    fn report(&self) -> ListReport {
        let (list, reason) = match first_list(&self.lists, self.side) {
            Ok((list, _)) => (Some(list.name.clone()), self.unable.clone()),
            Err((name, reason)) => (name, Some(reason)),
        };
        let left =
            |(number, reason): (&u32, &String)| (*number, ListRuleState::Left(reason.clone()));
        let mut rules = self.programmer.states();
        rules.extend(self.reasons.iter().map(left));
        rules.sort_by_key(|(number, _)| *number);
        ListReport {
            list,
            reason,
            epoch: self.lists.epoch(),
            room: self.room,
            levels: self.levels,
            counts: self.programmer.counts(),
            rules,
            is_short_of_room: self.programmer.is_short_of_room(),
        }
    }
}

/// Returns the list whose rules may be in the port of this side, and its first counter.
///
/// # Errors
///
/// Why there is none, and the name of the list, if there is one.
fn first_list(
    lists: &AccessLists,
    side: Side,
) -> Result<(&AccessList, u32), (Option<String>, String)> {
    match lists.first_list(side) {
        None => Err((None, "no list judges packets that arrive at this port".to_owned())),
        Some((list, _, Some(after))) => {
            let reason = format!("list {:?} judges the packets too, when they leave", after.name);
            Err((Some(list.name.clone()), reason))
        }
        Some((list, first, None)) => Ok((list, first)),
    }
}
