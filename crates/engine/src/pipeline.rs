// SPDX-License-Identifier: BSD-3-Clause
//! The passes over one burst of packets, and the verdict of each.

mod admission;
mod fragments;
mod handoff;
mod in_order;
mod lookup;
mod marked;
mod steering;
mod track;
mod verdicts;

pub(crate) use admission::admit;
pub(crate) use fragments::refuse_further;
pub(crate) use handoff::send_all_errors_away;
pub(crate) use in_order::track_in_order;
pub(crate) use marked::{Marked, Moment, Places};
pub(crate) use steering::Others;
pub(crate) use verdicts::{Outcome, States, Told, Unasked};
