// SPDX-License-Identifier: BSD-3-Clause
//! Where the driver of the software NIC is. Nobody else's program needs it: they say `-d`.

use anyhow::bail;
use std::env;
use std::path::PathBuf;

/// Begins the devargs of its ports.
const PREFIX: &str = "net_twin";
/// Environment variable with the path of the driver. It takes precedence over the places where
/// `make twin` and `make install` put the driver.
const VARIABLE: &str = "MILLRACE_TWIN";

/// Whether these are devargs of the software NIC.
pub(crate) fn is_twin(devargs: &str) -> bool {
    devargs.starts_with(PREFIX)
}

/// The driver, if one of `ports` needs it.
///
/// # Errors
///
/// It is not there.
pub(crate) fn require(ports: &[String]) -> anyhow::Result<Option<PathBuf>> {
    let Some(port) = ports.iter().find(|devargs| is_twin(devargs)) else {
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
pub(crate) fn find() -> Option<PathBuf> {
    Some(path()).filter(|path| path.is_file())
}

fn path() -> PathBuf {
    if let Some(named) = env::var_os(VARIABLE) {
        return PathBuf::from(named);
    }
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let built = home.join(".local/lib/millrace/librte_net_twin.so");
    installed_for(env::current_exe().ok()).filter(|_| !built.is_file()).unwrap_or(built)
}

/// The driver that was installed together with a program, which is in `PREFIX/bin`.
fn installed_for(program: Option<PathBuf>) -> Option<PathBuf> {
    let prefix = program?.parent()?.parent()?.to_owned();
    Some(prefix.join("lib/millrace/librte_net_twin.so")).filter(|driver| driver.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_of_an_installed_program_is_below_its_prefix() {
        let prefix = tempfile::tempdir().unwrap();
        let program = || Some(prefix.path().join("bin/millrace"));
        assert_eq!(installed_for(program()), None);
        let driver = prefix.path().join("lib/millrace/librte_net_twin.so");
        std::fs::create_dir_all(driver.parent().unwrap()).unwrap();
        std::fs::write(&driver, "").unwrap();
        assert_eq!(installed_for(program()), Some(driver));
    }
}
