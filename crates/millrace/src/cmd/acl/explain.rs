// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl explain`: what the access lists of a configuration decide about a packet, or about
//! those of a capture, and by which rules.

mod capture;

use acl::{AccessList, Action, Decision, EthernetList, Frame, Packet};
use anyhow::Context;
use capture::{CaptureArgs, Sides};
use clap::ArgGroup;
use engine::Side;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain what the access lists of a configuration decide about a packet, or a capture
///
/// Packets of a capture go through connection tracking and the lists as in a run, by their time
/// stamps. Prints the packets of each rule, and the first packets that were denied.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("what").args(["packet", "capture"]).required(true))]
pub(super) struct ExplainArgs {
    /// Configuration file (TOML)
    config: PathBuf,
    /// The packet: protocol, source, `>`, destination, then TCP flags or ICMP type/code. A frame
    /// that is not IP: `ether-type`, `src-mac`, `dst-mac`, each with its value
    #[arg(long, value_name = "PACKET", value_parser = subject)]
    packet: Option<Subject>,
    /// Explain the packets of this capture (pcap, pcapng, gzip)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["packet", "ct", "zone"])]
    capture: Option<PathBuf>,
    #[command(flatten)]
    of_capture: CaptureArgs,
    /// Port of the pair at which packets arrive
    #[arg(long, value_name = "PORT", value_parser = port, default_value = "a")]
    port: Port,
    /// Index of the pair
    #[arg(long, value_name = "N", default_value_t = 0)]
    pair: usize,
    /// Its relation to a connection: new, established, related, reply, invalid, or untracked
    #[arg(long, value_name = "STATES", value_parser = states, default_value = "new")]
    ct: acl::CtStates,
    /// Its zone
    #[arg(long, value_name = "N", default_value_t = 0)]
    zone: u16,
}

const EXAMPLES: &str = "\
Examples:
  millrace acl explain bump.toml --port b --packet 'tcp 10.1.2.3:4444 > 48.0.0.1:80 syn'
      Each list on the way of the packet, the rule that decides, and the outcome.
  millrace acl explain bump.toml --port b --ct reply --packet 'udp 1.1.1.1:53 > 10.0.0.1:999'
      The same for an answer.
  millrace acl explain bump.toml --packet 'ether-type lldp src-mac 02:00:00:00:00:01'
      A frame that is not IP.

  millrace acl explain bump.toml --capture office.pcapng --inside 10.0.0.0/8
      Packets of a capture: those from 10.0.0.0/8 arrive at port A, others at port B.
  millrace acl explain bump.toml --capture office.pcapng --inside 10.0.0.0/8 --each | grep deny
      A line for each packet, with the list and the rule that decided.

Exit status: 0 the packet passes, or the capture was read to its end; 1 it is denied or
rejected, the capture has a fault, or the configuration is refused; 2 wrong use.";

/// A port of a pair.
#[derive(Clone, Copy)]
struct Port(Side);

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

fn port(text: &str) -> Result<Port, String> {
    match text {
        "a" | "A" => Ok(Port(Side::A)),
        "b" | "B" => Ok(Port(Side::B)),
        _ => Err("write a or b".to_owned()),
    }
}

fn states(text: &str) -> Result<acl::CtStates, String> {
    let mut criteria = acl::Criteria::ANY;
    acl::parse_field(&mut criteria, "ct", text, &|_| None).map(|()| criteria.ct)
}

pub(super) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let plan = match super::plan(&args.config) {
        Ok(plan) => plan,
        Err(problems) => {
            report::output::write_line(io::stderr(), &problems);
            return Ok(problems.exit_code());
        }
    };
    let pairs = plan.pairs.len();
    let pair = plan.pairs.get(args.pair);
    let pair = pair.with_context(|| format!("--pair {}: there are {pairs} pairs", args.pair))?;
    if let Some(capture) = &args.capture {
        let sides = Sides::new(&args.of_capture, args.port.0);
        return capture::explain((&plan, pair), capture, &sides, &args.of_capture);
    }
    let subject = args.packet.context("write --packet or --capture")?;
    let (mut out, side) = (io::stdout().lock(), args.port.0);
    let lists = pair.access.iter();
    let actions: Vec<Action> = match subject {
        Subject::Packet(packet) => {
            let packet = Packet { ct: args.ct, zone: args.zone, ..packet };
            let lists = lists.flat_map(|lists| lists.way(side));
            until_denied(lists.map(|list| explain(&mut out, list, &packet)))?
        }
        Subject::Frame(frame) => {
            let frame = Frame { zone: args.zone, ..frame };
            let lists = lists.flat_map(|lists| lists.ethernet_way(side));
            until_denied(lists.map(|list| explain_frame(&mut out, list, &frame)))?
        }
    };
    let outcome = match actions.last() {
        None => "no list judges such packets that arrive at this port: the packet passes",
        Some(Action::Permit | Action::PermitReflect | Action::Count) => "the packet passes",
        Some(Action::Deny) => "the packet is denied",
        Some(Action::Reject) => "the packet is rejected: its sender is told",
    };
    writeln!(out, "{outcome}")?;
    let passes = actions.last().is_none_or(|action| action.permits());
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the actions of lists, up to the first that does not permit.
fn until_denied(decisions: impl Iterator<Item = io::Result<Action>>) -> io::Result<Vec<Action>> {
    let mut actions = Vec::new();
    for action in decisions {
        actions.push(action?);
        if actions.last().is_some_and(|action| !action.permits()) {
            break;
        }
    }
    Ok(actions)
}

/// Prints the decision of a list, and returns its action.
fn explain(out: &mut impl Write, list: &AccessList, packet: &Packet) -> io::Result<Action> {
    let decision = list.decide(packet);
    let counting = list.counting(decision, packet);
    let rules = (list.rules.len(), list.default);
    print_decision(out, (&list.name, rules), (counting, decision), |rule| {
        list.rules[rule as usize].to_string()
    })?;
    if decision.action == Action::PermitReflect {
        writeln!(out, "its connection is reflected: no list judges later packets of it")?;
    }
    Ok(decision.action)
}

/// Prints the decision of a list about a frame that is not IP, and returns its action.
fn explain_frame(out: &mut impl Write, list: &EthernetList, frame: &Frame) -> io::Result<Action> {
    let decision = list.decide(frame);
    let counting = list.counting(decision, frame);
    let rules = (list.rules.len(), list.default);
    print_decision(out, (&list.name, rules), (counting, decision), |rule| {
        list.rules[rule as usize].to_string()
    })?;
    Ok(decision.action)
}

/// Prints the rules of a list that count a packet, and the rule or the default that decides.
fn print_decision(
    out: &mut impl Write,
    (name, (rules, default)): (&str, (usize, Action)),
    (counting, decision): (impl Iterator<Item = u32>, Decision),
    text: impl Fn(u32) -> String,
) -> io::Result<()> {
    for rule in counting.chain(decision.rule) {
        writeln!(out, "list {name:?}, rule {rule}: {}", text(rule))?;
    }
    match decision.rule {
        Some(_) => Ok(()),
        None => writeln!(
            out,
            "list {name:?}: none of its {rules} rules matches; the default is {default}"
        ),
    }
}
