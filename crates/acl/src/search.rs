// SPDX-License-Identifier: BSD-3-Clause
//! Finds the first rule of a list that matches a packet, in a number of steps that hardly depends
//! on the number of rules.
//!
//! A rule becomes one or more *regions*: a range of numbers in each of the dimensions source,
//! destination, ports, protocol and zone. A [tree](tree) halves the space of packets, one dimension
//! at a time, until few regions are left in each part. Addresses of IPv6 take four dimensions each.
//!
//! Criteria that are no ranges are compared last: named sets, TCP flags, kind of fragment,
//! connection state and mark. The sets of an address are looked up once, so a rule with a set of
//! 100,000 networks is one region.

mod build;
mod regions;
mod sets;
mod tree;

use crate::criteria::Family;
use crate::packet::Packet;
use crate::rule::AccessList;
use regions::{Point, WIDTH_V4, WIDTH_V6};
use std::fmt;
use std::net::IpAddr;
use tree::Forest;

/// The search of one list.
#[derive(Debug)]
pub struct Search {
    v4: Forest<WIDTH_V4>,
    v6: Forest<WIDTH_V6>,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Index of the first rule that matches and does not only count; `None` if there is none.
    pub rule: Option<u32>,
    /// True if another packet of the same connection and direction may find another rule, or if a
    /// rule only counts the packet.
    pub varies: bool,
}

/// Size of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchSize {
    /// Memory in bytes.
    pub bytes: usize,
    /// Regions that the rules became.
    pub regions: usize,
    /// Number of trees.
    pub trees: usize,
    /// Nodes of the longest path through all trees, and regions at its ends.
    pub steps: usize,
}

/// Error: the search of a list would be too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchError {
    /// The rules have too many combinations of networks, ports, protocols and zones.
    TooManyRegions {
        /// Index of the rule with which they became too many.
        rule: u32,
        /// Maximum number of combinations of a list.
        max: usize,
    },
    /// It would need more memory than it may have.
    TooMuchMemory,
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchError::TooManyRegions { rule, max } => write!(
                f,
                "rule {rule}: the rules have more than {max} combinations of networks, port \
                 ranges, protocols and zones; write sets of networks"
            ),
            SearchError::TooMuchMemory => f.write_str("the search needs too much memory"),
        }
    }
}

impl std::error::Error for SearchError {}

impl Search {
    /// Builds the search of a list.
    ///
    /// # Errors
    /// If the rules have too many combinations.
    pub fn new(list: &AccessList) -> Result<Self, SearchError> {
        Self::within(list, usize::MAX)
    }

    /// Builds the search of a list, if it needs at most this memory. While it is built, about as
    /// much again is in use.
    ///
    /// # Errors
    /// If the rules have too many combinations, or need more memory. No more is allocated then.
    pub fn within(list: &AccessList, max_bytes: usize) -> Result<Self, SearchError> {
        let v4 = Forest::new(list, Family::Ipv4, max_bytes)?;
        let left = max_bytes.saturating_sub(v4.size().bytes);
        Ok(Self { v4, v6: Forest::new(list, Family::Ipv6, left)? })
    }

    /// Finds the rule that decides about a packet.
    pub fn find(&self, packet: &Packet) -> Found {
        match (packet.src, packet.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (src, dst) = (src.to_bits(), dst.to_bits());
                let mut point = Point::new(packet, [src, dst]);
                point.sets = self.v4.sets.of([src.into(), dst.into()]);
                self.v4.find(&point)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let (src, dst) = (src.to_bits(), dst.to_bits());
                let words = |address: u128| [96, 64, 32, 0].map(|shift| (address >> shift) as u32);
                let ([a, b, c, d], [e, f, g, h]) = (words(src), words(dst));
                let mut point = Point::new(packet, [a, b, c, d, e, f, g, h]);
                point.sets = self.v6.sets.of([src, dst]);
                self.v6.find(&point)
            }
            _ => Found { rule: None, varies: false },
        }
    }

    /// Returns the size, of both IP versions together; the steps are those of the slower one.
    pub fn size(&self) -> SearchSize {
        let (v4, v6) = (self.v4.size(), self.v6.size());
        SearchSize {
            bytes: v4.bytes + v6.bytes,
            regions: v4.regions + v6.regions,
            trees: v4.trees + v6.trees,
            steps: v4.steps.max(v6.steps),
        }
    }
}
