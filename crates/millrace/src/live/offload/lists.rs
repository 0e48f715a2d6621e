// SPDX-License-Identifier: BSD-3-Clause
//! Keeps the rules of access lists in one port: those of the list that is the first to judge
//! packets which arrive there.

use crate::live::offload::port_rules::PortRules;
use acl::{AccessList, NotDropped, stateless_rules};
use engine::{AccessLists, MarkLayout, Nanos, RuleHits, Side};
use offload::{DropsLeft, ListCounts, ListProgrammer, ListRule, ListRuleState};
use results::units;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::Duration;

/// What the thread of a port is asked to do about lists.
pub(crate) enum ListRequest {
    /// Program these lists in place of those before. If they are the same, go on with them.
    Replace(Arc<AccessLists>),
    /// Drop no packets until the next [`Replace`](Self::Replace), and send what is left to do.
    StopDrops(SyncSender<DropsLeft>),
    /// Send the packets that the port has dropped, by counter of the lists in force.
    Dropped(SyncSender<Vec<RuleHits>>),
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
    /// Of rules that deny packets and only mark them in the port, by counter: why the port does not
    /// drop them. Empty unless it is to drop.
    pub(crate) why_marked: HashMap<u32, String>,
}

/// Which rules of lists a port takes.
pub(crate) struct ListAbility {
    /// Levels of priority.
    pub(crate) levels: u32,
    /// Time of each removal of a rule that drops, or why the port takes none.
    pub(crate) drops: Result<Vec<Duration>, String>,
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
    /// Why the port drops no packets; `None` if it may.
    cannot_drop: Option<String>,
    /// Rules that deny, by counter, and why the port must not drop their packets; `None` if it may.
    deny_rules: HashMap<u32, Option<NotDropped>>,
    /// Packets that the port has dropped, by counter of the lists in force.
    hits: Vec<RuleHits>,
    /// Packets that it has dropped since the start.
    denied: RuleHits,
    requests: Receiver<ListRequest>,
}

impl PortLists {
    /// Makes the lists of the port at this side of a pair.
    pub(crate) fn new(
        (side, lists): (Side, Arc<AccessLists>),
        (layout, room, call_share): (MarkLayout, usize, u32),
        support: Result<ListAbility, String>,
        requests: Receiver<ListRequest>,
    ) -> Self {
        let (levels, drops, unable) = match support {
            Ok(ListAbility { levels, drops }) => (levels, drops, None),
            Err(words) => (0, Err(words.clone()), Some(words)),
        };
        let mut programmer = ListProgrammer::new(layout, (room, levels), call_share);
        for removal in drops.iter().flatten() {
            programmer.note_removals(1, removal.as_nanos() as Nanos);
        }
        let mut own = Self {
            programmer,
            side,
            room,
            levels,
            unable,
            hits: vec![RuleHits::default(); lists.counters()],
            lists,
            reasons: HashMap::new(),
            cannot_drop: drops.err(),
            deny_rules: HashMap::new(),
            denied: RuleHits::default(),
            requests,
        };
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
                    self.note_dropped();
                    self.hits = lists.carry_hits(&self.lists, &self.hits);
                    self.lists = lists;
                    self.program();
                }
                // The lists of another pair have changed, or the change was refused.
                ListRequest::Replace(_) => self.programmer.resume_drops(),
                ListRequest::StopDrops(client) => {
                    self.programmer.stop_drops();
                    _ = client.try_send(self.programmer.drops_left());
                }
                ListRequest::Dropped(client) => {
                    self.programmer.read_drops(port, now());
                    self.note_dropped();
                    _ = client.try_send(self.hits.clone());
                }
                ListRequest::Hits(hits) => {
                    let hits = |rule: u32| hits.get(rule as usize).copied().unwrap_or(0);
                    self.programmer.set_hits(hits);
                }
                // Fails only if the client has given up waiting.
                ListRequest::Report(client) => _ = client.try_send(self.report()),
            }
        }
        let next = self.programmer.step(port, now);
        self.note_dropped();
        next
    }

    /// Takes what was read of the counters of rules that drop.
    fn note_dropped(&mut self) {
        for (rule, hits) in self.programmer.take_dropped() {
            self.denied.merge(hits);
            if let Some(counter) = self.hits.get_mut(rule as usize) {
                counter.merge(hits);
            }
        }
    }

    /// Returns the packets that the port has dropped since the start, and the number of port rules
    /// whose last packets are not among them.
    pub(crate) fn denied(&self) -> (RuleHits, u64) {
        (self.denied, self.programmer.counts().uncounted)
    }

    /// Notes that the port has lost all rules.
    pub(crate) fn forget_all(&mut self) {
        self.programmer.forget_all();
    }

    /// Destroys all rules, as long as `goes_on` returns true. False if some were left.
    pub(crate) fn clear(
        &mut self,
        port: &mut PortRules,
        now: Nanos,
        goes_on: impl FnMut() -> bool,
    ) -> bool {
        let is_clear = self.programmer.clear(port, now, goes_on);
        self.note_dropped();
        is_clear
    }

    /// Finds the rules of the lists in force that may be in the port.
    fn program(&mut self) {
        self.reasons.clear();
        self.deny_rules.clear();
        let limits = self.lists.limits();
        // Half of the time: the rest is for removals that take longer than those before.
        let bound = Nanos::from(limits.recall_ms) * 1_000_000 / 2;
        let may_drop = limits.nic_drop && self.cannot_drop.is_none();
        self.programmer.set_drop_bound(if may_drop { bound } else { 0 });
        let mut rules = Vec::new();
        if let (None, Ok((list, first))) = (&self.unable, first_list(&self.lists, self.side)) {
            for (number, rule) in (first..).zip(stateless_rules(list)) {
                match rule {
                    Ok(rule) => {
                        let after = rule.after.iter().map(|earlier| first + earlier).collect();
                        let can_drop = rule.drop.is_ok();
                        let (headers, hits) = (rule.headers, 0);
                        rules.push(ListRule { number, headers, after, can_drop, hits });
                        if rule.drop != Err(NotDropped::Action) {
                            self.deny_rules.insert(number, rule.drop.err());
                        }
                    }
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
            why_marked: self.why_marked(),
        }
    }

    /// Returns why the port does not drop the packets of rules that deny, by counter.
    fn why_marked(&self) -> HashMap<u32, String> {
        if !self.lists.limits().nic_drop {
            return HashMap::new();
        }
        let reason = |(number, why): (&u32, &Option<NotDropped>)| {
            let reason = match (&self.cannot_drop, why, self.programmer.why_marked(*number)) {
                (Some(words), ..) => format!("marked only: {words}"),
                (_, Some(why), _) => format!("marked only: {why}"),
                (_, _, Some(words)) => format!("marked only: the port does not drop: {words}"),
                _ => format!(
                    "marked only: the port removes {} rules that drop in half of `recall_ms`, at \
                     {} each",
                    self.programmer.drops_max(),
                    units::duration(self.programmer.removal_interval())
                ),
            };
            (*number, reason)
        };
        self.deny_rules.iter().map(reason).collect()
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
