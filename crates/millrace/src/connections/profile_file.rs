// SPDX-License-Identifier: BSD-3-Clause
//! Reads the profile of stateful traffic that a command names: a TOML file, or a TRex ASTF profile
//! in Python.

use super::astf;
use anyhow::{Context, bail};
use stateful::Profile;
use std::path::Path;

/// Reads a profile. `tunables` are passed to a profile in Python, as KEY=VALUE or KEY.
pub(crate) fn read_profile(path: &Path, tunables: &[String]) -> anyhow::Result<Profile> {
    let is_python = path.extension().is_some_and(|extension| extension == "py");
    if is_python {
        return astf::read(astf::PYTHON, path, tunables);
    }
    if !tunables.is_empty() {
        bail!("profile {}: only profiles in Python have tunables", path.display());
    }
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let read = |path: &Path| std::fs::read(folder.join(path)).map_err(|error| error.to_string());
    Profile::from_toml(&text, &read).with_context(|| format!("profile {}", path.display()))
}
