// SPDX-License-Identifier: BSD-3-Clause
//! What an operator has decided: zones, zone rules, limits, timeouts.

mod drops;
mod limits;
mod timeouts;
mod zone_rules;
mod zones;

pub(crate) use drops::DropPolicy;
pub(crate) use limits::{Limits, Pace, Sources};
pub(crate) use timeouts::{AT_ONCE, Lifetimes};
pub(crate) use zone_rules::{Tagging, Zoning};
pub use zones::Zones;
