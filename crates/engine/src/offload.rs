// SPDX-License-Identifier: BSD-3-Clause
//! Owns the worker's side of offload: which connections deserve a NIC rule, which have one, and
//! what the NIC answered.
//!
//! A rule is for one direction of a connection, at the side where its packets arrive. The worker
//! makes requests, the port's programming thread makes the rules, and results come back later.
//! Until then, and whatever the result, packets are tracked as before. Nothing here waits, and all
//! of it is bounded.
//!
//! A request is made only when the caller fetches it. Until then, the best candidate is chosen
//! anew.

mod activity;
mod budget;
mod bypass;
mod candidates;
mod effect;
mod evaluate;
mod interval;
mod mark_choice;
mod payback;
mod requests;
mod rules;
mod score;
mod slots;
mod view;
mod zone_share;

pub(crate) use budget::RuleBudget;
pub use effect::INEFFECTIVE_MAX;
pub(crate) use interval::{EvalInterval, MarkedInterval, PendingEval};
pub(crate) use mark_choice::{BurstCounts, BurstRole, MarkChoice, RuleCounts};
pub(crate) use payback::PacketCost;
pub(crate) use rules::{FlowRules, MarkCheck, ResultEffect};
pub(crate) use score::{Demand, RateSample, Score};
pub(crate) use slots::SlotIndex;
pub(crate) use view::{SideStatus, ViewInput};
