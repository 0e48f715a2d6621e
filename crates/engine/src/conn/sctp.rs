// SPDX-License-Identifier: BSD-3-Clause
//! Owns SCTP associations: states and verification tags.

mod association;
mod states;
pub(super) mod tags;
