// SPDX-License-Identifier: BSD-3-Clause
//! `millrace ct reload`: makes a running instance read its configuration again.

use super::{print, send_request};
use crate::live::reload_plan::reload_text;
use anyhow::Context;
use control::{EndLine, Failure, InstanceArgs, QueryError, Request, RequestKind};
use report::output::write_line;
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Change timeouts, policies of zones and access lists while packets flow
///
/// The instance reads its configuration again. Timeouts, [[timeout_policy]], [[zone]], `tcp` and
/// `pick_up` in [policy], `when_full` in [table], [acl], [[set]] and [[list]] take effect at once,
/// also for existing connections. No connection is lost, unless a new list denies it. Any other
/// change needs a restart: the instance reports it and changes nothing.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReloadArgs {
    /// Configuration file (TOML) to read instead of the one from the start; the instance reads it
    /// as its own user
    config: Option<PathBuf>,
    #[command(flatten)]
    instance: InstanceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  millrace ct reload
      Apply the changes in the configuration file of the instance.
  millrace check bump.toml && millrace ct reload
      Check the file before the instance reads it.
  millrace ct reload night.toml
      Apply this file instead.

Exit status: 0 good; 1 no instance answers, or the configuration is refused; 2 wrong use.";

pub(super) fn reload(args: &ReloadArgs) -> anyhow::Result<ExitCode> {
    let absolute = |path: &PathBuf| {
        let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("{}: its name is not UTF-8", path.display()))
    };
    let path = args.config.as_ref().map(absolute).transpose()?;
    let request = Request { path, ..Request::new(RequestKind::Reload) };
    match send_request(&args.instance, &request, &mut |_| Ok(())) {
        Ok(end) => {
            let end = end.context("interrupted: the instance still completes it")?;
            let EndLine { matched: retimed, change } = end;
            let text = reload_text(retimed, change.as_ref());
            let both_lists_s = change.map(|change| change.both_lists_s);
            let json = json!({
                "retimed": retimed,
                "both_lists_s": both_lists_s,
                "list_change": change,
            });
            print(args.json, &text, &json)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => match error.downcast()? {
            // Without a prefix, as `millrace check` prints it.
            QueryError::Refused { error, .. } if error.code == Failure::CONFIGURATION => {
                write_line(io::stderr(), error.text);
                Ok(ExitCode::FAILURE)
            }
            error => Err(error.into()),
        },
    }
}
