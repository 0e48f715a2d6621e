// SPDX-License-Identifier: BSD-3-Clause
//! `millrace ct reload`: makes a running instance read its configuration again.

use super::print;
use crate::cmd::list_preview::ListPreview;
use crate::cmd::query_args::{QueryArgs, send_request};
use crate::live::reload_plan::reload_text;
use anyhow::Context;
use control::{EndLine, Failure, QueryError, Request, RequestKind};
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
    /// Change nothing: check the configuration, and say what would change in access lists, and for
    /// which connections
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    query: QueryArgs,
}

const EXAMPLES: &str = "\
Examples:
  millrace ct reload
      Apply the changes in the configuration file of the instance.
  millrace check bump.toml && millrace ct reload
      Check the file before the instance reads it.
  millrace ct reload night.toml
      Apply this file instead.
  millrace ct reload night.toml --dry-run
      Which rules of access lists would come and go, and which connections would be cut.

Exit status: 0 good; 1 no instance answers, or the configuration is refused; 2 wrong use.";

pub(super) fn reload(args: &ReloadArgs) -> anyhow::Result<ExitCode> {
    let absolute = |path: &PathBuf| {
        let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
        let text = path.to_str().map(str::to_owned);
        text.with_context(|| format!("{}: its name is not UTF-8", path.display()))
    };
    let path = args.config.as_ref().map(absolute).transpose()?;
    let dry_run = args.dry_run;
    let request = Request { path, dry_run, ..Request::new(RequestKind::Reload) };
    let mut preview = ListPreview::default();
    let result = send_request(&args.query.instance, &request, &mut |line| {
        preview.add(line);
        Ok(())
    });
    match result {
        Ok(end) if dry_run => {
            end.context("interrupted")?;
            preview.print(&mut io::stdout().lock(), args.query.json)?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(end) => {
            let end = end.context("interrupted: the instance still completes it")?;
            let EndLine { matched: retimed, effect } = end;
            let text = reload_text(retimed, effect.as_ref());
            let both_lists_s = effect.map(|effect| effect.both_lists_s);
            let json = json!({
                "retimed": retimed,
                "both_lists_s": both_lists_s,
                "list_change": effect,
            });
            print(args.query.json, &text, &json)?;
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
