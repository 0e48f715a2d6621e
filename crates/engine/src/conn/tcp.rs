// SPDX-License-Identifier: BSD-3-Clause
//! Owns what is specific to TCP: state table, sequence window, resynchronisation.

pub(super) mod resync;
pub(super) mod states;
mod tracking;
pub(super) mod window;
