// SPDX-License-Identifier: BSD-3-Clause
//! Counts the changes of access lists, and finds the rule that a handle of an earlier time names.

use acl::{AccessList, ListDiff};
use config::plan::ListContext;
use control::RuleHandle;
use engine::AccessLists;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Changes that are remembered.
const CHANGES_MAX: usize = 64;

/// Access lists of each pair; `None` for a pair without any.
pub(crate) type PairLists = Vec<Option<Arc<AccessLists>>>;

/// What is known of the access lists in force beside the lists.
#[derive(Default)]
pub(crate) struct ListState {
    /// What new rules are read with.
    pub(crate) context: ListContext,
    /// Number of changes so far.
    epoch: u32,
    /// The last changes, the newest one last: by name of the lists whose rules were renumbered, the
    /// new index of each rule, or `None` if it is gone.
    changes: VecDeque<HashMap<String, Vec<Option<u32>>>>,
}

/// Returns each list once, although it may be bound in several pairs.
pub(crate) fn each_list(lists: &PairLists) -> Vec<&Arc<AccessList>> {
    let mut found: Vec<&Arc<AccessList>> = Vec::new();
    for list in lists.iter().flatten().flat_map(|lists| lists.lists()) {
        if !found.iter().any(|other| other.name == list.name) {
            found.push(list);
        }
    }
    found
}

/// Returns the list with this name.
///
/// # Errors
/// The names of the lists, if there is none.
pub(crate) fn find_list<'a>(
    lists: &'a PairLists,
    name: &str,
) -> Result<&'a Arc<AccessList>, String> {
    let mut of_frames = lists.iter().flatten().flat_map(|lists| lists.ethernet_lists());
    if of_frames.any(|list| list.name == name) {
        return Err(format!(
            "list {name:?} judges frames that are not IP: change it in the configuration, and run \
             `millrace ct reload`"
        ));
    }
    let lists = each_list(lists);
    let found = lists.iter().find(|list| list.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = lists.iter().map(|list| format!("{:?}", list.name)).collect();
        match names.is_empty() {
            true => {
                "there are no access lists: add a [[list]] to the configuration and reload it, \
                     or restart an instance that began without lists"
                    .to_owned()
            }
            false => format!("there is no list {name:?}; the lists are {}", names.join(", ")),
        }
    })
}

impl ListState {
    pub(crate) fn new(context: ListContext) -> Self {
        Self { context, ..Self::default() }
    }

    /// Returns the number of changes of access lists so far.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Notes that other lists are in force.
    pub(crate) fn note_change(&mut self, old: &PairLists, new: &PairLists) {
        let mut renumbered = HashMap::new();
        let new = each_list(new);
        for list in each_list(old) {
            let rules = match new.iter().find(|other| other.name == list.name) {
                Some(same) if same.rules == list.rules => continue,
                Some(other) => ListDiff::new(list, other).renumbered,
                None => vec![None; list.rules.len()],
            };
            renumbered.insert(list.name.clone(), rules);
        }
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(renumbered);
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Returns the list and the index of the rule that a handle names.
    ///
    /// # Errors
    /// Why it names none now, and its handle of now if it has another number.
    pub(crate) fn find_rule<'a>(
        &self,
        lists: &'a PairLists,
        handle: &str,
    ) -> Result<(&'a Arc<AccessList>, u32), String> {
        let parsed: RuleHandle = handle.parse().map_err(|error| format!("{error}"))?;
        let list = find_list(lists, &parsed.list)?;
        let index = parsed.index;
        match self.epoch.wrapping_sub(parsed.epoch) as usize {
            0 if list.rules.len() > index as usize => Ok((list, index)),
            0 => Err(format!(
                "{handle}: list {:?} has {} rules; `millrace acl show` prints their handles",
                list.name,
                list.rules.len()
            )),
            age if age <= self.changes.len() => Err(self.old_handle((list, handle), index, age)),
            age if age <= self.epoch as usize => Err(format!(
                "{handle}: the lists have changed {age} times since, of which the last \
                 {CHANGES_MAX} are remembered; `millrace acl show` prints the handles of now"
            )),
            _ => Err(format!(
                "{handle}: the lists have changed {} times only; `millrace acl show` prints the \
                 handles of now",
                self.epoch
            )),
        }
    }

    /// Returns the text about a handle from before the last `age` changes.
    fn old_handle(&self, (list, handle): (&AccessList, &str), index: u32, age: usize) -> String {
        let mut index = Some(index);
        for change in self.changes.iter().skip(self.changes.len() - age) {
            if let (Some(rules), Some(number)) = (change.get(&list.name), index) {
                index = rules.get(number as usize).copied().flatten();
            }
        }
        let rule = index.and_then(|index| Some((index, list.rules.get(index as usize)?)));
        match rule {
            Some((index, rule)) => format!(
                "{handle}: the lists have changed since; the rule is {} now: {rule}",
                RuleHandle::new(&list.name, self.epoch, index)
            ),
            None => format!("{handle}: the lists have changed since, and the rule is gone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acl::{Action, parse_rule};
    use engine::ListBinding;

    /// Returns lists of two pairs: "l" with rules for these ports in both, and "m" in the second.
    fn lists(ports: &[u16]) -> PairLists {
        let list = |name: &str, ports: &[u16]| {
            let rule =
                |port: &u16| parse_rule(&format!("permit proto tcp dport {port}"), &|_| None);
            let rules = ports.iter().map(|port| rule(port).unwrap()).collect();
            let list = Arc::new(AccessList { name: name.into(), rules, default: Action::Deny });
            ListBinding { list, places: Vec::new() }
        };
        let (l, m) = (list("l", ports), list("m", &[7]));
        let pair = |lists: &[ListBinding]| Some(Arc::new(AccessLists::new(lists).unwrap()));
        vec![pair(std::slice::from_ref(&l)), pair(&[l.clone(), m]), None]
    }

    #[test]
    fn an_old_handle_is_refused_with_the_one_of_now() {
        let mut state = ListState::default();
        let versions: [&[u16]; 4] = [&[1, 2, 3], &[2, 1, 3], &[9, 2, 1], &[9, 2, 1, 3]];
        let versions = versions.map(lists);
        assert_eq!(state.find_rule(&versions[0], "l:0:1").unwrap().1, 1);
        for change in versions.windows(2) {
            state.note_change(&change[0], &change[1]);
        }
        let now = &versions[3];
        let refused = |handle| state.find_rule(now, handle).unwrap_err();
        assert_eq!(
            refused("l:0:0"),
            "l:0:0: the lists have changed since; the rule is l:3:2 now: permit proto tcp dport 1"
        );
        assert!(refused("l:1:0").contains("the rule is l:3:1 now"), "{}", refused("l:1:0"));
        assert!(refused("l:2:2").contains("the rule is l:3:2 now"), "{}", refused("l:2:2"));
        // The same rule has come back, but in between it was gone.
        assert_eq!(refused("l:1:2"), "l:1:2: the lists have changed since, and the rule is gone");
        assert!(refused("l:0:8").ends_with("the rule is gone"));
        assert!(refused("m:0:0").contains("the rule is m:3:0 now: permit proto tcp dport 7"));
        assert!(refused("l:3:4").contains("list \"l\" has 4 rules"));
        assert!(refused("l:4:0").contains("have changed 3 times only"));
        assert!(refused("l:4294967295:0").contains("have changed 3 times only"));
        assert!(refused("x:3:0").contains("there is no list \"x\"; the lists are \"l\", \"m\""));
        assert!(refused("l:3").contains("is no handle of a rule"));
        let (list, index) = state.find_rule(now, "l:3:3").unwrap();
        assert_eq!((list.name.as_str(), index), ("l", 3));
    }

    #[test]
    fn the_memory_of_changes_is_bounded() {
        let mut state = ListState::default();
        let (even, odd) = (lists(&[1, 2]), lists(&[2, 1]));
        for change in 0..100 {
            let versions = if change % 2 == 0 { [&even, &odd] } else { [&odd, &even] };
            state.note_change(versions[0], versions[1]);
        }
        assert_eq!(state.changes.len(), CHANGES_MAX);
        let refused = |handle| state.find_rule(&even, handle).unwrap_err();
        assert!(refused("l:36:0").contains("the rule is l:100:0 now"), "{}", refused("l:36:0"));
        assert!(refused("l:35:0").contains("have changed 65 times since, of which the last 64"));
    }
}
