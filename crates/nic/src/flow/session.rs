// SPDX-License-Identifier: BSD-3-Clause
//! Executes commands on a shell's ports, and keeps the rules that it created on them.
//!
//! Numbers are those of testpmd. Ports are numbered in the order in which they were named. The
//! number of a new rule is one more than the highest that exists.

mod indirect;
mod show;

use super::answer::Answer;
use super::by_id::by_id;
use super::grammar::{Command, Query, RuleName, RuleOptions};
use super::print::{print_rss, print_rule};
use super::settings::Settings;
use crate::advice::advise;
use dpdk::flow::{Action, Age, Count, FlowError, FlowRule, IndirectAction, Rule};
use dpdk::{Port, RxQueue, TxQueue};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use twin::Personality;

/// A started port, with its queues.
pub struct OpenPort {
    /// The started port.
    pub port: Port,
    /// Its queues, held so that the port stays started.
    pub queues: (Vec<RxQueue>, Vec<TxQueue>),
    /// Personality of its NIC, if known.
    pub personality: Option<Personality>,
}

/// Linux's error number for a call that does not exist.
const ENOSYS: i32 = 38;

/// A rule of the NIC, and the rule as it was requested.
struct CreatedRule {
    rule: Rule,
    flow: FlowRule,
    /// The number that the user gave the rule.
    user_id: Option<u64>,
}

struct Place {
    port: Port,
    rules: BTreeMap<u32, CreatedRule>,
    /// Indirect actions, each with the action as it was requested.
    indirect: BTreeMap<u32, (IndirectAction, Action)>,
    tally: Tally,
    queues: (Vec<RxQueue>, Vec<TxQueue>),
    personality: Option<Personality>,
}

/// Rules that were created and destroyed, and attempts that failed.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    created: u64,
    destroyed: u64,
    not_created: u64,
    not_destroyed: u64,
}

/// What commands need besides their port.
struct Shared<'a> {
    settings: &'a Settings,
    /// DPDK's numbers of all ports.
    ids: &'a [u16],
}

/// The state of a shell.
pub struct Session {
    ports: Vec<Place>,
    settings: Settings,
}

impl Session {
    /// Returns a session without rules; the number of a port is its index in `ports`.
    pub fn new(ports: Vec<OpenPort>) -> Self {
        let place = |open: OpenPort| Place {
            port: open.port,
            rules: BTreeMap::new(),
            indirect: BTreeMap::new(),
            tally: Tally::default(),
            queues: open.queues,
            personality: open.personality,
        };
        Self { ports: ports.into_iter().map(place).collect(), settings: Settings::new() }
    }

    /// Returns the number of ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Returns the numbers of a port's rules.
    pub fn rules(&self, port: u16) -> Vec<u32> {
        let place = self.ports.get(usize::from(port));
        place.map(|place| place.rules.keys().copied().collect()).unwrap_or_default()
    }

    /// Executes `command`. The caller handles `help` and `quit`.
    pub fn execute(&mut self, command: &Command) -> Answer {
        let (name, port) = match *command {
            Command::Validate { port, .. } => ("validate", port),
            Command::Create { port, .. } => ("create", port),
            Command::Destroy { port, .. } => ("destroy", port),
            Command::Flush { port } => ("flush", port),
            Command::Query { port, .. } => ("query", port),
            Command::List { port, .. } => ("list", port),
            Command::Isolate { port, .. } => ("isolate", port),
            Command::Dump { port, .. } => ("dump", port),
            Command::Aged { port, .. } => ("aged", port),
            Command::Space { port } => ("space", port),
            Command::Info { port } => ("info", port),
            Command::Indirect { port, .. } => ("indirect_action", port),
            Command::Set(ref setting) => {
                self.settings.set(setting);
                return Answer::done(Vec::new(), json!({})).with("command", "set");
            }
            Command::Show { what, port } => return self.show(what, port),
            Command::NotHere { ref name, reason } => {
                let message = format!("not carried out by this shell: `{name}`: {reason}");
                return Answer::not_done(message).with("command", name.clone());
            }
            Command::Help(_) | Command::Quit => return Answer::done(Vec::new(), json!({})),
        };
        let ids: Vec<u16> = self.ports.iter().map(|place| place.port.id()).collect();
        let shared = Shared { settings: &self.settings, ids: &ids };
        let answer = match self.ports.get_mut(usize::from(port)) {
            Some(place) => place.execute(port, command, &shared),
            None => Answer::not_done(self.invalid_port(port)),
        };
        answer.with("command", name).with("port", port)
    }

    /// Returns the message about a port that is not there.
    fn invalid_port(&self, port: u16) -> String {
        match self.ports.len().saturating_sub(1) {
            0 => format!("Invalid port {port}: there is only port 0"),
            last => format!("Invalid port {port}: ports are 0 to {last}"),
        }
    }
}

/// The rule as the driver gets it, or the answer that says why it gets none.
type Prepared = Result<Rule, Answer>;

impl Place {
    /// Executes `command` on this port.
    fn execute(&mut self, port: u16, command: &Command, shared: &Shared<'_>) -> Answer {
        match command {
            Command::Validate { rule, options, .. } => {
                let prepared = match self.prepared(rule, options, shared) {
                    Ok(prepared) => prepared,
                    Err(answer) => return answer,
                };
                match self.port.flow_validate(&prepared) {
                    Ok(()) => Answer::done(vec!["Flow rule validated".to_owned()], json!({})),
                    Err(error) => self.refused(port, rule, &error),
                }
            }
            Command::Create { rule, options, .. } => match self.prepared(rule, options, shared) {
                Ok(prepared) => self.create(port, rule, &prepared, options),
                Err(answer) => answer,
            },
            Command::Destroy { rules, .. } => self.destroy_named(rules),
            Command::Flush { .. } => self.flush(),
            Command::Query { rule, query, .. } => self.query(*rule, *query),
            Command::List { groups, .. } => self.list(groups),
            Command::Isolate { isolate, .. } => {
                let how = if *isolate { "now restricted" } else { "not restricted anymore" };
                let line =
                    format!("Ingress traffic on port {port} is {how} to the defined flow rules");
                let isolated = self.port.flow_isolate(*isolate);
                done_or_refused(isolated, |()| (vec![line], json!({ "isolated": isolate })))
            }
            Command::Dump { rule, file, .. } => self.dump(*rule, file.as_deref()),
            Command::Aged { destroy, .. } => self.aged(port, *destroy),
            Command::Space { .. } => self.space(),
            Command::Info { .. } => self.info(port),
            Command::Indirect { what, .. } => self.indirect(what, shared),
            Command::Set(_)
            | Command::Show { .. }
            | Command::NotHere { .. }
            | Command::Help(_)
            | Command::Quit => unreachable!("they name no port"),
        }
    }

    /// Returns the rule with DPDK's port numbers, and with the data that its actions refer to.
    fn prepared(&self, rule: &Rule, options: &RuleOptions, shared: &Shared<'_>) -> Prepared {
        if let Some(tunnel) = options.tunnel {
            return Err(Answer::not_done(format!(
                "not carried out by this shell: tunnel {tunnel}: the shell has no tunnel offload \
                 (`rte_flow_tunnel`): match the tunnel's headers in the pattern"
            )));
        }
        let applied = shared.settings.applied(rule, &self.indirect).map_err(Answer::not_done)?;
        let prepared = by_id(&applied, shared.ids);
        match prepared.check() {
            Ok(()) => Ok(prepared),
            Err(error) => Err(Answer::not_asked(rule, &error)),
        }
    }

    /// Returns the answer to a refusal, with advice from the NIC's personality.
    fn refused(&self, port: u16, rule: &Rule, error: &FlowError) -> Answer {
        let answer = Answer::refused(Some(rule), error);
        let Some(personality) = &self.personality else { return answer };
        let mut advice = advise(personality, rule, self.queues.0.len() as u16);
        // The personality may be wrong, so the port must accept the proposed rule too.
        advice.instead = advice.instead.filter(|rule| match self.port.flow_validate(rule) {
            Ok(()) => true,
            Err(error) => error.errno == ENOSYS,
        });
        answer.advised(&advice, &format!("flow create {port}"))
    }

    /// Creates `prepared`, which the user wrote as `rule`.
    fn create(&mut self, port: u16, rule: &Rule, prepared: &Rule, options: &RuleOptions) -> Answer {
        match self.port.flow_create(prepared) {
            Ok(flow) => {
                let id = self.rules.last_key_value().map_or(0, |(highest, _)| highest + 1);
                let user_id = options.user_id;
                self.rules.insert(id, CreatedRule { rule: rule.clone(), flow, user_id });
                self.tally.created += 1;
                let user = user_id.map(|id| format!(", user-id {id:#x}")).unwrap_or_default();
                let line = format!("Flow rule #{id} created{user}");
                Answer::done(vec![line], json!({ "rule": id }))
            }
            Err(error) => {
                self.tally.not_created += 1;
                self.refused(port, rule, &error)
            }
        }
    }

    fn flush(&mut self) -> Answer {
        let flushed = self.rules.len();
        self.rules.clear();
        self.tally.destroyed += flushed as u64;
        done_or_refused(self.port.flow_flush(), |()| (vec![], json!({ "rules": flushed })))
    }

    /// Returns the number of a rule, or the answer that there is none.
    fn number_of(&self, name: RuleName) -> Result<u32, Answer> {
        let found = match name {
            RuleName::Number(number) => {
                u32::try_from(number).ok().filter(|id| self.rules.contains_key(id))
            }
            RuleName::UserId(user) => {
                let is_it = |made: &CreatedRule| made.user_id == Some(user);
                self.rules.iter().find(|(_, made)| is_it(made)).map(|(id, _)| *id)
            }
        };
        let (RuleName::Number(number) | RuleName::UserId(number)) = name;
        found.ok_or_else(|| not_found(number))
    }

    /// Destroys rules by their names; continues with the others if one is not there.
    fn destroy_named(&mut self, names: &[RuleName]) -> Answer {
        let (mut ids, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            match self.number_of(*name) {
                Ok(id) => ids.push(id),
                Err(answer) => missing.push(answer),
            }
        }
        with_failed(self.destroy(&ids), missing)
    }

    /// Destroys rules; continues with the others if one cannot be destroyed.
    fn destroy(&mut self, ids: &[u32]) -> Answer {
        let (mut destroyed, mut failed) = (Vec::new(), Vec::new());
        for &id in ids {
            match self.destroy_one(id) {
                Ok(()) => destroyed.push(id),
                Err(answer) => failed.push(answer.with("rule", id)),
            }
        }
        let lines = destroyed.iter().map(|id| format!("Flow rule #{id} destroyed")).collect();
        with_failed(Answer::done(lines, json!({ "destroyed": destroyed })), failed)
    }

    fn destroy_one(&mut self, id: u32) -> Result<(), Answer> {
        // A number that was given twice is gone the second time.
        let made = self.rules.remove(&id).ok_or_else(|| not_found(id.into()))?;
        let CreatedRule { rule, flow, user_id } = made;
        let destroyed = self.port.flow_destroy(flow).map_err(|(flow, error)| {
            let answer = Answer::refused(Some(&rule), &error);
            self.rules.insert(id, CreatedRule { rule, flow, user_id });
            answer
        });
        match destroyed {
            Ok(()) => self.tally.destroyed += 1,
            Err(_) => self.tally.not_destroyed += 1,
        }
        destroyed
    }

    fn query(&self, name: RuleName, kind: Query) -> Answer {
        let id = match self.number_of(name) {
            Ok(id) => id,
            Err(answer) => return answer,
        };
        let CreatedRule { rule, flow, .. } = &self.rules[&id];
        let answer = match kind {
            Query::Count => {
                self.port.flow_query_count(flow, false).map(|count| lines_of_count(&count))
            }
            Query::Age => self.port.flow_query_age(flow).map(|age| lines_of_age(&age)),
            Query::Rss => self.port.flow_query_rss(flow).map(|rss| {
                let text = print_rss(&rss);
                (vec!["RSS:".to_owned(), format!(" {text}")], json!({ "rss": text }))
            }),
            Query::Other(action) => {
                return Answer::not_done(format!(
                    "Cannot display result for action `{action}`: only count, age and rss have one"
                ))
                .with("rule", id);
            }
        };
        match answer {
            Ok((lines, json)) => Answer::done(lines, json).with("rule", id),
            Err(error) => Answer::refused(Some(rule), &error).with("rule", id),
        }
    }

    /// Lists rules by group, priority and number.
    fn list(&self, groups: &[u32]) -> Answer {
        let is_wanted =
            |made: &CreatedRule| groups.is_empty() || groups.contains(&made.rule.attributes.group);
        let mut rules: Vec<_> = self.rules.iter().filter(|(_, made)| is_wanted(made)).collect();
        rules.sort_by_key(|(id, made)| {
            (made.rule.attributes.group, made.rule.attributes.priority, **id)
        });
        let mut lines = Vec::new();
        if !self.rules.is_empty() {
            lines.push("ID\tGroup\tPrio\tAttr\tRule".to_owned());
        }
        lines.extend(rules.iter().map(|(id, made)| {
            format!("{}\t{}", place_of(**id, &made.rule), summary_of(&made.rule))
        }));
        let json: Vec<_> = rules.iter().map(|(id, made)| rule_json(**id, &made.rule)).collect();
        Answer::done(lines, json!({ "rules": json }))
    }

    fn dump(&self, name: Option<RuleName>, file: Option<&str>) -> Answer {
        let id = match name.map(|name| self.number_of(name)).transpose() {
            Ok(id) => id,
            Err(answer) => return answer,
        };
        let made = id.map(|id| &self.rules[&id]);
        let text = match self.port.flow_dump(made.map(|made| &made.flow)) {
            Ok(text) => text,
            Err(error) => return Answer::refused(made.map(|made| &made.rule), &error),
        };
        let mut lines = match file {
            None => text.lines().map(str::to_owned).collect(),
            Some(path) => match std::fs::write(path, &text) {
                Ok(()) => Vec::new(),
                Err(error) => return Answer::not_done(format!("cannot write {path:?}: {error}")),
            },
        };
        lines.push("Flow dump finished".to_owned());
        Answer::done(lines, json!({ "dump": text }))
    }

    fn aged(&mut self, port: u16, destroy: bool) -> Answer {
        let handles = match self.port.flow_aged() {
            Ok(handles) => handles,
            Err(error) => return Answer::refused(None, &error),
        };
        let id = |handle| self.rules.iter().find(|(_, made)| made.flow.handle() == handle);
        let aged: Vec<_> = handles.into_iter().filter_map(id).collect();
        let mut lines = vec![format!("Port {port} total aged flows: {}", aged.len())];
        if !aged.is_empty() {
            lines.push("ID\tGroup\tPrio\tAttr".to_owned());
        }
        lines.extend(aged.iter().map(|(id, made)| place_of(**id, &made.rule)));
        let ids: Vec<u32> = aged.iter().map(|(id, _)| **id).collect();
        if !destroy {
            return Answer::done(lines, json!({ "aged": ids }));
        }
        let mut answer = self.destroy(&ids);
        lines.append(&mut answer.lines);
        Answer { lines, ..answer }.with("aged", ids)
    }
}

fn not_found(id: u64) -> Answer {
    Answer::not_done(format!("Flow rule #{id} not found")).with("rule", id)
}

/// Adds failures to an answer about several rules.
fn with_failed(mut answer: Answer, failed: Vec<Answer>) -> Answer {
    for one in failed {
        answer.failures.extend(one.failures);
        match answer.json["failed"].as_array_mut() {
            Some(list) => list.push(one.json),
            None => answer.json["failed"] = json!([one.json]),
        }
    }
    let ok = answer.is_ok();
    answer.with("ok", ok)
}

fn lines_of_count(count: &Count) -> (Vec<String>, Value) {
    let number = |count: Option<u64>| count.unwrap_or_default();
    let lines = vec![
        "COUNT:".to_owned(),
        format!(" hits_set: {}", u8::from(count.hits.is_some())),
        format!(" bytes_set: {}", u8::from(count.bytes.is_some())),
        format!(" hits: {}", number(count.hits)),
        format!(" bytes: {}", number(count.bytes)),
    ];
    (lines, json!({ "hits": count.hits, "bytes": count.bytes }))
}

fn lines_of_age(age: &Age) -> (Vec<String>, Value) {
    let lines = vec![
        "AGE:".to_owned(),
        format!(" aged: {}", u8::from(age.aged)),
        format!(" sec_since_last_hit_valid: {}", u8::from(age.idle_seconds.is_some())),
        format!(" sec_since_last_hit: {}", age.idle_seconds.unwrap_or_default()),
    ];
    (lines, json!({ "aged": age.aged, "idle_seconds": age.idle_seconds }))
}

fn done_or_refused<T>(
    result: Result<T, FlowError>,
    done: impl FnOnce(T) -> (Vec<String>, Value),
) -> Answer {
    match result.map(done) {
        Ok((lines, json)) => Answer::done(lines, json),
        Err(error) => Answer::refused(None, &error),
    }
}

/// Returns number, group, priority and direction of a rule, as in the lists of testpmd.
fn place_of(id: u32, rule: &Rule) -> String {
    let attributes = &rule.attributes;
    let flag = |set: bool, letter: char| if set { letter } else { '-' };
    let flags: String = [
        flag(attributes.ingress, 'i'),
        flag(attributes.egress, 'e'),
        flag(attributes.transfer, 't'),
    ]
    .into_iter()
    .collect();
    format!("{id}\t{}\t{}\t{flags}", attributes.group, attributes.priority)
}

/// Returns a summary of a rule: `ETH IPV4 => QUEUE`.
fn summary_of(rule: &Rule) -> String {
    let items = rule.pattern.iter().map(|item| item.kind.name());
    let actions = rule.actions.iter().map(|action| action.name());
    let words: Vec<_> = items.chain(["=>"]).chain(actions).filter(|w| *w != "void").collect();
    words.join(" ").to_uppercase()
}

fn rule_json(id: u32, rule: &Rule) -> Value {
    let attributes = &rule.attributes;
    json!({
        "rule": id,
        "group": attributes.group,
        "priority": attributes.priority,
        "ingress": attributes.ingress,
        "egress": attributes.egress,
        "transfer": attributes.transfer,
        "pattern": rule.pattern.iter().map(|item| item.kind.name()).collect::<Vec<_>>(),
        "actions": rule.actions.iter().map(|action| action.name()).collect::<Vec<_>>(),
        "text": print_rule(rule),
    })
}
