// SPDX-License-Identifier: BSD-3-Clause
//! Owns what only `millrace demo` uses: loads, packets to feed, and the
//! comparisons of runs.

pub(crate) mod comparison;
pub(crate) mod feed;
pub(crate) mod list_comparison;
pub(crate) mod load;
pub(crate) mod readings;
