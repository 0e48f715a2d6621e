// SPDX-License-Identifier: BSD-3-Clause
//! The parts of a personality that are about patterns.

use super::is_default;
use super::notation::Steps;
use super::parts::Told;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Patterns as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pattern {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Headers that are known; all if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Of a list of headers that no chain has, or a header that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Told>,
    /// Which rules may name the port that packets arrive at.
    #[serde(skip_serializing_if = "is_default")]
    pub ports: Ports,
    /// Of a port in other rules; as `unknown` if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_port: Option<Told>,
    /// Of a range: `last` that is not `spec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<Told>,
    /// `last` is refused even where it is the same as `spec`.
    #[serde(skip_serializing_if = "is_default")]
    pub never_last: bool,
    /// Of a mask without a spec; taken as neither if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_alone: Option<Told>,
    /// An item with a spec and without a mask matches any header, instead of by the mask that
    /// `rte_flow.h` has for it.
    #[serde(skip_serializing_if = "is_default")]
    pub no_default_mask: bool,
    /// Of a pattern without a bit that counts; taken if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<Told>,
    /// Of a second set of fields while rules of the same protocols have another; taken if left
    /// out. Told by `create` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_fields: Option<Told>,
    /// Of a set of fields that `exactly` or `only` does not allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_exactly: Option<Told>,
    /// Bytes of all masks together that may have bits; no limit if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<usize>,
    /// Of one more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_wide: Option<Told>,
    /// Where there are no chains: of headers that cannot follow each other.
    #[serde(skip_serializing_if = "is_default")]
    pub structure: Structure,
}

/// Which rules may name the port that packets arrive at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ports {
    /// Those for transfer.
    #[default]
    Transfer,
    /// All.
    Always,
}

/// Of headers that cannot follow each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Structure {
    /// A transport header without a network header before it; taken if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l4_without_l3: Option<Told>,
    /// A network header behind a transport header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3_after_l4: Option<Told>,
    /// Ethernet or a tag behind a network header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2_after_l3: Option<Told>,
    /// Two network headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_l3: Option<Told>,
    /// Two transport headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_l4: Option<Told>,
    /// A tag behind a tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_tags: Option<Told>,
    /// A tunnel's header that is one of UDP, without UDP before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel_without_udp: Option<Told>,
}

/// A list of headers that is taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The headers.
    pub items: Steps,
    /// Fields that must be masked, in full, and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exactly: Option<Vec<String>>,
    /// Fields that may be masked; all that their headers take if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// Without a transport header, packets with TCP, UDP or SCTP are not hit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_transports_only: bool,
}

/// Before the name of a field in a header behind a tunnel's.
pub const INNER: &str = "inner.";

impl Chain {
    /// All names of fields in it: `HEADER.FIELD`, behind [`INNER`] or not.
    pub(super) fn fields(&self) -> impl Iterator<Item = &String> {
        [&self.exactly, &self.only].into_iter().flatten().flatten()
    }

    /// True if a field of a header, inside of a tunnel or outside, may be masked.
    pub fn has(&self, header: &str, field: &str) -> bool {
        let is_it = |name: &String| {
            name.strip_prefix(INNER).unwrap_or(name).split_once('.') == Some((header, field))
        };
        self.only.as_ref().is_none_or(|only| only.iter().any(is_it))
    }
}

/// A parser that is tried where the others refused, and whose words the application sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastParser {
    /// Lists of headers it is for.
    pub items: Steps,
    /// Of headers with a spec or a mask.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub given: BTreeMap<String, Told>,
    /// Of headers without.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub null: BTreeMap<String, Told>,
}

/// A header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ItemFacts {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Of an item without a spec or a mask; taken if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub null: Option<Told>,
    /// Of bits in a mask that are not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<Told>,
    /// Of a tag (`eth`, `vlan`) or fragment header (`ipv6`) that must, or must not, follow; taken
    /// if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<Told>,
    /// What masks of its fields may be; those left out may have no mask.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, FieldFacts>,
}

/// A field of a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum FieldFacts {
    /// What its mask may be.
    Rule(MaskRule),
    /// With more about it.
    Detailed {
        /// What its mask may be.
        mask: MaskRule,
        /// If the rule is `these`: the masks that are taken, beside none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        these: Vec<u64>,
        /// Of a mask that is not taken; that of the item if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<Told>,
        /// Values that are not taken.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        not: Vec<u64>,
        /// Of such a value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_told: Option<Told>,
    },
}

/// What a mask may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskRule {
    /// Any bits.
    Any,
    /// No bits or all bits.
    Full,
    /// All bits.
    Always,
    /// No bits or all bits; of others, none counts, and nobody says so.
    FullOrIgnored,
    /// Any bits, of which none counts, and nobody says so.
    Ignored,
    /// No bits.
    Never,
    /// No bits, or one of a list.
    These,
}

impl FieldFacts {
    /// What its mask may be.
    pub fn rule(&self) -> MaskRule {
        match self {
            Self::Rule(mask) | Self::Detailed { mask, .. } => *mask,
        }
    }

    pub(crate) fn told(&self) -> Option<&Told> {
        match self {
            Self::Rule(_) => None,
            Self::Detailed { told, .. } => told.as_ref(),
        }
    }
}

/// Headers that may not both have bits that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclusive {
    /// Names of headers.
    pub one: Vec<String>,
    /// Names of headers: at the first of these that has bits, the rule is refused.
    pub other: Vec<String>,
    /// The refusal.
    pub told: Told,
}

/// Rules that may not be there together. Told by `create` only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// Headers of rules that exclude the others.
    pub one: Steps,
    /// Headers of rules that exclude the ones.
    pub other: Steps,
    /// The refusal.
    pub told: Told,
}
