// SPDX-License-Identifier: BSD-3-Clause
//! The answer to a command, as text and as JSON.

use super::explain::{explain, in_words};
use super::print::print_rule;
use crate::advice::Advice;
use dpdk::flow::{Cause, FlowError, Rule};
use serde_json::{Value, json};

/// The answer to one command.
#[derive(Debug)]
pub struct Answer {
    /// What was done, for people.
    pub lines: Vec<String>,
    /// What was not, and why.
    pub failures: Vec<String>,
    /// An object.
    pub json: Value,
}

impl Answer {
    /// What was done; `json` is an object.
    pub(super) fn done(lines: Vec<String>, json: Value) -> Self {
        Self { lines, failures: Vec::new(), json }.with("ok", true)
    }

    /// What was asked for by `help`.
    pub fn helped(lines: Vec<String>) -> Self {
        let json = json!({ "command": "help", "help": lines });
        Self::done(lines, json)
    }

    /// Our own reason why nothing was done.
    pub fn not_done(message: String) -> Self {
        let json = json!({ "ok": false, "message": message });
        Self { lines: Vec::new(), failures: vec![message], json }
    }

    /// The NIC's refusal of `rule`, or of something about it or all rules.
    pub(super) fn refused(rule: Option<&Rule>, error: &FlowError) -> Self {
        let explained = rule.map_or_else(|| in_words(error), |rule| explain(rule, error));
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

    /// With what the NIC would take instead; `create` is the command that begins such a rule.
    pub(super) fn advised(mut self, advice: &Advice, create: &str) -> Self {
        self.failures.extend(advice.facts.iter().map(|line| format!("  {line}")));
        let instead = advice.instead.as_ref().map(|rule| format!("{create} {}", print_rule(rule)));
        self.failures.extend(instead.iter().map(|line| format!("  this it would take: {line}")));
        self.with("advice", json!({ "facts": advice.facts, "instead": instead }))
    }

    /// True if all was done.
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }

    /// With a member more.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.json[name] = value.into();
        self
    }
}

/// Which part of the rule, counted from 1 as for people.
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
