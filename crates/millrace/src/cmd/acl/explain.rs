// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl explain`: what the access lists of a configuration decide about a packet, or about
//! those of a capture, and by which rules.

mod capture;

use acl::{AccessList, Action, Packet};
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
    /// The packet: protocol, source, `>`, destination, then TCP flags or ICMP type/code
    #[arg(long, value_name = "PACKET", value_parser = packet)]
    packet: Option<Packet>,
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

  millrace acl explain bump.toml --capture office.pcapng --inside 10.0.0.0/8
      Packets of a capture: those from 10.0.0.0/8 arrive at port A, others at port B.
  millrace acl explain bump.toml --capture office.pcapng --inside 10.0.0.0/8 --each | grep deny
      A line for each packet, with the list and the rule that decided.

Exit status: 0 the packet passes, or the capture was read to its end; 1 it is denied or
rejected, the capture has a fault, or the configuration is refused; 2 wrong use.";

/// A port of a pair.
#[derive(Clone, Copy)]
struct Port(Side);

fn packet(text: &str) -> Result<Packet, String> {
    text.parse()
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
    let packet = args.packet.context("write --packet or --capture")?;
    let packet = Packet { ct: args.ct, zone: args.zone, ..packet };
    let mut out = io::stdout().lock();
    let lists: Vec<_> = pair.access.iter().flat_map(|lists| lists.way(args.port.0)).collect();
    if lists.is_empty() {
        writeln!(out, "no list judges packets that arrive at this port: the packet passes")?;
        return Ok(ExitCode::SUCCESS);
    }
    for list in lists {
        let outcome = match explain(&mut out, list, &packet)? {
            Action::Permit | Action::PermitReflect | Action::Count => continue,
            Action::Deny => "the packet is denied",
            Action::Reject => "the packet is rejected: its sender is told",
        };
        writeln!(out, "{outcome}")?;
        return Ok(ExitCode::FAILURE);
    }
    writeln!(out, "the packet passes")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the decision of a list, and returns its action.
fn explain(out: &mut impl Write, list: &AccessList, packet: &Packet) -> io::Result<Action> {
    let decision = list.decide(packet);
    for rule in list.counting(decision, packet) {
        writeln!(out, "list {:?}, rule {rule}: {}", list.name, list.rules[rule as usize])?;
    }
    match decision.rule {
        Some(rule) => {
            writeln!(out, "list {:?}, rule {rule}: {}", list.name, list.rules[rule as usize])?;
        }
        None => writeln!(
            out,
            "list {:?}: none of its {} rules matches; the default is {}",
            list.name,
            list.rules.len(),
            list.default
        )?,
    }
    if decision.action == Action::PermitReflect {
        writeln!(out, "its connection is reflected: no list judges later packets of it")?;
    }
    Ok(decision.action)
}
