// SPDX-License-Identifier: BSD-3-Clause
//! What a command was answered: the same for people and as JSON.

use super::explain::explain;
use dpdk::flow::{Cause, FlowError, Rule};
use serde_json::{Value, json};

/// The answer to one command.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Whether it was done.
    pub(crate) ok: bool,
    /// For people; may be empty.
    pub(crate) lines: Vec<String>,
    /// An object.
    pub(crate) json: Value,
}

impl Answer {
    /// What was done; `json` is an object.
    pub(super) fn done(lines: Vec<String>, mut json: Value) -> Self {
        json["ok"] = true.into();
        Self { ok: true, lines, json }
    }

    /// What was asked for by `help`.
    pub(crate) fn helped(lines: Vec<String>) -> Self {
        let json = json!({ "command": "help", "help": lines });
        Self::done(lines, json)
    }

    /// Our own reason why nothing was done.
    pub(crate) fn not_found(message: String) -> Self {
        Self { ok: false, json: json!({ "ok": false, "message": message }), lines: vec![message] }
    }

    /// The NIC's refusal of `rule`, or of something about it or all rules.
    pub(super) fn refused(rule: Option<&Rule>, error: &FlowError) -> Self {
        let explained = rule.map(|rule| explain(rule, error)).unwrap_or_default();
        let mut lines = vec![error.of(rule)];
        lines.extend(error.log.lines().iter().map(|line| format!("  the driver logged: {line}")));
        lines.extend(explained.iter().map(|line| format!("  {line}")));
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
        Self { ok: false, lines, json }
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
