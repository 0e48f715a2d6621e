// SPDX-License-Identifier: BSD-3-Clause
//! Reads and writes rules as text, one rule a line:
//!
//! ```text
//! permit+reflect src 10.0.0.0/8 proto tcp dport 80,443
//! ```
//!
//! The text of VPP's `show acl-plugin acl` is read too: `0: ipv4 permit+reflect src 10.0.0.0/8 dst
//! 0.0.0.0/0 proto 6 sport 0-65535 dport 80-80 tcpflags 2 mask 18`.

mod ethernet;
mod packet;
mod values;
mod write;

use crate::criteria::{AddressSet, Addresses, Criteria, Family, MaskedValue};
use crate::ranges::Ranges;
use crate::rule::{Action, Rule, RuleOptions};
pub use ethernet::{parse_ethernet_action, parse_ethernet_rule};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
pub use values::parse_addresses;
use wire::{proto, proto_names};

/// Error: the text is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Column of the word at fault, from 1 on.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

impl std::error::Error for RuleError {}

/// A word of a line, and its column.
type Word<'a> = (usize, &'a str);

/// Names of the fields of a rule.
const FIELDS: &str = "src, dst, proto, sport, dport, icmp-type, icmp-code, tcp-flags, fragment, \
    zone, ct, mark, set-mark, set-label";

/// Returns the words of a line with their columns.
fn words(line: &str) -> Vec<Word<'_>> {
    let column = |word: &str| {
        let offset = word.as_ptr() as usize - line.as_ptr() as usize;
        line[..offset].chars().count() + 1
    };
    line.split_whitespace().map(|word| (column(word), word)).collect()
}

/// Reads a rule. `find_set` returns the set with this name, for addresses such as `@office`.
///
/// # Errors
/// If the text is no rule, or no packet could match it.
pub fn parse_rule(
    line: &str,
    find_set: &dyn Fn(&str) -> Option<Arc<AddressSet>>,
) -> Result<Rule, RuleError> {
    let words = words(line);
    let mut rest = &words[..];
    let error = |column, message| RuleError { column, message };
    if let Some((_, word)) = rest.first() {
        // The index that VPP writes before each rule.
        let is_index = word.strip_suffix(':').is_some_and(|index| index.parse::<u32>().is_ok());
        rest = if is_index { &rest[1..] } else { rest };
    }
    let mut criteria = Criteria::ANY;
    let mut action = None;
    let mut options = RuleOptions::default();
    while let Some(((column, word), behind)) = rest.split_first() {
        if let Some((family, _)) = Family::ALL.iter().find(|(_, name)| name == word) {
            if criteria.family.replace(*family).is_some() {
                return Err(error(*column, "the rule has an IP version already".to_owned()));
            }
        } else if let Some((found, _)) = Action::ALL.iter().find(|(_, name)| name == word) {
            if action.replace(*found).is_some() {
                return Err(error(*column, "the rule has an action already".to_owned()));
            }
        } else if let Some(option) = option(&mut options, word) {
            if std::mem::replace(option, true) {
                return Err(error(*column, format!("{word} is written twice")));
            }
        } else {
            break;
        }
        rest = behind;
    }
    let Some(action) = action else {
        let (column, found) = match rest.first() {
            Some((column, word)) => (*column, format!("{word:?} is no action")),
            None => (line.chars().count() + 1, "an action is missing".to_owned()),
        };
        let message = format!("{found}; write permit, permit+reflect, deny, reject, or count");
        return Err(error(column, message));
    };
    parse_fields((&mut criteria, &mut options), rest, line, find_set)?;
    let column = words.first().map_or(1, |(column, _)| *column);
    options.check(action).map_err(|message| error(column, message))?;
    complete(&mut criteria).map_err(|message| error(column, message))?;
    Ok(Rule { criteria, action, options })
}

/// Returns the lines of a text that have a rule, with their numbers from 1 on. A comment begins
/// with `#`.
pub fn rule_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
    (1..).zip(lines).filter(|(_, line)| !line.trim().is_empty())
}

/// Returns the option with this name.
fn option<'a>(options: &'a mut RuleOptions, name: &str) -> Option<&'a mut bool> {
    match name {
        "log" => Some(&mut options.log),
        "no-offload" => Some(&mut options.no_offload),
        _ => None,
    }
}

/// Reads pairs of a field's name and its value.
fn parse_fields(
    (criteria, options): (&mut Criteria, &mut RuleOptions),
    rest: &[Word],
    line: &str,
    find_set: &dyn Fn(&str) -> Option<Arc<AddressSet>>,
) -> Result<(), RuleError> {
    read_fields(rest, line, is_field, &mut |name, value| {
        if let ControlFlow::Break(outcome) = parse_vpp_field(criteria, name, value) {
            return outcome;
        }
        match parse_mark(options, &name.replace('_', "-"), value) {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(()) => parse_field(criteria, name, value, find_set),
        }
    })
}

/// Passes each name of a field and its value to `read`. An error of `read` is at the value if the
/// field is known, and at the name otherwise.
fn read_fields(
    mut rest: &[Word],
    line: &str,
    is_known: impl Fn(&str) -> bool,
    read: &mut impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), RuleError> {
    let mut seen: Vec<String> = Vec::new();
    while let Some(((column, name), behind)) = rest.split_first() {
        let Some(((at, value), behind)) = behind.split_first() else {
            let column = line.chars().count() + 1;
            return Err(RuleError { column, message: format!("{name} has no value") });
        };
        let spelling = name.replace('_', "-");
        if seen.contains(&spelling) {
            let message = format!("{name} is written twice; write its values in one list");
            return Err(RuleError { column: *column, message });
        }
        let column = if is_known(&spelling) { *at } else { *column };
        read(name, value).map_err(|message| RuleError { column, message })?;
        seen.push(spelling);
        rest = behind;
    }
    Ok(())
}

fn is_field(name: &str) -> bool {
    FIELDS.split(", ").any(|field| field == name)
        || ["tcpflags", "tcpmask", "mask", "tag"].contains(&name)
}

/// Reads a field that only VPP has: `tcpflags 2 mask 18`, or `tcpmask`, and a tag.
fn parse_vpp_field(
    criteria: &mut Criteria,
    name: &str,
    value: &str,
) -> ControlFlow<Result<(), String>> {
    let number = || {
        let number = values::number::<u8>(value);
        number.ok_or_else(|| format!("{value:?} are no TCP flags; write a number up to 255"))
    };
    let before = criteria.tcp_flags.unwrap_or(MaskedValue { value: 0, mask: 0xff });
    let flags = match name {
        "tcpflags" => number().map(|value| MaskedValue { value, ..before }),
        "mask" | "tcpmask" => number().map(|mask| MaskedValue { mask, ..before }),
        "tag" => return ControlFlow::Break(Ok(())),
        _ => return ControlFlow::Continue(()),
    };
    ControlFlow::Break(flags.map(|flags| criteria.tcp_flags = Some(flags)))
}

/// Reads `set-mark` or `set-label`; the value is `VALUE` or `VALUE/MASK`. Words of the name are
/// joined by `-` or `_`.
fn parse_mark(
    options: &mut RuleOptions,
    name: &str,
    value: &str,
) -> ControlFlow<Result<(), String>> {
    ControlFlow::Break(match name.replace('_', "-").as_str() {
        "set-mark" => values::bits(value, u32::BITS).map(|MaskedValue { value, mask }| {
            // Both have at most 32 bits.
            options.set_mark = Some(MaskedValue { value: value as u32, mask: mask as u32 });
        }),
        "set-label" => values::bits(value, u128::BITS).map(|bits| options.set_label = Some(bits)),
        _ => return ControlFlow::Continue(()),
    })
}

impl RuleOptions {
    /// Reads the value of `set-mark` or `set-label`.
    ///
    /// # Errors
    /// If the value is none, or there is no such option.
    pub fn parse_mark(&mut self, name: &str, value: &str) -> Result<(), String> {
        match parse_mark(self, name, value) {
            ControlFlow::Break(outcome) => outcome,
            ControlFlow::Continue(()) => Err(format!("{name:?} sets no mark")),
        }
    }
}

/// Reads one field of a rule. Words of its name are joined by `-` or `_`. Call
/// [`Criteria::complete`] after the last field.
///
/// # Errors
/// What is wrong with the value, if there is no such field, or if the set is unknown.
pub fn parse_field(
    criteria: &mut Criteria,
    name: &str,
    value: &str,
    find_set: &dyn Fn(&str) -> Option<Arc<AddressSet>>,
) -> Result<(), String> {
    match name.replace('_', "-").as_str() {
        "src" => criteria.src = values::parse_addresses(value, find_set)?,
        "dst" => criteria.dst = values::parse_addresses(value, find_set)?,
        "proto" => criteria.proto = values::protocols(value)?,
        "sport" => criteria.sport = values::ranges(value, "port", 65_535)?,
        "dport" => criteria.dport = values::ranges(value, "port", 65_535)?,
        "icmp-type" => criteria.icmp_type = values::ranges(value, "ICMP type", 255)?,
        "icmp-code" => criteria.icmp_code = values::ranges(value, "ICMP code", 255)?,
        "tcp-flags" => criteria.tcp_flags = Some(values::tcp_flags(value)?),
        "fragment" => criteria.fragment = Some(values::fragment(value)?),
        "zone" => criteria.zone = values::ranges(value, "zone", 65_535)?,
        "ct" => criteria.ct = values::ct_states(value)?,
        "mark" => criteria.mark = Some(values::mark(value)?),
        "ether-type" | "src-mac" | "dst-mac" => {
            return Err(format!(
                "{name:?} is a field of ethernet lists; write kind = \"ethernet\" in the list"
            ));
        }
        _ => return Err(format!("{name:?} is no field of a rule; these are: {FIELDS}")),
    }
    Ok(())
}

impl Criteria {
    /// Checks the criteria as a whole once all fields are read. Derives the IP version from
    /// addresses and ICMP types.
    ///
    /// # Errors
    /// If no packet could meet all of them.
    pub fn complete(&mut self) -> Result<(), String> {
        complete(self)
    }
}

fn complete(criteria: &mut Criteria) -> Result<(), String> {
    let only = |proto: u8| criteria.proto == Ranges::one(proto);
    let is_icmp = only(proto::ICMP) || only(proto::ICMPV6);
    if is_icmp {
        // VPP has types and codes in the fields of ports.
        for (ports, icmp) in [
            (&mut criteria.sport, &mut criteria.icmp_type),
            (&mut criteria.dport, &mut criteria.icmp_code),
        ] {
            if !ports.is_any() && icmp.is_any() {
                *icmp = values::narrow(ports)
                    .ok_or_else(|| format!("ICMP types and codes end at 255, not at {ports}"))?;
                *ports = Ranges::ANY;
            }
        }
    } else if !criteria.icmp_type.is_any() || !criteria.icmp_code.is_any() {
        return Err("icmp-type and icmp-code need proto icmp or icmpv6".into());
    }
    if let Some(MaskedValue { value, mask }) = criteria.tcp_flags {
        if value & !mask != 0 {
            return Err("tcp-flags has flags that are not in its mask: no packet can match".into());
        }
        if mask == 0 {
            criteria.tcp_flags = None;
        } else if criteria.proto != Ranges::one(proto::TCP) {
            return Err("tcp-flags needs proto tcp".into());
        }
    }
    check_ports(criteria)?;
    check_family(criteria)
}

/// Refuses ports of a protocol that has none.
fn check_ports(criteria: &Criteria) -> Result<(), String> {
    if criteria.sport.is_any() && criteria.dport.is_any() || criteria.proto.is_any() {
        return Ok(());
    }
    let portless = criteria.proto.as_slice().iter().find_map(|&[first, last]| {
        (first..=last).find(|proto| ![proto::TCP, proto::UDP, proto::SCTP].contains(proto))
    });
    match portless {
        Some(proto) => Err(format!(
            "the protocol {} has no ports; sport and dport are for tcp, udp and sctp",
            proto_names::name(proto)
        )),
        None => Ok(()),
    }
}

/// Refuses criteria of both IP versions in one rule, and notes the version that they share.
fn check_family(criteria: &mut Criteria) -> Result<(), String> {
    // The ICMP of the other version is a protocol like any other, unless a type is named.
    let has_type = !criteria.icmp_type.is_any() || !criteria.icmp_code.is_any();
    let by_proto = match criteria.proto.as_slice() {
        [[proto::ICMP, proto::ICMP]] if has_type => Some(Family::Ipv4),
        [[proto::ICMPV6, proto::ICMPV6]] if has_type => Some(Family::Ipv6),
        _ => None,
    };
    let named = [&criteria.src, &criteria.dst].map(|addresses| match addresses {
        Addresses::Networks(_) => addresses.family(),
        Addresses::Any | Addresses::Set(_) => None,
    });
    let mut families = [criteria.family, by_proto, named[0], named[1]].into_iter().flatten();
    let first = families.next();
    match families.find(|family| Some(*family) != first) {
        Some(_) => Err("the rule has criteria of both IPv4 and IPv6: no packet can match".into()),
        None => {
            let is_shown_anyway = named.iter().any(Option::is_some);
            if !is_shown_anyway {
                criteria.family = first.or(criteria.family);
            }
            Ok(())
        }
    }
}
