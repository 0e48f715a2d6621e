// SPDX-License-Identifier: BSD-3-Clause
//! Searches for the highest load that a device bears: [`CpsNdr`], the search of cps_ndr.py, and the
//! parts of MLRsearch ([`mlr`]). A search says which load to measure next, and is told what was
//! measured. It measures nothing itself.
#![forbid(unsafe_code)]

mod cps_ndr;
pub mod mlr;
mod number;

pub use cps_ndr::{CpsNdr, Outcome, Sample, Statistics, sample_steps};
pub use number::{Short, parse_number};
