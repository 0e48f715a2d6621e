// SPDX-License-Identifier: BSD-3-Clause
//! Builds the trees of a list.
//!
//! A region that spans the threshold of a node is in both children. If rules name different
//! fields, say one half sources and the other half destinations, nearly all regions would be. So
//! if one tree has too many copies or large leaves, rules that name different fields get trees of
//! their own.

use super::regions::{Check, Region};
use super::tree::{Cut, Forest, LEAF, Node, Tree};
use std::collections::BTreeMap;

/// Regions of a leaf that need not be divided: each is a cache line, and they lie side by side.
const LEAF_MAX: usize = 8;

/// A leaf with more regions makes rules that name different fields get trees of their own.
const LARGE_LEAF: usize = 32;

/// Most nodes on a path.
const DEPTH_MAX: u32 = 48;

/// Copies of regions that a tree may have, for each of its regions, and in any case.
const COPIES: usize = 3;
const COPIES_MIN: usize = 256;

/// Builds the trees of these regions, which are in the order of their rules. Returns false if they
/// would need more memory than `max_bytes`.
pub(super) fn build_trees<const W: usize>(
    forest: &mut Forest<W>,
    regions: &[(Region<W>, Check)],
    max_bytes: usize,
) -> bool {
    let all: Vec<u32> = (0..regions.len() as u32).collect();
    let mut bytes_left = max_bytes;
    if all.is_empty() {
        return true;
    }
    if Builder::new(forest, regions, all.len(), &mut bytes_left).build_tree(all.clone()) {
        forest.shrink();
        return true;
    }
    forest.clear();
    bytes_left = max_bytes;
    let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for member in all {
        groups.entry(regions[member as usize].0.limited_dimensions()).or_default().push(member);
    }
    for group in groups.into_values() {
        Builder::new(forest, regions, group.len(), &mut bytes_left).build_tree(group);
    }
    forest.trees.sort_by_key(|tree| tree.first_rule);
    forest.shrink();
    bytes_left > 0
}

impl<const W: usize> Region<W> {
    /// Returns the dimensions, bit by bit, in which the region is not everything.
    fn limited_dimensions(&self) -> u32 {
        let limited = (0..).zip(&self.span).filter(|(_, span)| **span != u32::MAX);
        limited.fold(0, |bits, (dimension, _): (u32, _)| bits | 1 << dimension)
    }

    /// True if the region contains all of `part`.
    fn covers(&self, part: &Region<W>) -> bool {
        (0..W).all(|at| self.low[at] <= part.low[at] && part.high(at) <= self.high(at))
    }

    /// Returns the two parts on both sides of a threshold.
    fn halves(&self, Cut { dimension, threshold }: Cut) -> [Region<W>; 2] {
        let mut halves = [*self; 2];
        let high = self.high(dimension);
        halves[0].span[dimension] = threshold - 1 - self.low[dimension];
        halves[1].low[dimension] = threshold;
        halves[1].span[dimension] = high - threshold;
        halves
    }
}

/// A part of the space that is divided, or is a leaf with this number.
enum Part {
    Leaf(u32),
    Halves(Cut, Box<[Part; 2]>),
}

struct Builder<'a, const W: usize> {
    forest: &'a mut Forest<W>,
    regions: &'a [(Region<W>, Check)],
    /// Copies that may still be made.
    copies_left: usize,
    /// Bytes that the trees may still take; 0 once they would need more.
    bytes_left: &'a mut usize,
    /// True if a part was not divided further: there were too many copies, or no cut was worth it.
    is_over: bool,
}

impl<'a, const W: usize> Builder<'a, W> {
    fn new(
        forest: &'a mut Forest<W>,
        regions: &'a [(Region<W>, Check)],
        members: usize,
        bytes_left: &'a mut usize,
    ) -> Self {
        let copies_left = COPIES * members + COPIES_MIN;
        Self { forest, regions, copies_left, bytes_left, is_over: false }
    }

    /// Takes the bytes of a part of a tree. Returns false if there are too few.
    fn take(&mut self, bytes: usize) -> bool {
        *self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.is_over |= *self.bytes_left == 0;
        *self.bytes_left > 0
    }

    /// Builds the tree of these regions. Returns false if some of its leaves are larger than they
    /// should be.
    fn build_tree(mut self, members: Vec<u32>) -> bool {
        let first_rule = self.regions[members[0] as usize].1.rule;
        let whole = self.build(members, &Region::EVERYTHING, 0);
        let root = self.add_node(&whole);
        self.forest.trees.push(Tree { root, first_rule });
        !self.is_over
    }

    /// Divides this part of the space, in which the members have points.
    fn build(&mut self, mut members: Vec<u32>, part: &Region<W>, depth: u32) -> Part {
        self.leave_out_unreachable(&mut members, part);
        let Some((cut, [below, above])) = self.divide(&members, part, depth) else {
            let first = self.forest.places.len() as u32;
            let region = size_of::<Region<W>>() + size_of::<Check>();
            if !self.take(members.len() * region + size_of::<[u32; 2]>()) {
                members.clear();
            }
            for member in &members {
                let (place, check) = self.regions[*member as usize];
                self.forest.places.push(place);
                self.forest.checks.push(check);
            }
            self.forest.leaves.push([first, first + members.len() as u32]);
            return Part::Leaf(self.forest.leaves.len() as u32 - 1);
        };
        let [low, high] = part.halves(cut);
        let below = self.build(below, &low, depth + 1);
        let above = self.build(above, &high, depth + 1);
        Part::Halves(cut, Box::new([below, above]))
    }

    /// Adds the nodes of a part; returns the child that stands for it.
    fn add_node(&mut self, part: &Part) -> u32 {
        let (cut, halves) = match part {
            Part::Leaf(leaf) => return leaf | LEAF,
            Part::Halves(cut, halves) => (cut, halves),
        };
        let number = self.forest.nodes.len();
        // A half that is a leaf takes two quarters, so its cut does not matter.
        let cut_of = |half: &Part| match half {
            Part::Leaf(_) => Cut { dimension: 0, threshold: 0 },
            Part::Halves(cut, _) => *cut,
        };
        let cuts = [*cut, cut_of(&halves[0]), cut_of(&halves[1])];
        self.forest.nodes.push(Node::new(cuts, [0; 4]));
        let [a, b] = self.add_quarters(&halves[0]);
        let [c, d] = self.add_quarters(&halves[1]);
        self.forest.nodes[number] = Node::new(cuts, [a, b, c, d]);
        number as u32
    }

    fn add_quarters(&mut self, half: &Part) -> [u32; 2] {
        match half {
            Part::Leaf(leaf) => [leaf | LEAF; 2],
            Part::Halves(_, quarters) => [self.add_node(&quarters[0]), self.add_node(&quarters[1])],
        }
    }

    /// Removes all regions behind the first one that matches every point of this part.
    fn leave_out_unreachable(&self, members: &mut Vec<u32>, part: &Region<W>) {
        let decides = |member: &u32| {
            let (place, check) = &self.regions[*member as usize];
            check.is_of_region_alone() && place.covers(part)
        };
        if let Some(last) = members.iter().position(decides) {
            members.truncate(last + 1);
        }
    }

    /// Returns the best cut of this part, and the members of each half; `None` if the part is to be
    /// a leaf.
    fn divide(
        &mut self,
        members: &[u32],
        part: &Region<W>,
        depth: u32,
    ) -> Option<(Cut, [Vec<u32>; 2])> {
        if members.len() <= LEAF_MAX || depth >= DEPTH_MAX || *self.bytes_left == 0 {
            return None;
        }
        let Some(cut) = self.best_cut(members, part) else {
            self.is_over |= members.len() > LARGE_LEAF;
            return None;
        };
        let place = |member: &u32| &self.regions[*member as usize].0;
        let is_below = |member: &u32| place(member).low[cut.dimension] < cut.threshold;
        let is_above = |member: &u32| place(member).high(cut.dimension) >= cut.threshold;
        let below: Vec<u32> = members.iter().copied().filter(is_below).collect();
        let above: Vec<u32> = members.iter().copied().filter(is_above).collect();
        let copies = below.len() + above.len() - members.len();
        if copies > self.copies_left {
            self.is_over = true;
            return None;
        }
        // A node has the cuts of two levels.
        if depth % 2 == 0 && !self.take(size_of::<Node>()) {
            return None;
        }
        self.copies_left -= copies;
        Some((cut, [below, above]))
    }

    /// Returns the cut with the smallest halves, among those at the median of the ends of the
    /// members' ranges in each dimension. `None` if none is worth it.
    fn best_cut(&self, members: &[u32], part: &Region<W>) -> Option<Cut> {
        let mut best: Option<(usize, Cut)> = None;
        let mut ends = Vec::with_capacity(2 * members.len());
        for dimension in 0..W {
            let (first, last) = (part.low[dimension], part.high(dimension));
            ends.clear();
            for member in members {
                let place = &self.regions[*member as usize].0;
                let (low, high) = (place.low[dimension], place.high(dimension));
                ends.extend((low > first).then_some(low));
                ends.extend((high < last).then(|| high + 1));
            }
            if ends.is_empty() {
                continue;
            }
            let middle = ends.len() / 2;
            let (_, threshold, _) = ends.select_nth_unstable(middle);
            let cut = Cut { dimension, threshold: *threshold };
            let (below, above) = self.count_halves(members, cut);
            let is_worth_it =
                below.max(above) < members.len() && 2 * (below + above) <= 3 * members.len();
            let cost = below * below + above * above;
            if is_worth_it && best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, cut));
            }
        }
        best.map(|(_, cut)| cut)
    }

    fn count_halves(&self, members: &[u32], cut: Cut) -> (usize, usize) {
        let (mut below, mut above) = (0, 0);
        for member in members {
            let place = &self.regions[*member as usize].0;
            below += usize::from(place.low[cut.dimension] < cut.threshold);
            above += usize::from(place.high(cut.dimension) >= cut.threshold);
        }
        (below, above)
    }
}
