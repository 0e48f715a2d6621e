// SPDX-License-Identifier: BSD-3-Clause
//! Owns one connection: its two records, state machines, TCP window and SCTP tags.
//!
//! All functions depend on record and packet only; this room has no table.

mod bypass;
mod embryonic;
mod event;
mod fast_path;
mod lifecycle;
mod matching;
mod proto_data;
mod record;
mod sampler;
mod saved;
mod sctp;
mod side_by_side;
mod state;
mod state_word;
mod summary;
mod tcp;
mod transition;

pub(crate) use embryonic::ListLinks;
pub(crate) use event::Transition;
pub(crate) use record::{ConnCold, ConnHot};
pub(crate) use sampler::{NoSampling, Sampler};
pub(crate) use side_by_side::{EIGHT, MarkedEight, count_eight};
pub(crate) use state::State;
pub(crate) use tcp::resync::Segment;
