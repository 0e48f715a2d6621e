// SPDX-License-Identifier: BSD-3-Clause
//! `millrace replay`.

use std::process::ExitCode;

/// Run the engine over captures with their own clock.
#[derive(clap::Args)]
pub(crate) struct ReplayArgs {}

pub(crate) fn run(_args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
