// SPDX-License-Identifier: BSD-3-Clause
//! What a configuration has written to connections as they begin.

use super::problem::{Fault, Written};
use super::section::Section;
use engine::{MaskedBits, Prefix};
use wire::proto_names;

/// `[[mark]]`: bits for the connections that are meant.
pub(crate) struct Mark {
    pub(crate) zone: Option<Written<u16>>,
    pub(crate) proto: Option<Written<u8>>,
    pub(crate) src: Option<Written<Prefix>>,
    pub(crate) dst: Option<Written<Prefix>>,
    pub(crate) address: Option<Written<Prefix>>,
    pub(crate) sport: Option<Written<u16>>,
    pub(crate) dport: Option<Written<u16>>,
    pub(crate) port: Option<Written<u16>>,
    /// One of both is there, or a problem says why not.
    pub(crate) set_mark: Option<Written<MaskedBits>>,
    pub(crate) set_label: Option<Written<MaskedBits>>,
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
