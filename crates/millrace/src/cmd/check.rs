// SPDX-License-Identifier: BSD-3-Clause
//! `millrace check`.

use std::process::ExitCode;

/// Check a configuration and print the whole plan.
#[derive(clap::Args)]
pub(crate) struct CheckArgs {}

pub(crate) fn run(_args: &CheckArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
