// SPDX-License-Identifier: BSD-3-Clause
//! Writes a rule so that reading it gives the same rule.

use super::values::TCP_FLAGS;
use crate::criteria::{Addresses, Criteria, MaskedValue};
use crate::packet::{CtStates, Packet};
use crate::rule::Rule;
use std::fmt;
use std::net::SocketAddr;
use wire::proto_names;

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(family) = self.criteria.family {
            write!(f, "{} ", family.name())?;
        }
        write!(f, "{}{}", self.action.name(), self.criteria)
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

impl fmt::Display for Packet {
    /// Writes the packet as it is read. Zone, mark and relation to a connection are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Packet { src, dst, .. } = *self;
        let end = |address, port: Option<u16>| match port {
            Some(port) => SocketAddr::new(address, port).to_string(),
            None => address.to_string(),
        };
        let [sport, dport] = [0, 1].map(|at| self.ports.map(|ports| ports[at]));
        let name = proto_names::name(self.proto);
        write!(f, "{name} {} > {}", end(src, sport), end(dst, dport))?;
        match (self.tcp_flags, self.icmp) {
            (Some(flags), _) if flags != 0 => write!(f, " {}", FlagNames(flags)),
            (None, Some([kind, code])) => write!(f, " {kind}/{code}"),
            _ => Ok(()),
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
struct FlagNames(u8);

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
