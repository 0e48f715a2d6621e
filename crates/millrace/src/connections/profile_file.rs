// SPDX-License-Identifier: BSD-3-Clause
//! Reads the profile of stateful traffic that a command names: a TOML file, a TRex ASTF profile in
//! Python, or a capture.

use super::astf;
use anyhow::{Context, bail};
use report::output::write_line;
use stateful::{Pauses, Profile};
use std::io;
use std::path::Path;

/// What a command says of its profile.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProfileOptions<'a> {
    /// Arguments of a profile in Python, as KEY=VALUE or KEY.
    pub(crate) tunables: &'a [String],
    /// Sessions of a capture, as a template chooses them.
    pub(crate) sessions: Option<&'a str>,
    /// Which pauses of a capture are kept.
    pub(crate) pauses: Option<Pauses>,
}

/// Reads a profile. Says on standard error what of a capture is left out.
pub(crate) fn read_profile(path: &Path, options: &ProfileOptions<'_>) -> anyhow::Result<Profile> {
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    let is_python = extension == "py";
    let is_capture = matches!(extension, "pcap" | "pcapng" | "cap" | "gz");
    if !options.tunables.is_empty() && !is_python {
        bail!("profile {}: only profiles in Python have tunables", path.display());
    }
    if !is_capture && (options.sessions.is_some() || options.pauses.is_some()) {
        bail!(
            "--sessions and --pauses are for a capture; {} is a profile: its templates have them",
            path.display()
        );
    }
    let profile = match () {
        () if is_python => astf::read(astf::PYTHON, path, options.tunables)?,
        () if is_capture => {
            let choice = (options.sessions, options.pauses.unwrap_or_default());
            Profile::from_capture(path, choice, &read_file).map_err(|fault| match fault {
                // The only template has no name that a user knows.
                stateful::ProfileError::Template { fault, .. } => anyhow::anyhow!(fault),
                other => anyhow::Error::new(other).context(format!("capture {}", path.display())),
            })?
        }
        () => read_toml(path)?,
    };
    for note in &profile.notes {
        write_line(io::stderr(), format_args!("millrace: {note}"));
    }
    Ok(profile)
}

fn read_toml(path: &Path) -> anyhow::Result<Profile> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let read = |path: &Path| read_file(&folder.join(path));
    Profile::from_toml(&text, &read).with_context(|| format!("profile {}", path.display()))
}

/// Reads a file that a profile names; the error says what is wrong with it.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| error.to_string())
}
