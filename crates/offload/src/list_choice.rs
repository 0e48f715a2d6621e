// SPDX-License-Identifier: BSD-3-Clause
//! Chooses the rules of access lists that a port is to have: those with the most packets, each only
//! together with all earlier rules that match some of its packets.
//!
//! The earlier rules have a higher priority in the port, so the mark of a packet always is that of
//! the first rule that matches it. A port without priorities gets only rules that match no packet
//! of an earlier one.

use std::collections::HashMap;
use std::fmt;
use wire::header_match::HeaderMatch;

/// A rule of access lists that a port without connections could apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRule {
    /// Its number, which its mark names. Earlier rules of a list have lower numbers.
    pub number: u32,
    /// The packets that it matches, apart from those of earlier rules. Each is a rule of the port.
    pub headers: Vec<HeaderMatch>,
    /// Earlier rules that match some of its packets.
    pub after: Vec<u32>,
    /// True if the port may drop its packets by itself.
    pub can_drop: bool,
    /// Packets so far.
    pub hits: u64,
}

/// A rule that the port is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its number.
    pub number: u32,
    /// Its priority: from 0, the highest, to one less than the levels of the port.
    pub level: u32,
    /// True if the port is to drop its packets instead of marking them.
    pub drops: bool,
}

/// Why a port is not to have a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotChosen {
    /// There is room for this many port rules only, and others have more packets.
    Room(usize),
    /// It must come after this rule, and the port has no such priority.
    Priorities(u32),
    /// It must come after this rule, which the port is not to have.
    Follows(u32),
    /// The port refused it.
    Refused(String),
}

impl fmt::Display for NotChosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotChosen::Room(room) => {
                write!(f, "no room: other rules with more packets take the {room} port rules")
            }
            NotChosen::Priorities(rule) => {
                write!(f, "overlaps rule {rule}, and the port has too few priorities")
            }
            NotChosen::Follows(rule) => {
                write!(f, "overlaps rule {rule}, which the port does not have")
            }
            NotChosen::Refused(words) => write!(f, "the port does not take it: {words}"),
        }
    }
}

/// The rules that a port is to have, and why it is not to have the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListChoice {
    /// In the order of their numbers.
    pub chosen: Vec<Chosen>,
    /// In the order of their numbers.
    pub others: Vec<(u32, NotChosen)>,
}

/// Chooses rules for a port that takes `room` rules, in this many levels of priority. It has
/// refused some rules before, with these words.
pub fn choose(
    rules: &[ListRule],
    (room, levels): (usize, u32),
    refused: &HashMap<u32, String>,
) -> ListChoice {
    let places: HashMap<u32, usize> =
        rules.iter().enumerate().map(|(place, rule)| (rule.number, place)).collect();
    let reasons = impossible(rules, levels, refused);
    let mut by_hits: Vec<usize> = (0..rules.len()).filter(|at| reasons[*at].is_none()).collect();
    by_hits.sort_by_key(|at| (std::cmp::Reverse(rules[*at].hits), rules[*at].number));
    let (mut is_in, mut left) = (vec![false; rules.len()], room);
    for at in by_hits {
        // The rule and all that must come before it. Those in the set have theirs in it too.
        let (mut group, mut open) = (Vec::new(), vec![at]);
        while let Some(at) = open.pop() {
            if !is_in[at] && !group.contains(&at) {
                group.push(at);
                open.extend(rules[at].after.iter().filter_map(|rule| places.get(rule)));
            }
            if group.len() > left {
                break;
            }
        }
        let wanted: usize = group.iter().map(|at| rules[*at].headers.len()).sum();
        if wanted <= left {
            left -= wanted;
            group.into_iter().for_each(|at| is_in[at] = true);
        }
    }
    let mut choice = ListChoice::default();
    for ((rule, is_in), reason) in rules.iter().zip(is_in).zip(reasons) {
        match reason {
            Some(reason) => choice.others.push((rule.number, reason)),
            None if is_in => {
                let level = level_of(rule, &choice.chosen);
                choice.chosen.push(Chosen { number: rule.number, level, drops: false });
            }
            None => choice.others.push((rule.number, NotChosen::Room(room))),
        }
    }
    choice
}

/// Lets the busiest of the chosen rules drop that may, and that the port has not refused to drop:
/// at most `most` port rules, with those of the rules that must come after them, which have to be
/// destroyed before.
pub(crate) fn choose_drops(
    rules: &[ListRule],
    choice: &mut ListChoice,
    (most, takes): (usize, impl Fn(u32) -> bool),
) {
    if most == 0 {
        return;
    }
    let place = |number: u32| rules.binary_search_by_key(&number, |rule| rule.number).ok();
    let places: Vec<_> = choice.chosen.iter().map(|one| place(one.number)).collect();
    let mut later: HashMap<usize, Vec<usize>> = HashMap::new();
    for at in places.iter().copied().flatten() {
        for before in rules[at].after.iter().filter_map(|number| place(*number)) {
            later.entry(before).or_default().push(at);
        }
    }
    let mut by_hits: Vec<_> = (0..places.len())
        .filter_map(|chosen| Some((chosen, places[chosen]?)))
        .filter(|(_, at)| rules[*at].can_drop && takes(rules[*at].number))
        .collect();
    by_hits.sort_by_key(|(_, at)| (std::cmp::Reverse(rules[*at].hits), rules[*at].number));
    let (mut goes, mut left) = (vec![false; rules.len()], most);
    for (chosen, at) in by_hits {
        let (mut group, mut open, mut wanted) = (Vec::new(), vec![at], 0);
        while let (Some(at), true) = (open.pop(), wanted <= left) {
            if !goes[at] {
                goes[at] = true;
                wanted += rules[at].headers.len();
                group.push(at);
                open.extend(later.get(&at).into_iter().flatten());
            }
        }
        if wanted <= left {
            left -= wanted;
            choice.chosen[chosen].drops = true;
        } else {
            group.into_iter().for_each(|at| goes[at] = false);
        }
    }
}

/// Returns for each rule why the port cannot have it, whatever the room; `None` if it can.
fn impossible(
    rules: &[ListRule],
    levels: u32,
    refused: &HashMap<u32, String>,
) -> Vec<Option<NotChosen>> {
    let mut possible: Vec<Chosen> = Vec::with_capacity(rules.len());
    let mut reasons = Vec::with_capacity(rules.len());
    for rule in rules {
        let has = |number: &u32| possible.binary_search_by_key(number, |one| one.number).is_ok();
        let level = level_of(rule, &possible);
        reasons.push(match refused.get(&rule.number) {
            Some(words) => Some(NotChosen::Refused(words.clone())),
            None => match rule.after.iter().find(|number| !has(number)) {
                Some(missing) => Some(NotChosen::Follows(*missing)),
                None if level >= levels => {
                    Some(NotChosen::Priorities(rule.after.last().copied().unwrap_or(0)))
                }
                None => None,
            },
        });
        if reasons.last() == Some(&None) {
            possible.push(Chosen { number: rule.number, level, drops: false });
        }
    }
    reasons
}

/// Returns the level behind all rules that must come before.
fn level_of(rule: &ListRule, chosen: &[Chosen]) -> u32 {
    let level = |number: &u32| {
        let at = chosen.binary_search_by_key(number, |one| one.number).ok()?;
        Some(chosen[at].level + 1)
    };
    rule.after.iter().filter_map(level).max().unwrap_or(0)
}
