// SPDX-License-Identifier: BSD-3-Clause
//! Owns the operator's policy: zones, zone rules, limits, timeouts and drops.

mod access;
mod drops;
mod ethernet;
mod limits;
mod timeouts;
mod zone_rules;
mod zones;

pub(crate) use access::{Judgement, NO_RULE, Outcome};
pub(crate) use drops::DropPolicy;
pub(crate) use limits::{Limits, SourceSketch, ZoneRate};
pub(crate) use timeouts::{AT_ONCE, AdaptiveTimeouts};
pub(crate) use zone_rules::{ZoneClassifier, ZoneTags};
pub use zones::ZonePolicies;
