// SPDX-License-Identifier: BSD-3-Clause
//! Owns TCP: states, sequence window, resynchronisation.

pub(super) mod resync;
pub(super) mod states;
mod tracking;
pub(super) mod window;
