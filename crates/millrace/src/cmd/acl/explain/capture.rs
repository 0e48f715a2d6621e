// SPDX-License-Identifier: BSD-3-Clause
//! Sends the packets of a capture through connection tracking and access lists, as a run would.

use crate::cmd::acl::show::print_lists;
use crate::cmd::run::secret;
use crate::live::answers::explain::source_name;
use crate::live::answers::lists::{rule_lines, side_name};
use acl::{Action, Addresses, parse_addresses};
use anyhow::Context;
use capture::{Capture, CapturedPacket};
use config::plan::{PairPlan, Plan, engine_bytes};
use doctor::host::Memory;
use engine::{
    AccessLists, AccessSource, AccessTrace, Cursor, Engine, FrameTrace, Nanos, RuleHits, Side,
    UntrackedReason, Verdict,
};
use report::output::write_line;
use results::units;
use serde_json::{Value, json};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use wire::BytesPacket;

/// Most timers checked, or records visited, in one step.
const BUDGET: usize = 256;

#[derive(clap::Args)]
pub(super) struct CaptureArgs {
    /// Packets from these networks arrive at port A, others at port B
    #[arg(long, value_name = "NETWORKS", value_parser = networks)]
    #[arg(requires = "capture", conflicts_with_all = ["packet", "port"])]
    inside: Option<Addresses>,
    /// Print a line for each packet: number, seconds, port, packet, verdict, and what decided
    #[arg(long, requires = "capture", conflicts_with = "packet")]
    each: bool,
    /// Print at most N packets that were denied
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(requires = "capture", conflicts_with = "packet")]
    denied: usize,
}

fn networks(text: &str) -> Result<Addresses, String> {
    let networks: Result<Vec<_>, _> =
        text.split(',').map(|network| parse_addresses(network, &|_| None)).collect();
    let mut all = Vec::new();
    for addresses in networks? {
        match addresses.networks() {
            Some(networks) => all.extend_from_slice(networks),
            None => return Err("write networks, such as 10.0.0.0/8,2001:db8::/32".to_owned()),
        }
    }
    Ok(Addresses::Networks(all))
}

/// At which port packets arrive.
pub(super) struct Sides {
    inside: Option<Addresses>,
    port: Side,
}

impl Sides {
    pub(super) fn new(args: &CaptureArgs, port: Side) -> Self {
        Self { inside: args.inside.clone(), port }
    }

    /// Returns the port of an Ethernet frame. Frames without IP arrive at port B.
    fn of(&self, frame: &[u8]) -> Side {
        let Some(inside) = &self.inside else { return self.port };
        let is_inside = source(frame).is_some_and(|source| inside.contains(source));
        if is_inside { Side::A } else { Side::B }
    }
}

/// Returns the source address of an Ethernet frame, with any number of VLAN tags.
fn source(frame: &[u8]) -> Option<IpAddr> {
    let (mut kind, mut rest) = frame.get(12..)?.split_first_chunk::<2>()?;
    while [[0x81, 0], [0x88, 0xa8], [0x91, 0]].contains(kind) {
        (kind, rest) = rest.get(2..)?.split_first_chunk::<2>()?;
    }
    match kind {
        [0x08, 0x00] => Some(rest.get(12..)?.first_chunk::<4>().copied()?.into()),
        [0x86, 0xdd] => Some(rest.get(8..)?.first_chunk::<16>().copied()?.into()),
        _ => None,
    }
}

/// A capture that is being explained.
struct Explainer<'a> {
    engine: Engine,
    lists: &'a AccessLists,
    sides: &'a Sides,
    args: &'a CaptureArgs,
    /// Print a JSON object for each packet, and nothing else.
    is_json: bool,
    out: io::StdoutLock<'static>,
    frame: Vec<u8>,
    /// Times of the first and the latest packet; `None` before the first.
    span: Option<(Nanos, Nanos)>,
    packets: u64,
    /// Packets of link types that are not read.
    unread: u64,
    /// Lines of the first packets that were denied.
    denied_lines: Vec<String>,
}

/// Explains the packets of a capture by the lists of a pair.
pub(super) fn explain(
    (plan, pair): (&Plan, &PairPlan),
    path: &Path,
    sides: &Sides,
    (args, is_json): (&CaptureArgs, bool),
) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let Some(lists) = &pair.access else {
        writeln!(out, "the pair has no access lists: every packet passes")?;
        return Ok(ExitCode::SUCCESS);
    };
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| name.clone())?;
    let mut capture = Capture::new(&name, file)?;
    let engine = new_engine(plan, pair, lists)?;
    let mut explainer = Explainer {
        engine,
        lists,
        sides,
        args,
        is_json,
        out,
        frame: Vec::new(),
        span: None,
        packets: 0,
        unread: 0,
        denied_lines: Vec::new(),
    };
    let fault = loop {
        match capture.next() {
            Ok(Some(packet)) => explainer.packet(&packet)?,
            Ok(None) => break None,
            Err(fault) => break Some(fault),
        }
    };
    explainer.finish()?;
    if let Some(fault) = &fault {
        write_line(io::stderr(), format_args!("millrace: {fault}"));
    }
    Ok(if fault.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Creates the engine of a worker that has all packets of the pair.
fn new_engine(plan: &Plan, pair: &PairPlan, lists: &Arc<AccessLists>) -> anyhow::Result<Engine> {
    let config = engine::Config {
        zone: pair.zone_from(plan.engine.zone),
        deepest: pair.deepest,
        access: Some(Arc::clone(lists)),
        secret: secret()?,
        huge_pages: false,
        offload: None,
        ..plan.engine.clone()
    };
    Memory::refuse_more_than_there_is(engine_bytes(&config))?;
    Ok(Engine::new(&config))
}

impl Explainer<'_> {
    fn packet(&mut self, packet: &CapturedPacket<'_>) -> io::Result<()> {
        self.packets += 1;
        self.frame.clear();
        let Some(lengths) = packet.append_ethernet(&mut self.frame) else {
            self.unread += 1;
            return Ok(());
        };
        let now = self.advance(packet.time_ns);
        let side = self.sides.of(&self.frame);
        let bytes = BytesPacket::captured(&self.frame, lengths.frame_len, lengths.wire_len);
        let before = self.denied();
        let (verdict, trace) = self.engine.process_traced(side, now, &bytes);
        let frame = self.engine.trace_frame(side, &bytes);
        // A fragment that has waited may be denied too, which is another packet.
        let is_dropped = matches!(verdict, Verdict::Drop | Verdict::Reject);
        let is_denied = is_dropped && self.denied() > before;
        self.take_records();
        if self.is_json {
            let json = self.json((side, now), (verdict, is_denied), (trace, frame));
            return writeln!(self.out, "{json}");
        }
        let is_shown = is_denied && self.denied_lines.len() < self.args.denied;
        if is_shown || self.args.each {
            let line = self.line((side, now), (verdict, is_denied), (trace, frame));
            if self.args.each {
                writeln!(self.out, "{line}")?;
            }
            self.denied_lines.extend(is_shown.then_some(line));
        }
        Ok(())
    }

    /// Returns the number of packets that were denied so far.
    fn denied(&self) -> u64 {
        self.engine.stats().dropped[UntrackedReason::Denied as usize]
    }

    /// Moves the clock, which never goes back, and ends connections that have timed out. Returns
    /// the time.
    fn advance(&mut self, time: Nanos) -> Nanos {
        let (first, latest) = self.span.unwrap_or((time, time));
        let now = latest.max(time);
        self.span = Some((first, now));
        while self.engine.expire(now, BUDGET) == BUDGET {
            self.take_records();
        }
        now
    }

    /// Frees the records of connections that have ended, and the slots of fragments that waited.
    fn take_records(&mut self) {
        while self.engine.next_record().is_some() {}
        while self.engine.next_release().is_some() {}
    }

    /// Returns the line of a packet.
    fn line(
        &self,
        (side, now): (Side, Nanos),
        (verdict, is_denied): (Verdict, bool),
        (trace, frame): (Option<AccessTrace>, Option<FrameTrace>),
    ) -> String {
        let (seconds, side) = (self.seconds(now), side_name(side));
        let verdict = verdict_name(verdict, is_denied);
        let (text, decision) = match (trace, frame) {
            (Some(trace), _) => (trace.packet.to_string(), self.decision(&trace)),
            (None, Some(FrameTrace { frame, rules })) => {
                (frame.to_string(), format!("; {}; searched", self.rules(rules)))
            }
            (None, None) => ("not compared with rules".to_owned(), String::new()),
        };
        format!("{} {seconds:.6} {side} {verdict} {text}{decision}", self.packets)
    }

    /// Returns the JSON object of a packet. Without a packet that was compared with rules, text and
    /// rules are missing.
    fn json(
        &self,
        (side, now): (Side, Nanos),
        (verdict, is_denied): (Verdict, bool),
        (trace, frame): (Option<AccessTrace>, Option<FrameTrace>),
    ) -> Value {
        let (packet, ct, rules, source) = match (trace, frame) {
            (Some(AccessTrace { packet, rules, source }), _) => {
                let ct = (source == AccessSource::Search).then(|| packet.ct.to_string());
                (Some(packet.to_string()), ct, rules, source_name(source))
            }
            (None, Some(FrameTrace { frame, rules })) => {
                (Some(frame.to_string()), None, rules, source_name(AccessSource::Search))
            }
            (None, None) => (None, None, [None; 2], source_name(AccessSource::NotAsked)),
        };
        let rule = |counter: &u32| {
            let (list, rule, text) = self.found(*counter)?;
            Some(json!({ "list": list, "rule": rule, "text": text }))
        };
        let rules: Vec<_> = rules.iter().flatten().filter_map(rule).collect();
        json!({
            "number": self.packets,
            "time_s": self.seconds(now),
            "port": side_name(side),
            "verdict": verdict_name(verdict, is_denied),
            "packet": packet,
            "ct": ct,
            "source": source,
            "rules": rules,
        })
    }

    /// Returns the seconds since the first packet.
    fn seconds(&self, now: Nanos) -> f64 {
        (now - self.span.map_or(now, |(first, _)| first)) as f64 / 1e9
    }

    /// Returns the rules that decided about a packet, and how they were found.
    fn decision(&self, trace: &AccessTrace) -> String {
        let rules = self.rules(trace.rules);
        match trace.source {
            AccessSource::Search => format!("; {rules}; searched, ct {}", trace.packet.ct),
            AccessSource::Stored => format!("; {rules}; stored decision of its connection"),
            AccessSource::NotAsked => "; no list was asked".to_owned(),
        }
    }

    /// Returns list and number of each rule, by its counter.
    fn rules(&self, rules: [Option<u32>; 2]) -> String {
        let rules: Vec<_> = rules.iter().flatten().map(|rule| self.rule(*rule)).collect();
        rules.join(", then ")
    }

    /// Returns list and number of a rule, by its counter.
    fn rule(&self, counter: u32) -> String {
        match self.found(counter) {
            Some((name, Some(rule), text)) => format!("list {name:?}, rule {rule}: {text}"),
            Some((name, None, text)) => format!("list {name:?}, {text}"),
            None => String::new(),
        }
    }

    /// Returns list, index and text of a rule, by its counter; no index for a default.
    fn found(&self, counter: u32) -> Option<(&str, Option<usize>, String)> {
        let mut left = counter as usize;
        for list in self.lists.lists() {
            match found_in((&list.name, &list.rules, list.default), left) {
                Ok(found) => return Some(found),
                Err(rest) => left = rest,
            }
        }
        for list in self.lists.ethernet_lists() {
            match found_in((&list.name, &list.rules, list.default), left) {
                Ok(found) => return Some(found),
                Err(rest) => left = rest,
            }
        }
        None
    }

    /// Prints the packets of each rule, and those that were denied.
    fn finish(mut self) -> anyhow::Result<()> {
        if self.is_json {
            return Ok(());
        }
        self.engine.release_all();
        self.take_records();
        let mut cursor = Cursor::default();
        while self.engine.settle_rules(&mut cursor, BUDGET as u32) {}
        let mut hits = vec![RuleHits::default(); self.lists.counters()];
        self.engine.add_rule_hits(&mut hits);
        let now = self.span.map_or(0, |(_, latest)| latest);
        let rules: Vec<_> = rule_lines((0, self.lists), &hits, now).collect();
        print_lists(&mut self.out, &rules)?;
        let [packets, denied] = [self.packets, self.denied()].map(units::thousands);
        writeln!(self.out, "packets: {packets}; denied: {denied}")?;
        if self.unread > 0 {
            let unread = units::thousands(self.unread);
            writeln!(self.out, "packets of link types that are not read: {unread}")?;
        }
        if !self.args.each && !self.denied_lines.is_empty() {
            writeln!(self.out, "first packets that were denied:")?;
            for line in &self.denied_lines {
                writeln!(self.out, "  {line}")?;
            }
        }
        Ok(())
    }
}

/// Returns name, index and text of the rule with this counter among those of a list.
///
/// # Errors
/// Its counter among those of the next lists, if the list does not have it.
fn found_in<'a>(
    (name, rules, default): (&'a str, &[impl Display], Action),
    counter: usize,
) -> Result<(&'a str, Option<usize>, String), usize> {
    match rules.get(counter) {
        Some(rule) => Ok((name, Some(counter), rule.to_string())),
        None if counter == rules.len() => Ok((name, None, format!("default {default}"))),
        None => Err(counter - rules.len() - 1),
    }
}

fn verdict_name(verdict: Verdict, is_denied: bool) -> &'static str {
    match (is_denied, verdict) {
        (true, _) => "deny",
        (false, Verdict::Forward) => "pass",
        (false, Verdict::Drop) => "drop",
        (false, _) => "wait",
    }
}
