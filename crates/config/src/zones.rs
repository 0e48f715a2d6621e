// SPDX-License-Identifier: BSD-3-Clause
//! Reads limits of connections, and the settings of zones.

use super::problem::Fault;
use super::section::Section;
use super::{Choices, Located, PICK_UP, TCP, TRACKING, Timeouts, WHEN_FULL};
use engine::{Evict, TcpPickup, TcpWindowCheck, Tracking, WhenFull};

/// Range of limits of connections; more than fit into any table.
const CONNECTIONS: std::ops::RangeInclusive<u32> = 0..=1 << 30;

pub(crate) const EVICT: &Choices<Evict> =
    &[("\"embryonic\"", Evict::Embryonic), ("\"nothing\"", Evict::Nothing)];

/// The section `[limits]`: limits of new connections.
#[derive(Default)]
pub(crate) struct Limits {
    pub(crate) embryonic_percent: Option<Located<u32>>,
    pub(crate) evict: Option<Located<Evict>>,
    /// 0 means never.
    pub(crate) adaptive_start: Option<Located<u32>>,
    pub(crate) adaptive_end: Option<Located<u32>>,
    /// 0 means no limit.
    pub(crate) source_max: Option<Located<u32>>,
    /// 0 means no limit.
    pub(crate) new_per_second: Option<Located<u32>>,
}

/// A `[[timeout_policy]]`: timeouts under a name.
pub(crate) struct TimeoutPolicy {
    /// `None` only if there is a problem.
    pub(crate) name: Option<Located<String>>,
    pub(crate) timeouts: Timeouts,
}

/// A `[[zone]]`: settings of some zones.
pub(crate) struct Zone {
    /// `None` only if there is a problem.
    pub(crate) ids: Option<Located<Vec<Located<u32>>>>,
    /// Name of a timeout policy.
    pub(crate) timeouts: Option<Located<String>>,
    pub(crate) tracking: Option<Located<Tracking>>,
    pub(crate) tcp: Option<Located<TcpWindowCheck>>,
    pub(crate) pick_up: Option<Located<TcpPickup>>,
    /// 0 means no limit.
    pub(crate) connections_max: Option<Located<u32>>,
    pub(crate) when_full: Option<Located<WhenFull>>,
}

impl Limits {
    pub(super) fn read(section: Section) -> Self {
        let limits = Self {
            embryonic_percent: section.integer("embryonic_percent", 1..=100),
            evict: section.choice("evict", EVICT),
            adaptive_start: section.integer("adaptive_start", 0..=100),
            adaptive_end: section.integer("adaptive_end", 101..=200),
            source_max: section.integer("source_max", CONNECTIONS),
            new_per_second: section.integer("new_per_second", CONNECTIONS),
        };
        section.end();
        limits
    }
}

impl TimeoutPolicy {
    pub(super) fn read(section: Section) -> Self {
        let policy = Self {
            name: section.named("name", Fault::MissingName),
            timeouts: Timeouts::of(&section),
        };
        section.end();
        policy
    }
}

impl Zone {
    pub(super) fn read(section: Section) -> Self {
        let zone = Self {
            ids: section.zones("ids"),
            timeouts: section.text("timeouts"),
            tracking: section.choice("tracking", TRACKING),
            tcp: section.choice("tcp", TCP),
            pick_up: section.choice("pick_up", PICK_UP),
            connections_max: section.integer("connections_max", CONNECTIONS),
            when_full: section.choice("when_full", WHEN_FULL),
        };
        section.end();
        zone
    }
}
