// SPDX-License-Identifier: BSD-3-Clause
//! Owns what is specific to SCTP: state table and verification tags of associations.

mod association;
mod states;
pub(super) mod tags;
