// SPDX-License-Identifier: BSD-3-Clause
//! `millrace nic flow`: starts the ports of the flow shell, and chooses the source of its commands.

use super::{ports, prompt, script};
use crate::signals;
use ::twin::Personality;
use anyhow::Context;
use dpdk::PortInfo;
use nic::advice::personality_of_port;
use nic::flow::{OpenPort, Session};
use report::output::is_dash;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

/// Create flow rules (`rte_flow`) on ports and show how their NICs respond
///
/// A shell with the `flow` commands of testpmd, completion (Tab), history and `help`. For a refused
/// rule it prints the driver's message, and the item or action that the driver names. If standard
/// input is not a terminal, or with -f, it runs a script: results go to standard output, and the
/// first failure ends it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FlowArgs {
    /// Ports, numbered from 0 in this order: PCI addresses or virtual devices, with arguments
    #[arg(value_name = "PORT", default_value = "net_twin0")]
    ports: Vec<String>,
    /// Run the commands in FILE, or in standard input with `-`
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Go on after a command that failed
    #[arg(long)]
    keep_going: bool,
    /// Print one JSON object for each command
    #[arg(long)]
    json: bool,
    /// Personality that explains refusals: a name from `millrace nic personalities`, a file, or
    /// `none`; by default that of the software NIC, or the known one of the driver
    #[arg(long, value_name = "NAME")]
    personality: Option<String>,
    /// Queues of each port; by default 4, or fewer if a port has fewer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    queues: Option<u16>,
}

const EXAMPLES: &str = "\
Examples:
  millrace nic flow
      Open a shell on the software NIC, which `make twin` builds.
  millrace nic flow 0000:18:00.0
      Open a shell on a NIC that is bound to vfio-pci.
  echo 'flow create 0 ingress pattern eth / ipv4 / udp / end actions drop / end' |
      millrace nic flow
      Run one command.
  millrace nic flow -f rules.flow --keep-going --json | jq -c .error
      Print the NIC's error for each of many rules.

The shell destroys all rules when it ends.

Exit status: 0 good; 1 a port cannot be used, or a command of a script failed; 2 wrong use.";

/// Settings and session of the shell, interactive or as a script.
pub(super) struct Shell {
    pub(super) session: Session,
    pub(super) queues: u16,
    pub(super) json: bool,
    pub(super) keep_going: bool,
}

pub(super) fn run(args: &FlowArgs) -> anyhow::Result<ExitCode> {
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let stdin = io::stdin();
    let script: Option<(String, Box<dyn BufRead>)> = match &args.file {
        Some(path) if !is_dash(path) => {
            let name = path.display().to_string();
            let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
            Some((name, Box::new(BufReader::new(file))))
        }
        None if stdin.is_terminal() => None,
        _ => Some(("standard input".to_owned(), Box::new(stdin.lock()))),
    };
    let (session, queues) = open(args)?;
    let shell = Shell { session, queues, json: args.json, keep_going: args.keep_going };
    match script {
        Some((name, lines)) => script::run(shell, &name, lines, &interrupted),
        None => prompt::run(shell, &interrupted),
    }
}

/// Starts all ports. Returns the session, and the number of queues of each port.
fn open(args: &FlowArgs) -> anyhow::Result<(Session, u16)> {
    let started = ports::start(&args.ports, args.queues)?;
    let queues = started.first().map_or(0, |started| started.queues.0.len() as u16);
    let open = started.into_iter().map(|ports::StartedPort { port, queues, .. }| {
        let personality = find_personality(args.personality.as_deref(), port.info())?;
        anyhow::Ok(OpenPort { port, queues, personality })
    });
    Ok((Session::new(open.collect::<Result<_, _>>()?), queues))
}

/// Returns the personality that explains refusals of a port: the one that the user asked for, or
/// the one that is known for the port. `None` if there is none.
fn find_personality(named: Option<&str>, port: &PortInfo) -> anyhow::Result<Option<Personality>> {
    match named {
        Some("none") => Ok(None),
        Some(name) => Ok(Some(Personality::named(name)?)),
        None => {
            personality_of_port(&port.devargs, &port.driver).transpose().map_err(anyhow::Error::msg)
        }
    }
}
