// SPDX-License-Identifier: BSD-3-Clause
//! Summarises the lists that a NIC accepts in a few lines such as `eth? / ipv4|ipv6 / tcp`.

use std::collections::BTreeSet;
use twin::personality::Steps;

type Words = Vec<&'static str>;

/// A line: for each step its words, and whether it is optional.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line(Vec<(Vec<&'static str>, bool)>);

/// Returns lines that describe exactly the `lists`; words are in the order of their first use.
pub(super) fn lines_of(lists: &[Words]) -> Vec<Steps> {
    let taken: BTreeSet<&Words> = lists.iter().collect();
    let single = |list: &Words| Line(list.iter().map(|&word| (vec![word], false)).collect());
    let mut lines: Vec<_> = lists.iter().filter(|list| !list.is_empty()).map(single).collect();
    unite(&mut lines);
    for line in &mut lines {
        line.make_optional(&taken);
    }
    unite(&mut lines);
    lines.sort_by_key(|line| std::cmp::Reverse(line.lists().len()));
    leave_out(&mut lines);
    lines.iter().map(Line::steps).collect()
}

/// Removes parts of lines as long as the lines describe the same lists. First it removes whole
/// lines, the shortest first; then the option to leave steps out; then words.
fn leave_out(lines: &mut Vec<Line>) {
    let lists_of = |lines: &[Line]| lines.iter().flat_map(Line::lists).collect::<BTreeSet<_>>();
    let all = lists_of(lines);
    for number in (0..lines.len()).rev() {
        let line = lines.remove(number);
        if lists_of(lines) != all {
            lines.insert(number, line);
        }
    }
    let places = |lines: &[Line]| {
        let steps = |(number, line): (usize, &Line)| (0..line.0.len()).map(move |at| (number, at));
        lines.iter().enumerate().flat_map(steps).collect::<Vec<_>>()
    };
    for (number, at) in places(lines) {
        let was_optional = std::mem::replace(&mut lines[number].0[at].1, false);
        if was_optional && lists_of(lines) != all {
            lines[number].0[at].1 = true;
        }
    }
    for (number, at) in places(lines) {
        for word in lines[number].0[at].0.clone() {
            let before = lines[number].clone();
            lines[number].0[at].0.retain(|other| *other != word);
            if lines[number].0[at].0.is_empty() || lists_of(lines) != all {
                lines[number] = before;
            }
        }
    }
}

/// Merges lines that differ only in the words of one step, until none do.
fn unite(lines: &mut Vec<Line>) {
    while let Some((into, from, at)) = pair(lines) {
        let (words, _) = lines.remove(from).0.swap_remove(at);
        let known = &mut lines[into].0[at].0;
        known.extend(words.into_iter().filter(|word| !known.contains(word)).collect::<Vec<_>>());
    }
}

fn pair(lines: &[Line]) -> Option<(usize, usize, usize)> {
    let pairs = (1..lines.len()).flat_map(|from| (0..from).map(move |into| (into, from)));
    pairs
        .filter_map(|(into, from)| Some((into, from, lines[into].only_difference(&lines[from])?)))
        .next()
}

impl Line {
    /// Returns the index of the step whose words differ, if all other steps are equal.
    fn only_difference(&self, other: &Self) -> Option<usize> {
        let is_like = self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|(step, like)| step.1 == like.1);
        let mut places = (0..self.0.len()).filter(|&at| is_like && self.0[at] != other.0[at]);
        let place = places.next()?;
        places.next().is_none().then_some(place)
    }

    /// Makes steps optional where all lists without them are accepted too. A word takes the first
    /// step that has it, so an optional step must not hide a required one.
    fn make_optional(&mut self, taken: &BTreeSet<&Words>) {
        for at in (0..self.0.len()).rev() {
            let shadows = self.0.get(at + 1).is_some_and(|(words, is_optional)| {
                !is_optional && words.iter().any(|word| self.0[at].0.contains(word))
            });
            let mut without = self.clone();
            without.0.remove(at);
            let lists = without.lists();
            self.0[at].1 = !shadows
                && !without.0.is_empty()
                && lists.iter().all(|list| list.is_empty() || taken.contains(list));
        }
    }

    /// Returns all lists that the line describes.
    fn lists(&self) -> BTreeSet<Words> {
        let mut lists = BTreeSet::from([Vec::new()]);
        for (words, is_optional) in &self.0 {
            let longer = lists.iter().flat_map(|list: &Words| {
                words.iter().map(|&word| list.iter().copied().chain([word]).collect())
            });
            let longer: BTreeSet<_> = longer.collect();
            match is_optional {
                true => lists.extend(longer),
                false => lists = longer,
            }
        }
        lists
    }

    fn steps(&self) -> Steps {
        let step = |(words, is_optional): &(Vec<&str>, bool)| {
            words.join("|") + if *is_optional { "?" } else { "" }
        };
        let text: Vec<_> = self.0.iter().map(step).collect();
        steps(&text.join(" / "))
    }
}

/// Reads steps from their notation, which must be valid.
pub(super) fn steps(text: &str) -> Steps {
    Steps::try_from(text.to_owned()).unwrap_or_else(|error| unreachable!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lists: &[&str]) -> Vec<String> {
        let lists: Vec<Words> = lists
            .iter()
            .map(|list| {
                let known = ["eth", "vlan", "ipv4", "ipv6", "tcp", "udp", "mark", "queue", "drop"];
                let word = |word| *known.iter().find(|known| **known == word).unwrap();
                list.split(' ').map(word).collect()
            })
            .collect();
        lines_of(&lists).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lists_become_few_lines() {
        assert_eq!(lines(&["queue", "drop", "queue mark", "drop mark"]), ["queue|drop / mark?"]);
        assert_eq!(lines(&["ipv4", "eth ipv4"]), ["eth? / ipv4"]);
        assert_eq!(
            lines(&["eth", "eth ipv4", "eth ipv6", "eth ipv4 tcp", "eth ipv6 tcp", "eth ipv4 udp"]),
            ["eth / ipv4|ipv6 / tcp", "eth / ipv4|ipv6?", "eth / ipv4 / udp"]
        );
        assert_eq!(lines(&["eth vlan vlan", "eth vlan", "eth"]), ["eth / vlan? / vlan?"]);
        assert_eq!(lines(&["mark", "queue"]), ["mark|queue"]);
    }
}
