// SPDX-License-Identifier: BSD-3-Clause
//! Holds the answer to a command, as text and as JSON.

use super::explain::{explain, in_words};
use super::print::print_rule;
use crate::advice::Advice;
use dpdk::flow::{Cause, FlowError, Rule};
use serde_json::{Value, json};

/// The answer to one command.
#[derive(Debug)]
pub struct Answer {
    /// Lines of text about what was done.
    pub lines: Vec<String>,
    /// Lines of text about what failed, and why.
    pub failures: Vec<String>,
    /// The answer as a JSON object.
    pub json: Value,
}

impl Answer {
    /// Returns the answer to a command that succeeded; `json` is an object.
    pub(super) fn done(lines: Vec<String>, json: Value) -> Self {
        Self { lines, failures: Vec::new(), json }.with("ok", true)
    }

    /// Returns an answer with the text of `help`.
    pub fn helped(lines: Vec<String>) -> Self {
        let json = json!({ "command": "help", "help": lines });
        Self::done(lines, json)
    }

    /// Returns the answer to a command that the shell could not execute.
    pub fn not_done(message: String) -> Self {
        let json = json!({ "ok": false, "message": message });
        Self { lines: Vec::new(), failures: vec![message], json }
    }

    /// Returns the answer to a command that the NIC refused; `rule` is the rule that it was about,
    /// if any.
    pub(super) fn refused(rule: Option<&Rule>, error: &FlowError) -> Self {
        let explained = rule.map_or_else(|| in_words(error), |rule| explain(rule, error));
        Self::of_error(rule, error, &explained)
    }

    /// Returns the answer about a rule that this DPDK cannot express: no NIC was asked.
    pub(super) fn not_asked(rule: &Rule, error: &FlowError) -> Self {
        Self::of_error(Some(rule), error, &["the NIC was not asked".to_owned()])
    }

    fn of_error(rule: Option<&Rule>, error: &FlowError, explained: &[String]) -> Self {
        let mut failures = vec![error.of(rule)];
        let logged = error.log.lines().iter().map(|line| format!("  the driver logged: {line}"));
        failures.extend(logged);
        failures.extend(explained.iter().map(|line| format!("  {line}")));
        let json = json!({
            "ok": false,
            "error": {
                "type": error.kind.number(),
                "type_name": error.kind.to_string(),
                "cause": error.cause.map(|cause| cause_json(cause, rule)),
                "message": error.message,
                "errno": error.errno,
                "reason": error.reason(),
                "log": error.log.lines(),
            },
            "explained": explained,
        });
        Self { lines: Vec::new(), failures, json }
    }

    /// Adds advice: facts, and the command that creates the proposed rule. `create` is the
    /// beginning of that command.
    pub(super) fn advised(mut self, advice: &Advice, create: &str) -> Self {
        self.failures.extend(advice.facts.iter().map(|line| format!("  {line}")));
        let instead = advice.instead.as_ref().map(|rule| format!("{create} {}", print_rule(rule)));
        self.failures.extend(instead.iter().map(|line| format!("  the NIC would take: {line}")));
        self.with("advice", json!({ "facts": advice.facts, "instead": instead }))
    }

    /// True if nothing failed.
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }

    /// Adds a member to the JSON.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.json[name] = value.into();
        self
    }
}

/// Returns the part of the rule as JSON, counted from 1 as in the text.
fn cause_json(cause: Cause, rule: Option<&Rule>) -> Value {
    let item = |place: usize| rule?.pattern.get(place).map(|item| item.kind.name());
    let action = |place: usize| rule?.actions.get(place).map(|action| action.name());
    match cause {
        Cause::Attributes => json!({ "part": "attributes" }),
        Cause::Item(place) => {
            json!({ "part": "item", "number": place + 1, "name": item(place) })
        }
        Cause::Action(place) => {
            json!({ "part": "action", "number": place + 1, "name": action(place) })
        }
    }
}
