// SPDX-License-Identifier: BSD-3-Clause
//! Chooses and finds paths of control sockets: in a folder of the user, named after the process.

use super::deadline::connect_within;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the effective user number of this process.
pub fn user() -> u32 {
    geteuid().as_raw()
}

/// Returns the folder of this user: `/run/millrace` for root, else `millrace` in
/// `$XDG_RUNTIME_DIR`. Without that variable it is a folder below `/tmp`.
fn folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match (user(), runtime.filter(|path| path.is_absolute())) {
        (0, _) => PathBuf::from("/run/millrace"),
        (_, Some(runtime)) => runtime.join("millrace"),
        (user, None) => PathBuf::from(format!("/tmp/millrace-{user}")),
    }
}

/// Makes and returns the folder of this user. Fails if other users can write to it.
pub fn make_folder() -> io::Result<PathBuf> {
    let folder = folder();
    // Other users may list root's folder, to see which instances run; other folders are private.
    let mode = if user() == 0 { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let words = format!("cannot create the folder {}: {error}", folder.display());
            return Err(io::Error::new(error.kind(), words));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(&folder)?;
    if !found.is_dir() || found.uid() != user() || found.mode() & 0o022 != 0 {
        let words = format!(
            "{} must be a folder of user {} that no other user can write to",
            folder.display(),
            user()
        );
        return Err(io::Error::other(words));
    }
    Ok(folder)
}

/// Returns the default path of the socket of process `pid`. Makes the folder, and removes sockets
/// that killed processes left there.
pub fn default_path(pid: u32) -> io::Result<PathBuf> {
    let folder = make_folder()?;
    for path in sockets(&folder) {
        // A listening socket gets its name after `listen`, so refusal means that its process is
        // gone.
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if connect_within(&path, Duration::ZERO).is_err_and(is_refused) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(folder.join(format!("{pid}.sock")))
}

/// Returns the folders of this user's instances, and those of other users that it may look into.
pub fn folders() -> Vec<PathBuf> {
    let mut folders = vec![folder(), PathBuf::from("/run/millrace")];
    if user() == 0 {
        folders.extend(entries(Path::new("/run/user")).map(|user| user.join("millrace")));
        let is_ours = |path: &PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default()
                .starts_with("millrace-")
        };
        folders.extend(entries(Path::new("/tmp")).filter(is_ours));
    }
    folders.sort();
    folders.dedup();
    folders
}

/// Returns all sockets that this user may find, including root's, which it may be refused. Root
/// finds those of all users.
pub(crate) fn all() -> Vec<PathBuf> {
    let folders = folders();
    let mut sockets: Vec<_> = folders.iter().flat_map(|folder| sockets(folder)).collect();
    sockets.sort();
    sockets
}

/// Returns the sockets in a folder, without symbolic links.
fn sockets(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let is_socket = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_named_so = name.ends_with(".sock") && !name.starts_with('.');
        is_named_so && fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
    };
    entries(folder).filter(is_socket)
}

/// Returns the entries of a folder; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
