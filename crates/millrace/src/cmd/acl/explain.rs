// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl explain`: what the access lists of a configuration decide about a packet, and by
//! which rule.

use crate::{cpu_locks, netdev};
use acl::{AccessList, Action, Packet};
use anyhow::Context;
use config::plan::PlanArgs;
use engine::Side;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Explain what the access lists of a configuration decide about a packet
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
    /// Configuration file (TOML)
    config: PathBuf,
    /// The packet: protocol, source, `>`, destination, then TCP flags or ICMP type/code
    #[arg(long, value_name = "PACKET", value_parser = packet)]
    packet: Packet,
    /// Port of the pair at which it arrives
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

Exit status: 0 the packet passes; 1 it is denied or rejected, or the configuration is refused;
2 wrong use.";

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
    let plan = PlanArgs::of_file(args.config.clone());
    let plan = match plan.plan(&cpu_locks::cpus_of_this_host(), netdev::mtu) {
        Ok(plan) => plan,
        Err(problems) => {
            report::output::write_line(io::stderr(), &problems);
            return Ok(problems.exit_code());
        }
    };
    let pairs = plan.pairs.len();
    let pair = plan.pairs.get(args.pair);
    let pair = pair.with_context(|| format!("--pair {}: there are {pairs} pairs", args.pair))?;
    let packet = Packet { ct: args.ct, zone: args.zone, ..args.packet };
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
