// SPDX-License-Identifier: BSD-3-Clause
//! Where the driver of the software NIC is. Nobody else's program needs it: they say `-d`.

use anyhow::bail;
use std::env;
use std::path::PathBuf;

/// Begins the devargs of its ports.
const PREFIX: &str = "net_twin";
/// Says where it is, if not where `make twin` puts it.
const VARIABLE: &str = "MILLRACE_TWIN";

/// Whether these are devargs of the software NIC.
pub(crate) fn is_one(devargs: &str) -> bool {
    devargs.starts_with(PREFIX)
}

/// The driver, if one of `ports` needs it.
///
/// # Errors
///
/// It is not there.
pub(crate) fn driver(ports: &[String]) -> anyhow::Result<Option<PathBuf>> {
    let Some(port) = ports.iter().find(|devargs| is_one(devargs)) else {
        return Ok(None);
    };
    let path = path();
    if !path.is_file() {
        bail!(
            "port {port}: the driver of the software NIC is not at {}; `make twin` builds it, and \
             the environment variable {VARIABLE} says where it is",
            path.display()
        );
    }
    Ok(Some(path))
}

/// The driver, if it is there.
pub(crate) fn there() -> Option<PathBuf> {
    Some(path()).filter(|path| path.is_file())
}

fn path() -> PathBuf {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let usual = || home.join(".local/lib/millrace/librte_net_twin.so");
    env::var_os(VARIABLE).map_or_else(usual, PathBuf::from)
}
