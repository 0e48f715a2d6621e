// SPDX-License-Identifier: BSD-3-Clause
//! Owns the access lists of a pair, ready to be searched, and the counters of their rules.

use super::ethernet_access::{EthernetBinding, EthernetLists, SearchedFrames};
use super::list_places::{Chains, ListDirection, bind, names_of, places_of};
use super::offload::Side;
use crate::base::Nanos;
use acl::{
    AccessList, Action, CtStates, EthernetList, ListDiff, Rule, RuleOptions, Search, SearchError,
    SearchSize,
};
use std::fmt;
use std::sync::Arc;

/// A list, and the ports that it is bound to.
#[derive(Clone, Debug)]
pub struct ListBinding {
    /// The list.
    pub list: Arc<AccessList>,
    /// Ports and directions. At most one list is bound to each.
    pub places: Vec<(Side, ListDirection)>,
}

/// Error: these lists cannot be bound together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// Two lists, by index, have the same port and direction.
    SamePlace([usize; 2]),
    /// The search of the list with this index would be too large.
    TooLarge(usize, SearchError),
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessError::SamePlace([first, second]) => {
                write!(f, "lists {first} and {second} are bound to the same port and direction")
            }
            AccessError::TooLarge(list, error) => write!(f, "list {list}: {error}"),
        }
    }
}

impl std::error::Error for AccessError {}

/// A list with its search.
#[derive(Debug)]
pub(crate) struct SearchedList {
    pub(crate) list: Arc<AccessList>,
    pub(crate) search: Search,
    /// Number of its first rule among the rules of all lists. Its default follows the last rule.
    pub(crate) first_rule: u32,
    /// Rules that only count.
    pub(crate) count_rules: Vec<u32>,
    /// True if a rule or the default denies or rejects.
    pub(crate) denies: bool,
    /// True if a rule names the state `invalid`.
    pub(crate) mentions_invalid: bool,
}

impl SearchedList {
    fn new(list: &Arc<AccessList>, first_rule: u32, max_bytes: usize) -> Result<Self, SearchError> {
        let search = Search::within(list, max_bytes)?;
        let counts = |(_, rule): &(u32, &Rule)| rule.action == Action::Count;
        let count_rules = (0..).zip(&list.rules).filter(counts).map(|(index, _)| index).collect();
        let refuses = |action: Action| !action.permits() && action != Action::Count;
        let denies = refuses(list.default) || list.rules.iter().any(|rule| refuses(rule.action));
        let names_invalid = |ct: CtStates| ct != CtStates::ANY && ct.intersects(CtStates::INVALID);
        let mentions_invalid = list.rules.iter().any(|rule| names_invalid(rule.criteria.ct));
        Ok(Self { list: list.clone(), search, first_rule, count_rules, denies, mentions_invalid })
    }
}

/// Settings of all access lists of a pair, for each of its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessLimits {
    /// Most answers to rejected packets in a second.
    pub rejects_per_second: u32,
    /// Most packets that are logged in a second.
    pub logs_per_second: u32,
    /// Longest time for which a change of lists waits until NICs forward and drop no packets by
    /// themselves, in milliseconds.
    pub recall_ms: u32,
    /// True if NICs may drop packets that rules deny.
    pub nic_drop: bool,
}

impl Default for AccessLimits {
    fn default() -> Self {
        Self { rejects_per_second: 1000, logs_per_second: 100, recall_ms: 1000, nic_drop: false }
    }
}

/// The access lists of a pair. A packet is first judged by the list for arriving packets of its
/// port, then by the list for leaving packets of the other port. Both must permit it.
#[derive(Debug)]
pub struct AccessLists {
    pub(crate) lists: Vec<SearchedList>,
    pub(crate) chains: Chains,
    /// Lists for frames that are not IP.
    pub(crate) ethernet: EthernetLists,
    /// Number of rules and defaults of all lists.
    rules: u32,
    /// True if a rule depends on the relation of a packet to connections.
    pub(crate) mentions_ct: bool,
    /// What each rule decides alone about packets that arrive at port A, and at port B.
    decisions: [Vec<RuleDecision>; 2],
    epoch: u32,
    /// True if a rule logs packets.
    pub(crate) logs: bool,
    /// True if a rule writes marks or labels.
    pub(crate) sets_marks: bool,
    limits: AccessLimits,
}

/// What a rule decides about packets that arrive at a port, if it is known to be the first that
/// matches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleDecision {
    /// Another list judges them too, or the rule does more than permit or deny, or is of another
    /// port's list.
    Open,
    Permit,
    /// They pass, and so do all packets of their connection.
    Reflect,
    Deny,
}

impl AccessLists {
    /// Builds the searches of these lists.
    ///
    /// # Errors
    /// [`AccessError`] if two lists have the same place, or a search would be too large.
    pub fn new(bindings: &[ListBinding]) -> Result<Self, AccessError> {
        Self::within(bindings, usize::MAX)
    }

    /// Builds the searches of these lists, if they need at most this memory together.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if they need more memory.
    pub fn within(bindings: &[ListBinding], max_bytes: usize) -> Result<Self, AccessError> {
        let mut bytes_left = max_bytes;
        let mut lists = Vec::with_capacity(bindings.len());
        let mut chains = [[None; 2]; 2];
        let mut rules = 0;
        for (index, ListBinding { list, places }) in bindings.iter().enumerate() {
            let searched = SearchedList::new(list, rules, bytes_left)
                .map_err(|error| AccessError::TooLarge(index, error))?;
            bytes_left = bytes_left.saturating_sub(searched.search.size().bytes);
            lists.push(searched);
            rules += list.rules.len() as u32 + 1;
            bind(&mut chains, places, index).map_err(AccessError::SamePlace)?;
        }
        let any = |is: fn(&Rule) -> bool| bindings.iter().any(|of| of.list.rules.iter().any(is));
        let mentions_ct = any(|rule| rule.criteria.ct != CtStates::ANY);
        let decisions = chains.map(|chain| rule_decisions((&lists, rules), chain));
        let logs = any(|rule| rule.options.log);
        let sets_marks = any(|rule| rule.options.sets_marks());
        Ok(Self {
            lists,
            chains,
            ethernet: EthernetLists::default(),
            rules,
            mentions_ct,
            decisions,
            epoch: 0,
            logs,
            sets_marks,
            limits: AccessLimits::default(),
        })
    }

    /// Returns these lists with a number that no earlier lists of the run have.
    pub fn with_epoch(self, epoch: u32) -> Self {
        Self { epoch, ..self }
    }

    /// Returns the number of these lists among those of the run.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns what a rule, by its counter, decides alone about packets that arrive at this side.
    #[inline(always)]
    pub(crate) fn decision_of(&self, side: Side, rule: u32) -> RuleDecision {
        let decision = self.decisions[side as usize].get(rule as usize);
        decision.copied().unwrap_or(RuleDecision::Open)
    }

    /// Returns these lists with other limits.
    #[must_use]
    pub fn with_limits(self, limits: AccessLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the limits.
    pub fn limits(&self) -> AccessLimits {
        self.limits
    }

    /// True if both have the same limits, and the same lists with the same rules, bound to the same
    /// ports.
    pub fn is_same(&self, other: &AccessLists) -> bool {
        self.limits == other.limits
            && (self.chains, self.ethernet.chains) == (other.chains, other.ethernet.chains)
            && self.lists().eq(other.lists())
            && self.ethernet_lists().eq(other.ethernet_lists())
    }

    /// Returns the places that the list with this index is bound to.
    pub fn places(&self, list: usize) -> Vec<(Side, ListDirection)> {
        places_of(&self.chains, list)
    }

    /// Returns the first list that judges packets which arrive at this side, the number of its
    /// first rule among the counters, and the list that judges them after it, if there is one.
    pub fn first_list(&self, side: Side) -> Option<(&AccessList, u32, Option<&AccessList>)> {
        let mut of_side = self.chains[side as usize].iter().flatten().map(|at| &self.lists[*at]);
        let first = of_side.next()?;
        Some((&first.list, first.first_rule, of_side.next().map(|after| &*after.list)))
    }

    /// Numbers lists that are to replace others: these have been the last.
    pub fn set_epoch_after(&mut self, old: &AccessLists) {
        self.epoch = old.epoch.wrapping_add(1);
    }

    /// Returns the lists and their places, to build changed lists from.
    pub fn bindings(&self) -> Vec<ListBinding> {
        let lists = (0..).zip(self.lists());
        let bound =
            |(index, list)| ListBinding { list: Arc::clone(list), places: self.places(index) };
        lists.map(bound).collect()
    }

    /// Returns the names of the places that the list with this index is bound to: `a in`.
    pub fn place_names(&self, list: usize) -> Vec<String> {
        names_of(self.places(list))
    }

    /// Returns the names of the places that a list for frames that are not IP is bound to.
    pub fn ethernet_place_names(&self, list: usize) -> Vec<String> {
        names_of(self.ethernet_places(list))
    }

    /// Returns the lists that judge packets which arrive at this side, in their order.
    pub fn way(&self, side: Side) -> impl Iterator<Item = &AccessList> {
        let lists = self.chains[side as usize].iter().flatten();
        lists.map(|index| &*self.lists[*index].list)
    }

    /// Returns the lists.
    pub fn lists(&self) -> impl Iterator<Item = &Arc<AccessList>> {
        self.lists.iter().map(|searched| &searched.list)
    }

    /// Returns the size of the search of the list with this index.
    pub fn size(&self, list: usize) -> SearchSize {
        self.lists.get(list).map_or(SearchSize::default(), |searched| searched.search.size())
    }

    /// Returns these lists with others for frames that are not IP. Their rules have the counters
    /// behind those of all other lists.
    ///
    /// # Errors
    /// [`AccessError::SamePlace`] if two of them have the same place.
    pub fn with_ethernet(mut self, bindings: &[EthernetBinding]) -> Result<Self, AccessError> {
        let mut ethernet = EthernetLists::default();
        for (index, EthernetBinding { list, places }) in bindings.iter().enumerate() {
            ethernet.lists.push(SearchedFrames::new(list, self.rules));
            self.rules += list.rules.len() as u32 + 1;
            bind(&mut ethernet.chains, places, index).map_err(AccessError::SamePlace)?;
        }
        self.ethernet = ethernet;
        Ok(self)
    }

    /// Returns the lists for frames that are not IP and their places.
    pub fn ethernet_bindings(&self) -> Vec<EthernetBinding> {
        let lists = self.ethernet_lists().enumerate();
        let bound = |(index, list): (usize, &Arc<EthernetList>)| EthernetBinding {
            list: Arc::clone(list),
            places: self.ethernet_places(index),
        };
        lists.map(bound).collect()
    }

    /// Returns the lists for frames that are not IP.
    pub fn ethernet_lists(&self) -> impl Iterator<Item = &Arc<EthernetList>> {
        self.ethernet.lists.iter().map(|searched| &searched.list)
    }

    /// Returns the lists that judge frames which arrive at this side and are not IP, in their
    /// order.
    pub fn ethernet_way(&self, side: Side) -> impl Iterator<Item = &EthernetList> {
        let lists = self.ethernet.chains[side as usize].iter().flatten();
        lists.map(|index| &*self.ethernet.lists[*index].list)
    }

    /// Returns counters for the rules of all lists; none without lists for frames that are not IP.
    pub(crate) fn frame_counters(&self) -> Vec<RuleHits> {
        let counters = if self.ethernet.lists.is_empty() { 0 } else { self.counters() };
        vec![RuleHits::default(); counters]
    }

    /// Returns the places that the list with this index among those for frames is bound to.
    fn ethernet_places(&self, list: usize) -> Vec<(Side, ListDirection)> {
        places_of(&self.ethernet.chains, list)
    }

    /// Returns the number of counters: one for each rule of each list, in their order, and one for
    /// the default of each list behind its last rule. Lists for frames that are not IP come last.
    pub fn counters(&self) -> usize {
        self.rules as usize
    }

    /// Returns counters of these lists' rules, with what `hits` of `old` lists say about rules that
    /// are the same.
    pub fn carry_hits(&self, old: &AccessLists, hits: &[RuleHits]) -> Vec<RuleHits> {
        let mut carried = vec![RuleHits::default(); self.counters()];
        for (to, hits) in same_rules(old, self).into_iter().zip(hits) {
            if let Some(counter) = carried.get_mut(to as usize) {
                counter.merge(*hits);
            }
        }
        carried
    }

    /// Returns the memory of all searches, in bytes.
    pub fn bytes(&self) -> usize {
        self.lists.iter().map(|searched| searched.search.size().bytes).sum()
    }
}

/// Returns what each rule decides alone about packets that the lists of `chain` judge.
fn rule_decisions(
    (lists, rules): (&[SearchedList], u32),
    chain: [Option<usize>; 2],
) -> Vec<RuleDecision> {
    let mut decisions = vec![RuleDecision::Open; rules as usize];
    let Some(first) = chain.iter().flatten().next() else { return decisions };
    let is_alone = chain.contains(&None);
    let SearchedList { list, first_rule, .. } = &lists[*first];
    let is_plain = |rule: &Rule| rule.options == RuleOptions::default();
    let rules = list.rules.iter().map(|rule| (rule.action, is_plain(rule)));
    let rules = rules.chain([(list.default, true)]);
    for (decision, (action, is_plain)) in decisions.iter_mut().skip(*first_rule as usize).zip(rules)
    {
        *decision = match action {
            Action::Deny if is_plain => RuleDecision::Deny,
            Action::Permit if is_alone && is_plain => RuleDecision::Permit,
            Action::PermitReflect if is_alone && is_plain => RuleDecision::Reflect,
            _ => RuleDecision::Open,
        };
    }
    decisions
}

/// Access lists that are to replace others in an engine, with the memory that this takes.
#[derive(Debug)]
pub struct AccessUpdate {
    pub(crate) lists: Arc<AccessLists>,
    /// Counters of the new rules, for IPv4 and IPv6.
    pub(crate) hits: [Vec<RuleHits>; 2],
    /// Counters of the new rules for frames that are not IP.
    pub(crate) frame_hits: Vec<RuleHits>,
    /// New counter of each old rule; beyond all counters if it is gone.
    pub(crate) from_old: [Arc<[u32]>; 2],
    /// Of each rule, the number of marked packets that were compared with the lists.
    pub(crate) compared: Vec<u8>,
}

impl AccessUpdate {
    /// Prepares an update for one engine. A rule keeps its counter if the list with its name has
    /// the same rule before and after.
    pub fn new(old: &AccessLists, lists: Arc<AccessLists>) -> Self {
        let hits = vec![RuleHits::default(); lists.counters()];
        let from_old: Arc<[u32]> = same_rules(old, &lists).into();
        let compared = vec![0; lists.counters()];
        let (frame_hits, from_old) = (lists.frame_counters(), [from_old.clone(), from_old]);
        Self { lists, hits: [hits.clone(), hits], frame_hits, from_old, compared }
    }
}

/// Returns the counter in `new` of each rule in `old`; `u32::MAX` for rules that are gone.
fn same_rules(old: &AccessLists, new: &AccessLists) -> Vec<u32> {
    let mut counters = Vec::with_capacity(old.counters());
    for SearchedList { list, .. } in &old.lists {
        let Some(same) = new.lists.iter().find(|other| other.list.name == list.name) else {
            counters.extend(std::iter::repeat_n(u32::MAX, list.rules.len() + 1));
            continue;
        };
        let counter = |index: Option<u32>| index.map_or(u32::MAX, |index| same.first_rule + index);
        let rules = ListDiff::new(list, &same.list).renumbered;
        counters.extend(rules.into_iter().map(counter));
        let is_same_default = list.default == same.list.default;
        counters.push(counter(is_same_default.then_some(same.list.rules.len() as u32)));
    }
    counters.extend(old.ethernet.same_rules(&new.ethernet));
    counters
}

/// What access lists have said about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessTrace {
    /// The fields that rules are compared with.
    pub packet: acl::Packet,
    /// Counters of the rules that decided: of the list for packets that arrive, and of the list for
    /// packets that are to leave. `None` if there is no such list, or the first denied the packet.
    pub rules: [Option<u32>; 2],
    /// How the decision was found.
    pub source: AccessSource,
}

/// How the decision about a packet was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessSource {
    /// The packet was compared with the rules.
    Search,
    /// An earlier packet of its connection was; the packet follows that decision.
    Stored,
    /// No list judges such packets at this port, or the packet is a later fragment that follows its
    /// connection.
    NotAsked,
}

/// Packets that a rule, or the default of a list, has decided about or counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleHits {
    /// Number of packets.
    pub packets: u64,
    /// Frame bytes without FCS.
    pub bytes: u64,
    /// Time of the last packet; 0 if there was none.
    pub last: Nanos,
}

impl RuleHits {
    /// Adds the counters of another worker.
    pub fn merge(&mut self, other: RuleHits) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.last = self.last.max(other.last);
    }
}
