// SPDX-License-Identifier: BSD-3-Clause
//! Owns the trees of regions, and walks them.

use super::build::build_trees;
use super::regions::{Check, Point, Region, Regions};
use super::sets::SetIndex;
use super::{Found, SearchSize, TooManyRegions};
use crate::criteria::Family;
use crate::rule::AccessList;

/// Dimension of a node that is a leaf.
pub(super) const LEAF: u32 = u32::MAX;

/// A node. Inner nodes lead to the first child if the point is below `threshold` in `dimension`,
/// else to the second. A leaf has the range of its regions in `children`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) dimension: u32,
    pub(super) threshold: u32,
    pub(super) children: [u32; 2],
}

/// A tree, by the number of its root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    pub(super) root: u32,
    /// First rule of all its regions.
    pub(super) first_rule: u32,
}

/// The trees of a list for one IP version. Their regions are copies, so that those of a leaf lie
/// side by side.
#[derive(Debug)]
pub(super) struct Forest<const W: usize> {
    /// In the order of their first rules.
    pub(super) trees: Vec<Tree>,
    pub(super) nodes: Vec<Node>,
    pub(super) places: Vec<Region<W>>,
    pub(super) checks: Vec<Check>,
    pub(super) sets: SetIndex,
}

impl<const W: usize> Forest<W> {
    pub(super) fn new(list: &AccessList, family: Family) -> Result<Self, TooManyRegions> {
        let regions = Regions::of(list, family)?;
        let sets = SetIndex::new(&regions.sets, family == Family::Ipv6);
        let mut forest =
            Self { trees: vec![], nodes: vec![], places: vec![], checks: vec![], sets };
        build_trees(&mut forest, &regions.all);
        Ok(forest)
    }

    /// Finds the first rule whose region contains the point, and whose check matches.
    pub(super) fn find(&self, point: &Point<W>) -> Found {
        let (mut best, mut first_varying) = (u32::MAX, u32::MAX);
        for tree in &self.trees {
            if tree.first_rule >= best {
                break;
            }
            let [first, end] = self.leaf(tree.root, point).map(|at| at as usize);
            for (place, check) in self.places[first..end].iter().zip(&self.checks[first..end]) {
                if check.rule >= best {
                    break;
                }
                if !place.contains(&point.at) || !check.may_match(point) {
                    continue;
                }
                if check.varies {
                    first_varying = first_varying.min(check.rule);
                }
                if !check.only_counts && check.matches(point) {
                    best = check.rule;
                    break;
                }
            }
        }
        let varies = first_varying != u32::MAX && first_varying <= best;
        Found { rule: (best != u32::MAX).then_some(best), varies }
    }

    /// Returns the range of regions of the leaf in which the point lies.
    #[inline(always)]
    fn leaf(&self, root: u32, point: &Point<W>) -> [u32; 2] {
        let mut node = &self.nodes[root as usize];
        while node.dimension != LEAF {
            let is_above = point.at[node.dimension as usize % W] >= node.threshold;
            node = &self.nodes[node.children[usize::from(is_above)] as usize];
        }
        node.children
    }

    /// Removes all trees.
    pub(super) fn clear(&mut self) {
        self.trees.clear();
        self.nodes.clear();
        self.places.clear();
        self.checks.clear();
    }

    pub(super) fn size(&self) -> SearchSize {
        let parts = [
            size_of_val(&self.nodes[..]),
            size_of_val(&self.places[..]),
            size_of_val(&self.checks[..]),
            self.sets.bytes(),
        ];
        SearchSize {
            bytes: parts.iter().sum(),
            regions: self.places.len(),
            trees: self.trees.len(),
            steps: self.trees.iter().map(|tree| self.steps_below(tree.root)).sum(),
        }
    }

    /// Returns the most steps from a node on. The depth of a tree is bounded.
    fn steps_below(&self, node: u32) -> usize {
        let Node { dimension, children: [a, b], .. } = self.nodes[node as usize];
        match dimension {
            LEAF => (b - a) as usize,
            _ => 1 + self.steps_below(a).max(self.steps_below(b)),
        }
    }
}
