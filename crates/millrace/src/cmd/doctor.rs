// SPDX-License-Identifier: BSD-3-Clause
//! `millrace doctor`.

use std::process::ExitCode;

/// Check this host and say what to do.
#[derive(clap::Args)]
pub(crate) struct DoctorArgs {}

pub(crate) fn run(_args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not written yet")
}
