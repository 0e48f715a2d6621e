// SPDX-License-Identifier: BSD-3-Clause
//! Programs the rules of access lists into a port, one call at a time.
//!
//! A rule is installed only after all rules that must come before it, and removed before they are.
//! So at any time the mark of a packet is that of the first rule of the list that matches it. While
//! a rule is missing, its packets have no mark, and the lists are searched for them.

mod drops;

pub use drops::DropsLeft;

use crate::list_choice::{Chosen, ListChoice, ListRule, choose, choose_drops};
use crate::pace::CallPacer;
use crate::port::{Refusal, RefusalClass};
use drops::{DropCounter, Drops};
use engine::{MarkLayout, Nanos};
use std::collections::{BTreeMap, HashMap, VecDeque};
use wire::header_match::HeaderMatch;

/// What a port does with the packets of a rule of access lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListAction {
    /// It puts this mark on them.
    Mark(u32),
    /// It counts and drops them.
    Drop,
}

/// A port that takes rules of access lists. Its calls wait for the result.
pub trait ListPort {
    /// Creates a rule for packets with these headers. Of two rules that match a packet, that of the
    /// lower level applies. Returns a number by which it is destroyed.
    ///
    /// # Errors
    /// If the port takes no such rule, or not now.
    fn create_list_rule(
        &mut self,
        action: ListAction,
        header: &HeaderMatch,
        level: u32,
    ) -> Result<u64, Refusal>;

    /// Returns the packets and bytes that a rule with [`ListAction::Drop`] has dropped since its
    /// creation; `None` if they cannot be read now. The NIC may update them with a delay.
    fn dropped_by(&mut self, number: u64) -> Option<[u64; 2]> {
        let _ = number;
        None
    }

    /// Says whether a rule with these headers may be created at all.
    ///
    /// # Errors
    /// If the port would apply it to other packets too.
    fn check_list_rule(&self, header: &HeaderMatch) -> Result<(), Refusal> {
        let _ = header;
        Ok(())
    }

    /// Destroys a rule.
    ///
    /// # Errors
    /// If the port still has it. It can be tried again.
    fn destroy_list_rule(&mut self, number: u64) -> Result<(), Refusal>;
}

/// A rule that the port has, or whose port rules are being created or destroyed.
#[derive(Clone, Debug)]
struct Installed {
    level: u32,
    drops: bool,
    /// The rules in the port, one for each header.
    rules: Vec<PortRule>,
}

/// A rule in the port.
#[derive(Clone, Copy, Debug)]
struct PortRule {
    /// The port's number of it.
    number: u64,
    /// Of a rule that drops, what was read of its counter.
    counter: Option<DropCounter>,
}

/// The rules of access lists in one port.
#[derive(Debug)]
pub struct ListProgrammer {
    layout: MarkLayout,
    room: usize,
    levels: u32,
    pacer: CallPacer,
    epoch: u32,
    rules: Vec<ListRule>,
    /// Packets of each rule at the last choice.
    seen: Vec<u64>,
    choice: ListChoice,
    /// Rules of the lists in force that the port has, by their numbers.
    installed: BTreeMap<u32, Installed>,
    /// Port rules of earlier lists, and of rules that could not be installed as a whole.
    old: VecDeque<PortRule>,
    /// Port rules that could not be destroyed.
    stuck: Vec<PortRule>,
    refused: HashMap<u32, String>,
    drops: Drops,
    counts: ListCounts,
}

/// Figures of the rules of access lists in a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCounts {
    /// Port rules that there are now.
    pub present: usize,
    /// Port rules created so far.
    pub created: u64,
    /// Port rules destroyed so far.
    pub destroyed: u64,
    /// Port rules that could not be destroyed.
    pub stuck: usize,
    /// Time of all calls, in nanoseconds.
    pub call_time: Nanos,
    /// Port rules that were destroyed, or lost in a reset, after they had dropped packets whose
    /// number could not be read.
    pub uncounted: u64,
}

/// State of a rule of access lists in a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRuleState {
    /// The port has it as these rules, and marks its packets.
    Present(Vec<u64>),
    /// The port has it as these rules, and drops its packets.
    Dropping(Vec<u64>),
    /// It is to be installed.
    Waiting,
    /// The port is not to have it, for this reason.
    Left(String),
}

impl ListProgrammer {
    /// Makes a programmer for a port that takes `room` port rules of lists, in this many levels of
    /// priority. Calls may take `share` of 256 parts of the time.
    pub fn new(layout: MarkLayout, (room, levels): (usize, u32), share: u32) -> Self {
        Self {
            layout,
            room,
            levels,
            pacer: CallPacer::new(share),
            epoch: 0,
            rules: Vec::new(),
            seen: Vec::new(),
            choice: ListChoice::default(),
            installed: BTreeMap::new(),
            old: VecDeque::new(),
            stuck: Vec::new(),
            refused: HashMap::new(),
            drops: Drops::default(),
            counts: ListCounts::default(),
        }
    }

    /// Replaces all rules by those of lists with another epoch.
    pub fn replace(&mut self, epoch: u32, rules: Vec<ListRule>) {
        for (_, Installed { rules, .. }) in std::mem::take(&mut self.installed).into_iter().rev() {
            self.old.extend(rules);
        }
        // Their numbers are those of earlier lists.
        let left = self.old.iter_mut().chain(&mut self.stuck);
        left.filter_map(|rule| rule.counter.as_mut()).for_each(|counter| counter.rule = u32::MAX);
        // Rules that the marks cannot name stay in software.
        let can_be_named = |rule: &ListRule| rule.number < self.layout.list_rules();
        (self.epoch, self.rules) = (epoch, rules);
        self.rules.retain(can_be_named);
        self.seen = self.rules.iter().map(|rule| rule.hits).collect();
        self.refused.clear();
        self.drops.begin_lists();
        self.choose();
    }

    /// Returns the epoch of the lists.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// True if a rule has no room.
    pub fn is_short_of_room(&self) -> bool {
        self.choice.chosen.len() < self.rules.len() - self.refused.len()
    }

    /// Chooses anew by the packets of each rule so far. Those since the last call count twice as
    /// much as those before it.
    pub fn set_hits(&mut self, hits: impl Fn(u32) -> u64) {
        for (rule, seen) in self.rules.iter_mut().zip(&mut self.seen) {
            let packets = hits(rule.number);
            rule.hits = rule.hits / 2 + packets.saturating_sub(*seen);
            *seen = packets;
        }
        self.choose();
    }

    fn choose(&mut self) {
        self.choice = choose(&self.rules, (self.room, self.levels), &self.refused);
        let most = self.drops_max();
        let can_drop = |rule: u32| !self.drops.refused.contains_key(&rule);
        choose_drops(&self.rules, &mut self.choice, (most, can_drop));
    }

    /// Notes that the port has lost all rules.
    pub fn forget_all(&mut self) {
        self.counts.uncounted += self.dropping() as u64;
        self.installed.clear();
        self.old.clear();
        self.stuck.clear();
        self.counts.present = 0;
        self.pacer.reset();
    }

    /// Makes at most one call. Returns the time of the next one; `None` if there is nothing to do.
    pub fn step(
        &mut self,
        port: &mut impl ListPort,
        now: &mut impl FnMut() -> Nanos,
    ) -> Option<Nanos> {
        let begin = now();
        if begin < self.pacer.next() {
            return Some(self.pacer.next());
        }
        let has_read = self.read_due(port, begin);
        let has_removed = self.remove_one(port, begin);
        let has_called = has_removed || !self.drops.are_stopped && self.install_one(port, begin);
        if !has_called && !has_read {
            return self.drops.next_reading();
        }
        let end = now();
        if has_removed {
            self.drops.note_removal(end.saturating_sub(begin));
        }
        self.counts.call_time += end.saturating_sub(begin);
        self.pacer.took(begin, end);
        Some(self.pacer.next())
    }

    /// Destroys a port rule that is to go, if there is one.
    fn remove_one(&mut self, port: &mut impl ListPort, now: Nanos) -> bool {
        if self.old.is_empty() {
            // The last one first: no rule outlives one that must come before it.
            let is_wanted = |number: u32, rule: &Installed| {
                let at = self.choice.chosen.binary_search_by_key(&number, |one| one.number);
                let is_as_chosen =
                    |one: &Chosen| (one.level, one.drops) == (rule.level, rule.drops);
                at.is_ok_and(|at| is_as_chosen(&self.choice.chosen[at]))
            };
            let mut last_first = self.installed.iter().rev();
            let gone = last_first.find(|(number, rule)| !is_wanted(**number, rule));
            let Some((&number, _)) = gone else { return false };
            // Whatever must come after it goes too, and comes back if it is still chosen.
            let mut gone = vec![number];
            for &later in self.installed.keys().filter(|later| **later > number) {
                if self.is_after_any(later, &gone) {
                    gone.push(later);
                }
            }
            for number in gone.into_iter().rev() {
                self.old.extend(self.installed.remove(&number).into_iter().flat_map(|r| r.rules));
            }
        }
        // In the order in which they were added: the last rule of a list first.
        let Some(mut rule) = self.old.pop_front() else { return false };
        let is_counted = self.drops.read(port, &mut rule, now);
        match port.destroy_list_rule(rule.number) {
            Ok(()) => {
                self.counts.destroyed += 1;
                self.counts.present -= 1;
                self.counts.uncounted += u64::from(!is_counted);
            }
            Err(refusal) => {
                self.drops.failure = Some(refusal.words);
                self.stuck.push(rule);
            }
        }
        true
    }

    /// True if a rule must come after one of some others.
    fn is_after_any(&self, rule: u32, earlier: &[u32]) -> bool {
        let at = self.rules.binary_search_by_key(&rule, |one| one.number);
        at.is_ok_and(|at| self.rules[at].after.iter().any(|after| earlier.contains(after)))
    }

    /// Creates a port rule of the first rule that is not installed as a whole.
    fn install_one(&mut self, port: &mut impl ListPort, now: Nanos) -> bool {
        let is_missing = |chosen: &&Chosen| {
            let headers = self.headers(chosen.number).len();
            self.installed.get(&chosen.number).is_none_or(|rule| rule.rules.len() < headers)
        };
        let Some(&Chosen { number, level, drops }) = self.choice.chosen.iter().find(is_missing)
        else {
            return false;
        };
        let done = self.installed.get(&number).map_or(0, |rule| rule.rules.len());
        let header = self.headers(number)[done];
        let action = match drops {
            true => ListAction::Drop,
            false => ListAction::Mark(self.layout.encode_list_rule(number, self.epoch)),
        };
        let checked = match done {
            0 => self.headers(number).iter().try_for_each(|header| port.check_list_rule(header)),
            _ => Ok(()),
        };
        match checked.and_then(|()| port.create_list_rule(action, &header, level)) {
            Ok(created) => {
                let empty = Installed { level, drops, rules: Vec::new() };
                let counter = drops.then_some(DropCounter { rule: number, read: [0; 2] });
                let created = PortRule { number: created, counter };
                self.installed.entry(number).or_insert(empty).rules.push(created);
                self.counts.created += 1;
                self.counts.present += 1;
                self.pacer.reset_back_off();
            }
            Err(Refusal { class: RefusalClass::PortError, .. }) => self.pacer.back_off(now),
            Err(Refusal { words, .. }) if drops => {
                // It becomes a mark, unless the port does not take that either.
                self.drops.refused.insert(number, words);
                self.choose();
            }
            Err(Refusal { words, .. }) => {
                self.refused.insert(number, words);
                // Its other port rules go, since it is not chosen any more.
                self.choose();
            }
        }
        true
    }

    fn headers(&self, number: u32) -> &[HeaderMatch] {
        let at = self.rules.binary_search_by_key(&number, |one| one.number);
        at.map_or(&[], |at| &self.rules[at].headers)
    }

    /// Returns the figures.
    pub fn counts(&self) -> ListCounts {
        ListCounts { stuck: self.stuck.len(), ..self.counts }
    }

    /// Returns the state of each rule that the lists' rules were given for, in their order.
    pub fn states(&self) -> Vec<(u32, ListRuleState)> {
        let others: HashMap<u32, &_> =
            self.choice.others.iter().map(|(number, reason)| (*number, reason)).collect();
        let state = |rule: &ListRule| {
            let state = match (others.get(&rule.number), self.installed.get(&rule.number)) {
                (Some(reason), _) => ListRuleState::Left(reason.to_string()),
                (None, Some(installed)) if installed.rules.len() == rule.headers.len() => {
                    let numbers = installed.rules.iter().map(|rule| rule.number).collect();
                    match installed.drops {
                        true => ListRuleState::Dropping(numbers),
                        false => ListRuleState::Present(numbers),
                    }
                }
                (None, _) => ListRuleState::Waiting,
            };
            (rule.number, state)
        };
        self.rules.iter().map(state).collect()
    }

    /// Destroys all port rules, as long as `goes_on` returns true. Those that fail end with the
    /// port. False if some were left.
    pub fn clear(
        &mut self,
        port: &mut impl ListPort,
        now: Nanos,
        mut goes_on: impl FnMut() -> bool,
    ) -> bool {
        self.rules.clear();
        self.seen.clear();
        self.choose();
        while goes_on() {
            if !self.remove_one(port, now) {
                return true;
            }
        }
        self.read_drops(port, now);
        false
    }
}
