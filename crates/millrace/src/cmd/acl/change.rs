// SPDX-License-Identifier: BSD-3-Clause
//! `millrace acl add`, `delete`, `replace` and `move`: change rules of a running instance.

use crate::cmd::list_preview::ListPreview;
use crate::cmd::query_args::{QueryArgs, refusal, send_request};
use anyhow::Context;
use control::{AccessChangeLine, Failure, Line, ListChange, Request, RequestKind};
use report::output::write_line;
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;

/// Add rules to an access list of a running instance, and print their handles
///
/// All rules are added, or none. Connections are judged anew, and rules in the NIC are replaced.
/// The change is in force until the next reload or restart.
#[derive(clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(super) struct AddArgs {
    /// Name of the list
    list: String,
    /// Rules as text, such as 'deny proto tcp dport 23'; each may have several lines
    #[arg(value_name = "RULE", required = true)]
    rules: Vec<String>,
    /// Put them before the rule with this number; without it, they are last
    #[arg(long, value_name = "N")]
    at: Option<u32>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Delete rules of the access lists of a running instance
///
/// All rules are deleted, or none. The change is in force until the next reload or restart.
#[derive(clap::Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub(super) struct DeleteArgs {
    /// Handles of the rules, as `millrace acl show` prints them
    #[arg(value_name = "HANDLE", required = true)]
    handles: Vec<String>,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Replace a rule of an access list of a running instance, and print the handle of the new one
///
/// The counters of the new rule begin at 0. The change is in force until the next reload or
/// restart.
#[derive(clap::Args)]
#[command(after_help = REPLACE_EXAMPLES)]
pub(super) struct ReplaceArgs {
    /// Handle of the rule, as `millrace acl show` prints it
    handle: String,
    /// The new rule as text
    rule: String,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Move a rule within its access list of a running instance, and print its new handle
///
/// The rule keeps its counters. The change is in force until the next reload or restart.
#[derive(clap::Args)]
#[command(after_help = MOVE_EXAMPLES)]
pub(super) struct MoveArgs {
    /// Handle of the rule, as `millrace acl show` prints it
    handle: String,
    /// Number that the rule has then
    #[arg(long, value_name = "N")]
    to: u32,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Options of all changes.
#[derive(clap::Args)]
struct ChangeArgs {
    /// Change nothing: say which rules would change, and for which connections the decision would
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    query: QueryArgs,
}

const ADD_EXAMPLES: &str = "\
Examples:
  millrace acl add office --at 0 'deny log proto tcp dport 23' 'deny proto tcp dport 445'
      Two rules before all others. Prints office:1:0 and office:1:1.
  millrace acl add office \"$(cat more.rules)\" --dry-run
      What these rules would do, and to which connections.

Exit status: 0 good; 1 no instance answers, or the change is refused; 2 wrong use.";

const DELETE_EXAMPLES: &str = "\
Examples:
  millrace acl delete office:1:0 office:1:1
      Delete both rules. A handle from before another change is refused with the one of now.
  millrace acl delete office:1:1 --dry-run --json
      Which connections would change, as JSON.

Exit status: 0 good; 1 no instance answers, or the change is refused; 2 wrong use.";

const REPLACE_EXAMPLES: &str = "\
Examples:
  millrace acl replace office:1:1 'deny proto tcp dport 445 src @guests'
      Prints the handle of the new rule.

Exit status: 0 good; 1 no instance answers, or the change is refused; 2 wrong use.";

const MOVE_EXAMPLES: &str = "\
Examples:
  millrace acl move office:1:3 --to 0
      The fourth rule becomes the first.

Exit status: 0 good; 1 no instance answers, or the change is refused; 2 wrong use.";

pub(super) fn add(args: &AddArgs) -> anyhow::Result<ExitCode> {
    let AddArgs { list, rules, at, change } = args;
    send(ListChange::Add { list: list.clone(), at: *at, rules: rules.clone() }, change)
}

pub(super) fn delete(args: &DeleteArgs) -> anyhow::Result<ExitCode> {
    send(ListChange::Delete { handles: args.handles.clone() }, &args.change)
}

pub(super) fn replace(args: &ReplaceArgs) -> anyhow::Result<ExitCode> {
    let ReplaceArgs { handle, rule, change } = args;
    send(ListChange::Replace { handle: handle.clone(), rule: rule.clone() }, change)
}

pub(super) fn move_rule(args: &MoveArgs) -> anyhow::Result<ExitCode> {
    send(ListChange::Move { handle: args.handle.clone(), to: args.to }, &args.change)
}

/// Sends a change, and prints what it has done or, in a dry run, would do.
fn send(change: ListChange, args: &ChangeArgs) -> anyhow::Result<ExitCode> {
    let ChangeArgs { dry_run, query } = args;
    let (list_change, dry_run) = (Some(change), *dry_run);
    let request = Request { list_change, dry_run, ..Request::new(RequestKind::ChangeLists) };
    let (mut changes, mut preview) = (Vec::new(), ListPreview::default());
    let result = send_request(&query.instance, &request, &mut |line| {
        match line {
            Line::AccessChange(change) if !dry_run => changes.push(change),
            line => preview.add(line),
        }
        Ok(())
    });
    let end = result.map_err(|error| refusal(error, Failure::LISTS))?;
    let mut out = io::stdout().lock();
    if dry_run {
        end.context("interrupted")?;
        preview.print(&mut out, query.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let end = end.context("interrupted: the instance still completes it")?;
    if query.json {
        let both_lists_s = end.effect.map(|effect| effect.both_lists_s);
        let json = json!({
            "changes": changes,
            "both_lists_s": both_lists_s,
            "list_change": end.effect,
        });
        writeln!(out, "{json:#}")?;
    } else {
        print_changes(&mut out, &changes)?;
    }
    if let Some(AccessChangeLine { list, .. }) = changes.first() {
        write_line(
            io::stderr(),
            format_args!(
                "millrace: in force until the next reload or restart; to keep it, put the output \
                 of `millrace acl show --text {list:?}` into the configuration"
            ),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the handles of new and moved rules; without any, the rules that were deleted.
fn print_changes(out: &mut impl Write, changes: &[AccessChangeLine]) -> io::Result<()> {
    let handles: Vec<_> = changes.iter().filter_map(|line| line.handle.as_ref()).collect();
    if !handles.is_empty() {
        return handles.iter().try_for_each(|handle| writeln!(out, "{handle}"));
    }
    changes.iter().try_for_each(|AccessChangeLine { from, text, .. }| {
        writeln!(out, "deleted {}: {text}", from.as_deref().unwrap_or_default())
    })
}
