// SPDX-License-Identifier: BSD-3-Clause
//! Programs the rules of access lists into a port, one call at a time.
//!
//! A rule is installed only after all rules that must come before it, and removed before they are.
//! So at any time the mark of a packet is that of the first rule of the list that matches it. While
//! a rule is missing, its packets have no mark, and the lists are searched for them.

use crate::list_choice::{Chosen, ListChoice, ListRule, choose};
use crate::pace::CallPacer;
use crate::port::{Refusal, RefusalClass};
use engine::{MarkLayout, Nanos};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use wire::header_match::HeaderMatch;

/// A port that takes rules of access lists. Its calls wait for the result.
pub trait ListPort {
    /// Creates a rule that puts `mark` on packets with these headers. Of two rules that match a
    /// packet, that of the lower level applies. Returns a number by which it is destroyed.
    ///
    /// # Errors
    /// If the port takes no such rule, or not now.
    fn create_list_rule(
        &mut self,
        mark: u32,
        header: &HeaderMatch,
        level: u32,
    ) -> Result<u64, Refusal>;

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
    /// If the port still has it.
    fn destroy_list_rule(&mut self, number: u64) -> Result<(), Refusal>;
}

/// A rule that the port has, or whose port rules are being created or destroyed.
#[derive(Clone, Debug)]
struct Installed {
    level: u32,
    /// The port's numbers of its rules, one for each header.
    numbers: Vec<u64>,
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
    old: VecDeque<u64>,
    /// Port rules that could not be destroyed.
    stuck: HashSet<u64>,
    refused: HashMap<u32, String>,
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
}

/// State of a rule of access lists in a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRuleState {
    /// The port has it as these rules.
    Present(Vec<u64>),
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
            stuck: HashSet::new(),
            refused: HashMap::new(),
            counts: ListCounts::default(),
        }
    }

    /// Replaces all rules by those of lists with another epoch.
    pub fn replace(&mut self, epoch: u32, rules: Vec<ListRule>) {
        for (_, Installed { numbers, .. }) in std::mem::take(&mut self.installed).into_iter().rev()
        {
            self.old.extend(numbers);
        }
        // Rules that the marks cannot name stay in software.
        let can_be_named = |rule: &ListRule| rule.number < self.layout.list_rules();
        (self.epoch, self.rules) = (epoch, rules);
        self.rules.retain(can_be_named);
        self.seen = self.rules.iter().map(|rule| rule.hits).collect();
        self.refused.clear();
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
    }

    /// Notes that the port has lost all rules.
    pub fn forget_all(&mut self) {
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
        let has_called = self.remove_one(port) || self.install_one(port, begin);
        if !has_called {
            return None;
        }
        let end = now();
        self.counts.call_time += end.saturating_sub(begin);
        self.pacer.took(begin, end);
        Some(self.pacer.next())
    }

    /// Destroys a port rule that is to go, if there is one.
    fn remove_one(&mut self, port: &mut impl ListPort) -> bool {
        if self.old.is_empty() {
            // The last one first: no rule outlives one that must come before it.
            let is_wanted = |number: u32, level: u32| {
                let at = self.choice.chosen.binary_search_by_key(&number, |one| one.number);
                at.is_ok_and(|at| self.choice.chosen[at].level == level)
            };
            let mut last_first = self.installed.iter().rev();
            let gone = last_first.find(|(number, rule)| !is_wanted(**number, rule.level));
            let Some((&number, _)) = gone else { return false };
            // Whatever must come after it goes too, and comes back if it is still chosen.
            let mut gone = vec![number];
            for &later in self.installed.keys().filter(|later| **later > number) {
                if self.is_after_any(later, &gone) {
                    gone.push(later);
                }
            }
            for number in gone.into_iter().rev() {
                self.old.extend(self.installed.remove(&number).into_iter().flat_map(|r| r.numbers));
            }
        }
        // In the order in which they were added: the last rule of a list first.
        let Some(number) = self.old.pop_front() else { return false };
        match port.destroy_list_rule(number) {
            Ok(()) => {
                self.counts.destroyed += 1;
                self.counts.present -= 1;
            }
            Err(_) => _ = self.stuck.insert(number),
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
            self.installed.get(&chosen.number).is_none_or(|rule| rule.numbers.len() < headers)
        };
        let Some(&Chosen { number, level }) = self.choice.chosen.iter().find(is_missing) else {
            return false;
        };
        let done = self.installed.get(&number).map_or(0, |rule| rule.numbers.len());
        let header = self.headers(number)[done];
        let mark = self.layout.encode_list_rule(number, self.epoch);
        let checked = match done {
            0 => self.headers(number).iter().try_for_each(|header| port.check_list_rule(header)),
            _ => Ok(()),
        };
        match checked.and_then(|()| port.create_list_rule(mark, &header, level)) {
            Ok(created) => {
                let empty = Installed { level, numbers: Vec::new() };
                self.installed.entry(number).or_insert(empty).numbers.push(created);
                self.counts.created += 1;
                self.counts.present += 1;
                self.pacer.reset_back_off();
            }
            Err(Refusal { class: RefusalClass::PortError, .. }) => self.pacer.back_off(now),
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
                (None, Some(installed)) if installed.numbers.len() == rule.headers.len() => {
                    ListRuleState::Present(installed.numbers.clone())
                }
                (None, _) => ListRuleState::Waiting,
            };
            (rule.number, state)
        };
        self.rules.iter().map(state).collect()
    }

    /// Destroys all port rules, as long as `goes_on` returns true. Those that fail end with the
    /// port. False if some were left.
    pub fn clear(&mut self, port: &mut impl ListPort, mut goes_on: impl FnMut() -> bool) -> bool {
        self.rules.clear();
        self.seen.clear();
        self.choose();
        while goes_on() {
            if !self.remove_one(port) {
                return true;
            }
        }
        false
    }
}
