// SPDX-License-Identifier: BSD-3-Clause
//! Parses and writes the packet of a request that asks for an explanation.

use serde::{Deserialize, Serialize};

/// A packet to explain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketToExplain {
    /// The packet as text, as `millrace acl explain` reads it.
    pub packet: String,
    /// Port at which it arrives: `a`, `b`, or its name; `a` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Index of the pair; may be missing if there is one only, or the port is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<u32>,
    /// Its states, as in rules; by default those of its connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ct: Option<String>,
    /// Its zone; by default that of an untagged packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<u16>,
}
