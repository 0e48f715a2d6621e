// SPDX-License-Identifier: BSD-3-Clause
//! Asks a running instance what would happen to a packet, and prints the answer.

use super::{ExplainArgs, exit_code, outcome, print_rule};
use crate::cmd::ct::line::format_connection;
use crate::cmd::query_args::{refusal, send_request};
use anyhow::Context;
use control::{
    AccessExplainLine, AccessExplainRule, ExplainedConnection, Failure, Line, PacketToExplain,
    Request, RequestKind,
};
use std::io::{self, Write};
use std::process::ExitCode;

/// Explains a packet by the lists in force of a running instance.
pub(super) fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let packet = args.packet.as_ref().context("write --packet, or a configuration")?;
    let explain = Some(PacketToExplain {
        packet: packet.to_string(),
        port: args.port.clone(),
        pair: args.pair,
        ct: args.ct.map(|ct| ct.to_string()),
        zone: args.zone,
    });
    let request = Request { explain, ..Request::new(RequestKind::Explain) };
    let mut found = None;
    let result = send_request(&args.query.instance, &request, &mut |line| {
        if let Line::AccessExplain(line) = line {
            found = Some(line);
        }
        Ok(())
    });
    result.map_err(|error| refusal(error, Failure::PACKET))?.context("interrupted")?;
    let line = found.context("the instance has not explained the packet")?;
    let mut out = io::stdout().lock();
    match args.query.json {
        true => writeln!(out, "{:#}", serde_json::to_value(&line)?)?,
        false => print(&mut out, &line)?,
    }
    Ok(exit_code(&line))
}

fn print(out: &mut impl Write, line: &AccessExplainLine) -> io::Result<()> {
    let AccessExplainLine { packet, port, pair, name, zone, ct, .. } = line;
    write!(out, "{packet}: at port {port} of pair {pair} ({name}), zone {zone}")?;
    if !ct.is_empty() {
        write!(out, ", ct {ct}")?;
    }
    writeln!(out, "\n{}", relation(line))?;
    if let Some(connection) = &line.connection {
        print_connection(out, connection)?;
    }
    if line.source == "stored" {
        writeln!(out, "no list is searched: the stored decision is by")?;
    }
    for rule in &line.rules {
        print_rule(out, rule)?;
        writeln!(out, "  {}", nic_words(rule))?;
    }
    let by = match line.decided_by.as_str() {
        "bypass" => "the NIC forwards it by itself",
        "connection_mark" => "the NIC marks it for its connection",
        "list_mark" => "the NIC marks it for this rule",
        "list_drop" => "the NIC drops it by itself",
        _ => "software decides",
    };
    writeln!(out, "{}; {by}", outcome(line))
}

/// Returns the words for the relation of the packet to connections.
fn relation(line: &AccessExplainLine) -> &'static str {
    match line.relation.as_str() {
        "belongs" => "it belongs to a connection",
        "reopens" => "its connection has ended: it begins another one in its place",
        "begins" => "it has no connection, and begins one if it passes",
        "invalid" => "it has no connection, and such a packet begins none",
        "untracked" => "it has no connection: its zone is not tracked",
        "error" => {
            "it is an ICMP error, taken for one about a known connection; else write --ct invalid"
        }
        _ => "it is no IP packet, so it has no connection",
    }
}

fn print_connection(out: &mut impl Write, found: &ExplainedConnection) -> io::Result<()> {
    let ExplainedConnection { connection, orig_decision, reply_decision, offload, .. } = found;
    writeln!(out, "  {}", format_connection(connection))?;
    let sender = if found.direction == "orig" { "originator" } else { "responder" };
    match &found.began_at {
        Some(port) => writeln!(out, "  it began at port {port}; its {sender} sends the packet")?,
        None => writeln!(out, "  it was restored; its {sender} sends the packet")?,
    }
    match (found.judged_anew, found.reflects) {
        (true, _) => writeln!(
            out,
            "  the lists have changed since they decided about it: its next packet decides anew"
        )?,
        (false, true) => writeln!(out, "  stored: a rule permits both directions")?,
        (false, false) => writeln!(
            out,
            "  stored: packets of the originator are {orig_decision}, of the responder \
             {reply_decision}"
        )?,
    }
    writeln!(out, "  in the NIC: {}", offload.words)
}

/// Returns whether the NIC has a rule.
fn nic_words(rule: &AccessExplainRule) -> String {
    let numbers: Vec<_> = rule.numbers.iter().map(u64::to_string).collect();
    match (rule.state.as_str(), &rule.reason) {
        ("nic", _) => format!("in the NIC, by number {}", numbers.join(", ")),
        ("drop", _) => {
            format!("in the NIC, which drops its packets, by number {}", numbers.join(", "))
        }
        ("waiting", _) => "to be installed in the NIC".to_owned(),
        (_, Some(reason)) => format!("in software: {reason}"),
        (_, None) => "in software".to_owned(),
    }
}
