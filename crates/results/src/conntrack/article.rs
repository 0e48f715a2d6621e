// SPDX-License-Identifier: BSD-3-Clause
//! Figures of the article about connection tracking in Open vSwitch 3.0, on other hardware: an
//! Intel X710 and a Xeon Gold 5118. Only figures that the project has a record of are here.

use super::text::rate;
use super::{ConntrackResults, Lifetime};

/// A version of Open vSwitch, and the connections per second that the article has of it, by
/// configuration.
pub(super) struct Published {
    pub(super) name: &'static str,
    pub(super) profile: Lifetime,
    pub(super) rates: &'static [(&'static str, f64)],
}

/// The article's lines.
pub(super) const PUBLISHED: [Published; 3] = [
    Published {
        name: "Open vSwitch 2.17, article, other hardware",
        profile: Lifetime::Short,
        rates: &[("1C/1Q", 39.7e3)],
    },
    Published {
        name: "Open vSwitch 3.0, article, other hardware",
        profile: Lifetime::Short,
        rates: &[("1C/1Q", 48.2e3), ("8C/8Q", 100.9e3)],
    },
    Published {
        name: "Open vSwitch 3.0, article, other hardware",
        profile: Lifetime::Long,
        rates: &[("1C/1Q", 1.2e3), ("8C/8Q", 4.8e3)],
    },
];

/// Returns the article's figures as rows of the table, for the lifetimes that `results` have.
pub(super) fn cells(results: &ConntrackResults) -> impl Iterator<Item = [String; 10]> {
    let has = |profile| results.rows.iter().any(|row| row.point.profile == profile);
    let shown = PUBLISHED.iter().filter(move |it| has(it.profile));
    let of_one = |it: &'static Published| {
        it.rates.iter().map(|(size, cps)| {
            let mut cells = [const { String::new() }; 10].map(|_| "-".to_owned());
            cells[0] = it.profile.name().to_owned();
            cells[1] = format!("{}, {size}", it.name);
            cells[2] = rate(Some(*cps), false);
            cells[9] = String::new();
            cells
        })
    };
    shown.flat_map(of_one)
}
