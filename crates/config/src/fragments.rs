// SPDX-License-Identifier: BSD-3-Clause
//! Reads `[fragments]`: limits of incomplete datagrams.

use super::Located;
use super::section::Section;
use engine::{MAX_DATAGRAMS, MAX_HOLD};

/// Most milliseconds of either time: ten minutes.
const MS_MAX: u32 = 600_000;

/// The section `[fragments]`.
#[derive(Default)]
pub(crate) struct Fragments {
    pub(crate) datagrams: Option<Located<u32>>,
    pub(crate) per_source: Option<Located<u32>>,
    pub(crate) timeout_ms: Option<Located<u32>>,
    pub(crate) hold: Option<Located<u16>>,
    pub(crate) hold_ms: Option<Located<u32>>,
}

impl Fragments {
    pub(super) fn read(section: Section) -> Self {
        let fragments = Self {
            datagrams: section.integer("datagrams", 0..=MAX_DATAGRAMS),
            per_source: section.integer("per_source", 1..=MAX_DATAGRAMS),
            timeout_ms: section.integer("timeout_ms", 1..=MS_MAX),
            hold: section.integer("hold", 0..=MAX_HOLD),
            hold_ms: section.integer("hold_ms", 1..=MS_MAX),
        };
        section.end();
        fragments
    }
}
