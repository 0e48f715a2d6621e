// SPDX-License-Identifier: BSD-3-Clause
//! Searches for the highest load that a device sustains: [`CpsNdr`], the search of cps_ndr.py, the
//! parts of MLRsearch ([`mlr`]), and [`CapacitySearch`], for the size of a table. A search says
//! which load to measure next, and is told what was measured. It measures nothing itself.
#![forbid(unsafe_code)]

mod capacity;
mod cps_ndr;
pub mod mlr;
mod number;

pub use capacity::CapacitySearch;
pub use cps_ndr::{CpsNdr, Outcome, Sample, Statistics, sample_steps};
pub use number::{Short, parse_number};
