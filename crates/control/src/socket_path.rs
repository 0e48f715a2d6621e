// SPDX-License-Identifier: BSD-3-Clause
//! Where control sockets are: in a folder of the user's, each under the number of its process.

use super::deadline::connect_within;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of the user as whom this process acts.
pub fn user() -> u32 {
    geteuid().as_raw()
}

/// The folder of this user: `/run/millrace` for root, `millrace` in `$XDG_RUNTIME_DIR`, and where
/// there is none, one below `/tmp`.
fn folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match (user(), runtime.filter(|path| path.is_absolute())) {
        (0, _) => PathBuf::from("/run/millrace"),
        (_, Some(runtime)) => runtime.join("millrace"),
        (user, None) => PathBuf::from(format!("/tmp/millrace-{user}")),
    }
}

/// Makes the folder of this user, and returns it. Refuses one that others write to.
pub fn make_folder() -> io::Result<PathBuf> {
    let folder = folder();
    // Others may see who is there, where everybody looks; not in folders of their own.
    let mode = if user() == 0 { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let words = format!("cannot make the folder {}: {error}", folder.display());
            return Err(io::Error::new(error.kind(), words));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(&folder)?;
    if !found.is_dir() || found.uid() != user() || found.mode() & 0o022 != 0 {
        let words = format!("{} is not a folder that only this user writes to", folder.display());
        return Err(io::Error::other(words));
    }
    Ok(folder)
}

/// Where a process with this number has its socket, if nobody says otherwise. Makes the folder, and
/// clears it of what killed processes left behind.
pub fn default_path(pid: u32) -> io::Result<PathBuf> {
    let folder = make_folder()?;
    for path in sockets(&folder) {
        // Each listens before it has its name.
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if connect_within(&path, Duration::ZERO).is_err_and(is_refused) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(folder.join(format!("{pid}.sock")))
}

/// The folders where instances of this user are, and those of other users that it may look into.
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

/// All sockets where this user may find some, or must be told that they are another's. Root looks
/// everywhere.
pub(crate) fn all() -> Vec<PathBuf> {
    let folders = folders();
    let mut sockets: Vec<_> = folders.iter().flat_map(|folder| sockets(folder)).collect();
    sockets.sort();
    sockets
}

/// Sockets in a folder; not what a link there leads to.
fn sockets(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let is_socket = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_named_so = name.ends_with(".sock") && !name.starts_with('.');
        is_named_so && fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
    };
    entries(folder).filter(is_socket)
}

/// What is in a folder; nothing where there is none.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
