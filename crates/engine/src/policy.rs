// SPDX-License-Identifier: BSD-3-Clause
//! What an operator has decided: zones, zone rules, limits, timeouts.

mod drops;
mod limits;
mod timeouts;
mod zone_rules;
mod zones;

pub(crate) use drops::DropPolicy;
pub(crate) use limits::{Limits, SourceSketch, ZoneRate};
pub(crate) use timeouts::{AT_ONCE, AdaptiveTimeouts};
pub(crate) use zone_rules::{ZoneClassifier, ZoneTags};
pub use zones::ZonePolicies;
