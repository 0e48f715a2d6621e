// SPDX-License-Identifier: BSD-3-Clause
//! Removes the socket file that a killed server of a `net_memif` has left behind. The driver would
//! refuse to open the port again.

use std::fs;
use std::io::ErrorKind::ConnectionRefused;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;

/// Removes the socket that `devargs` would create, if no process listens there.
pub(crate) fn remove_stale_socket(devargs: &str) {
    let Some(path) = socket_file(devargs) else { return };
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    // The driver's sockets are of another type, so this never connects. The kernel refuses with
    // another error if a process listens.
    let is_refused = || UnixStream::connect(path).is_err_and(|it| it.kind() == ConnectionRefused);
    if is_socket && is_refused() {
        // If it stays, the driver says so.
        let _ = fs::remove_file(path);
    }
}

/// Returns the path of the socket file of a memif server; `None` for other ports, and for sockets
/// without a file (abstract ones, the driver's default).
fn socket_file(devargs: &str) -> Option<&str> {
    let (name, arguments) = devargs.split_once(',')?;
    if !name.trim_start_matches("vdev:").starts_with("net_memif") {
        return None;
    }
    let value =
        |key: &str| arguments.split(',').find_map(|one| one.strip_prefix(key)?.strip_prefix('='));
    // The driver is a client by default.
    let is_server = matches!(value("role"), Some("server" | "master"));
    let has_file = value("socket-abstract") == Some("no");
    (is_server && has_file).then(|| value("socket").unwrap_or("/run/memif.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_a_socket_without_a_listener_is_removed() {
        let path = std::env::temp_dir().join(format!("memif-{}.sock", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let text = path.to_str().unwrap();
        let server = format!("net_memif0,role=server,socket={text},socket-abstract=no");
        remove_stale_socket(&server);
        assert!(path.exists(), "a process listens");
        drop(listener);
        for other in [
            format!("net_memif0,role=client,socket={text},socket-abstract=no"),
            format!("net_memif0,role=server,socket={text}"),
            format!("net_null0,role=server,socket={text},socket-abstract=no"),
        ] {
            remove_stale_socket(&other);
            assert!(path.exists(), "{other}");
        }
        remove_stale_socket(&server);
        assert!(!path.exists());
        fs::write(&path, "a file of someone").unwrap();
        remove_stale_socket(&server);
        assert!(path.exists(), "no socket");
        fs::remove_file(&path).unwrap();
    }
}
