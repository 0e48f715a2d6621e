// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl explain`: what the access lists of a running instance or of a configuration decide
//! about a packet, or about those of a capture, and by which rules.

mod capture;
mod running;

use crate::cmd::problems::print_problems;
use crate::cmd::query_args::QueryArgs;
use crate::live::answers::explain::{
    frame_line, frame_rules, line_without_connection, packet_rules, states,
};
use crate::live::answers::lists::side_name;
use acl::{Frame, Packet};
use anyhow::Context;
use capture::{CaptureArgs, Sides};
use clap::ArgGroup;
use clap::error::ErrorKind;
use control::{AccessExplainLine, AccessExplainRule};
use engine::Side;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Explain what access lists decide about a packet, or a capture
///
/// Without a configuration, a running instance says what would happen to the packet now: whether
/// its connection exists and what is stored with it, which rules decide, and whether the NIC has
/// them.
///
/// With a configuration, its lists decide. Packets of a capture go through connection tracking and
/// the lists as in a run, by their time stamps. Prints the packets of each rule, and the first
/// packets that were denied.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("what").args(["packet", "capture"]).required(true))]
pub(super) struct ExplainArgs {
    /// Configuration file (TOML); without it, a running instance is queried
    #[arg(conflicts_with = "instance")]
    config: Option<PathBuf>,
    /// The packet: protocol, source, `>`, destination, then TCP flags or ICMP type/code. A frame
    /// that is not IP: `ether-type`, `src-mac`, `dst-mac`, each with its value
    #[arg(long, value_name = "PACKET", value_parser = subject)]
    packet: Option<Subject>,
    /// Explain the packets of this capture (pcap, pcapng, gzip)
    #[arg(long, value_name = "FILE", requires = "config")]
    #[arg(conflicts_with_all = ["packet", "ct", "zone"])]
    capture: Option<PathBuf>,
    #[command(flatten)]
    of_capture: CaptureArgs,
    /// Port of the pair at which packets arrive: a or b; of a running instance, also its name. `a`
    /// by default
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Index of the pair; 0 by default, unless a running instance has several
    #[arg(long, value_name = "N")]
    pair: Option<u32>,
    /// Its relation to a connection: new, established, related, reply, invalid, or untracked. By
    /// default new, or what follows from the connections of the instance
    #[arg(long, value_name = "STATES", value_parser = states)]
    ct: Option<acl::CtStates>,
    /// Its zone; by default 0, or that of untagged packets of the instance
    #[arg(long, value_name = "N")]
    zone: Option<u16>,
    #[command(flatten)]
    query: QueryArgs,
}

const EXAMPLES: &str = "\
Examples:
  millrace acl explain --port eth2 --packet 'tcp 10.1.2.3:4444 > 48.0.0.1:80 ack'
      A running instance: the connection of the packet, the rules that decide, and whether the NIC
      or software does.

  millrace acl explain bump.toml --port b --packet 'tcp 10.1.2.3:4444 > 48.0.0.1:80 syn'
      Each list on the way of the packet, the rule that decides, and the outcome.
  millrace acl explain bump.toml --port b --ct reply --packet 'udp 1.1.1.1:53 > 10.0.0.1:999'
      The same for an answer.
  millrace acl explain bump.toml --packet 'ether-type lldp src-mac 02:00:00:00:00:01'
      A frame that is not IP.

  millrace acl explain bump.toml --capture office.pcapng --inside 10.0.0.0/8
      Packets of a capture: those from 10.0.0.0/8 arrive at port A, others at port B.
  millrace acl explain bump.toml --capture office.pcapng --inside 10.0.0.0/8 --each | grep deny
      A line for each packet, with the list and the rule that decided. With --json, an object.

Exit status: 0 the packet passes, or the capture was read to its end; 1 it is denied or
rejected, the capture has a fault, the configuration is refused, or no instance answers; 2 wrong
use.";

/// What is explained.
#[derive(Clone, Copy)]
enum Subject {
    Packet(Packet),
    /// A frame that is not IP.
    Frame(Frame),
}

fn subject(text: &str) -> Result<Subject, String> {
    match text.split_whitespace().next() {
        Some("ether-type") => text.parse().map(Subject::Frame),
        _ => text.parse().map(Subject::Packet),
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Packet(packet) => packet.fmt(f),
            Subject::Frame(frame) => frame.fmt(f),
        }
    }
}

pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    match &args.config {
        Some(config) => explain_by_config(args, config),
        None => running::explain(args),
    }
}

fn explain_by_config(args: &ExplainArgs, config: &Path) -> anyhow::Result<ExitCode> {
    let side = match args.port.as_deref() {
        None | Some("a" | "A") => Side::A,
        Some("b" | "B") => Side::B,
        Some(port) => {
            let reason = format!("--port {port}: with a configuration, write a or b\n");
            clap::Error::raw(ErrorKind::InvalidValue, reason).exit();
        }
    };
    let plan = match super::plan(config) {
        Ok(plan) => plan,
        Err(problems) => {
            print_problems(&problems);
            return Ok(problems.exit_code());
        }
    };
    let (pairs, number) = (plan.pairs.len(), args.pair.unwrap_or(0));
    let pair = plan.pairs.get(number as usize);
    let pair = pair.with_context(|| format!("--pair {number}: there are {pairs} pairs"))?;
    if let Some(capture) = &args.capture {
        let sides = Sides::new(&args.of_capture, side);
        return capture::explain(
            (&plan, pair),
            capture,
            &sides,
            (&args.of_capture, args.query.json),
        );
    }
    let (zone, lists) = (args.zone.unwrap_or(0), pair.access.as_ref());
    let line = match args.packet.context("write --packet or --capture")? {
        Subject::Packet(packet) => {
            let ct = args.ct.unwrap_or(acl::CtStates::NEW);
            let packet = Packet { ct, zone, ..packet };
            let rules = lists.map(|lists| packet_rules(lists, side, &packet));
            line_without_connection(&packet, rules.unwrap_or_default())
        }
        Subject::Frame(frame) => {
            let frame = Frame { zone, ..frame };
            let rules = lists.map(|lists| frame_rules(lists, side, &frame));
            frame_line(&frame, rules.unwrap_or_default())
        }
    };
    let line = AccessExplainLine { pair: number, port: side_name(side).to_owned(), ..line };
    let mut out = io::stdout().lock();
    if args.query.json {
        writeln!(out, "{:#}", serde_json::to_value(&line)?)?;
    } else {
        line.rules.iter().try_for_each(|rule| print_rule(&mut out, rule))?;
        writeln!(out, "{}", outcome(&line))?;
    }
    Ok(exit_code(&line))
}

/// Prints a rule on the way of a packet.
fn print_rule(out: &mut impl Write, rule: &AccessExplainRule) -> io::Result<()> {
    let AccessExplainRule { list, list_rules, text, action, .. } = rule;
    match rule.rule {
        Some(rule) => writeln!(out, "list {list:?}, rule {rule}: {text}")?,
        None => writeln!(
            out,
            "list {list:?}: none of its {list_rules} rules matches; the default is {action}"
        )?,
    }
    if action == acl::Action::PermitReflect.name() {
        writeln!(out, "its connection is reflected: no list judges later packets of it")?;
    }
    Ok(())
}

/// Returns the words for the verdict of a packet.
fn outcome(line: &AccessExplainLine) -> &'static str {
    match line.verdict.as_str() {
        _ if line.source == "not_asked" => {
            "no list judges such packets that arrive at this port: the packet passes"
        }
        "deny" => "the packet is denied",
        "reject" => "the packet is rejected: its sender is told",
        _ => "the packet passes",
    }
}

fn exit_code(line: &AccessExplainLine) -> ExitCode {
    if line.verdict == "pass" { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
