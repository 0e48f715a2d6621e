// SPDX-License-Identifier: BSD-3-Clause
//! Executes commands on a shell's ports, and keeps the rules that it created on them.
//!
//! Numbers are those of testpmd. Ports are numbered in the order in which they were named. The
//! number of a new rule is one more than the highest that exists.

use super::answer::Answer;
use super::by_id::by_id;
use super::grammar::{Command, Query};
use super::print::{print_rss, print_rule};
use crate::advice::advise;
use dpdk::flow::{FlowError, FlowRule, Rule};
use dpdk::{Port, RxQueue, TxQueue};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use twin::Personality;
use twin::personality::Capacity;

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
}

struct Place {
    port: Port,
    rules: BTreeMap<u32, CreatedRule>,
    queues: (Vec<RxQueue>, Vec<TxQueue>),
    personality: Option<Personality>,
}

/// The state of a shell.
pub struct Session {
    ports: Vec<Place>,
}

impl Session {
    /// Returns a session without rules; the number of a port is its index in `ports`.
    pub fn new(ports: Vec<OpenPort>) -> Self {
        let place = |open: OpenPort| Place {
            port: open.port,
            rules: BTreeMap::new(),
            queues: open.queues,
            personality: open.personality,
        };
        Self { ports: ports.into_iter().map(place).collect() }
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
            Command::Help(_) | Command::Quit => return Answer::done(Vec::new(), json!({})),
        };
        let last = self.ports.len().saturating_sub(1);
        let ids: Vec<u16> = self.ports.iter().map(|place| place.port.id()).collect();
        let answer = match self.ports.get_mut(usize::from(port)) {
            Some(place) => place.execute(port, command, &ids),
            None => Answer::not_done(format!("Invalid port {port}: there are 0 to {last}")),
        };
        answer.with("command", name).with("port", port)
    }
}

impl Place {
    /// Executes `command` on this port. `ids` are DPDK's numbers of all ports.
    fn execute(&mut self, port: u16, command: &Command, ids: &[u16]) -> Answer {
        match command {
            Command::Validate { rule, .. } => match self.port.flow_validate(&by_id(rule, ids)) {
                Ok(()) => Answer::done(vec!["Flow rule validated".to_owned()], json!({})),
                Err(error) => self.refused(port, rule, &error),
            },
            Command::Create { rule, .. } => self.create(port, rule, ids),
            Command::Destroy { rules, .. } => self.destroy(rules),
            Command::Flush { .. } => {
                let flushed = self.rules.len();
                self.rules.clear();
                done_or_refused(self.port.flow_flush(), |()| (vec![], json!({ "rules": flushed })))
            }
            Command::Query { rule, query, .. } => self.query(*rule, *query),
            Command::List { groups, .. } => self.list(groups),
            Command::Isolate { isolate, .. } => {
                let how = if *isolate { "now restricted" } else { "not restricted anymore" };
                let line =
                    format!("Ingress traffic on port {port} is {how} to the defined flow rules");
                let isolated = self.port.flow_isolate(*isolate);
                done_or_refused(isolated, |()| (vec![line], json!({ "isolated": isolate })))
            }
            Command::Dump { rule, .. } => self.dump(*rule),
            Command::Aged { destroy, .. } => self.aged(port, *destroy),
            Command::Space { .. } => self.space(),
            Command::Help(_) | Command::Quit => unreachable!("they name no port"),
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

    fn create(&mut self, port: u16, rule: &Rule, ids: &[u16]) -> Answer {
        match self.port.flow_create(&by_id(rule, ids)) {
            Ok(flow) => {
                let id = self.rules.last_key_value().map_or(0, |(highest, _)| highest + 1);
                self.rules.insert(id, CreatedRule { rule: rule.clone(), flow });
                Answer::done(vec![format!("Flow rule #{id} created")], json!({ "rule": id }))
            }
            Err(error) => self.refused(port, rule, &error),
        }
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
        let mut answer = Answer::done(lines, json!({ "destroyed": destroyed }));
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

    fn destroy_one(&mut self, id: u32) -> Result<(), Answer> {
        let CreatedRule { rule, flow } = self.rules.remove(&id).ok_or_else(|| not_found(id))?;
        self.port.flow_destroy(flow).map_err(|(flow, error)| {
            let answer = Answer::refused(Some(&rule), &error);
            self.rules.insert(id, CreatedRule { rule, flow });
            answer
        })
    }

    fn query(&self, id: u32, kind: Query) -> Answer {
        let Some(CreatedRule { rule, flow }) = self.rules.get(&id) else { return not_found(id) };
        let answer = match kind {
            Query::Count => self.port.flow_query_count(flow, false).map(|count| {
                let number = |count: Option<u64>| count.unwrap_or_default();
                let lines = vec![
                    "COUNT:".to_owned(),
                    format!(" hits_set: {}", u8::from(count.hits.is_some())),
                    format!(" bytes_set: {}", u8::from(count.bytes.is_some())),
                    format!(" hits: {}", number(count.hits)),
                    format!(" bytes: {}", number(count.bytes)),
                ];
                (lines, json!({ "hits": count.hits, "bytes": count.bytes }))
            }),
            Query::Age => self.port.flow_query_age(flow).map(|age| {
                let lines = vec![
                    "AGE:".to_owned(),
                    format!(" aged: {}", u8::from(age.aged)),
                    format!(" sec_since_last_hit_valid: {}", u8::from(age.idle_seconds.is_some())),
                    format!(" sec_since_last_hit: {}", age.idle_seconds.unwrap_or_default()),
                ];
                (lines, json!({ "aged": age.aged, "idle_seconds": age.idle_seconds }))
            }),
            Query::Rss => self.port.flow_query_rss(flow).map(|rss| {
                let text = print_rss(&rss);
                (vec!["RSS:".to_owned(), format!(" {text}")], json!({ "rss": text }))
            }),
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

    fn dump(&self, id: Option<u32>) -> Answer {
        let made = match id.map(|id| self.rules.get(&id).ok_or(id)).transpose() {
            Ok(made) => made,
            Err(id) => return not_found(id),
        };
        match self.port.flow_dump(made.map(|made| &made.flow)) {
            Ok(text) => {
                let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
                lines.push("Flow dump finished".to_owned());
                Answer::done(lines, json!({ "dump": text }))
            }
            Err(error) => Answer::refused(made.map(|made| &made.rule), &error),
        }
    }

    /// Prints the guaranteed, best-effort and used entries of the table, as far as they are known.
    fn space(&self) -> Answer {
        let used = self.rules.len();
        let Some(personality) = &self.personality else {
            return Answer::not_done(format!(
                "the size of this NIC's table is not known; {used} rules were made here, and \
                 --personality says what is known"
            ));
        };
        let Capacity { guaranteed, best_effort } = personality.table.capacity();
        let lines = table(guaranteed, best_effort, used);
        let limit = (guaranteed != u64::MAX).then_some(guaranteed);
        let json = json!({ "guaranteed": limit, "best_effort": best_effort, "used": used });
        Answer::done([vec![personality.title.clone()], lines].concat(), json)
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

fn not_found(id: u32) -> Answer {
    Answer::not_done(format!("Flow rule #{id} not found")).with("rule", id)
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

/// Returns the lines of the table of entries; rules use the guaranteed entries first.
fn table(guaranteed: u64, best_effort: u64, used: usize) -> Vec<String> {
    let used = used as u64;
    let first = used.min(guaranteed);
    let row = |name: &str, space: u64, used: u64| match space {
        u64::MAX => format!("{name}\tany\t{used}\tany"),
        space => format!("{name}\t{space}\t{used}\t{}", space.saturating_sub(used)),
    };
    vec![
        "Entries\tSpace\tUsed\tFree".to_owned(),
        row("guaranteed", guaranteed, first),
        row("best effort", best_effort, used - first),
    ]
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
