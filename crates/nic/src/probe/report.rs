// SPDX-License-Identifier: BSD-3-Clause
//! Reports the results of a probe, as text and as JSON.

use super::{Batch, Found, Measurements, Seen, Stage, Times};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use twin::Personality;
use twin::personality::{
    AgeFacts, Check, Duplicate, FieldFacts, ItemFacts, MaskRule, OnStop, RefusalFacts,
};

/// Identity of a port.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PortIdentity {
    /// Name of the port.
    pub port: String,
    /// Name of its driver.
    pub driver: String,
    /// Version of its firmware, if the driver reports it.
    pub firmware: Option<String>,
    /// Version of DPDK.
    pub dpdk: String,
    /// Receive queues.
    pub queues: u16,
    /// Port that sent the packets.
    pub peer: Option<String>,
}

impl PortIdentity {
    /// Writes the name and the sources of the facts into the personality.
    pub fn sign(&self, personality: &mut Personality, name: &str) {
        let firmware = self.firmware.as_ref().map(|words| format!(", firmware {words}"));
        let firmware = firmware.unwrap_or_default();
        personality.name = name.to_owned();
        personality.title = format!("{} driver of {}{firmware}", self.driver, self.dpdk);
        personality.sources = vec![format!(
            "millrace nic probe: driver {}, {}{firmware}, {}",
            self.driver,
            self.dpdk,
            if self.peer.is_some() { "with packets" } else { "without packets" }
        )];
    }
}

/// Returns the results as one JSON object.
pub fn to_json(facts: &PortIdentity, found: &Found) -> Value {
    let super::Calls { validate, create, made, destroyed, packets } = found.calls;
    json!({
        "nic": facts,
        "complete": found.stopped.is_none(),
        "asked": found.asked,
        "stopped": found.stopped.as_ref().map(ToString::to_string),
        "personality": found.personality,
        "not_found": found.notes,
        "questions": found.questions,
        "unlike": found.unlike,
        "findings": found.findings,
        "rules_seen": found.seen,
        "calls": { "validate": validate, "create": create, "packets": packets },
        "rules": { "made": made, "destroyed": destroyed },
        "create": found.figures.times[0],
        "destroy": found.figures.times[1],
        "by_queue": found.figures.by_queue,
        "stages": found.figures.stages,
    })
}

/// Maximum number of lines about differences from the file.
const UNLIKE_MAX: usize = 5;

/// Prints the results as a table.
pub fn print(out: &mut impl Write, facts: &PortIdentity, found: &Found) -> io::Result<()> {
    let mut table = Table { out, last: "" };
    let firmware = facts.firmware.as_deref().unwrap_or("firmware version not reported");
    table.row("NIC", format!("{}, {firmware}, {}", facts.driver, facts.dpdk))?;
    if found.personality.operations.none {
        table.row("calls", "none: the driver has no flow rules")?;
    } else {
        sections(&mut table, found)?;
    }
    seen(&mut table, found)?;
    for note in &found.notes {
        table.row("not found", note)?;
    }
    if found.stopped.is_none() {
        let (unlike, questions) = (found.unlike.len(), found.questions);
        table.row("the file", format!("gives {} of {questions} answers", questions - unlike))?;
        for line in found.unlike.iter().take(UNLIKE_MAX) {
            table.row("differs", line)?;
        }
    }
    Ok(())
}

/// Sections that are missing because of the options of the probe, or because the NIC has nothing of
/// the kind.
const OPTIONAL: [&str; 4] = ["ages", "capacity", "delays", "the effect of a stop"];

/// Prints each section whose stage was completed, and names the others.
fn sections<W: Write>(table: &mut Table<'_, W>, found: &Found) -> io::Result<()> {
    type Section<W> = fn(&mut Table<'_, W>, &Personality) -> io::Result<()>;
    let personality = &found.personality;
    operations(table, found)?;
    let sections: [(&str, &str, Section<W>); 11] = [
        ("attributes", "attributes", attributes),
        ("check order", "order of checks", check_order),
        ("headers and masks", "lists of headers", patterns),
        ("actions", "lists of actions", lists),
        ("marks", "marks", marks),
        ("rules that exclude each other", "pairs of rules", conflicts),
        ("counters", "counters", counters),
        ("ages", "aged rules", ages),
        ("capacity", "capacity", capacity),
        ("delays", "delays", delays),
        ("the effect of a stop", "stop and start", after_a_stop),
    ];
    let mut unknown = Vec::new();
    for (name, stage, print) in sections {
        match found.has_asked(stage) {
            true => print(table, personality)?,
            false if OPTIONAL.contains(&name) => {}
            false => unknown.push(name),
        }
    }
    ahead(table, personality)?;
    figures(table, found)?;
    match unknown.is_empty() {
        true => Ok(()),
        false => table.row("not found", format!("not asked: {}", unknown.join(", "))),
    }
}

struct Table<'a, W> {
    out: &'a mut W,
    last: &'static str,
}

impl<W: Write> Table<'_, W> {
    fn row(&mut self, label: &'static str, text: impl AsRef<str>) -> io::Result<()> {
        let shown = if label == self.last { "" } else { label };
        self.last = label;
        writeln!(self.out, "{shown:<12} {}", text.as_ref())
    }
}

fn words(refusal: &RefusalFacts) -> String {
    match refusal {
        RefusalFacts::Message(message) | RefusalFacts::Full { message: Some(message), .. } => {
            format!("\"{message}\"")
        }
        RefusalFacts::Full { errno: Some(errno), .. } => format!("{errno:?} without a message"),
        RefusalFacts::Full { .. } => "without a message".to_owned(),
    }
}

fn or_words(fact: &str, refusal: Option<&RefusalFacts>) -> String {
    refusal.map_or(fact.to_owned(), |refusal| format!("{fact}: {}", words(refusal)))
}

fn operations<W: Write>(table: &mut Table<'_, W>, found: &Found) -> io::Result<()> {
    let operations = &found.personality.operations;
    let calls = [
        (operations.no_validate, "validate", "operations"),
        (operations.no_query, "query", "counters"),
        (operations.no_isolate, "isolate", "operations"),
        (!operations.r#async, "templates and flow queues", "flow queues"),
    ];
    let (known, unknown): (Vec<_>, Vec<_>) =
        calls.into_iter().partition(|(_, _, stage)| found.has_asked(stage));
    let has = |(is_missing, name, _): &(bool, &str, &str)| match is_missing {
        true => format!("no {name}"),
        false => (*name).to_owned(),
    };
    let mut text: Vec<_> = known.iter().map(has).collect();
    text.extend(unknown.iter().map(|(_, name, _)| format!("{name}: not found out")));
    table.row("calls", text.join(", "))
}

fn attributes<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let facts = &personality.attributes;
    let count = |count: Option<u32>| count.map_or("any".to_owned(), |count| count.to_string());
    let counts =
        format!("groups: {}; priorities: {}", count(facts.groups), count(facts.priorities));
    table.row("attributes", counts)?;
    match facts.transfer {
        true => Ok(()),
        false => table.row("attributes", or_words("no transfer", facts.no_transfer.as_ref())),
    }
}

fn check_order<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let order = match personality.order.as_slice() {
        [] => &[Check::Attributes, Check::Pattern, Check::Actions],
        order => order,
    };
    let order: Vec<_> = order.iter().map(|check| format!("{check:?}").to_lowercase()).collect();
    table.row("check order", order.join(", then "))
}

fn patterns<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let pattern = &personality.pattern;
    for chain in &personality.chains {
        let mut line = chain.items.to_string();
        if let Some(fields) = &chain.exactly {
            line += &format!(", with exactly {}", fields.join(" "));
        }
        if let Some(fields) = &chain.only {
            line += &format!(", with masks of {} only", fields.join(" "));
        }
        if chain.other_transports_only {
            line += ", not for packets with TCP, UDP or SCTP";
        }
        table.row("headers", line)?;
    }
    if personality.chains.is_empty() {
        let any = match pattern.headers.is_empty() {
            true => "any list that makes sense".to_owned(),
            false => format!("any list of {}", pattern.headers.join(" ")),
        };
        table.row("headers", any)?;
    }
    for (fact, refusal) in [
        ("others", &pattern.unknown),
        ("ranges", &pattern.range),
        ("a mask without a spec", &pattern.mask_alone),
        ("nothing to match", &pattern.empty),
        ("other fields", &pattern.not_exactly),
    ] {
        if refusal.is_some() {
            table.row("refused", or_words(fact, refusal.as_ref()))?;
        }
    }
    if let Some(most) = pattern.bytes_max {
        let fact = format!("{most} bytes of masks at most");
        table.row("masks", or_words(&fact, pattern.too_wide.as_ref()))?;
    }
    if pattern.no_default_mask {
        table.row("masks", "a spec without a mask is ignored")?;
    }
    for (name, facts) in &personality.items {
        table.row("masks", format!("{name}: {}", masks(facts)))?;
    }
    for exclusive in &personality.exclusives {
        let (one, other) = (exclusive.one.join("|"), exclusive.other.join("|"));
        table.row("not both", format!("{one} and {other}: {}", words(&exclusive.told)))?;
    }
    Ok(())
}

fn masks(facts: &ItemFacts) -> String {
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (field, facts) in &facts.fields {
        let (FieldFacts::Rule(mask) | FieldFacts::Detailed { mask, .. }) = facts;
        let kind = match mask {
            MaskRule::Any => "any",
            MaskRule::Full => "full or none",
            MaskRule::Always => "always full",
            MaskRule::FullOrIgnored => "full, others IGNORED",
            MaskRule::Ignored => "all IGNORED",
            MaskRule::Never => "none",
            MaskRule::These => "some masks",
        };
        kinds.entry(kind).or_default().push(field);
    }
    let mut parts: Vec<_> =
        kinds.iter().map(|(kind, fields)| format!("{} {kind}", fields.join(" "))).collect();
    let refusal = facts.mask.as_ref().map(words);
    parts.extend(refusal.map(|refusal| format!("others {refusal}")));
    parts.extend(facts.null.as_ref().map(|refusal| format!("left out {}", words(refusal))));
    parts.join("; ")
}

/// Prints the rules that the engine ahead accepts, if there is one.
fn ahead<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let Some(ahead) = &personality.ahead else { return Ok(()) };
    let most = ahead.attributes.priorities.map_or("any".to_owned(), |most| most.to_string());
    let fact = format!("another engine checks rules first; priorities: {most}; it takes");
    table.row("ahead", fact)?;
    patterns(table, ahead)?;
    lists(table, ahead)?;
    twice(table, ahead)
}

fn marks<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let mark = &personality.mark;
    let max = mark.max.map_or("up to 2^32-1".to_owned(), |max| format!("up to {max:#x}"));
    let none = mark.means_none.map(|none| format!("; {none:#x} NEVER ARRIVES"));
    let flags = if mark.flag_never_delivered { "; flags NEVER ARRIVE" } else { "" };
    let arrival = if mark.never_delivered { "; taken, and NEVER DELIVERED" } else { "" };
    table.row("marks", format!("{max}{arrival}{}{flags}", none.unwrap_or_default()))
}

fn lists<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let facts = &personality.actions;
    for line in &facts.accepted {
        let order = if facts.any_order { ", in any order" } else { "" };
        table.row("actions", format!("{line}{order}"))?;
    }
    if facts.accepted.is_empty() {
        table.row("actions", "any list with one fate")?;
    }
    for (fact, refusal) in [("others", &facts.unknown), ("one is missing", &facts.missing)] {
        if refusal.is_some() {
            table.row("refused", or_words(fact, refusal.as_ref()))?;
        }
    }
    Ok(())
}

fn ages<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let AgeFacts { never_told, no_query, .. } = &personality.age;
    let accepted = &personality.actions.accepted;
    if !accepted.is_empty() && !accepted.iter().any(|line| line.to_string().contains("age")) {
        return Ok(());
    }
    let group = match personality.actions.not_in_root.contains_key("age") {
        true => ", not in group 0",
        false => "",
    };
    let refusal =
        if *never_told { "aged rules are NEVER REPORTED" } else { "aged rules are reported" };
    let query = no_query.as_ref().map(|refusal| format!("; no query: {}", words(refusal)));
    table.row("ages", format!("taken{group}; {refusal}{}", query.unwrap_or_default()))
}

fn twice<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let twice = match &personality.table.duplicate {
        Duplicate::Exists => "refused, by validate too".to_owned(),
        Duplicate::Refused(refusal) => format!("refused: {}", words(refusal)),
        Duplicate::FirstWins => "taken, the first is in effect".to_owned(),
        Duplicate::LastWins => "taken, the last is in effect".to_owned(),
    };
    table.row("a rule twice", twice)
}

fn conflicts<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    twice(table, personality)?;
    if let Some(refusal) = &personality.pattern.other_fields {
        let fact = "one set of fields at a time for each kind of packet";
        table.row("conflicts", or_words(fact, Some(refusal)))?;
    }
    for conflict in &personality.conflicts {
        table.row("conflicts", format!("{} and {}", conflict.one, conflict.other))?;
    }
    Ok(())
}

fn counters<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let count = &personality.count;
    let bytes = if count.hits_only { "packets" } else { "packets and bytes" };
    let age = match count.refresh_ms {
        0 => String::new(),
        ms => format!(", read every {ms} ms"),
    };
    let counted = match &count.no_query {
        Some(refusal) => or_words("none", Some(refusal)),
        None if personality.operations.no_query => "none".to_owned(),
        None => format!("{bytes}{age}"),
    };
    table.row("counters", counted)?;
    match count.max {
        Some(max) => {
            table.row("counters", or_words(&format!("{max} at most"), count.full.as_ref()))
        }
        None => Ok(()),
    }
}

fn capacity<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let facts = &personality.table;
    if let Some(root) = facts.root {
        table.row("capacity", or_words(&format!("{root} in group 0"), facts.full.as_ref()))?;
    }
    if let Some(guaranteed) = facts.guaranteed {
        let more = match facts.best_effort {
            Some(more) => format!(" and {more} more, slowly"),
            // No call took longer than the others.
            None => "; inserting does not show how many of them are guaranteed".to_owned(),
        };
        let fact = format!("{guaranteed}{more}");
        table.row("capacity", or_words(&fact, facts.full.as_ref()))?;
    }
    Ok(())
}

fn delays<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let (from, until) =
        (personality.latency.effective_after_us, personality.latency.effective_until_us);
    if (from, until) != (0, 0) {
        let late = format!("{from} us after create, until {until} us after destroy");
        table.row("in effect", late)?;
    }
    Ok(())
}

fn after_a_stop<W: Write>(table: &mut Table<'_, W>, personality: &Personality) -> io::Result<()> {
    let stop = match personality.port.on_stop {
        OnStop::Keep => return Ok(()),
        OnStop::Flush => "rules are gone",
        OnStop::Stale => "rules seem to exist, but packets DO NOT HIT them any more",
    };
    table.row("after a stop", stop)
}

fn figures<W: Write>(table: &mut Table<'_, W>, found: &Found) -> io::Result<()> {
    let Measurements { times, by_queue, stages } = &found.figures;
    for (name, times) in ["create", "destroy"].into_iter().zip(times) {
        table.row("latency", of_calls(name, times))?;
    }
    for Stage { rules, create } in stages {
        let Times { average_us, median_us, p99_us, longest_us, .. } = create;
        let line = format!(
            "up to {rules}: {average_us} us on average, {median_us} median, {p99_us} at 99 %, \
             {longest_us} at most"
        );
        table.row("filling", line)?;
    }
    let Some(by_queue) = by_queue else { return Ok(()) };
    table.row("flow queue", format!("{} operations at most", by_queue.most_operations))?;
    if let Some(refused) = &by_queue.refused {
        return table.row("flow queue", format!("not usable: {refused}"));
    }
    let batches = [("create", &by_queue.create), ("destroy", &by_queue.destroy)];
    for ((name, batch), calls) in batches.into_iter().zip(times) {
        if batch.asked > 0 || batch.refused.is_some() {
            table.row("flow queue", of_batch(name, batch, by_queue.depth, calls))?;
        }
    }
    Ok(())
}

fn of_batch(name: &str, batch: &Batch, depth: u32, calls: &Times) -> String {
    let Batch { asked, results, failed, refused, per_second, enqueue, result } = batch;
    let refused = refused.as_ref().map_or(String::new(), |refused| format!("; refused: {refused}"));
    let by_calls = 1_000_000 / calls.average_us.max(1);
    let about = if calls.average_us == 0 { "more than " } else { "" };
    format!(
        "{name}: {per_second}/s with {depth} at a time ({about}{by_calls}/s by calls); {} us to \
         request, results after {} us median, {} at 99 %, {} at most; {results} of {asked} came, \
         {failed} failed{refused}",
        enqueue.median_us, result.median_us, result.p99_us, result.longest_us
    )
}

fn seen<W: Write>(table: &mut Table<'_, W>, found: &Found) -> io::Result<()> {
    let Seen { lines_before, marked_before, .. } = found.seen;
    if marked_before > 0 {
        let line = format!("{marked_before} kinds of packets with a mark or a flag");
        table.row("before", line)?;
    }
    if let Some(lines) = lines_before.filter(|&lines| lines > 0) {
        table.row("before", format!("{lines} lines in the driver's list of rules"))?;
    }
    found.findings.iter().try_for_each(|finding| table.row("FAULT", finding))
}

fn of_calls(name: &str, times: &Times) -> String {
    let Times { calls, average_us, median_us, p99_us, longest_us } = times;
    format!(
        "{name}: {average_us} us on average, {median_us} median, {p99_us} at 99 %, {longest_us} at \
         most, of {calls}"
    )
}
