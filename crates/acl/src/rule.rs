// SPDX-License-Identifier: BSD-3-Clause
//! Owns the list, its rules and their actions.

use crate::criteria::{Criteria, MaskedValue};
use std::fmt;

/// What happens to a packet that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// It passes. Packets of the other direction are decided by their own list.
    Permit,
    /// It passes. So do all packets of its connection, in both directions, and ICMP errors about
    /// it.
    PermitReflect,
    /// It is dropped.
    Deny,
    /// It is dropped, and its sender is told: by a TCP reset, or by an ICMP error.
    Reject,
    /// It is counted, and the search goes on with the next rule.
    Count,
}

impl Action {
    /// Every action and its name.
    pub const ALL: [(Action, &'static str); 5] = [
        (Action::Permit, "permit"),
        (Action::PermitReflect, "permit+reflect"),
        (Action::Deny, "deny"),
        (Action::Reject, "reject"),
        (Action::Count, "count"),
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(action, _)| *action == self).map_or("", |(_, name)| name)
    }

    /// True if the packet passes.
    pub fn permits(self) -> bool {
        matches!(self, Action::Permit | Action::PermitReflect)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a rule does beside its action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleOptions {
    /// Packets that the rule decides about are logged.
    pub log: bool,
    /// Connections that the rule permits get no NIC rule.
    pub no_offload: bool,
    /// Bits that the rule writes to the mark of the connection.
    pub set_mark: Option<MaskedValue<u32>>,
    /// Bits that the rule writes to the label of the connection.
    pub set_label: Option<MaskedValue<u128>>,
}

impl RuleOptions {
    /// Checks that the options suit a rule with this action.
    ///
    /// # Errors
    /// If they do not.
    pub fn check(self, action: Action) -> Result<(), String> {
        if self.no_offload && !action.permits() {
            return Err("no-offload needs permit or permit+reflect".to_owned());
        }
        match self.sets_marks() && !action.permits() && action != Action::Count {
            true => Err("set-mark and set-label need permit, permit+reflect, or count".to_owned()),
            false => Ok(()),
        }
    }

    /// True if the rule writes to the mark or the label of the connection.
    pub fn sets_marks(self) -> bool {
        self.set_mark.is_some() || self.set_label.is_some()
    }
}

/// A rule: criteria, and the action for packets that meet all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What a packet must have.
    pub criteria: Criteria,
    /// What happens to it then.
    pub action: Action,
    /// What else happens.
    pub options: RuleOptions,
}

/// An ordered list of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessList {
    /// Name, for messages and commands.
    pub name: String,
    /// The rules. The first that matches decides.
    pub rules: Vec<Rule>,
    /// Action for packets that no rule matches; never [`Action::Count`].
    pub default: Action,
}

impl AccessList {
    /// Maximum number of rules.
    pub const RULES_MAX: usize = 65_536;

    /// Returns the action of a decision by this rule, or of the default if `rule` is `None`.
    pub fn action(&self, rule: Option<u32>) -> Action {
        rule.and_then(|rule| self.rules.get(rule as usize)).map_or(self.default, |rule| rule.action)
    }
}
