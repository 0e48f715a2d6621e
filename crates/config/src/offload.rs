// SPDX-License-Identifier: BSD-3-Clause
//! Reads `[offload]`: which connections get NIC rules, and how marks are verified.

use super::section::Section;
use super::{Choices, Located};
use engine::{BypassAfter, MarkVerification};
use std::fmt;
use std::str::FromStr;

/// The section `[offload]`.
#[derive(Default)]
pub(crate) struct Offload {
    pub(crate) policy: Option<Located<Policy>>,
    pub(crate) rules_max: Option<Located<u32>>,
    pub(crate) zone_rules_max: Option<Located<u32>>,
    pub(crate) check: Option<Located<MarkVerification>>,
    pub(crate) quarantine_ms: Option<Located<u32>>,
    pub(crate) api: Option<Located<RuleApi>>,
    pub(crate) marks: Option<Located<MarkPolicy>>,
    pub(crate) bypass: Option<Located<Bypass>>,
    pub(crate) bypass_tcp: Option<Located<Bypass>>,
}

impl Offload {
    pub(super) fn read(section: Section) -> Self {
        let offload = Self {
            policy: section.parsed("policy", str::parse::<Policy>),
            rules_max: section.integer("rules_max", 1..=1 << 24),
            zone_rules_max: section.integer("zone_rules_max", 1..=1 << 24),
            check: section.parsed("check", parse_check),
            quarantine_ms: section.integer("quarantine_ms", 1..=60_000),
            api: section.choice("api", RULE_API),
            marks: section.choice("marks", MARK_POLICY),
            bypass: section.parsed("bypass", str::parse::<Bypass>),
            bypass_tcp: section.parsed("bypass_tcp", str::parse::<Bypass>),
        };
        section.end();
        offload
    }
}

/// How rules are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleApi {
    /// By a flow queue if the port has one, else by calls that wait.
    Auto,
    /// By calls that wait.
    Sync,
}

pub(crate) const RULE_API: &Choices<RuleApi> =
    &[("\"auto\"", RuleApi::Auto), ("\"sync\"", RuleApi::Sync)];

/// When workers use marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkPolicy {
    /// While they save time, as measured.
    Auto,
    /// Always.
    Always,
}

pub(crate) const MARK_POLICY: &Choices<MarkPolicy> =
    &[("\"auto\"", MarkPolicy::Auto), ("\"always\"", MarkPolicy::Always)];

/// Which directions of connections get a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No direction.
    Off,
    /// Every direction, at its first packet.
    All,
    /// Directions with this many packets.
    After(u32),
    /// Directions with this many packets per second.
    Rate(u32),
    /// The busiest directions, as many as the NIC has room and time for.
    Measured,
}

/// Most packets that a policy can wait for.
const AFTER_MAX: u32 = 1 << 30;

/// Error: the text is not a policy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a policy; write \"off\", \"measured\", \"all\", \"after N\" (N packets), or \
     \"rate > N\" (N packets per second), with N of at least 1"
)]
pub struct PolicyWords(String);

impl FromStr for Policy {
    type Err = PolicyWords;

    fn from_str(text: &str) -> Result<Self, PolicyWords> {
        let number = |text: &str| text.parse().ok().filter(|n| (1..=AFTER_MAX).contains(n));
        let policy = match text.split_once(' ') {
            None if text == "off" => Some(Policy::Off),
            None if text == "all" => Some(Policy::All),
            None if text == "measured" => Some(Policy::Measured),
            Some(("rate", rate)) => rate.strip_prefix("> ").and_then(number).map(Policy::Rate),
            Some(("after", packets)) => number(packets).map(Policy::After),
            _ => None,
        };
        policy.ok_or_else(|| PolicyWords(text.to_owned()))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Off => f.write_str("off"),
            Policy::All => f.write_str("all"),
            Policy::After(packets) => write!(f, "after {packets}"),
            Policy::Rate(per_second) => write!(f, "rate > {per_second}"),
            Policy::Measured => f.write_str("measured"),
        }
    }
}

/// Which directions of one protocol the NIC forwards itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// No direction.
    Off,
    /// Directions of open connections with this many packets, that would otherwise get a mark.
    After(u32),
    /// Directions with as many packets as pay for a rule, as measured.
    Auto,
}

impl Bypass {
    /// Returns it as the engine's setting.
    pub fn for_engine(self) -> BypassAfter {
        match self {
            Bypass::Off => BypassAfter::Never,
            Bypass::After(packets) => BypassAfter::Packets(packets),
            Bypass::Auto => BypassAfter::Payback,
        }
    }
}

/// Error: the text is not a value of `bypass`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a value of bypass; write \"off\", \"auto\", or \"after N\" (N packets) with N of \
     at least 1"
)]
pub struct BypassWords(String);

impl FromStr for Bypass {
    type Err = BypassWords;

    fn from_str(text: &str) -> Result<Self, BypassWords> {
        match text.parse() {
            _ if text == "auto" => Ok(Bypass::Auto),
            Ok(Policy::Off) => Ok(Bypass::Off),
            Ok(Policy::After(packets)) => Ok(Bypass::After(packets)),
            _ => Err(BypassWords(text.to_owned())),
        }
    }
}

impl fmt::Display for Bypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bypass::Off => f.write_str("off"),
            Bypass::After(packets) => write!(f, "after {packets}"),
            Bypass::Auto => f.write_str("auto"),
        }
    }
}

/// The key is compared in this many first packets of a rule; later packets are only sampled.
const FIRST_CHECKS: u8 = 4;

/// Returns the verification of the first packets of a rule, and then of one packet in `one_in`.
pub(crate) const fn sampled(one_in: u32) -> MarkVerification {
    MarkVerification::Sampled { first: FIRST_CHECKS, one_in }
}

/// Error: the text is not a value of `check`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a value of check; write \"always\", or \"1/N\" (one packet of N)")]
pub(crate) struct CheckWords(String);

fn parse_check(text: &str) -> Result<MarkVerification, CheckWords> {
    let one_in = |n: &str| n.parse().ok().filter(|&n| n > 0).map(sampled);
    let check = match text.split_once('/') {
        None if text == "always" => Some(MarkVerification::Always),
        Some(("1", n)) => one_in(n),
        _ => None,
    };
    check.ok_or_else(|| CheckWords(text.to_owned()))
}

/// Formats a verification as the value of `check`.
pub(crate) fn check_words(check: MarkVerification) -> String {
    match check {
        MarkVerification::Always => "always".to_owned(),
        MarkVerification::Sampled { one_in, .. } => format!("1/{one_in}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_shown() {
        let (after, rate) = ([1, AFTER_MAX].map(Policy::After), [1, 9999].map(Policy::Rate));
        let plain = [Policy::Off, Policy::All, Policy::Measured];
        for policy in plain.into_iter().chain(after).chain(rate) {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for text in [
            "",
            "on",
            "after",
            "after 0",
            "after -1",
            "after 1073741825",
            "all 3",
            "AFTER 3",
            "rate 3",
        ] {
            let words = text.parse::<Policy>().unwrap_err().to_string();
            assert!(words.contains("\"after N\""), "{text}: {words}");
        }
    }

    #[test]
    fn bypass_is_read_as_it_is_shown() {
        for bypass in [Bypass::Off, Bypass::After(1), Bypass::After(AFTER_MAX), Bypass::Auto] {
            assert_eq!(bypass.to_string().parse(), Ok(bypass));
        }
        for text in ["", "on", "all", "measured", "rate > 3", "after", "after 0"] {
            let words = text.parse::<Bypass>().unwrap_err().to_string();
            assert!(words.contains("\"after N\""), "{text}: {words}");
        }
    }

    #[test]
    fn checks_are_read_as_they_are_shown() {
        for check in [MarkVerification::Always, sampled(1), sampled(u32::MAX)] {
            assert_eq!(parse_check(&check_words(check)), Ok(check));
        }
        for text in ["", "never", "1/0", "2/3", "1/", "1/x"] {
            assert!(parse_check(text).is_err(), "{text}");
        }
    }
}
