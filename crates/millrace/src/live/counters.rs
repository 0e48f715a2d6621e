// SPDX-License-Identifier: BSD-3-Clause
//! Owns the counters of workers: those of one worker, their stages, and what other threads read.

pub(crate) mod account;
pub(crate) mod published;
pub(crate) mod stages;
