// SPDX-License-Identifier: BSD-3-Clause
//! Owns what only `millrace demo` uses: packets to feed, and the comparison of two runs.

pub(crate) mod comparison;
pub(crate) mod feed;
