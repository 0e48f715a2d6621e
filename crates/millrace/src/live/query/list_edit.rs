// SPDX-License-Identifier: BSD-3-Clause
//! Applies a change of rules to access lists: reads and checks it as a whole, and builds the lists
//! that result.

use crate::live::query::list_state::{ListState, PairLists, each_list, find_list};
use acl::{AccessList, ListDiff, Rule, SearchError, parse_rule, rule_lines};
use config::plan::ListContext;
use control::ListChange;
use engine::{AccessError, AccessLists, ListBinding};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A change of one rule, of the default of a list, or of a place that a list is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleChange {
    pub(crate) kind: ChangeKind,
    pub(crate) list: String,
    /// Index in the old list; `None` for a new rule, and for what is no rule.
    pub(crate) from: Option<u32>,
    /// Index in the new list; `None` for a removed rule, and for what is no rule.
    pub(crate) to: Option<u32>,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Removed,
    Moved,
}

impl ChangeKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Moved => "moved",
        }
    }
}

/// Lists that are to replace those in force.
pub(crate) struct NewLists {
    pub(crate) lists: PairLists,
    pub(crate) changes: Vec<RuleChange>,
}

/// A list that is being changed. The other lists stay.
struct Edit<'a> {
    list: &'a AccessList,
    rules: Vec<Rule>,
    changes: Vec<RuleChange>,
}

impl<'a> Edit<'a> {
    fn of(list: &'a AccessList) -> Self {
        Self { list, rules: list.rules.clone(), changes: Vec::new() }
    }

    fn note(&mut self, kind: ChangeKind, from: Option<u32>, to: Option<u32>, rule: &Rule) {
        let list = self.list.name.clone();
        self.changes.push(RuleChange { kind, list, from, to, text: rule.to_string() });
    }

    fn insert(&mut self, at: u32, rules: Vec<Rule>) {
        for (to, rule) in (at..).zip(&rules) {
            self.note(ChangeKind::Added, None, Some(to), rule);
        }
        self.rules.splice(at as usize..at as usize, rules);
    }

    /// Removes the rules with these indices, which rise.
    fn remove(&mut self, indices: &[u32]) {
        for &index in indices {
            self.note(ChangeKind::Removed, Some(index), None, &self.list.rules[index as usize]);
        }
        let mut index = 0;
        self.rules.retain(|_| {
            index += 1;
            indices.binary_search(&(index - 1)).is_err()
        });
    }
}

/// Returns the lists that a change of those in force results in.
///
/// # Errors
/// What is wrong with the change.
pub(crate) fn edit_lists(
    running: &PairLists,
    state: &ListState,
    change: &ListChange,
) -> Result<NewLists, String> {
    let mut edits = Vec::new();
    match change {
        ListChange::Add { list, at, rules } => {
            let mut edit = Edit::of(find_list(running, list)?);
            let at = place(edit.list, at.unwrap_or(edit.rules.len() as u32), "--at", 1)?;
            edit.insert(at, parse_rules(rules, &state.context)?);
            edits.push(edit);
        }
        ListChange::Delete { handles } => {
            let mut by_list: BTreeMap<&str, (&AccessList, Vec<u32>)> = BTreeMap::new();
            for handle in handles {
                let (list, index) = state.find_rule(running, handle)?;
                by_list.entry(&list.name).or_insert((list, Vec::new())).1.push(index);
            }
            for (list, mut indices) in by_list.into_values() {
                indices.sort_unstable();
                indices.dedup();
                let mut edit = Edit::of(list);
                edit.remove(&indices);
                edits.push(edit);
            }
        }
        ListChange::Replace { handle, rule } => {
            let (list, index) = state.find_rule(running, handle)?;
            let rules = parse_rules(std::slice::from_ref(rule), &state.context)?;
            if rules.len() > 1 {
                return Err(format!("{} rules in the place of one; write one", rules.len()));
            }
            let mut edit = Edit::of(list);
            edit.remove(&[index]);
            edit.insert(index, rules);
            edits.push(edit);
        }
        ListChange::Move { handle, to } => {
            let (list, from) = state.find_rule(running, handle)?;
            let to = place(list, *to, "--to", 0)?;
            let mut edit = Edit::of(list);
            let rule = edit.rules.remove(from as usize);
            edit.note(ChangeKind::Moved, Some(from), Some(to), &rule);
            edit.rules.insert(to as usize, rule);
            edits.push(edit);
        }
    }
    build(running, &state.context, edits)
}

/// Returns a place in a list, if it is before a rule or `behind` the last one.
fn place(list: &AccessList, place: u32, option: &str, behind: usize) -> Result<u32, String> {
    let places = list.rules.len() + behind;
    match (place as usize).checked_sub(places) {
        None => Ok(place),
        Some(_) => Err(format!(
            "{option} {place}: list {:?} has {} rules; write a number from 0 to {}",
            list.name,
            list.rules.len(),
            places.saturating_sub(1)
        )),
    }
}

/// Reads rules, one on each line of these texts. Lines are counted through all texts.
fn parse_rules(texts: &[String], context: &ListContext) -> Result<Vec<Rule>, String> {
    let has_unknown_set = Cell::new(false);
    let find_set = |name: &str| {
        let set = context.sets.get(name).cloned();
        has_unknown_set.set(set.is_none());
        set
    };
    let text = texts.join("\n");
    let mut rules = Vec::new();
    for (number, line) in rule_lines(&text) {
        let rule = parse_rule(line, &find_set).map_err(|error| {
            let sets = if has_unknown_set.get() { set_names(context) } else { String::new() };
            format!("line {number}, {error}{sets}")
        })?;
        rules.push(rule);
    }
    if rules.is_empty() {
        return Err("there is no rule in it; write one, such as 'deny proto tcp dport 23'".into());
    }
    Ok(rules)
}

/// Returns words about the sets that there are.
fn set_names(context: &ListContext) -> String {
    let mut names: Vec<_> = context.sets.keys().map(|name| format!("@{name}")).collect();
    names.sort_unstable();
    match names.is_empty() {
        true => "; there are no sets".to_owned(),
        false => format!("; the sets are {}", names.join(", ")),
    }
}

/// Builds the lists of each pair in which a list has changed.
fn build(running: &PairLists, context: &ListContext, edits: Vec<Edit>) -> Result<NewLists, String> {
    let mut edited = Vec::with_capacity(edits.len());
    let mut changes = Vec::new();
    for Edit { list, rules, changes: of_list } in edits {
        if rules.len() > AccessList::RULES_MAX {
            return Err(format!(
                "list {:?} would have {} rules; at most {} are allowed",
                list.name,
                rules.len(),
                AccessList::RULES_MAX
            ));
        }
        let AccessList { name, default, .. } = list;
        edited.push(Arc::new(AccessList { name: name.clone(), rules, default: *default }));
        changes.extend(of_list);
    }
    let replaced = |list: &Arc<AccessList>| edited.iter().find(|other| other.name == list.name);
    let lists = running.iter().enumerate().map(|(number, pair)| {
        let Some(lists) = pair else { return Ok(None) };
        if !lists.lists().any(|list| replaced(list).is_some()) {
            return Ok(Some(Arc::clone(lists)));
        }
        if let Some(keeps) = context.keeps.get(number) {
            for list in lists.lists().filter_map(replaced) {
                if let Some((rule, why)) = keeps.find_unkept(&list.rules) {
                    return Err(format!("list {:?}, {}: {why}", list.name, list.rules[rule]));
                }
            }
        }
        let mut bindings = lists.bindings();
        for ListBinding { list, .. } in &mut bindings {
            if let Some(other) = replaced(list) {
                *list = Arc::clone(other);
            }
        }
        let built = AccessLists::within(&bindings, (context.memory_mb as usize) << 20);
        let built = built.map_err(|error| refusal(&bindings, &error, context.memory_mb))?;
        let built = built.with_ethernet(&lists.ethernet_bindings());
        let built = built.map_err(|error| error.to_string())?;
        Ok(Some(Arc::new(built.with_limits(lists.limits()))))
    });
    Ok(NewLists { lists: lists.collect::<Result<_, String>>()?, changes })
}

/// Returns the words about lists that cannot be searched.
fn refusal(bindings: &[ListBinding], error: &AccessError, memory_mb: u32) -> String {
    match error {
        AccessError::TooLarge(at, SearchError::TooMuchMemory) => format!(
            "with list {:?}, the search needs more than {memory_mb} MB; raise memory_mb in [acl] \
             and run `millrace ct reload`, or write sets of networks",
            bindings[*at].list.name
        ),
        AccessError::TooLarge(at, error) => format!("list {:?}, {error}", bindings[*at].list.name),
        error => error.to_string(),
    }
}

/// Returns the changes that lead from the lists of `old` to those of `new`.
pub(crate) fn compare_lists(old: &PairLists, new: &PairLists) -> Vec<RuleChange> {
    let mut changes = Vec::new();
    let [of_old, of_new] = [old, new].map(each_list);
    let find = |lists: &[&Arc<AccessList>], name: &str| {
        let found = lists.iter().find(|list| list.name == name);
        found.map(|list| Arc::clone(list))
    };
    let names = of_old.iter().chain(&of_new).map(|list| &list.name);
    let frame_lists = [old, new].into_iter().flatten().flatten();
    let names =
        names.chain(frame_lists.flat_map(|lists| lists.ethernet_lists()).map(|list| &list.name));
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let versions = [find(&of_old, name), find(&of_new, name)];
        compare_list(&mut changes, name, versions.each_ref().map(Option::as_deref));
        // Rules for frames that are not IP have no handles.
        let [before, after] = [old, new].map(|lists| frame_rules(lists, name));
        let ListDiff { removed, added, moved, .. } = ListDiff::of_texts(&before, &after);
        let removed = removed.iter().map(|at| (ChangeKind::Removed, &before[*at as usize]));
        let added = added.iter().map(|at| (ChangeKind::Added, &after[*at as usize]));
        let moved = moved.iter().map(|(_, at)| (ChangeKind::Moved, &after[*at as usize]));
        changes.extend(removed.chain(added).chain(moved).map(|(kind, text)| RuleChange {
            kind,
            list: name.clone(),
            from: None,
            to: None,
            text: text.clone(),
        }));
        let [before, after] = [old, new].map(|lists| fixed_texts(lists, name));
        let other = |kind, text: &String| {
            let (list, text) = (name.clone(), text.clone());
            RuleChange { kind, list, from: None, to: None, text }
        };
        let gone = before.iter().filter(|text| !after.contains(text));
        changes.extend(gone.map(|text| other(ChangeKind::Removed, text)));
        let come = after.iter().filter(|text| !before.contains(text));
        changes.extend(come.map(|text| other(ChangeKind::Added, text)));
    }
    changes
}

/// Adds the changes of the rules of one list.
fn compare_list(changes: &mut Vec<RuleChange>, name: &str, lists: [Option<&AccessList>; 2]) {
    let empty = AccessList { name: name.to_owned(), rules: Vec::new(), default: acl::Action::Deny };
    let [old, new] = lists.map(|list| list.unwrap_or(&empty));
    let ListDiff { removed, added, moved, .. } = ListDiff::new(old, new);
    let mut add = |kind, from: Option<u32>, to: Option<u32>| {
        let rule = match (from, to) {
            (_, Some(to)) => &new.rules[to as usize],
            (from, None) => &old.rules[from.unwrap_or_default() as usize],
        };
        let list = name.to_owned();
        changes.push(RuleChange { kind, list, from, to, text: rule.to_string() });
    };
    removed.into_iter().for_each(|from| add(ChangeKind::Removed, Some(from), None));
    added.into_iter().for_each(|to| add(ChangeKind::Added, None, Some(to)));
    moved.into_iter().for_each(|(from, to)| add(ChangeKind::Moved, Some(from), Some(to)));
}

/// Returns the rules of a list for frames that are not IP; none if there is no such list.
fn frame_rules(lists: &PairLists, name: &str) -> Vec<String> {
    let mut lists = lists.iter().flatten().flat_map(|lists| lists.ethernet_lists());
    let list = lists.find(|list| list.name == name);
    list.map_or(Vec::new(), |list| list.rules.iter().map(ToString::to_string).collect())
}

/// Returns the default of a list, and the places that it is bound to, as text.
fn fixed_texts(lists: &PairLists, name: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for (pair, lists) in lists.iter().enumerate() {
        let Some(lists) = lists else { continue };
        for (index, list) in lists.lists().enumerate().filter(|(_, list)| list.name == name) {
            texts.push(format!("default {}", list.default));
            let places = lists.place_names(index).into_iter();
            texts.extend(places.map(|place| format!("port {place} of pair {pair}")));
        }
        let frames = lists.ethernet_lists().enumerate().filter(|(_, list)| list.name == name);
        for (index, list) in frames {
            texts.push(format!("default {}", list.default));
            let places = lists.ethernet_place_names(index).into_iter();
            texts.extend(places.map(|place| format!("port {place} of pair {pair}")));
        }
    }
    texts.sort_unstable();
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::plan::Keeps;
    use engine::{ListDirection, Side};

    fn parse(rule: &str) -> Rule {
        parse_rule(rule, &|_| None).unwrap()
    }

    /// Returns lists of two pairs: "l" in both, and "m" in the second.
    fn running() -> PairLists {
        let bound = |name: &str, rules: &[&str], side| {
            let rules = rules.iter().map(|rule| parse(rule)).collect();
            let default = acl::Action::Deny;
            let list = Arc::new(AccessList { name: name.into(), rules, default });
            ListBinding { list, places: vec![(side, ListDirection::In)] }
        };
        let l = bound("l", &["permit proto tcp", "permit proto udp", "deny"], Side::A);
        let m = bound("m", &["permit"], Side::B);
        let pair = |lists: &[ListBinding]| Some(Arc::new(AccessLists::new(lists).unwrap()));
        vec![pair(std::slice::from_ref(&l)), pair(&[l.clone(), m])]
    }

    fn edit(change: &ListChange) -> Result<NewLists, String> {
        edit_lists(&running(), &ListState::default(), change)
    }

    /// Returns the rules of "l" in both pairs, which must be the same.
    fn texts(lists: &PairLists) -> Vec<String> {
        let of_pair = |pair: &Option<Arc<AccessLists>>| {
            let lists = pair.as_ref().unwrap();
            let list = lists.lists().find(|list| list.name == "l").unwrap();
            list.rules.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of_pair(&lists[0]), of_pair(&lists[1]));
        of_pair(&lists[0])
    }

    #[test]
    fn a_list_changes_in_each_pair_that_has_it() {
        let add = ListChange::Add {
            list: "l".into(),
            at: Some(1),
            rules: vec!["count".into(), "# comment\n\ncount proto icmp".into()],
        };
        let NewLists { lists, changes } = edit(&add).unwrap();
        let expected =
            ["permit proto tcp", "count", "count proto icmp", "permit proto udp", "deny"];
        assert_eq!(texts(&lists), expected);
        let places: Vec<_> = changes.iter().map(|change| (change.from, change.to)).collect();
        assert_eq!(places, [(None, Some(1)), (None, Some(2))]);
        let second = lists[1].as_ref().unwrap();
        assert_eq!(second.place_names(0), ["a in"]);
        assert_eq!(second.place_names(1), ["b in"]);

        let delete =
            ListChange::Delete { handles: ["l:0:2", "m:0:0", "l:0:0"].map(Into::into).into() };
        let NewLists { lists, changes } = edit(&delete).unwrap();
        assert_eq!(texts(&lists), ["permit proto udp"]);
        assert_eq!(changes.len(), 3);
        assert_eq!(changes, compare_lists(&running(), &lists));

        let replace = ListChange::Replace { handle: "l:0:1".into(), rule: "reject".into() };
        let NewLists { lists, changes } = edit(&replace).unwrap();
        assert_eq!(texts(&lists), ["permit proto tcp", "reject", "deny"]);
        assert_eq!(changes, compare_lists(&running(), &lists));

        for (from, to, expected) in [
            ("l:0:0", 2, ["permit proto udp", "deny", "permit proto tcp"]),
            ("l:0:2", 0, ["deny", "permit proto tcp", "permit proto udp"]),
            ("l:0:1", 1, ["permit proto tcp", "permit proto udp", "deny"]),
        ] {
            let NewLists { lists, .. } =
                edit(&ListChange::Move { handle: from.into(), to }).unwrap();
            assert_eq!(texts(&lists), expected);
        }
        // The pair without the list keeps what it has.
        let m = ListChange::Delete { handles: vec!["m:0:0".into()] };
        let (before, state) = (running(), ListState::default());
        let lists = edit_lists(&before, &state, &m).unwrap().lists;
        assert!(Arc::ptr_eq(before[0].as_ref().unwrap(), lists[0].as_ref().unwrap()));
    }

    /// Lists for frames that are not IP are compared, stay when others change, and change by a
    /// reload only.
    #[test]
    fn lists_of_frames_stay_beside_others() {
        let with = |rules: &[&str]| -> PairLists {
            let rules = rules.iter().map(|rule| acl::parse_ethernet_rule(rule).unwrap()).collect();
            let default = acl::Action::Deny;
            let list = Arc::new(acl::EthernetList { name: "f".into(), rules, default });
            let places = vec![(Side::A, ListDirection::In)];
            let frames = engine::EthernetBinding { list, places };
            let of_packets = running()[0].as_ref().unwrap().bindings();
            let lists = AccessLists::new(&of_packets).unwrap().with_ethernet(&[frames]).unwrap();
            vec![Some(Arc::new(lists))]
        };
        let (state, lists) = (ListState::default(), with(&["permit ether-type arp"]));
        let delete = ListChange::Delete { handles: vec!["l:0:1".into()] };
        let edited = edit_lists(&lists, &state, &delete).unwrap().lists;
        let of_frames = |lists: &PairLists| lists[0].as_ref().unwrap().ethernet_bindings();
        let [before, after] = [&lists, &edited].map(|lists| of_frames(lists).remove(0));
        assert_eq!((before.list, before.places), (after.list, after.places));

        let add = ListChange::Add { list: "f".into(), at: None, rules: vec!["deny".into()] };
        let error = edit_lists(&lists, &state, &add).err().unwrap();
        assert!(error.contains("judges frames that are not IP"), "{error}");

        let new = with(&["deny ether-type lldp", "permit ether-type arp"]);
        let changes = compare_lists(&lists, &new);
        let found: Vec<_> = changes.iter().map(|it| (it.kind, it.to, it.text.as_str())).collect();
        assert_eq!(found, [(ChangeKind::Added, None, "deny ether-type lldp")]);
    }

    #[test]
    fn lists_that_are_too_large_are_refused() {
        let many = |count| {
            let rules = vec!["count proto tcp\n".repeat(count)];
            ListChange::Add { list: "l".into(), at: None, rules }
        };
        let error = edit(&many(AccessList::RULES_MAX)).err().unwrap();
        assert_eq!(error, "list \"l\" would have 65539 rules; at most 65536 are allowed");
        let mut state = ListState::default();
        state.context.memory_mb = 0;
        let error = edit_lists(&running(), &state, &many(1)).err().unwrap();
        assert!(error.contains("needs more than 0 MB; raise memory_mb in [acl]"), "{error}");
    }

    /// A rule that writes what connections do not keep is refused, as in a configuration.
    #[test]
    fn marks_that_are_not_kept_are_refused() {
        let mut state = ListState::default();
        state.context.keeps = vec![Keeps { marks: true, labels: false }; 2];
        let add = |rule: &str| ListChange::Add {
            list: "l".into(),
            at: None,
            rules: vec![rule.to_owned()],
        };
        assert!(edit_lists(&running(), &state, &add("permit set-mark 1")).is_ok());
        let error = edit_lists(&running(), &state, &add("permit set-label 1")).err().unwrap();
        assert!(error.contains("list \"l\", permit set-label 0x1: connections have no labels"));
    }

    /// A reload may also change defaults, places, and whole lists.
    #[test]
    fn all_changes_of_lists_are_told() {
        let list = |default| {
            let list =
                Arc::new(AccessList { name: "l".into(), rules: vec![parse("deny")], default });
            ListBinding { list, places: vec![(Side::A, ListDirection::Out)] }
        };
        let other = AccessLists::new(&[list(acl::Action::Permit)]).unwrap();
        let changes = compare_lists(&running(), &vec![Some(Arc::new(other)), None]);
        let text =
            |change: &RuleChange| format!("{} {} {}", change.kind.name(), change.list, change.text);
        let expected = [
            "removed l permit proto tcp",
            "removed l permit proto udp",
            "removed l default deny",
            "removed l port a in of pair 0",
            "removed l port a in of pair 1",
            "added l default permit",
            "added l port a out of pair 0",
            "removed m permit",
            "removed m default deny",
            "removed m port b in of pair 1",
        ];
        assert_eq!(changes.iter().map(text).collect::<Vec<_>>(), expected);
    }
}
