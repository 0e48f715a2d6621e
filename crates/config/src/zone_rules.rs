// SPDX-License-Identifier: BSD-3-Clause
//! Reads `[[zone_rule]]`: rules that assign packets to zones, whatever their tags.

use super::problem::{Fault, Located};
use super::section::Section;
use engine::Prefix;
use wire::proto_names;

/// A `[[zone_rule]]`: the zone of the packets that match.
pub(crate) struct ZoneRule {
    pub(crate) from: Option<Located<u16>>,
    pub(crate) proto: Option<Located<u8>>,
    pub(crate) address: Option<Located<Prefix>>,
    pub(crate) port: Option<Located<u16>>,
    pub(crate) peer_address: Option<Located<Prefix>>,
    pub(crate) peer_port: Option<Located<u16>>,
    /// `None` only if there is a problem.
    pub(crate) zone: Option<Located<u16>>,
}

impl ZoneRule {
    pub(super) fn read(section: Section) -> Self {
        section.one_of(["zone"], Fault::MissingZone);
        let net = |key| section.parsed(key, str::parse::<Prefix>);
        let number = |key| section.integer(key, 0..=u16::MAX);
        let rule = Self {
            from: number("from"),
            proto: section.parsed("proto", proto_names::number),
            address: net("address"),
            port: number("port"),
            peer_address: net("peer_address"),
            peer_port: number("peer_port"),
            zone: number("zone"),
        };
        section.end();
        rule
    }
}
