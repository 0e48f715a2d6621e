// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl log`: prints the packets that access lists log, as they arrive.

use crate::cmd::query_args::QueryArgs;
use crate::signals;
use anyhow::Context;
use control::{AccessLogLine, Line, ReplyTimeout, Request, RequestKind};
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;

/// Print the packets that rules with the word `log` have decided about, as they arrive
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct LogArgs {
    #[command(flatten)]
    query: QueryArgs,
}

const EXAMPLES: &str = "\
Examples:
  millrace acl log
      Packets of rules such as `deny log proto tcp dport 23`, until Ctrl-C or the end of the run.
  millrace acl log --json | jq -r .packet
      Only the packets.

Exit status: 0 good; 1 no instance answers; 2 wrong use.";

pub(super) fn run(args: &LogArgs) -> anyhow::Result<ExitCode> {
    let mut instance = args.query.instance.find()?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let timeout = ReplyTimeout::Until(interrupted);
    let mut out = io::stdout().lock();
    let mut has_line = false;
    let request = Request::new(RequestKind::AccessLog);
    let result = instance.query_each(&timeout, &request, &mut |line| {
        has_line = true;
        match (&line, args.query.json) {
            (Line::AccessLog(log), true) => writeln!(out, "{}", serde_json::to_string(log)?),
            (Line::AccessLog(log), false) => writeln!(out, "{}", format_log(log)),
            (Line::Lost(packets), true) => writeln!(out, "{}", json!({ "lost": packets })),
            (Line::Lost(packets), false) => writeln!(out, "{packets} packets were not logged"),
            _ => Ok(()),
        }?;
        out.flush()
    });
    match result {
        // The instance sent lines before, so the error means that its run has ended.
        Err(error) if has_line && error.is_end() => Ok(ExitCode::SUCCESS),
        result => Ok(result.map(|_| ExitCode::SUCCESS)?),
    }
}

/// Formats a logged packet: time in seconds since the Unix epoch, action, packet, port, rule.
fn format_log(log: &AccessLogLine) -> String {
    let AccessLogLine { at_ns, pair, port, list, rule, action, packet, bytes, .. } = log;
    let (seconds, micros) = (at_ns / 1_000_000_000, at_ns / 1000 % 1_000_000);
    format!(
        "{seconds}.{micros:06} {action} {packet} bytes={bytes} pair={pair} port={port} \
         list={list:?} rule={rule}"
    )
}
