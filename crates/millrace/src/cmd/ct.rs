// SPDX-License-Identifier: BSD-3-Clause
//! `millrace ct`: lists, counts, ends and marks connections of a running instance.

pub(super) mod line;
mod reload;
mod set;
mod which;

use crate::cmd::query_args::send_request;
use anyhow::Context;
use control::{InstanceArgs, Line, QueryError, Request, RequestKind, ZoneLine};
use results::table;
use serde_json::json;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use which::FilterArgs;

/// List, count, mark or end connections of a running instance, or change policies at run time
#[derive(clap::Args)]
pub(crate) struct CtArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
#[command(disable_help_subcommand = true)]
enum Command {
    #[command(visible_alias = "show", short_flag = 'L')]
    List(ListArgs),
    #[command(short_flag = 'C')]
    Count(CountArgs),
    #[command(visible_alias = "delete", short_flag = 'D', short_flag_alias = 'F')]
    Flush(FlushArgs),
    Set(set::SetArgs),
    Zones(ZonesArgs),
    #[command(short_flag = 'E')]
    Events(EventsArgs),
    Reload(reload::ReloadArgs),
}

/// List all or matching connections, one per line, as `conntrack -L -o extended` prints them
///
/// The order of lines is undefined. A connection that begins or ends during the listing may be in
/// it or not. Listing never delays packets.
#[derive(clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
struct ListArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Stop after N connections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
    /// Accepted as conntrack has it: lines have this format anyway
    #[arg(short, value_name = "FORMAT", value_parser = ["extended"], hide = true)]
    o: Option<String>,
}

/// Count all or matching connections
#[derive(clap::Args)]
#[command(after_help = COUNT_EXAMPLES)]
struct CountArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// End matching connections now, and write their flow records
///
/// A later packet begins a new connection. Flow rules of the connections are removed from the NIC.
#[derive(clap::Args)]
#[command(after_help = FLUSH_EXAMPLES)]
struct FlushArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// End every connection
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Print zones that have connections or settings, with their counts, limits and timeouts
#[derive(clap::Args)]
#[command(after_help = ZONES_EXAMPLES)]
struct ZonesArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Print new, update and destroy events of connections as they happen, until Ctrl-C
///
/// The instance never waits for a reader. A reader that is too slow loses events, and gets the
/// number of lost events.
#[derive(clap::Args)]
#[command(after_help = EVENTS_EXAMPLES)]
struct EventsArgs {
    #[command(flatten)]
    instance: InstanceArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
}

const LIST_EXAMPLES: &str = "\
Examples:
  millrace ct list
      Every connection.
  millrace ct list --proto tcp --state ESTABLISHED --dst 10.0.0.0/8 --dport 443
      Established connections to port 443 of these hosts.
  millrace ct list --zone 7 --address 2001:db8::1 --json
      Connections of a host in a zone, as JSON Lines.
  millrace ct -L -p udp -d 10.0.0.53
      With the options of conntrack.

Exit status: 0 good; 1 no instance answers, or the list breaks off; 2 wrong use.";

const COUNT_EXAMPLES: &str = "\
Examples:
  millrace ct count
  millrace ct count --state SYN_SENT
      Connections that wait for a reply to their SYN.

Exit status: 0 good; 1 no instance answers; 2 wrong use.";

const FLUSH_EXAMPLES: &str = "\
Examples:
  millrace ct flush --src 10.0.0.66
      End the connections whose originator is this host.
  millrace ct flush --zone 7
  millrace ct flush --all

Exit status: 0 good; 1 no instance answers; 2 wrong use.";

const ZONES_EXAMPLES: &str = "\
Examples:
  millrace ct zones
  millrace ct zones --json

Exit status: 0 good; 1 no instance answers; 2 wrong use.";

const EVENTS_EXAMPLES: &str = "\
Examples:
  millrace ct events --proto tcp --dport 443
      Events of connections to this port.
  millrace ct events --state SYN_SENT --json
      Events of connections in this state, as JSON Lines.

Exit status: 0 good; 1 no instance answers; 2 wrong use.";

pub(crate) fn run(args: &CtArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::List(args) => list(args)?,
        Command::Count(args) => count(args)?,
        Command::Flush(args) => flush(args)?,
        Command::Set(args) => set::set(args)?,
        Command::Zones(args) => zones(args)?,
        Command::Events(args) => events(args)?,
        Command::Reload(args) => return reload::reload(args),
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends a request as [`send_request`] does. Returns the number that matched.
fn count_matches(
    args: &InstanceArgs,
    request: &Request,
    take: &mut dyn FnMut(Line) -> io::Result<()>,
) -> anyhow::Result<Option<u64>> {
    Ok(send_request(args, request, take)?.map(|end| end.matched))
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let request = Request { limit: args.limit, ..args.filter.request(RequestKind::List) };
    let mut out = BufWriter::new(io::stdout().lock());
    let matched = count_matches(&args.instance, &request, &mut |line| match line {
        Line::Connection(connection) if args.json => {
            serde_json::to_writer(&mut out, &connection)?;
            writeln!(out)
        }
        Line::Connection(connection) => writeln!(out, "{}", line::format_connection(&connection)),
        _ => Ok(()),
    })?;
    out.flush().context("cannot write the list")?;
    matched.map(|_| ()).context("interrupted: the list is incomplete")
}

fn count(args: &CountArgs) -> anyhow::Result<()> {
    let request = args.filter.request(RequestKind::Count);
    let count = count_matches(&args.instance, &request, &mut |_| Ok(()))?.context("interrupted")?;
    print(args.json, &count.to_string(), &json!({ "connections": count }))
}

fn flush(args: &FlushArgs) -> anyhow::Result<()> {
    let request = Request { all: args.all, ..args.filter.request(RequestKind::Flush) };
    args.filter.require_filter_or_all(args.all);
    let words = "interrupted: the instance still completes it";
    let flushed = count_matches(&args.instance, &request, &mut |_| Ok(()))?.context(words)?;
    print(args.json, &format!("flushed: {flushed}"), &json!({ "flushed": flushed }))
}

fn zones(args: &ZonesArgs) -> anyhow::Result<()> {
    let mut zones: Vec<ZoneLine> = Vec::new();
    let request = Request::new(RequestKind::Zones);
    let result = count_matches(&args.instance, &request, &mut |line| {
        if let Line::Zone(zone) = line {
            zones.push(zone);
        }
        Ok(())
    });
    result?.context("interrupted")?;
    if args.json {
        return print(true, "", &json!({ "zones": zones }));
    }
    let rows: Vec<_> = zones.iter().map(zone_row).collect();
    let printed = table::print(&mut io::stdout().lock(), ZONE_COLUMNS, &(0..7), &rows);
    printed.context("cannot write the zones")
}

const ZONE_COLUMNS: [&str; 9] = [
    "zone",
    "connections",
    "assured",
    "embryonic",
    "new/s",
    "fullest worker",
    "max per worker",
    "when full",
    "timeouts",
];

fn zone_row(line: &ZoneLine) -> [String; 9] {
    let numbers = [line.connections, line.assured, line.embryonic, line.new_per_s];
    let [connections, assured, embryonic, new_per_s] = numbers.map(|number| number.to_string());
    let max = line.connections_max.map_or("-".to_owned(), |max| max.to_string());
    [
        line.zone.to_string(),
        connections,
        assured,
        embryonic,
        new_per_s,
        line.worker_connections.to_string(),
        max,
        line.when_full.clone(),
        line.timeouts.clone(),
    ]
}

/// Prints events until Ctrl-C, or until the run ends.
fn events(args: &EventsArgs) -> anyhow::Result<()> {
    let request = args.filter.request(RequestKind::Events);
    let mut out = io::stdout().lock();
    let mut has_line = false;
    let result = count_matches(&args.instance, &request, &mut |line| {
        has_line = true;
        match (&line, args.json) {
            (Line::Event(event), true) => writeln!(out, "{}", serde_json::to_string(event)?),
            (Line::Event(event), false) => writeln!(out, "{}", line::format_event(event)),
            (Line::Lost(events), true) => writeln!(out, "{}", json!({ "lost": events })),
            (Line::Lost(events), false) => writeln!(out, "   [LOST] {events} events"),
            _ => Ok(()),
        }?;
        out.flush()
    });
    match result {
        // The instance sent lines before, so the error means that its run has ended.
        Err(error) if has_line && error.downcast_ref().is_some_and(QueryError::is_end) => Ok(()),
        result => result.map(|_| ()),
    }
}

fn print(is_json: bool, text: &str, json: &serde_json::Value) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let printed = if is_json { writeln!(out, "{json:#}") } else { writeln!(out, "{text}") };
    printed.context("cannot write the answer")
}
