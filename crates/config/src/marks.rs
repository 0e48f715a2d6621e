// SPDX-License-Identifier: BSD-3-Clause
//! Reads `[[mark]]`: marks and labels that connections get when they begin.

use super::problem::{Fault, Located};
use super::section::Section;
use engine::{MaskedBits, Prefix};
use wire::proto_names;

/// A `[[mark]]`: bits to write to connections that match.
pub(crate) struct Mark {
    pub(crate) zone: Option<Located<u16>>,
    pub(crate) proto: Option<Located<u8>>,
    pub(crate) src: Option<Located<Prefix>>,
    pub(crate) dst: Option<Located<Prefix>>,
    pub(crate) address: Option<Located<Prefix>>,
    pub(crate) sport: Option<Located<u16>>,
    pub(crate) dport: Option<Located<u16>>,
    pub(crate) port: Option<Located<u16>>,
    /// At least one of the two is set, unless there is a problem.
    pub(crate) set_mark: Option<Located<MaskedBits>>,
    pub(crate) set_label: Option<Located<MaskedBits>>,
}

impl Mark {
    pub(super) fn read(section: Section) -> Self {
        section.one_of(["set_mark", "set_label"], Fault::MissingMark);
        let net = |key| section.parsed(key, str::parse::<Prefix>);
        let port = |key| section.integer(key, 0..=u16::MAX);
        let bits = |key, len| section.parsed(key, |text| MaskedBits::read(text, len));
        let mark = Self {
            zone: section.integer("zone", 0..=u16::MAX),
            proto: section.parsed("proto", proto_names::number),
            src: net("src"),
            dst: net("dst"),
            address: net("address"),
            sport: port("sport"),
            dport: port("dport"),
            port: port("port"),
            set_mark: bits("set_mark", u32::BITS),
            set_label: bits("set_label", u128::BITS),
        };
        section.end();
        mark
    }
}
