// SPDX-License-Identifier: BSD-3-Clause
//! Runs a TRex ASTF profile with Python. The profile imports our classes instead of TRex's; a
//! script of ours writes what it describes as JSON.

use super::profile_file::read_file;
use anyhow::{Context, anyhow, bail};
use report::output::write_line;
use serde::Deserialize;
use serde_json::Value;
use stateful::Profile;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Program that runs profiles.
pub(super) const PYTHON: &str = "python3";

/// The script, and the modules that it imports.
const SCRIPT: &str = "millrace_astf_run.py";
const FILES: [(&str, &str); 3] = [
    (SCRIPT, include_str!("astf/millrace_astf_run.py")),
    ("millrace_astf_api.py", include_str!("astf/millrace_astf_api.py")),
    ("millrace_astf_programs.py", include_str!("astf/millrace_astf_programs.py")),
];

/// What the script writes.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    /// The profile as JSON, and what of it has no effect.
    Read {
        profile: Value,
        notes: Vec<Remark>,
    },
    Refused(Remark),
}

/// A text about a place in a profile.
#[derive(Deserialize)]
struct Remark {
    file: String,
    line: u32,
    text: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// Runs a profile with this Python. Says on standard error which settings have no effect.
pub(super) fn read(python: &str, path: &Path, tunables: &[String]) -> anyhow::Result<Profile> {
    let (profile, notes) = match run(python, path, tunables)? {
        Outcome::Read { profile, notes } => (profile, notes),
        Outcome::Refused(remark) => {
            bail!("{remark} (docs/generator-astf.md lists what is supported)")
        }
    };
    notes.iter().for_each(|note| write_line(io::stderr(), format_args!("millrace: {note}")));
    // The script has made the names of captures relative to nothing but the working directory.
    Profile::from_json(&profile.to_string(), &read_file)
        .with_context(|| format!("profile {}", path.display()))
}

fn run(python: &str, path: &Path, tunables: &[String]) -> anyhow::Result<Outcome> {
    std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    // Only this user can read and change files in it.
    let folder = tempfile::tempdir().context("cannot make a temporary directory")?;
    for (name, text) in FILES {
        let file = folder.path().join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let result = folder.path().join("result.json");
    // -B: no compiled files beside the profile.
    let mut command = Command::new(python);
    command.arg("-B").arg(folder.path().join(SCRIPT)).args([path, &result]).args(tunables);
    let status = command.stdin(Stdio::null()).status().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!(
            "profile {}: {python} is not installed, which runs profiles of TRex: install Python \
             3.7 or later, or write the profile in TOML",
            path.display()
        ),
        _ => anyhow!("profile {}: cannot run {python}: {error}", path.display()),
    })?;
    let outcome = std::fs::read_to_string(&result).ok().filter(|_| status.success());
    let outcome = outcome
        .with_context(|| format!("profile {}: {python} failed: {status}", path.display()))?;
    serde_json::from_str(&outcome)
        .with_context(|| format!("profile {}: {python} wrote no result", path.display()))
}

#[cfg(test)]
mod tests;
