// SPDX-License-Identifier: BSD-3-Clause
//! Which flows the NIC gets a rule for, and what it was asked: the worker's side.
//!
//! A rule is for one direction of a connection, at the side where its packets arrive. The worker
//! wishes, somebody else makes rules, and answers come back whenever they do: until then, and
//! whatever they are, packets are tracked as before. Nothing here waits, and all of it is bounded.
//!
//! Wishes are made late, when there is somebody to hear them: until then the best is chosen anew.

mod activity;
mod budget;
mod bypass;
mod candidates;
mod effect;
mod evaluate;
mod interval;
mod requests;
mod rules;
mod score;
mod slots;
mod view;
mod zone_share;

pub(crate) use budget::RuleBudget;
pub(crate) use interval::{EvalInterval, PendingEval};
pub(crate) use rules::{FlowRules, MarkCheck, ResultEffect};
pub(crate) use score::{Demand, RateSample, Score};
pub(crate) use slots::SlotIndex;
pub(crate) use view::{SideStatus, ViewInput};
