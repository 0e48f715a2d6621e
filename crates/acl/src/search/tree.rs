// SPDX-License-Identifier: BSD-3-Clause
//! Owns the trees of regions, and walks them.

use super::build::build_trees;
use super::regions::{Check, Point, Region, Regions};
use super::sets::SetIndex;
use super::{Found, SearchError, SearchSize};
use crate::criteria::Family;
use crate::rule::AccessList;

/// Bit of a child that is a leaf; the other bits are the number of the leaf.
pub(super) const LEAF: u32 = 1 << 31;

/// A cut of a part of the space: points below the threshold, and those from it on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) dimension: usize,
    pub(super) threshold: u32,
}

/// A node: a cut, a cut of each half, and the four quarters that they make. Each step of a walk
/// waits for its node to come from the cache, so a step decides two cuts.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct Node {
    thresholds: [u32; 3],
    dimensions: [u8; 4],
    /// The quarters, lowest first: numbers of nodes, or of leaves with [`LEAF`].
    children: [u32; 4],
}

const _: () = assert!(size_of::<Node>() == 32);

impl Node {
    /// Creates a node from its three cuts: of the whole, of the lower half, of the upper half.
    pub(super) fn new(cuts: [Cut; 3], children: [u32; 4]) -> Self {
        let [a, b, c] = cuts.map(|cut| cut.dimension as u8);
        let dimensions = [a, b, c, 0];
        Node { thresholds: cuts.map(|cut| cut.threshold), dimensions, children }
    }

    /// Returns the quarter in which a point lies.
    #[inline(always)]
    fn child<const W: usize>(&self, at: &[u32; W]) -> u32 {
        let is_above =
            |cut: usize| at[usize::from(self.dimensions[cut]) % W] >= self.thresholds[cut];
        let [whole, lower, upper] = [is_above(0), is_above(1), is_above(2)];
        let half = if whole { upper } else { lower };
        self.children[usize::from(whole) * 2 + usize::from(half)]
    }
}

/// A tree, by its root: the number of a node, or of a leaf with [`LEAF`].
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
    /// Ranges of the regions of each leaf.
    pub(super) leaves: Vec<[u32; 2]>,
    pub(super) places: Vec<Region<W>>,
    pub(super) checks: Vec<Check>,
    pub(super) sets: SetIndex,
}

impl<const W: usize> Forest<W> {
    pub(super) fn new(
        list: &AccessList,
        family: Family,
        max_bytes: usize,
    ) -> Result<Self, SearchError> {
        let regions = Regions::of(list, family, max_bytes)?;
        let sets = SetIndex::new(&regions.sets, family == Family::Ipv6, max_bytes);
        let sets = sets.ok_or(SearchError::TooMuchMemory)?;
        let left = max_bytes - sets.bytes();
        let mut forest = Self {
            trees: vec![],
            nodes: vec![],
            leaves: vec![],
            places: vec![],
            checks: vec![],
            sets,
        };
        match build_trees(&mut forest, &regions.all, left) {
            true => Ok(forest),
            false => Err(SearchError::TooMuchMemory),
        }
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
        let mut child = root;
        while child & LEAF == 0 {
            child = self.nodes[child as usize].child(&point.at);
        }
        self.leaves[(child & !LEAF) as usize]
    }

    /// Removes all trees.
    pub(super) fn clear(&mut self) {
        self.trees.clear();
        self.nodes.clear();
        self.leaves.clear();
        self.places.clear();
        self.checks.clear();
    }

    /// Frees memory beyond what the trees need.
    pub(super) fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
        self.leaves.shrink_to_fit();
        self.places.shrink_to_fit();
        self.checks.shrink_to_fit();
    }

    pub(super) fn size(&self) -> SearchSize {
        let parts = [
            size_of_val(&self.nodes[..]),
            size_of_val(&self.leaves[..]),
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
    fn steps_below(&self, child: u32) -> usize {
        if child & LEAF != 0 {
            let [first, end] = self.leaves[(child & !LEAF) as usize];
            return (end - first) as usize;
        }
        let children = self.nodes[child as usize].children;
        1 + children.map(|child| self.steps_below(child)).into_iter().max().unwrap_or(0)
    }
}
