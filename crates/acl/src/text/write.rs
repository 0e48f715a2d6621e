// SPDX-License-Identifier: BSD-3-Clause
//! Writes a rule so that reading it gives the same rule.

use super::values::TCP_FLAGS;
use crate::criteria::{Addresses, Criteria, MaskedValue};
use crate::packet::CtStates;
use crate::rule::{Rule, RuleOptions};
use std::fmt;
use wire::proto_names;

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(family) = self.criteria.family {
            write!(f, "{} ", family.name())?;
        }
        let RuleOptions { log, no_offload, set_mark, set_label } = self.options;
        let log = if log { " log" } else { "" };
        let no_offload = if no_offload { " no-offload" } else { "" };
        write!(f, "{}{log}{no_offload}{}", self.action.name(), self.criteria)?;
        match set_mark {
            Some(MaskedValue { value, mask: u32::MAX }) => write!(f, " set-mark {value:#x}")?,
            Some(MaskedValue { value, mask }) => write!(f, " set-mark {value:#x}/{mask:#x}")?,
            None => {}
        }
        match set_label {
            Some(MaskedValue { value, mask: u128::MAX }) => write!(f, " set-label {value:#x}"),
            Some(MaskedValue { value, mask }) => write!(f, " set-label {value:#x}/{mask:#x}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Criteria {
    /// Writes every field that is not `any`, each with a space before it. The IP version is left
    /// out: it stands before the action.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, addresses) in [("src", &self.src), ("dst", &self.dst)] {
            if *addresses != Addresses::Any {
                write!(f, " {name} {addresses}")?;
            }
        }
        if !self.proto.is_any() {
            let protocols = self.proto.as_slice().iter().flat_map(|&[first, last]| first..=last);
            let names: Vec<_> = protocols.map(proto_names::name).collect();
            write!(f, " proto {}", names.join(","))?;
        }
        for (name, ports) in [("sport", &self.sport), ("dport", &self.dport)] {
            if !ports.is_any() {
                write!(f, " {name} {ports}")?;
            }
        }
        for (name, numbers) in [("icmp-type", &self.icmp_type), ("icmp-code", &self.icmp_code)] {
            if !numbers.is_any() {
                write!(f, " {name} {numbers}")?;
            }
        }
        if let Some(MaskedValue { value, mask }) = self.tcp_flags {
            write!(f, " tcp-flags {}/{}", FlagNames(value), FlagNames(mask))?;
        }
        if let Some(kind) = self.fragment {
            write!(f, " fragment {kind}")?;
        }
        if !self.zone.is_any() {
            write!(f, " zone {}", self.zone)?;
        }
        if self.ct != CtStates::ANY {
            write!(f, " ct {}", self.ct)?;
        }
        match self.mark {
            Some(MaskedValue { value, mask: u32::MAX }) => write!(f, " mark {value:#x}"),
            Some(MaskedValue { value, mask }) => write!(f, " mark {value:#x}/{mask:#x}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Addresses::Any => f.write_str("any"),
            Addresses::Set(set) => write!(f, "@{}", set.name),
            Addresses::Networks(networks) => {
                for (i, network) in networks.iter().enumerate() {
                    write!(f, "{}{network}", if i > 0 { "," } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

/// TCP flags by name, joined by `+`.
pub(super) struct FlagNames(pub(super) u8);

impl fmt::Display for FlagNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        let set = (0..).zip(TCP_FLAGS).filter(|(bit, _)| self.0 >> bit & 1 == 1);
        for (i, (_, name)) in set.enumerate() {
            write!(f, "{}{name}", if i > 0 { "+" } else { "" })?;
        }
        Ok(())
    }
}
