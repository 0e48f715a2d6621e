// SPDX-License-Identifier: BSD-3-Clause
//! `millrace flows`: lists the connections of a running instance.

use control::{Answer, FlowLine, InstanceArgs, LIMIT_MAX, Line, PrefixText, Request, RequestKind};
use report::top_flows;
use results::{table, units};
use serde_json::json;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::str::FromStr;
use wire::proto_names;

/// List connections of a running instance; with each, why it is offloaded or not
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FlowsArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    #[command(flatten)]
    which: WhichArgs,
    /// For each direction, print why it has a NIC rule or not; only connections of which one end
    /// has this address, or address and port
    #[arg(long, value_name = "ADDR[:PORT]", conflicts_with = "only")]
    why: Option<End>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options that select and limit what a command lists.
#[derive(clap::Args)]
pub(crate) struct WhichArgs {
    /// Print at most N, the busiest ones
    #[arg(long, value_name = "N", default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(..=i64::from(LIMIT_MAX)))]
    limit: u32,
    /// Only connections of which one end has this address, address and port, or port (`:53`)
    #[arg(long, value_name = "END")]
    only: Option<End>,
}

impl WhichArgs {
    /// Returns the request for the selected connections.
    pub(crate) fn request(&self, ask: RequestKind) -> Request {
        let limit = Some(self.limit);
        self.only.unwrap_or_default().of(Request { limit, ..Request::new(ask) })
    }
}

const EXAMPLES: &str = "\
Examples:
  millrace flows
      The 50 connections with the most bytes.
  millrace flows --only :53 --limit 1000 --json
      Connections with port 53 at either end.
  millrace flows --why 10.0.0.1:40000
      Why each direction of these connections has a NIC rule, or has none.

Exit status: 0 good; 1 no instance answers; 2 wrong use.";

/// One end of a connection, as the user gives it: address, port, or both. The default matches all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl End {
    /// Returns `request`, restricted to connections with this end.
    fn of(self, request: Request) -> Request {
        let address = self.address.map(|address| PrefixText(address.into()));
        Request { address, port: self.port, ..request }
    }
}

/// Why a text is no [`End`].
#[derive(Debug, thiserror::Error)]
#[error("write ADDRESS, ADDRESS:PORT ([ADDRESS]:PORT for IPv6), or :PORT")]
pub(crate) struct NoEnd;

impl FromStr for End {
    type Err = NoEnd;

    fn from_str(text: &str) -> Result<Self, NoEnd> {
        if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
            return Ok(End { address: None, port: Some(port) });
        }
        if let Ok(end) = text.parse::<SocketAddr>() {
            return Ok(End { address: Some(end.ip()), port: Some(end.port()) });
        }
        let address = text.parse().map_err(|_| NoEnd)?;
        Ok(End { address: Some(address), port: None })
    }
}

pub(crate) fn run(args: &FlowsArgs) -> anyhow::Result<ExitCode> {
    let request = args.which.request(RequestKind::Flows);
    let request = match args.why {
        Some(end) => end.of(request),
        None => request,
    };
    let Answer { lines, matched } = args.instance.find()?.query(&request)?;
    let flow = |line| if let Line::Flow(flow) = line { Some(*flow) } else { None };
    let flows: Vec<FlowLine> = lines.into_iter().filter_map(flow).collect();
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", json!({ "flows": flows, "matched": matched }))?;
    } else if args.why.is_some() {
        flows.iter().try_for_each(|flow| print_reason(&mut out, flow))?;
        writeln!(out, "flows: {} of {matched}", flows.len())?;
    } else {
        writeln!(out, "flows ({} of {matched}, by bytes)", flows.len())?;
        let rows: Vec<_> = flows.iter().map(row).collect();
        table::print(&mut out, HEADINGS, &(3..9), &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

const HEADINGS: [&str; 11] = [
    "proto",
    "originator",
    "responder",
    "orig packets",
    "reply packets",
    "orig bytes",
    "reply bytes",
    "age",
    "idle",
    "state",
    "offload",
];

fn row(flow: &FlowLine) -> [String; 11] {
    let [orig, reply] = [&flow.orig, &flow.reply];
    [
        proto_names::name(flow.proto),
        top_flows::endpoint(flow.src, flow.sport, flow.proto),
        top_flows::endpoint(flow.dst, flow.dport, flow.proto),
        units::thousands(orig.packets),
        units::thousands(reply.packets),
        units::bytes(orig.bytes),
        units::bytes(reply.bytes),
        units::duration((flow.age_s * 1e9) as u64),
        units::duration((flow.idle_s * 1e9) as u64),
        state(flow).to_owned(),
        format!("{} / {}", orig.offload.state, reply.offload.state),
    ]
}

/// Returns the state as `ct list` prints it. An older instance sends only that of flow records.
fn state(flow: &FlowLine) -> &str {
    if flow.ct_state.is_empty() { &flow.state } else { &flow.ct_state }
}

fn print_reason(out: &mut impl Write, flow: &FlowLine) -> io::Result<()> {
    let end = |address, port| top_flows::endpoint(address, port, flow.proto);
    let (src, dst) = (end(flow.src, flow.sport), end(flow.dst, flow.dport));
    let (proto, age) = (proto_names::name(flow.proto), units::duration((flow.age_s * 1e9) as u64));
    writeln!(out, "{proto} {src} -> {dst}  {}, {age} old", state(flow))?;
    for (name, direction) in [("orig", &flow.orig), ("reply", &flow.reply)] {
        let offload = &direction.offload;
        let packets = units::thousands(direction.packets);
        writeln!(out, "  {name:<5}  {packets} packets, {}: {}", offload.state, offload.words)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read() {
        let end = |text: &str| text.parse::<End>().ok().map(|end| (end.address, end.port));
        let v4 = Some("10.0.0.1".parse().unwrap());
        let v6 = Some("2001:db8::1".parse().unwrap());
        assert_eq!(end("10.0.0.1"), Some((v4, None)));
        assert_eq!(end("10.0.0.1:53"), Some((v4, Some(53))));
        assert_eq!(end(":53"), Some((None, Some(53))));
        assert_eq!(end("2001:db8::1"), Some((v6, None)));
        assert_eq!(end("[2001:db8::1]:53"), Some((v6, Some(53))));
        for text in ["", ":", "53", "10.0.0.1:", "10.0.0.1:65536", "host:53"] {
            assert_eq!(end(text), None, "{text}");
        }
    }
}
