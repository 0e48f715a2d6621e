// SPDX-License-Identifier: BSD-3-Clause
//! Finds which lists of actions are accepted. It tries all lists of one and two actions, and lists
//! of three that extend an accepted list of two.

use super::attributes::bisect;
use super::bench::{Bench, Stopped};
use super::pattern::Pattern;
use super::steps::{lines_of, steps};
use super::subject::{Answer, RuleProbe};
use std::collections::{BTreeMap, BTreeSet};
use twin::personality::{ActionFacts, RefusalFacts, Steps};
use twin::rss::RssTypes;
use twin::{Action, Age, Attributes, Spread};

/// All actions; those that decide where a packet goes come first.
pub(super) const NAMES: [&str; 9] =
    ["queue", "rss", "drop", "passthru", "jump", "mark", "flag", "count", "age"];

/// A list of actions, by their names.
type List = Vec<&'static str>;

/// The number of the mark that the prober sets and looks for.
pub(super) const MARK: u32 = 0x1234;

pub(super) fn action(name: &str) -> Action {
    match name {
        "queue" => Action::Queue(0),
        "rss" => rss(&[0, 1]),
        "drop" => Action::Drop,
        "passthru" => Action::Passthru,
        "jump" => Action::Jump(1),
        "mark" => Action::Mark(MARK),
        "flag" => Action::Flag,
        "count" => Action::Count,
        "age" => Action::Age(Age { timeout_s: 1, context: 0 }),
        _ => unreachable!("{name} is not among the names"),
    }
}

fn rss(queues: &[u16]) -> Action {
    Action::Rss(Spread { types: RssTypes::default(), queues: queues.into() })
}

pub(super) fn of(list: &[&str]) -> Vec<Action> {
    list.iter().map(|name| action(name)).collect()
}

/// Returns a rule with a list of actions, in a group where these are allowed.
pub(super) fn question(bench: &Bench<'_>, base: &Pattern, list: &[&str]) -> RuleProbe {
    let group = u32::from(!is_for_root(bench, list));
    let attributes = Attributes { group, ..bench.attributes };
    RuleProbe { attributes, actions: of(list), ..bench.about(base) }
}

/// True if all actions of a list are allowed in group 0, where packets begin.
pub(super) fn is_for_root(bench: &Bench<'_>, list: &[&str]) -> bool {
    let not_in_root = &bench.draft.actions.not_in_root;
    !list.iter().any(|name| not_in_root.contains_key(*name))
}

/// Finds the accepted lists and returns them. Writes them, and the refusals of others, into the
/// draft.
pub(super) fn probe(bench: &mut Bench<'_>, base: &Pattern) -> Result<Vec<List>, Stopped> {
    bench.stage("lists of actions")?;
    let not_in_root = not_in_root(bench, base)?;
    bench.draft.actions.not_in_root = not_in_root.clone();
    let answers = ask_lists(bench, base)?;
    let taken: Vec<List> =
        answers.iter().filter(|(_, answer)| answer.is_ok()).map(|(list, _)| list.clone()).collect();
    let empty = RuleProbe { actions: Vec::new(), ..bench.about(base) };
    let answer = bench.ask(&empty)?;
    bench.draft.actions.empty = bench.new_refusal(&empty, &answer);
    let hypotheses = [Some(ActionFacts::default()), any_order(&taken), Some(in_order(&taken))];
    let refusal = bench.draft.actions.empty.take();
    let answered: Vec<_> =
        answers.iter().map(|(list, answer)| (question(bench, base, list), answer)).collect();
    for facts in hypotheses.into_iter().flatten() {
        let not_in_root = not_in_root.clone();
        bench.draft.actions = ActionFacts { empty: refusal.clone(), not_in_root, ..facts };
        if answered
            .iter()
            .all(|(question, answer)| bench.drafted(question).is_ok() == answer.is_ok())
        {
            break;
        }
    }
    let answers: BTreeMap<_, _> = answers.into_iter().collect();
    refusals(bench, base, &answers);
    configurations(bench, base, &taken)?;
    Ok(taken)
}

/// Returns the actions that group 1 accepts in a list that group 0 refuses, with the refusals.
fn not_in_root(
    bench: &mut Bench<'_>,
    base: &Pattern,
) -> Result<BTreeMap<String, RefusalFacts>, Stopped> {
    let mut found = BTreeMap::new();
    if bench.draft.attributes.groups == Some(1) {
        return Ok(found);
    }
    let usual: List = bench.usual_actions.iter().map(Action::name).collect();
    for name in NAMES.into_iter().filter(|name| !usual.contains(name)) {
        for list in [vec![name], [&usual[..], &[name]].concat()] {
            let root = RuleProbe { actions: of(&list), ..bench.about(base) };
            let Err(refused) = bench.ask(&root)? else { break };
            let attributes = Attributes { group: 1, ..bench.attributes };
            if bench.ask(&RuleProbe { attributes, ..root })?.is_ok() {
                found.insert(name.to_owned(), refused.to_facts());
                break;
            }
        }
    }
    Ok(found)
}

fn ask_lists(bench: &mut Bench<'_>, base: &Pattern) -> Result<Vec<(List, Answer)>, Stopped> {
    let mut answers: BTreeMap<List, Answer> = BTreeMap::new();
    let mut lists: Vec<List> = vec![Vec::new()];
    let mut order = Vec::new();
    for len in 1..=3 {
        let longer = |list: &List| NAMES.map(|name| [&list[..], &[name]].concat());
        lists = lists.iter().flat_map(longer).collect();
        for (done, list) in lists.iter().enumerate() {
            bench.step(done as u64, lists.len() as u64);
            let without = |at: usize| [&list[..at], &list[at + 1..]].concat();
            let is_good = |list: List| answers.get(&list).is_some_and(Answer::is_ok);
            // If all pairs of a list are refused, the list is refused too.
            if len == 3 && !(0..3).any(|at| is_good(without(at))) {
                continue;
            }
            let answer = bench.ask(&question(bench, base, list))?;
            answers.insert(list.clone(), answer);
            order.push(list.clone());
        }
    }
    Ok(order.into_iter().map(|list| (list.clone(), answers[&list].clone())).collect())
}

/// Returns one line of steps in any order, if it describes exactly the accepted lists.
fn any_order(taken: &[List]) -> Option<ActionFacts> {
    let lists: BTreeSet<&List> = taken.iter().collect();
    let turned = |list: &List| list.iter().rev().copied().collect::<List>();
    if !taken.iter().all(|list| lists.contains(&turned(list))) {
        return None;
    }
    let is_used = |name: &&&str| taken.iter().any(|list| list.contains(name));
    let mut groups: Vec<List> = Vec::new();
    for name in NAMES.iter().filter(is_used) {
        let meets =
            |other: &&str| taken.iter().any(|list| list.contains(name) && list.contains(other));
        match groups.iter_mut().find(|group| !group.iter().any(meets)) {
            Some(group) => group.push(name),
            None => groups.push(vec![name]),
        }
    }
    let step = |group: &List| {
        let is_needed = taken.iter().all(|list| list.iter().any(|name| group.contains(name)));
        group.join("|") + if is_needed { "" } else { "?" }
    };
    let line: Vec<_> = groups.iter().map(step).collect();
    let accepted = vec![steps(&line.join(" / "))];
    Some(ActionFacts { accepted, any_order: true, ..ActionFacts::default() })
}

fn in_order(taken: &[List]) -> ActionFacts {
    ActionFacts { accepted: lines_of(taken), ..ActionFacts::default() }
}

/// Finds the refusals of lists that are not accepted.
fn refusals(bench: &mut Bench<'_>, base: &Pattern, answers: &BTreeMap<List, Answer>) {
    let lines: Vec<String> = bench.draft.actions.accepted.iter().map(Steps::to_string).collect();
    let words = lines.iter().flat_map(|line| line.split([' ', '/', '|', '?']));
    let known: BTreeSet<&str> = words.collect();
    if lines.is_empty() {
        return;
    }
    let strange = answers.iter().find(|(list, _)| list.len() == 1 && !known.contains(list[0]));
    if let Some((list, answer)) = strange {
        bench.draft.actions.unknown = bench.new_refusal(&question(bench, base, list), answer);
    }
    if bench.draft.actions.any_order {
        for name in NAMES.into_iter().filter(|name| known.contains(name)) {
            let list = vec![name, name];
            if let Some(answer) = answers.get(&list) {
                let refusal = bench.new_refusal(&question(bench, base, &list), answer);
                bench.draft.actions.twice.extend(refusal.map(|refusal| (name.to_owned(), refusal)));
            }
        }
    }
    for (list, answer) in answers {
        let question = question(bench, base, list);
        if let Some(refusal) = bench.new_refusal(&question, answer) {
            explain(bench, &question, answer, refusal);
        }
    }
}

/// Writes a refusal as that of a missing action, or of a misplaced one: the first with which the
/// draft gives the same answer as the NIC.
fn explain(bench: &mut Bench<'_>, question: &RuleProbe, answer: &Answer, refusal: RefusalFacts) {
    type Slot = fn(&mut ActionFacts) -> &mut Option<RefusalFacts>;
    let slots: [Slot; 2] = [|facts| &mut facts.missing, |facts| &mut facts.unknown];
    for slot in slots {
        if slot(&mut bench.draft.actions).is_some() {
            continue;
        }
        *slot(&mut bench.draft.actions) = Some(refusal.clone());
        if bench.new_refusal(question, answer).is_none() {
            return;
        }
        *slot(&mut bench.draft.actions) = None;
    }
}

/// Finds which configurations of actions are accepted.
fn configurations(bench: &mut Bench<'_>, base: &Pattern, taken: &[List]) -> Result<(), Stopped> {
    let with = |name: &str, action: Action| {
        let list = taken.iter().find(|list| list.contains(&name))?;
        let actions = list.iter().map(|other| match *other == name {
            true => action.clone(),
            false => self::action(other),
        });
        Some(actions.collect::<Vec<_>>())
    };
    let queues = bench.subject.queues();
    let ask = |bench: &mut Bench<'_>, actions: Vec<Action>| {
        let question = RuleProbe { actions, ..bench.about(base) };
        let answer = bench.ask(&question)?;
        Ok((question, answer))
    };
    let no_queue = with("queue", Action::Queue(queues)).or(with("rss", rss(&[0, queues])));
    if let Some(actions) = no_queue {
        let (question, answer) = ask(bench, actions)?;
        bench.draft.actions.no_queue = bench.new_refusal(&question, &answer);
    }
    if queues > 2 {
        if let Some(actions) = with("rss", rss(&[0, 2])) {
            let (question, answer) = ask(bench, actions)?;
            bench.draft.actions.rss.not_contiguous = bench.new_refusal(&question, &answer);
        }
        if let Some(actions) = with("rss", rss(&[0, 1, 2])) {
            let (question, answer) = ask(bench, actions)?;
            bench.draft.actions.rss.not_power_of_two = bench.new_refusal(&question, &answer);
        }
    }
    let Some(list) = taken.iter().find(|list| list.contains(&"mark")) else { return Ok(()) };
    let mark = |mark| {
        let actions = list.iter().map(|name| match *name {
            "mark" => Action::Mark(mark),
            name => action(name),
        });
        actions.collect::<Vec<_>>()
    };
    let beyond = bisect(u32::MAX, |number| Ok(ask(bench, mark(number))?.1.is_ok()))?;
    if let Some(beyond) = beyond {
        bench.draft.mark.max = Some(beyond - 1);
        let (question, answer) = ask(bench, mark(beyond))?;
        bench.draft.mark.too_high = bench.new_refusal(&question, &answer);
    }
    Ok(())
}
