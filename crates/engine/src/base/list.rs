// SPDX-License-Identifier: BSD-3-Clause
//! Doubly linked lists of numbers, in order of insertion.
//!
//! Appending, taking the first and removing any number each cost a few stores.

use super::memory::{HugeRegion, MemoryUse};

/// Stands for "no number" at the ends of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// The two ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) first: u32,
    last: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { first: NONE, last: NONE };
}

/// The neighbours of a number in its list.
#[derive(Clone, Copy)]
struct Link {
    before: u32,
    behind: u32,
}

/// The links of all numbers. Each number is in one list at most.
pub(crate) struct Links(HugeRegion<Link>);

impl Links {
    /// Creates links for numbers below `len`, which is at least 1.
    pub(crate) fn new(len: usize) -> Self {
        Links(HugeRegion::new(len, Link { before: NONE, behind: NONE }, false))
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        self.0.memory()
    }

    /// Appends a number that is in no list.
    pub(crate) fn push(&mut self, list: &mut List, number: u32) {
        self.0[number as usize] = Link { before: list.last, behind: NONE };
        match list.last {
            NONE => list.first = number,
            last => self.0[last as usize].behind = number,
        }
        list.last = number;
    }

    /// Removes a number from `list`, which must contain it.
    pub(crate) fn remove(&mut self, list: &mut List, number: u32) {
        let Link { before, behind } = self.0[number as usize];
        match before {
            NONE => list.first = behind,
            before => self.0[before as usize].behind = behind,
        }
        match behind {
            NONE => list.last = before,
            behind => self.0[behind as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_are_lists(operations in prop::collection::vec((0..8_u32, 0..2_usize), 0..100)) {
            let (mut links, mut lists) = (Links::new(8), [List::EMPTY; 2]);
            let mut expected = [vec![], vec![]];
            for (number, which) in operations {
                match expected.iter().position(|list: &Vec<u32>| list.contains(&number)) {
                    Some(holder) => {
                        links.remove(&mut lists[holder], number);
                        expected[holder].retain(|other| *other != number);
                    }
                    None => {
                        links.push(&mut lists[which], number);
                        expected[which].push(number);
                    }
                }
                for (list, expected) in lists.iter().zip(&expected) {
                    let some = |number: u32| (number != NONE).then_some(number);
                    let behind = |number: &u32| some(links.0[*number as usize].behind);
                    let found: Vec<_> = std::iter::successors(some(list.first), behind).collect();
                    prop_assert_eq!(&found, expected);
                    prop_assert_eq!(list.last, *expected.last().unwrap_or(&NONE));
                }
            }
        }
    }
}
