// SPDX-License-Identifier: BSD-3-Clause
//! Where the driver of the software NIC is. Nobody else's program needs it: they say `-d`.

use anyhow::{Context, bail};
use std::env;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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
/// It is not there, or DPDK does not load it from there.
pub(crate) fn require(ports: &[String]) -> anyhow::Result<Option<PathBuf>> {
    let Some(port) = ports.iter().find(|devargs| is_twin(devargs)) else {
        return Ok(None);
    };
    let path = path();
    if !is_there(&path) {
        bail!(
            "port {port}: the driver of the software NIC is not at {}; `make twin` builds it, and \
             the environment variable {VARIABLE} says where it is",
            path.display()
        );
    }
    check_place(&path).with_context(|| format!("port {port}"))?;
    Ok(Some(path))
}

/// Fails if this user may not read the driver, or if DPDK does not load it from this place, because
/// every user may replace the file or a folder above it.
pub(crate) fn check_place(driver: &Path) -> anyhow::Result<()> {
    if let Err(error) = File::open(driver) {
        bail!(
            "this user may not read {} ({error}): if the driver of the software NIC is there, move \
             it to a folder that the user may read, and set {VARIABLE} to its new path; \
             `make twin` builds one",
            driver.display()
        );
    }
    let Some(open) = writable_by_all(driver) else { return Ok(()) };
    bail!(
        "DPDK does not load the driver of the software NIC, {}, because every user may write to \
         {}: move it to a folder that only root can write to, and set {VARIABLE} to its new path",
        driver.display(),
        open.display()
    )
}

/// Returns the first part of a path, from the root on, that every user may write to. DPDK checks
/// the same parts (`verify_perms` in eal_common_options.c).
fn writable_by_all(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let mode = |place: &Path| place.metadata().map_or(0, |found| found.permissions().mode());
    let open = path.ancestors().filter(|place| mode(place) & 0o002 != 0).last();
    open.map(Path::to_owned)
}

/// The driver, if it is there.
pub(crate) fn find() -> Option<PathBuf> {
    Some(path()).filter(|path| is_there(path))
}

/// True also for a driver in a folder that this user may not look into.
fn is_there(driver: &Path) -> bool {
    match driver.metadata() {
        Ok(found) => found.is_file(),
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
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
    use std::fs::Permissions;

    #[test]
    fn a_folder_that_every_user_may_write_to_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let driver = open.join("librte_net_twin.so");
        std::fs::write(&driver, "").unwrap();
        let found = writable_by_all(&driver).unwrap();
        assert!(driver.canonicalize().unwrap().starts_with(&found), "{}", found.display());
        let error = check_place(&driver).unwrap_err().to_string();
        let words = format!("every user may write to {}: move it", found.display());
        assert!(error.contains(&words) && error.contains(VARIABLE), "{error}");
        assert_eq!(writable_by_all(Path::new("/bin/sh")), None);
        assert_eq!(writable_by_all(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_driver_may_be_where_this_user_may_not_look() {
        let folder = tempfile::tempdir().unwrap();
        let driver = folder.path().join("librte_net_twin.so");
        assert!(!is_there(&driver) && !is_there(folder.path()));
        std::fs::write(&driver, "").unwrap();
        assert!(is_there(&driver) && !is_there(&driver.join("below a file")));
        let missing = check_place(&folder.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("may not read") && missing.contains("`make twin`"), "{missing}");
    }

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
