// SPDX-License-Identifier: BSD-3-Clause
//! Arguments that commands for a running instance share, and how they send their request.

use crate::signals;
use anyhow::Context;
use control::{EndLine, InstanceArgs, Line, QueryError, ReplyTimeout, Request};
use std::io;

/// Which instance to query, and how to print its answer.
#[derive(clap::Args)]
pub(super) struct QueryArgs {
    #[command(flatten)]
    pub(super) instance: InstanceArgs,
    /// Print JSON; a stream has one object on each line
    #[arg(long)]
    pub(super) json: bool,
}

/// Sends a request and passes the lines of the answer to `take`. Returns the end of the answer;
/// `None` after Ctrl-C.
pub(super) fn send_request(
    args: &InstanceArgs,
    request: &Request,
    take: &mut dyn FnMut(Line) -> io::Result<()>,
) -> anyhow::Result<Option<EndLine>> {
    let mut instance = args.find()?;
    let interrupted = signals::interrupt_flag().context("cannot catch signals")?;
    let result: Result<_, QueryError> =
        instance.query_each(&ReplyTimeout::Until(interrupted), request, take);
    Ok(result?)
}

/// Returns the error of a request; the reason alone, without the socket, if the instance refuses it
/// with this code.
pub(super) fn refusal(error: anyhow::Error, code: &str) -> anyhow::Error {
    match error.downcast() {
        Ok(QueryError::Refused { error, .. }) if error.code == code => anyhow::anyhow!(error.text),
        Ok(error) => error.into(),
        Err(error) => error,
    }
}
