// SPDX-License-Identifier: BSD-3-Clause
//! Defines the parts of a personality that are about patterns.

use super::is_default;
use super::notation::Steps;
use super::parts::RefusalFacts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Patterns as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pattern {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Headers that the NIC knows; all if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Refusal of a list of headers that no chain has, or of an unknown header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<RefusalFacts>,
    /// Rules that may name the port at which packets arrive.
    #[serde(skip_serializing_if = "is_default")]
    pub ports: Ports,
    /// Refusal of a port in other rules; `unknown` if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_port: Option<RefusalFacts>,
    /// Refusal of a range: `last` that is not `spec`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<RefusalFacts>,
    /// `last` is refused even where it is the same as `spec`.
    #[serde(skip_serializing_if = "is_default")]
    pub never_last: bool,
    /// Refusal of a mask without a spec; treated as neither if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask_alone: Option<RefusalFacts>,
    /// An item with a spec and without a mask matches any header, instead of by the mask that
    /// `rte_flow.h` has for it.
    #[serde(skip_serializing_if = "is_default")]
    pub no_default_mask: bool,
    /// Refusal of a pattern without a bit that counts; accepted if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<RefusalFacts>,
    /// Refusal of a second set of fields while rules of the same protocols have another; accepted
    /// if left out. Only `create` reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_fields: Option<RefusalFacts>,
    /// Refusal of a set of fields that `exactly` or `only` does not allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_exactly: Option<RefusalFacts>,
    /// Maximum number of bytes with bits in all masks together; no limit if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<usize>,
    /// Refusal of one more byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_wide: Option<RefusalFacts>,
    /// Refusals of headers that cannot follow each other, if there are no chains.
    #[serde(skip_serializing_if = "is_default")]
    pub structure: Structure,
}

/// Rules that may name the port at which packets arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ports {
    /// Rules for transfer.
    #[default]
    Transfer,
    /// All.
    Always,
}

/// Refusals of headers that cannot follow each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Structure {
    /// A transport header without a network header before it; accepted if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l4_without_l3: Option<RefusalFacts>,
    /// A network header behind a transport header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3_after_l4: Option<RefusalFacts>,
    /// Ethernet or a tag behind a network header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2_after_l3: Option<RefusalFacts>,
    /// Two network headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_l3: Option<RefusalFacts>,
    /// Two transport headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_l4: Option<RefusalFacts>,
    /// A tag behind a tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_tags: Option<RefusalFacts>,
    /// A tunnel header that needs UDP, without UDP before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel_without_udp: Option<RefusalFacts>,
}

/// A list of headers that is accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The headers.
    pub items: Steps,
    /// Fields that must be fully masked; no others may have a mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exactly: Option<Vec<String>>,
    /// Fields that may be masked; all that their headers allow if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
    /// If the chain has no transport header, packets with TCP, UDP or SCTP do not match.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_transports_only: bool,
}

/// Prefix of a field in a header behind a tunnel's.
pub const INNER: &str = "inner.";

impl Chain {
    /// Returns all names of fields in the chain: `HEADER.FIELD`, behind [`INNER`] or not.
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

/// A parser that is tried after the others have refused, and whose message the application sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastParser {
    /// Lists of headers to which it applies.
    pub items: Steps,
    /// Refusals of headers with a spec or a mask.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub given: BTreeMap<String, RefusalFacts>,
    /// Refusals of headers without one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub null: BTreeMap<String, RefusalFacts>,
}

/// A header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ItemFacts {
    /// Source of the facts, for readers of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Refusal of an item without a spec or a mask; accepted if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub null: Option<RefusalFacts>,
    /// Refusal of bits in a mask that are not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<RefusalFacts>,
    /// Refusal of a tag (`eth`, `vlan`) or fragment header (`ipv6`) that must, or must not, follow;
    /// accepted if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<RefusalFacts>,
    /// Masks that its fields may have; fields that are left out may have no mask.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, FieldFacts>,
}

/// A field of a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum FieldFacts {
    /// The masks that the field may have.
    Rule(MaskRule),
    /// A rule with further facts.
    Detailed {
        /// The masks that the field may have.
        mask: MaskRule,
        /// If the rule is `these`: the masks that are accepted, beside none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        these: Vec<u64>,
        /// Refusal of a mask that is not accepted; that of the item if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<RefusalFacts>,
        /// Values that are not accepted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        not: Vec<u64>,
        /// Refusal of such a value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_told: Option<RefusalFacts>,
    },
}

/// Masks that a field may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskRule {
    /// Any bits.
    Any,
    /// No bits or all bits.
    Full,
    /// All bits.
    Always,
    /// No bits or all bits; other masks are accepted and silently ignored.
    FullOrIgnored,
    /// Any bits; all are silently ignored.
    Ignored,
    /// No bits.
    Never,
    /// No bits, or one of a list.
    These,
}

impl FieldFacts {
    /// The masks that the field may have.
    pub fn rule(&self) -> MaskRule {
        match self {
            Self::Rule(mask) | Self::Detailed { mask, .. } => *mask,
        }
    }

    pub(crate) fn told(&self) -> Option<&RefusalFacts> {
        match self {
            Self::Rule(_) => None,
            Self::Detailed { told, .. } => told.as_ref(),
        }
    }
}

/// Headers of which only one may have bits that count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclusive {
    /// Names of headers.
    pub one: Vec<String>,
    /// Names of headers: at the first of these that has bits, the rule is refused.
    pub other: Vec<String>,
    /// The refusal.
    pub told: RefusalFacts,
}

/// Rules that exclude each other. Only `create` reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// Headers of rules that exclude the others.
    pub one: Steps,
    /// Headers of rules that the first ones exclude.
    pub other: Steps,
    /// The refusal.
    pub told: RefusalFacts,
}
